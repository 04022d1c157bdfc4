//! The checker from the outside: histories that it must accept next to histories that it must reject.

mod amounts;
mod answers;
mod brute;
mod causes;
mod contradictions;
mod earlier;
mod evidence;
mod gates;
mod holds;
mod liveness;
mod loading;
mod locks;
mod operations;
mod oracles;
mod said;
mod starved;
mod told;
mod unlocked;
mod updates;

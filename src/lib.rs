//! redjepsen: can a distributed lock on Redis be trusted?
//!
//! The modules in the order in which a run flows through them:
//!
//! - [`cli`]: what the user typed, as a request; what is shown, and how the program ends
//! - [`units`], [`topology`], [`scenario`], [`nemesis`], [`catalogue`](scenario::catalogue): what to run, checked
//! - [`runner`]: one run or a series, on clusters: how long they live, which runs share one, how the user ends it all
//! - [`plan`]: every operation and fault, drawn from the seed
//! - [`fault_kinds`]: what each kind of fault is, for all who read or write of it
//! - [`cluster`], [`faults`]: what it runs on: real servers, client processes, and an agent that injects faults
//! - [`controller`]: the run itself, the only place with control flow over time
//! - [`client`], [`locks`], [`slots`]: the processes under test
//! - [`machine`]: the clocks and the network that clients and probes see, which may be virtual
//! - [`resource`]: what the resource keeps under a key, for clients and controller alike
//! - [`history`]: what happened, event by event
//! - [`checker`]: what follows from it: a verdict
//! - [`telling`]: what is said of it, once, in words and numbers
//! - [`report`]: pages and pictures that print it
//! - [`runs`], [`files`]: the folder that keeps it all, and how files are written and read there
//! - [`suite`]: many runs, each compared with what is expected of it
//! - [`store`]: the runs and nights that a store holds; [`compare`]: whether one of them is worse than another
//! - [`serve`]: pages over a store, for a browser
//! - [`labs`]: experiments made of runs, each with its page; only `cli` names them
//! - [`interrupt`]: how each stage of all this ends when the user wants to stop
//! - [`members`], [`words`]: names of members, and how numbers and times are written, the same everywhere
//! - `mutants`: bugs that tests plant; a release build has none
//! - [`sync`]: how a mutex is taken

pub mod checker;
pub mod cli;
pub mod client;
pub mod cluster;
pub mod compare;
pub mod controller;
pub mod fault_kinds;
pub mod faults;
pub mod files;
pub mod history;
pub mod interrupt;
pub mod labs;
pub mod locks;
pub mod machine;
pub mod members;
mod mutants;
pub mod nemesis;
pub mod plan;
pub mod redis_commands;
pub mod report;
pub mod resource;
pub mod runner;
pub mod runs;
pub mod scenario;
pub mod serve;
pub mod slots;
pub mod store;
pub mod suite;
pub mod sync;
pub mod telling;
pub mod topology;
pub mod units;
pub mod words;

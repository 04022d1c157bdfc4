//! Histories from anywhere: what is accepted in which notation, what is refused and how, and that nothing breaks the reader.

mod accepted;
mod cli;
mod figures;
mod fuzz;
mod generate;
mod refused;

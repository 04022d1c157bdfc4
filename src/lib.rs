//! redjepsen: can a distributed lock on Redis be trusted?
//!
//! The modules in the order in which a run flows through them:
//!
//! - [`cli`]: what the user typed, as a request; what is shown, and how the program ends
//! - [`units`], [`topology`], [`scenario`], [`nemesis`], [`catalogue`]: what is to be run, complete and checked
//! - [`runner`]: one run, or a series, on clusters: how long those live, which runs share one, and how the user ends it all
//! - [`plan`]: every operation and fault, drawn from the seed
//! - [`cluster`]: what it runs on: real servers, client processes, an agent
//! - [`controller`]: the run itself, the only place with control flow over time
//! - [`client`], [`locks`], [`slots`]: the processes under test
//! - [`resource`]: what the resource keeps under a key, for clients and controller alike
//! - [`history`]: what happened, event by event
//! - [`checker`]: what follows from it: a verdict
//! - [`report`]: pages, pictures and numbers
//! - [`runs`]: the folder that keeps it all
//! - [`suite`]: many runs, each held against what is expected of it
//! - [`members`], [`words`]: names of members, and how numbers and times are said, the same everywhere

pub mod checker;
pub mod cli;
pub mod client;
pub mod cluster;
pub mod controller;
pub mod faults;
pub mod history;
pub mod locks;
pub mod members;
pub mod nemesis;
pub mod plan;
pub mod report;
pub mod resource;
pub mod runner;
pub mod runs;
pub mod scenario;
pub mod slots;
pub mod suite;
pub mod topology;
pub mod units;
pub mod words;

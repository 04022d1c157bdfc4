//! redjepsen: can a distributed lock on Redis be trusted?
//!
//! The modules in the order in which a run flows through them:
//!
//! - [`units`]: lengths of time as people write them
//! - [`scenario`]: what is to be run, complete and checked
//! - [`cluster`]: what it runs on: real servers, client processes, an agent
//! - [`faults`]: how its members are broken and healed
//! - [`history`]: what happened, event by event
//! - [`checker`]: what follows from it: a verdict
//! - [`report`]: pages, pictures and numbers

pub mod checker;
pub mod cluster;
pub mod faults;
pub mod history;
pub mod report;
pub mod scenario;
pub mod units;

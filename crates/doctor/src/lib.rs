//! `redjepsen doctor`: what a Redis that is already there gives a lock.
//!
//! - [`request`]: which servers are asked
//! - [`observe`]: asks the servers within two seconds. Each question may be refused, answered wrongly or not at all
//! - [`observations`]: what was seen, as plain data
//! - [`checks`]: the declared checks; each turns observations into findings, without IO
//! - [`fitness`]: which kinds of lock and which published libraries work on these servers
//! - [`diagnosis`]: findings and fitness together, with the verdict; [`page`] has it in sections and as text
//!
//! Doctor writes only keys of its own, which expire within seconds and are removed at the end. It changes no setting and loads no
//! script. Decisions about abilities come from trials, never from a version: services and proxies refuse what the version has.

mod checks;
mod connection;
mod diagnosis;
mod fitness;
mod observations;
mod observe;
mod page;
mod request;
mod values;

pub use checks::{CHECKS, Check, Finding, Shape, Weight, findings};
pub use diagnosis::{Diagnosis, Verdict, diagnose};
pub use fitness::{Fit, Fitness, Suits, fitness};
pub use observations::*;
pub use observe::observe;
pub use page::{Item, Label, Section, sections, text};
pub use request::{PREFIX, Request};

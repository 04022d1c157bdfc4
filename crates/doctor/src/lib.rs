//! `redjepsen doctor`: checks what an existing Redis offers to a lock.
//!
//! - [`request`]: the servers to ask
//! - [`observe`]: asks the servers within two seconds; each question may be refused, answered wrongly or not at all
//! - [`observations`]: the observations, as plain data
//! - [`checks`]: the declared checks; each turns observations into findings, without IO
//! - [`fitness`]: the kinds of lock and the published libraries that work on these servers
//! - [`diagnosis`]: findings and fitness with the verdict; [`page`] has it in sections and as text
//!
//! Doctor writes only keys of its own, which expire within seconds and are removed at the end. It changes no setting and loads
//! no script. It decides about abilities by trials, never by a version: services and proxies may refuse commands that the
//! version has.

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

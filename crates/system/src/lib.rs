//! Performs a run: servers, client processes, an agent that injects faults, and the controller that carries out the plan.
//!
//! - [`client`]: the processes under test
//! - [`faults`]: how the agent injects, observes and heals each kind of fault
//! - [`cluster`]: real servers in containers or namespaces, and simulated ones in virtual time
//! - [`controller`]: the run itself, the only place with control flow over time
//!
//! Functions that other crates await return boxed futures: any other future is compiled again in each crate that awaits it.

pub mod client;
pub mod cluster;
pub mod controller;
pub mod faults;

//! A run as it happens: servers, client processes, an agent that injects faults, and the controller that plays the plan.
//!
//! - [`client`]: the processes under test
//! - [`faults`]: what the agent does for each kind of fault, sees, and undoes
//! - [`cluster`]: real servers in containers or namespaces, and simulated ones in virtual time
//! - [`controller`]: the run itself, the only place with control flow over time
//!
//! Functions that the rooms above await return boxed futures: any other future is compiled anew in each crate that awaits it.

pub mod client;
pub mod cluster;
pub mod controller;
pub mod faults;

//! Starts and names the members of a run, each at its own address in one network. They are lock nodes `n0`, `n1`, …, Sentinels
//! `s0`, …, the resource's own Redis `resource`, and client processes `c0`, `c1`, …. The `agent` injects the faults.
//!
//! There are four kinds of clusters behind one type, and members and faults see no difference. Each member has its own PID and
//! network namespace and host name. redjepsen's files are in [`FILES`](spec::FILES), and the agent is on the same machine. One
//! kind is simulated. A kind has a `provider`, which checks whether the kind is available and starts members. It also has a
//! `backend`, which works on members; no other code depends on the kind.
//!
//! - `docker`: containers, made through the Engine API
//! - `local`, `sandbox`: programs of this machine, each in its own namespaces;
//! - `existing`: the same, with nodes that are relays to existing servers
//! - `simulated`: servers, network and processes in memory and virtual time
//! - [`platform`](Platform): the list of kinds, and which are available; `start`: turns the `parts` of a kind into a cluster;
//!   `starts`: how to cancel a start
//! - [`cluster`](Cluster): operations on a running cluster; `ready` waits until members answer, [`lines`](ClientProcess) is the
//!   clients' stdio
//! - `reset`: resets a used cluster to its initial state, for another run
//! - `servers`, `databases`: the servers' programs; `group`: the servers' roles, as the [`topology`](model::topology) defines
//!   them
//! - `address`, `back_off`, `redis_program`, `installed`: code that several kinds share
//! - `spec`: the description of a cluster to start, and its members
//! - [`clean`](clean()): removes the leftovers of dead runs, by the [`Owner`] of each run
//!
//! Deliberately absent: faults (see [`faults`](crate::faults)), the clients' protocol, and any notion of time.

mod address;
mod back_off;
mod backend;
mod clean;
mod cleaned;
#[expect(clippy::module_inception, reason = "the cluster itself, among what it is made with")]
mod cluster;
mod databases;
mod docker;
mod error;
mod existing;
mod group;
mod installed;
mod lines;
mod local;
mod owner;
mod parts;
mod platform;
mod provider;
mod ready;
mod redis_program;
mod reset;
pub mod sandbox;
mod servers;
mod simulated;
mod spec;
mod start;
mod starts;

pub use clean::clean;
pub use cleaned::{CleanOptions, Cleaned, CleanedRun, KeptRun};
pub use cluster::Cluster;
pub use docker::{Bundle, DEFAULT_NODE_IMAGE, Docker, Engine, Image, ImageRequest, Images, NodeImage};
pub use error::ClusterError;
pub use lines::{ClientOutput, ClientProcess};
pub use local::Local;
pub use owner::Owner;
pub use parts::Description;
pub use platform::Platform;
pub use provider::{ClientSource, NodeSource, PlatformRequest};
pub use redis_program::{ServerProgram, on_this_machine as server_programs_on_path};
pub use reset::InitialState;
pub use simulated::BugInjector;
pub use simulated::{Distance, START_OF_TIME, Simulated, in_virtual_time};
pub use spec::{ClientCommand, ClusterSpec, Member, MemberState};

pub use model::topology::Roles;

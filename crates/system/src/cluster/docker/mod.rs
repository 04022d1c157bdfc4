//! Clusters in Docker: every member has its own container. redjepsen uses only the Engine API (no docker program, no compose, no
//! root), so the engine may be remote or in a virtual machine. In the order of a run:
//!
//! - [`engine`](Docker): the connection; `ask`: requests on it
//! - [`images`](ImageRequest): which images, and where they come from without a registry ([`bundle`](Bundle), `made`)
//! - `network`, `containers`, `upload`, `start`: a network and the members, all at once
//! - `members`: operations on each member
//! - `clean`: removal of a run's own objects, and of the leftovers of dead runs
//!
//! Every object carries the labels of its run and of the run's owner. Removal selects by labels, so it also finds the objects of
//! a start that failed half-way.

mod ask;
mod bundle;
mod clean;
mod containers;
mod engine;
mod images;
mod made;
mod members;
mod network;
mod start;
mod upload;

use std::collections::HashMap;

pub use bundle::Bundle;
pub use engine::{Docker, Engine};
pub use images::{DEFAULT_NODE_IMAGE, ImageRequest, Images, NodeImage};
pub use made::Image;
pub use start::{DockerPlace, prepare};

use super::spec::ClusterSpec;

/// Label on everything that redjepsen creates in an engine.
pub const LABEL: &str = "redjepsen";
/// Label: the id of the object's run.
pub const LABEL_RUN: &str = "redjepsen.run";
/// Label: the object's role in its run: `node`, `resource`, `client`, `agent`, `network`.
pub const LABEL_ROLE: &str = "redjepsen.role";

fn network_name(run_id: &str) -> String {
    format!("redjepsen-{run_id}")
}

fn container_name(run_id: &str, member: &str) -> String {
    format!("redjepsen-{run_id}-{member}")
}

fn labels_of(spec: &ClusterSpec, role: &str) -> HashMap<String, String> {
    let mut labels = HashMap::from(spec.owner.labels());
    labels.insert(LABEL.to_string(), "1".to_string());
    labels.insert(LABEL_RUN.to_string(), spec.run_id.clone());
    labels.insert(LABEL_ROLE.to_string(), role.to_string());
    labels
}

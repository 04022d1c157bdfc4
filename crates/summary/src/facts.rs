//! Facts about a run that are neither in its scenario nor in its history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The place and the tools of a run. Any field may be empty; an empty one is not shown.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct RunFacts {
    /// The exact command that repeats the run.
    pub repeat: String,
    /// Versions, by component: redjepsen, redis, docker, kernel.
    pub versions: BTreeMap<String, String>,
    /// `docker` or `local`.
    pub cluster: String,
    /// The nodes' program: an image, or a path.
    pub image: String,
    /// The run folder, as the user would type it.
    pub folder: String,
    /// The largest delay of a timer of the controller while clients worked, in milliseconds.
    pub late_ms: Option<u64>,
}

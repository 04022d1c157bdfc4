//! What a report says about a run that is neither in its scenario nor in its history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where and with what a run was made. Any field may be empty; an empty one is not shown.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct RunFacts {
    /// The exact command that repeats the run.
    pub repeat: String,
    /// Versions, by what they belong to: redjepsen, redis, docker, kernel.
    pub versions: BTreeMap<String, String>,
    /// `docker` or `local`.
    pub cluster: String,
    /// What the nodes ran: an image, or the path of a program.
    pub image: String,
    /// The run folder, as the user would type it.
    pub folder: String,
    /// How late a timer of the controller was at worst while clients worked, in milliseconds.
    pub late_ms: Option<u64>,
}

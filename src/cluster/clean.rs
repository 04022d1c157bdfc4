//! Options and results of `redjepsen clean`, for every kind of cluster.

use super::docker::Docker;
use super::error::ClusterError;
use super::local;

/// What to remove.
#[derive(Clone, Copy, Debug, Default)]
pub struct CleanOptions {
    /// Also remove runs whose controller cannot be checked, such as another machine's.
    pub all: bool,
    /// Also remove images that were made here.
    pub images: bool,
    /// Look only at the runs of the controller with this PID.
    pub of: Option<u32>,
}

/// What was removed, and what was left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub removed: Vec<CleanedRun>,
    pub kept: Vec<KeptRun>,
    pub images: Vec<String>,
    /// What could not be removed, and why: one sentence each.
    pub failed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanedRun {
    pub run_id: String,
    /// Names of its containers and networks.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRun {
    pub run_id: String,
    /// Why it was left alone.
    pub reason: String,
}

/// Removes what dead runs left on this machine and, if an engine answers, in the engine: all that can be removed, past
/// what can't. If no engine answers, the second value says why, since runs may have left something there all the same.
pub async fn clean(options: &CleanOptions) -> (Cleaned, Option<ClusterError>) {
    let mut cleaned = local::clean(options);
    let docker = match Docker::connect().await {
        Ok(docker) => docker,
        Err(error) => return (cleaned, Some(error)),
    };
    let in_engine = docker.clean(options).await;
    cleaned.removed.extend(in_engine.removed);
    cleaned.kept.extend(in_engine.kept);
    cleaned.images.extend(in_engine.images);
    cleaned.failed.extend(in_engine.failed);
    (cleaned, None)
}

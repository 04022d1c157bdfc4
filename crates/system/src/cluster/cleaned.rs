//! Options and results of `redjepsen clean`, for every kind of cluster.

#[derive(Clone, Copy, Debug, Default)]
pub struct CleanOptions {
    /// Also remove runs whose controller cannot be checked, such as a controller on another machine.
    pub all: bool,
    /// Also remove images that were made here.
    pub images: bool,
    /// Look only at the runs of the controller with this PID.
    pub of: Option<u32>,
}

/// Everything that was removed or left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub removed: Vec<CleanedRun>,
    pub kept: Vec<KeptRun>,
    pub images: Vec<String>,
    /// Failed removals, each with its reason: one sentence each.
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
    /// Why the run was left alone.
    pub reason: String,
}

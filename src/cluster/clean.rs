//! What `redjepsen clean` is asked and what it answers, wherever runs left something behind.

use super::docker::Docker;
use super::error::ClusterError;
use super::local;
use crate::faults::network::{delete_left_over_table, left_over_tables};

/// What to remove.
#[derive(Clone, Copy, Debug, Default)]
pub struct CleanOptions {
    /// Runs, too, of which cannot be told whether their controller lives, such as another machine's.
    pub all: bool,
    /// Images, too, that were made here.
    pub images: bool,
}

/// What was removed, and what was left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub removed: Vec<CleanedRun>,
    pub kept: Vec<KeptRun>,
    pub images: Vec<String>,
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

/// Removes what dead runs left on this machine, and in the engine where one answers. Where none does, the reason is in
/// the second place, since runs may have left something there all the same.
pub async fn clean(options: &CleanOptions) -> Result<(Cleaned, Option<ClusterError>), ClusterError> {
    let mut cleaned = local::clean(options)?;
    let docker = match Docker::connect().await {
        Ok(docker) => docker,
        Err(error) => return Ok((cleaned, Some(error))),
    };
    let mut in_engine = docker.clean(options).await?;
    if docker.engine().local {
        remove_tables(options, &mut in_engine);
    }
    cleaned.removed.extend(in_engine.removed);
    cleaned.kept.extend(in_engine.kept);
    cleaned.images.extend(in_engine.images);
    Ok((cleaned, None))
}

/// Removes rules about packets of runs that were removed just now: where an agent was killed along with its controller,
/// they stay in the engine's machine. Whoever may not look at rules could not have been asked for any, either.
fn remove_tables(options: &CleanOptions, cleaned: &mut Cleaned) {
    let tables = match left_over_tables() {
        Ok(tables) => tables,
        Err(error) => return tracing::debug!("rules about packets were not looked at: {error}"),
    };
    for table in tables {
        let run_id = table.trim_start_matches("redjepsen-").to_string();
        let removed = cleaned.removed.iter_mut().find(|run| run.run_id == run_id);
        let is_kept = cleaned.kept.iter().any(|run| run.run_id == run_id);
        if removed.is_none() && (is_kept || !options.all) {
            continue;
        }
        if let Err(error) = delete_left_over_table(&table) {
            tracing::warn!("the rules {table} are still there: {error}");
            continue;
        }
        let name = format!("rules {table}");
        match removed {
            Some(run) => run.names.push(name),
            None => cleaned.removed.push(CleanedRun { run_id, names: vec![name] }),
        }
    }
}

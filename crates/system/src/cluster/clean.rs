//! `redjepsen clean`: removes the leftovers of dead runs, for every kind of cluster.

use futures_util::future::BoxFuture;

use super::cleaned::{CleanOptions, Cleaned};
use super::docker::Docker;
use super::error::ClusterError;
use super::local;

/// Removes the leftovers of dead runs on this machine and, if an engine answers, in the engine. A failed removal does not stop
/// the others. If no engine answers, the second value says why, since runs may have left something there.
pub fn clean(options: &CleanOptions) -> BoxFuture<'_, (Cleaned, Option<ClusterError>)> {
    Box::pin(async move {
        let mut cleaned = local::clean(options).await;
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
    })
}

//! Checks where a cluster can run, and prepares everything it needs there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::docker::{self, Docker};
use super::error::ClusterError;
use super::provider::{FoundProvider, NodeSource, Note, PlatformRequest, Provider};
use super::spec::ClusterSpec;
use super::{local, redis_program, simulated};
use model::topology::ClusterKind;

/// How long an interrupted user waits for cleanup. A small cluster needs less than a second.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_PER_MEMBER: Duration = Duration::from_millis(500);

/// Makes sure that everything that a kind of cluster needs is here.
type Find = for<'a> fn(&'a PlatformRequest, Note<'a>) -> BoxFuture<'a, FoundProvider>;

const KINDS: &[(ClusterKind, Find)] = &[
    (ClusterKind::DOCKER, |request, note| {
        Box::pin(async { docker::prepare(Docker::connect().await?, request, note).await })
    }),
    (ClusterKind::LOCAL, |request, _| Box::pin(std::future::ready(local::find(request)))),
    (ClusterKind::EXISTING, |request, _| Box::pin(std::future::ready(local::find(request)))),
    (ClusterKind::SIM, |request, _| Box::pin(std::future::ready(Ok(simulated::find(request))))),
];

/// A place where a cluster can be started, with the cluster's programs or images.
#[derive(Clone, Debug)]
pub struct Platform(pub(super) Arc<dyn Provider>);

impl Platform {
    /// Finds out where the cluster can run, and makes sure that everything it needs is there. `note` gets a line about each slow
    /// step, and about everything else that the user should know.
    pub fn find<'a>(request: PlatformRequest, note: Note<'a>) -> BoxFuture<'a, Result<Platform, ClusterError>> {
        Box::pin(async move {
            let found = match KINDS.iter().find(|(kind, _)| *kind == request.kind) {
                Some((_, find)) => find(&request, note).await,
                None => match Docker::connect().await {
                    Ok(docker) => docker::prepare(docker, &request, note).await,
                    Err(unreachable) => without_docker(&request, unreachable, note),
                },
            };
            found.map(Platform)
        })
    }

    pub fn kind(&self) -> ClusterKind {
        self.0.kind()
    }

    /// Checks whether this cluster can run here, as far as this is known before the start.
    pub async fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        self.0.check(spec).await
    }

    /// Removes everything left by a start of this run that failed or was cancelled. Does nothing if nothing is left.
    pub async fn remove(&self, run_id: &str) -> Result<(), ClusterError> {
        self.0.remove(run_id).await
    }

    /// Resolves when waiting longer for cleanup is pointless: cleanup had more than enough time for this many members, or an
    /// engine does not answer.
    pub async fn patience(&self, members: u64) {
        self.0.patience(PATIENCE + PATIENCE_PER_MEMBER * u32::try_from(members).unwrap_or(u32::MAX)).await;
    }

    /// Describes, for messages, the objects of a run that are left to `redjepsen clean`.
    pub fn traces(&self, run_id: &str) -> String {
        self.0.traces(run_id)
    }
}

fn without_docker(request: &PlatformRequest, unreachable: ClusterError, note: Note<'_>) -> FoundProvider {
    let why = match unreachable {
        ClusterError::Forbidden { .. } => unreachable.to_string(),
        _ => "no Docker engine answers".to_string(),
    };
    if matches!(request.node, NodeSource::Default) && redis_program::find().is_none() {
        if request.kind == ClusterKind::Any {
            note(format!(
                "SIMULATED, since {why} and there is no redis-server: servers, network and clocks of this run are not real. For \
                 a real run, start Docker or `apt-get install redis-server`, and give --cluster docker or --cluster local"
            ));
            return Ok(simulated::find(request));
        }
        return Err(ClusterError::Nowhere { docker: unreachable.to_string() });
    }
    let local = local::found(request)?;
    note(format!("{why}, so the cluster runs on this machine, with {}", local.server_program().display()));
    Ok(Arc::new(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_found() {
        let found: Vec<&str> = KINDS.iter().map(|(kind, _)| kind.word()).collect();
        let known: Vec<&str> = model::topology::KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(found, known, "each kind of crates/model/src/topology/kinds.rs has a line here");
    }
}

//! Where a cluster can run, with everything it needs in place.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::sleep;

use super::cluster::Cluster;
use super::docker::{ClientSource, Docker, ImageRequest, Images, NodeSource};
use super::error::ClusterError;
use super::local::Local;
use super::simulated::Simulated;
use super::{ClusterSpec, redis_program};
use crate::topology::{ClusterKind, Program};

/// How long an interrupted user waits for cleanup. A small cluster takes less than a second.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_PER_MEMBER: Duration = Duration::from_millis(500);
/// An engine that does not even answer a ping for this long hangs.
const SILENCE: Duration = Duration::from_secs(2);

/// What the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformRequest {
    pub kind: ClusterKind,
    /// Where the nodes' Redis comes from. A local cluster takes no image.
    pub node: NodeSource,
    /// What the lock nodes run.
    pub program: Program,
    /// Where a client that is not redjepsen's own runs, in Docker.
    pub client: ClientSource,
    /// Draws what a simulated cluster does by itself; 0 for the others.
    pub seed: u64,
}

/// Where a cluster can be started, with what it is made of.
#[derive(Clone, Debug)]
pub enum Platform {
    Docker { docker: Docker, images: Box<Images> },
    Local(Local),
    Simulated(Simulated),
}

impl Platform {
    /// Finds out where the cluster can run, and makes sure that everything it needs is there. `note` gets a line about
    /// everything that takes time or that the user should know.
    pub async fn find(
        request: PlatformRequest,
        note: &mut (dyn FnMut(String) + Send),
    ) -> Result<Platform, ClusterError> {
        let docker = match request.kind {
            ClusterKind::Local => return local(&request).map(Platform::Local),
            ClusterKind::Sim => return Ok(Platform::Simulated(Simulated::new(request.seed))),
            ClusterKind::Docker => Docker::connect().await?,
            ClusterKind::Auto | ClusterKind::Any => match Docker::connect().await {
                Ok(docker) => docker,
                Err(unreachable) => return without_docker(&request, unreachable, note),
            },
        };
        let images =
            ImageRequest { node: request.node, nodes_run: request.program, client: request.client, program: None };
        let images = docker.prepare(&images, note).await?;
        Ok(Platform::Docker { docker, images: Box::new(images) })
    }

    /// Whether this cluster can run here, as far as that can be told before the start.
    pub async fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        let docker = match self {
            Platform::Docker { docker, .. } => docker,
            Platform::Local(local) => return local.check(spec),
            Platform::Simulated(simulated) => return simulated.check(spec),
        };
        docker.check_neighbours(spec)?;
        match spec.subnet {
            Some(subnet) => docker.check_subnet(subnet, spec.addresses()).await,
            None => Ok(()),
        }
    }

    /// Starts a cluster and waits until every server answers and every client process runs.
    ///
    /// To give up a start, drop the future and call [`Platform::remove`].
    pub async fn start(&self, spec: ClusterSpec) -> Result<Cluster, ClusterError> {
        match self {
            Platform::Docker { docker, images } => docker.start(spec, Images::clone(images)).await,
            Platform::Local(local) => local.start(spec).await,
            Platform::Simulated(simulated) => simulated.start(spec).await,
        }
    }

    /// Removes what a start of this run has made that failed or was given up. Does nothing if there is nothing.
    pub async fn remove(&self, run_id: &str) -> Result<(), ClusterError> {
        match self {
            Platform::Docker { docker, .. } => docker.remove_run(run_id).await,
            Platform::Local(local) => {
                local.remove_run(run_id).await;
                Ok(())
            }
            // It goes with its tasks.
            Platform::Simulated(_) => Ok(()),
        }
    }

    /// Resolves when it is pointless to wait longer for cleanup: it has had more than enough time, or the engine does not
    /// answer.
    pub async fn patience(&self, members: u64) {
        let enough = sleep(PATIENCE + PATIENCE_PER_MEMBER * u32::try_from(members).unwrap_or(u32::MAX));
        match self {
            Platform::Docker { docker, .. } => tokio::select! {
                biased;
                () = docker.silence(SILENCE) => {}
                () = enough => {}
            },
            Platform::Local(_) => enough.await,
            Platform::Simulated(_) => {}
        }
    }

    /// What `redjepsen clean` removes of a run that this process no longer removes, for people.
    pub fn traces(&self, run_id: &str) -> String {
        match self {
            Platform::Docker { .. } => Docker::traces(run_id),
            Platform::Local(_) => Local::traces(run_id),
            Platform::Simulated(_) => "nothing".to_string(),
        }
    }
}

fn without_docker(
    request: &PlatformRequest,
    unreachable: ClusterError,
    note: &mut (dyn FnMut(String) + Send),
) -> Result<Platform, ClusterError> {
    let why = match unreachable {
        ClusterError::Forbidden { .. } => unreachable.to_string(),
        _ => "no Docker engine answers".to_string(),
    };
    if matches!(request.node, NodeSource::Default) && redis_program::find().is_none() {
        if request.kind == ClusterKind::Any {
            note(format!(
                "SIMULATED, since {why} and there is no redis-server: no server, network or clock of this run is real. For a \
                 real one, start Docker or `apt-get install redis-server`, and give --cluster docker or --cluster local"
            ));
            return Ok(Platform::Simulated(Simulated::new(request.seed)));
        }
        return Err(ClusterError::Nowhere { docker: unreachable.to_string() });
    }
    let local = local(request)?;
    note(format!("{why}, so the cluster is local, of {}", local.server_program().display()));
    Ok(Platform::Local(local))
}

fn local(request: &PlatformRequest) -> Result<Local, ClusterError> {
    let server: Option<PathBuf> = match &request.node {
        NodeSource::Default => None,
        NodeSource::Program(path) => Some(path.clone()),
        NodeSource::Named(image) => return Err(ClusterError::ImageForLocal { image: image.clone() }),
    };
    Local::find(server.as_deref(), None)?.with_nodes(request.program)
}

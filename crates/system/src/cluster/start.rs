//! Turns the started parts of a cluster into a cluster that answers.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::cluster::Cluster;
use super::docker::{Docker, DockerPlace, Images};
use super::error::ClusterError;
use super::local::Local;
use super::parts::Parts;
use super::platform::Platform;
use super::provider::Provider;
use super::simulated::{BugInjector, Simulated};
use super::spec::ClusterSpec;
use super::starts::Start;

impl Platform {
    /// Starts a cluster and waits until every server answers and every client process runs.
    ///
    /// To cancel a start, drop the future and call [`Platform::remove`].
    pub fn start(&self, spec: ClusterSpec) -> BoxFuture<'_, Result<Cluster, ClusterError>> {
        Box::pin(start(Arc::clone(&self.0), spec))
    }
}

impl Docker {
    /// Starts a cluster of these images. To cancel the start, call [`Docker::remove_run`].
    pub async fn start(&self, spec: ClusterSpec, images: Images) -> Result<Cluster, ClusterError> {
        start(Arc::new(DockerPlace { docker: self.clone(), images }), spec).await
    }
}

impl Local {
    /// Starts a cluster of this machine's programs. To cancel the start, call [`Local::remove_run`].
    pub async fn start(&self, spec: ClusterSpec) -> Result<Cluster, ClusterError> {
        start(Arc::new(self.clone()), spec).await
    }
}

impl Simulated {
    /// Starts a cluster in [virtual time](super::in_virtual_time).
    pub async fn start(self, spec: ClusterSpec) -> Result<Cluster, ClusterError> {
        self.start_with(spec, None).await
    }

    /// Starts a cluster in virtual time, with `bugs` planted.
    pub fn start_with(
        self,
        spec: ClusterSpec,
        bugs: Option<Arc<dyn BugInjector>>,
    ) -> BoxFuture<'static, Result<Cluster, ClusterError>> {
        Box::pin(async move {
            spec.check_run_id()?;
            let parts = self.parts(&spec, bugs).await?;
            ready(&spec, parts, &Start::default()).await
        })
    }
}

async fn start(provider: Arc<dyn Provider>, spec: ClusterSpec) -> Result<Cluster, ClusterError> {
    spec.check_run_id()?;
    let Some(starts) = provider.starts().cloned() else {
        let start = Start::default();
        let parts = provider.start(&spec, &start).await?;
        return ready(&spec, parts, &start).await;
    };
    let run_id = spec.run_id.clone();
    let work = move |start: Arc<Start>| async move {
        let parts = provider.start(&spec, &start).await?;
        ready(&spec, parts, &start).await
    };
    starts.carry_out(&run_id, work, async |cluster: Cluster| cluster.stop().await).await
}

/// Waits until all members are ready; otherwise removes them.
async fn ready(spec: &ClusterSpec, parts: Parts, start: &Start) -> Result<Cluster, ClusterError> {
    let at_once = parts.at_once;
    let cluster = Cluster::new(spec, parts);
    match start.unless_given_up(cluster.make_all_ready(at_once)).await {
        Ok(server) => Ok(cluster.called(&server)),
        Err(error) => {
            if let Err(error) = cluster.stop().await {
                tracing::warn!("the failed start left something behind: {error}");
            }
            Err(error)
        }
    }
}

//! Starts a cluster from images: first the network, then all members at once. Then the agent adopts each member.
//!
//! A failed start removes everything it made before it returns the error.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::query_parameters::CreateContainerOptionsBuilder;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use super::ask::ask;
use super::containers::{Plan, plan};
use super::engine::Docker;
use super::images::{ImageRequest, Images};
use super::{container_name, network_name};
use crate::cluster::back_off::SHORT_BACK_OFF;
use crate::cluster::backend::Backend;
use crate::cluster::error::ClusterError;
use crate::cluster::parts::{Description, MemberHandle, Parts, agent_on};
use crate::cluster::provider::{FoundProvider, Note, PlatformRequest, Provider};
use crate::cluster::spec::{ClusterSpec, Member};
use crate::cluster::starts::{Start, Starts};
use crate::faults::AgentError;
use base::members::{AGENT, Role};
use model::topology::ClusterKind;

/// The engine works on at most this many members at the same time. With a hundred at once, each member would wait for all others,
/// and some would exceed their time limit.
pub const AT_ONCE: usize = 16;

/// An engine that answers no ping for this long hangs.
const SILENCE: Duration = Duration::from_secs(2);

impl Docker {
    async fn start_new(&self, spec: &ClusterSpec, images: &Images, start: &Start) -> Result<Parts, ClusterError> {
        if !self.containers_of(&spec.run_id).await?.is_empty() {
            return Err(ClusterError::RunExists { run_id: spec.run_id.clone() });
        }
        let short_rto = self.engine.kernel_is_at_least(6, 15);
        match self.start_or_remove(spec, images, short_rto, start).await {
            // The kernel has the settings, but the engine does not allow them.
            Err(error) if short_rto && SHORT_BACK_OFF.iter().any(|(name, _)| error.says(name)) => {
                self.start_or_remove(spec, images, false, start).await
            }
            other => other,
        }
    }

    async fn start_or_remove(
        &self,
        spec: &ClusterSpec,
        images: &Images,
        short_rto: bool,
        start: &Start,
    ) -> Result<Parts, ClusterError> {
        let result = self.start_members(spec, images, short_rto, start).await;
        if result.is_err()
            && let Err(error) = self.remove_remains(&spec.run_id).await
        {
            tracing::warn!("the failed start left something behind: {error}");
        }
        result
    }

    async fn start_members(
        &self,
        spec: &ClusterSpec,
        images: &Images,
        short_rto: bool,
        start: &Start,
    ) -> Result<Parts, ClusterError> {
        let began = Instant::now();
        let network = self.make_network(spec).await?;
        tracing::debug!("network made after {:?}", began.elapsed());
        let plans = plan(spec, images, &network, short_rto);
        // A container starts while others are still being created, unless its program watches other members. All futures are
        // awaited even if one fails, so that none still creates a container during the removal.
        let made = plans.into_iter().map(|plan| async {
            let handle = Arc::new(self.make_member(&spec.run_id, plan, start).await?);
            if !handle.member.role.watches() {
                self.start_member(&handle, start).await?;
            }
            Ok(handle)
        });
        let made: Vec<Result<_, ClusterError>> = stream::iter(made).buffered(AT_ONCE).collect().await;
        let handles = made.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (mut watchers, mut starts) = (handles.clone(), Vec::new());
        watchers.retain(|handle| handle.member.role.watches());
        for handle in &watchers {
            starts.push(self.start_member(handle, start));
        }
        let started: Vec<_> = stream::iter(starts).buffered(AT_ONCE).collect().await;
        started.into_iter().collect::<Result<Vec<()>, _>>()?;
        start.go_on()?;
        tracing::debug!("members started after {:?}", began.elapsed());
        let agent =
            handles.iter().find_map(|handle| if handle.member.role == Role::Agent { handle.take() } else { None });
        let agent = agent_on(agent.ok_or_else(|| ClusterError::UnknownMember { member: AGENT.to_string() })?);
        // Faults and verdicts do not depend on the guard, and not every kernel supports it.
        if let Err(error) = agent.guard(&network.bridge, &network_name(&spec.run_id)).await {
            tracing::warn!(
                "other users of the engine's machine can reach the members, and the members can reach the machine: {error}"
            );
        }
        if spec.network_faults {
            // The name shows anyone who looks at the machine's rules to which run they belong.
            let name = network_name(&spec.run_id);
            let refused = |error: AgentError| ClusterError::NoNetworkFaults { reason: error.to_string() };
            start.unless_given_up(async { agent.network(&network.bridge, &name).await.map_err(refused) }).await?;
        }
        let description = Description {
            cluster: ClusterKind::DOCKER.word(),
            nodes: images.of(spec.program).image.name.clone(),
            server: String::new(),
            kernel: self.engine.kernel.clone(),
            engine: Some(self.engine.version.clone()),
            subnet: network.subnet,
        };
        Ok(Parts { description, handles, agent, backend: Box::new(self.clone()), at_once: AT_ONCE })
    }

    /// Creates a member's container with all its files, without starting it.
    async fn make_member(&self, run_id: &str, plan: Plan, start: &Start) -> Result<MemberHandle, ClusterError> {
        start.go_on()?;
        let name = container_name(run_id, &plan.member.name);
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        let doing = format!("make the container {name}");
        let made = ask(doing, self.api.create_container(Some(options), plan.body)).await.map_err(|error| {
            if error.is_conflict() { ClusterError::RunExists { run_id: run_id.to_string() } } else { error }
        })?;
        let member = Member { container: Some(made.id), ..plan.member };
        start.go_on()?;
        self.upload(&member, plan.upload).await?;
        Ok(MemberHandle::new(member))
    }

    async fn start_member(&self, handle: &MemberHandle, start: &Start) -> Result<(), ClusterError> {
        start.go_on()?;
        if handle.member.role.is_server() {
            return self.start_server(&handle.member, None).await;
        }
        self.start_attached(&handle.member, &handle.log).await.map(|process| handle.keep(process))
    }
}

#[derive(Clone, Debug)]
pub struct DockerPlace {
    pub docker: Docker,
    pub images: Images,
}

/// Makes sure that every image is present.
pub async fn prepare(docker: Docker, request: &PlatformRequest, note: Note<'_>) -> FoundProvider {
    let (node, client) = (request.node.clone(), request.client.clone());
    let images = ImageRequest { node, nodes_run: request.program, client, program: None };
    let images = docker.prepare(&images, note).await?;
    Ok(Arc::new(DockerPlace { docker, images }))
}

#[async_trait]
impl Provider for DockerPlace {
    fn kind(&self) -> ClusterKind {
        ClusterKind::DOCKER
    }

    async fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        if let Some((server, _)) = spec.upgrades.first() {
            return Err(ClusterError::NoUpgrade { server: server.to_string() });
        }
        self.docker.check_neighbours(spec)?;
        match spec.subnet {
            Some(subnet) => self.docker.check_subnet(subnet, spec.addresses()).await,
            None => Ok(()),
        }
    }

    async fn start(&self, spec: &ClusterSpec, start: &Start) -> Result<Parts, ClusterError> {
        self.docker.start_new(spec, &self.images, start).await
    }

    fn starts(&self) -> Option<&Starts> {
        Some(&self.docker.starts)
    }

    async fn remove(&self, run_id: &str) -> Result<(), ClusterError> {
        self.docker.remove_run(run_id).await
    }

    async fn patience(&self, enough: Duration) {
        tokio::select! {
            biased;
            () = self.docker.silence(SILENCE) => {}
            () = sleep(enough) => {}
        }
    }

    fn traces(&self, run_id: &str) -> String {
        Docker::traces(run_id)
    }
}

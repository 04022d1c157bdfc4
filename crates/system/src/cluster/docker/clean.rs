//! Removes runs: this process's own at its end, and those whose controller died.
//!
//! It selects by labels, so it finds everything that a run made and nothing else. It leaves a run alone if the run's controller
//! is alive, or may be alive where this machine cannot see it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum, Network};
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
};
use futures_util::future::{join_all, try_join};
use futures_util::{StreamExt, stream};

use super::ask::{ask, label_filters};
use super::engine::Docker;
use super::made::ImageKind;
use super::start::AT_ONCE;
use super::{LABEL, LABEL_RUN, network_name};
use crate::cluster::cleaned::{CleanOptions, Cleaned, CleanedRun, KeptRun};
use crate::cluster::error::ClusterError;
use crate::cluster::owner::{Liveness, Owner};
use model::topology::Program;

/// Removal is retried while the engine is busy with the same objects, for example for another caller.
const ROUNDS: u32 = 50;
const NEXT_ROUND: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Remains {
    owner: Option<Owner>,
    any_running: bool,
    names: Vec<String>,
}

impl Docker {
    /// Removes the leftovers of dead runs. A failed removal does not stop the others.
    pub async fn clean(&self, options: &CleanOptions) -> Cleaned {
        let mut cleaned = Cleaned::default();
        let remains = self.remains().await.unwrap_or_else(|error| {
            cleaned.failed.push(error.to_string());
            BTreeMap::new()
        });
        for (run_id, remains) in remains {
            let pid = remains.owner.as_ref().map(|owner| owner.pid);
            if options.of.is_some() && options.of != pid {
                continue;
            }
            match remains.reason_to_keep(options.all) {
                Some(reason) => cleaned.kept.push(KeptRun { run_id, reason }),
                None => match self.remove_run(&run_id).await {
                    Ok(()) => cleaned.removed.push(CleanedRun { run_id, names: remains.names }),
                    // Only a restart of the engine allows this removal, so it does not count as failed.
                    Err(error @ ClusterError::EngineMiscounts { .. }) => {
                        cleaned.kept.push(KeptRun { run_id, reason: error.to_string() });
                    }
                    Err(error) => {
                        cleaned.failed.push(format!("run {run_id}: {error} ({})", remains.names.join(", ")));
                    }
                },
            }
        }
        if options.images {
            let servers = Program::ALL.map(ImageKind::Server);
            for kind in [ImageKind::Runtime, ImageKind::Client, ImageKind::Machine].into_iter().chain(servers) {
                self.clean_images(kind, &mut cleaned).await;
            }
        }
        cleaned
    }

    async fn clean_images(&self, kind: ImageKind, cleaned: &mut Cleaned) {
        let made = self.made_images(kind, None).await.unwrap_or_else(|error| {
            cleaned.failed.push(error.to_string());
            Vec::new()
        });
        for made in made {
            match self.remove_made(&made.image).await {
                Ok(()) => cleaned.images.push(made.image.name),
                // A kept run uses it.
                Err(error) if error.is_conflict() => {}
                Err(error) => cleaned.failed.push(format!("image {}: {error}", made.image.name)),
            }
        }
    }

    async fn remains(&self) -> Result<BTreeMap<String, Remains>, ClusterError> {
        let filters = label_filters(vec![LABEL.to_string(), LABEL_RUN.to_string()]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let containers = ask("list its containers", self.api.list_containers(Some(options))).await?;
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        let networks = ask("list its networks", self.api.list_networks(Some(options))).await?;
        let mut runs = BTreeMap::<String, Remains>::new();
        let mut note = |labels: Option<HashMap<String, String>>, name: String, running: bool| {
            let labels = labels.unwrap_or_default();
            let Some(run_id) = labels.get(LABEL_RUN) else { return };
            let remains = runs.entry(run_id.clone()).or_default();
            remains.owner = remains.owner.take().or_else(|| Owner::from_labels(&labels));
            remains.any_running |= running;
            remains.names.push(name);
        };
        for ContainerSummary { labels, names, state, .. } in containers {
            let name = names.unwrap_or_default().into_iter().next().unwrap_or_default();
            let running = state == Some(ContainerSummaryStateEnum::RUNNING);
            note(labels, name.trim_start_matches('/').to_string(), running);
        }
        for Network { labels, name, .. } in networks {
            note(labels, format!("network {}", name.unwrap_or_default()), false);
        }
        for remains in runs.values_mut() {
            remains.names.sort();
        }
        Ok(runs)
    }

    /// Removes everything of one run, even another user's run. Does nothing if the run left nothing.
    pub async fn remove_run(&self, run_id: &str) -> Result<(), ClusterError> {
        self.starts.give_up(run_id).await;
        self.remove_remains(run_id).await
    }

    /// Describes the objects of a run that a removal would remove, for messages.
    pub fn traces(run_id: &str) -> String {
        format!("the containers and the network {}", network_name(run_id))
    }

    /// Resolves when the engine has not answered anything for this long.
    pub async fn silence(&self, limit: Duration) {
        while tokio::time::timeout(limit, self.api.ping()).await.is_ok() {
            tokio::time::sleep(limit / 4).await;
        }
    }

    pub async fn remove_remains(&self, run_id: &str) -> Result<(), ClusterError> {
        let (mut last, mut attached) = (None, true);
        for round in 0..ROUNDS {
            if round > 1 {
                tokio::time::sleep(NEXT_ROUND).await;
            }
            let (containers, networks) = try_join(self.containers_of(run_id), self.networks_of(run_id)).await?;
            // Listed again in each round, since another process may be removing the same objects.
            if containers.is_empty() && networks.is_empty() {
                return Ok(());
            }
            attached = !containers.is_empty();
            let removals = stream::iter(containers).map(async |id| self.remove_container(&id).await);
            let removals: Vec<_> = removals.buffer_unordered(AT_ONCE).collect().await;
            // The engine refuses to remove a network while a container is attached.
            let others = join_all(networks.iter().map(|id| self.remove_network(id))).await;
            last = removals.into_iter().chain(others).find_map(Result::err);
        }
        // Docker 20.10 can lose count of a network's endpoints. It corrects the count only when it restarts.
        if !attached && last.as_ref().is_some_and(|error| error.says("has active endpoints")) {
            return Err(ClusterError::EngineMiscounts { network: network_name(run_id) });
        }
        let (doing, seconds) = (format!("remove the run {run_id}"), (NEXT_ROUND * ROUNDS).as_secs());
        Err(last.unwrap_or(ClusterError::Timeout { doing, seconds }))
    }

    pub async fn containers_of(&self, run_id: &str) -> Result<Vec<String>, ClusterError> {
        let filters = label_filters(vec![LABEL.to_string(), format!("{LABEL_RUN}={run_id}")]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = ask("list the run's containers", self.api.list_containers(Some(options))).await?;
        Ok(found.into_iter().filter_map(|container| container.id).collect())
    }

    async fn networks_of(&self, run_id: &str) -> Result<Vec<String>, ClusterError> {
        let filters = label_filters(vec![LABEL.to_string(), format!("{LABEL_RUN}={run_id}")]);
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        let found = ask("list the run's networks", self.api.list_networks(Some(options))).await?;
        Ok(found.into_iter().filter_map(|network| network.id).collect())
    }

    async fn remove_container(&self, id: &str) -> Result<(), ClusterError> {
        // Includes the anonymous volumes that images such as the official Redis one declare.
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        match ask(format!("remove the container {id}"), self.api.remove_container(id, Some(options))).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    async fn remove_network(&self, id: &str) -> Result<(), ClusterError> {
        match ask(format!("remove the network {id}"), self.api.remove_network(id)).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }
}

impl Remains {
    fn reason_to_keep(&self, all: bool) -> Option<String> {
        let Some(owner) = &self.owner else {
            return (!all).then(|| "its owner is not known; --all removes it".to_string());
        };
        match owner.liveness() {
            Liveness::Alive => Some(format!("process {} on this machine is running it", owner.pid)),
            Liveness::Dead => None,
            Liveness::Unknown if all => None,
            // Containers do not outlive a boot. So if none is running, the run ended with this machine's last boot.
            Liveness::Unknown if owner.host == Owner::current().host && !self.any_running => None,
            Liveness::Unknown => {
                Some(format!("process {} on {} may still be running it; --all removes it", owner.pid, owner.host))
            }
        }
    }
}

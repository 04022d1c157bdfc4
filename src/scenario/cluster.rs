//! What a run is made on, and which of that goes together.

use std::path::PathBuf;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError};
use crate::topology::{ClusterKind, OwnClient};

/// What a cluster is made of, beside the servers that the workload asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    pub kind: ClusterKind,
    /// The image of the nodes' Redis; the usual one where there is none.
    pub image: Option<String>,
    /// The program of the nodes' Redis, as an absolute path; this machine's own where there is none.
    pub redis_server: Option<PathBuf>,
    /// The members' network; one that is free where there is none.
    pub subnet: Option<Ipv4Net>,
}

impl Scenario {
    /// Where the cluster runs. What only one kind of cluster knows decides for that one.
    pub fn cluster_kind(&self) -> ClusterKind {
        match (self.cluster.kind, &self.client) {
            (ClusterKind::Auto, _) if self.needs_docker().is_some() => ClusterKind::Docker,
            (ClusterKind::Auto, Some(OwnClient { image: None, .. })) => ClusterKind::Local,
            (kind, _) => kind,
        }
    }

    /// The option that needs containers, by the name of its flag.
    fn needs_docker(&self) -> Option<&'static str> {
        let client = self.client.as_ref();
        [
            ("--image", self.cluster.image.is_some()),
            ("--client-image", client.is_some_and(|client| client.image.is_some())),
            ("--mount", client.is_some_and(|client| !client.mounts.is_empty())),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }

    /// Whether there can be such a cluster with such a client.
    pub(super) fn check_cluster(&self) -> Result<(), ScenarioError> {
        let refuse = |text: String| Err(ScenarioError(text));
        if self.cluster.image.is_some() && self.cluster.redis_server.is_some() {
            return refuse(
                "--image cannot be used with --redis-server: the nodes' Redis is the one or the other".into(),
            );
        }
        match (self.cluster_kind(), self.needs_docker()) {
            (ClusterKind::Local, Some(flag)) => return refuse(format!("{flag} makes no sense with --cluster local")),
            (ClusterKind::Docker, _) if self.client.as_ref().is_some_and(|client| client.image.is_none()) => {
                return refuse(
                    "--client-cmd needs --client-image in Docker, the image that it runs in; or use --cluster local"
                        .into(),
                );
            }
            _ => {}
        }
        let Some(client) = &self.client else { return Ok(()) };
        if client.command.is_empty() {
            return refuse("--client-cmd: it is empty".into());
        }
        match &client.folder {
            Some(folder) if !folder.is_dir() => {
                refuse(format!("--client-cmd: the folder {} that it starts in is not there", folder.display()))
            }
            _ => Ok(()),
        }
    }
}

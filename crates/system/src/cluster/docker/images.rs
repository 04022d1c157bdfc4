//! The images of a cluster, and where each image comes from: already present, pulled, or made here from programs.
//!
//! An image that the user named is never replaced. The default node image may be: if no registry can be reached, this
//! machine's own redis-server takes its place, and a note says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;

use super::ask::{ask, in_words};
use super::bundle::Bundle;
use super::engine::Docker;
use super::made::{self, BuiltImage, Image, RUNTIME_PROGRAM};
use crate::cluster::error::ClusterError;
use crate::cluster::provider::{ClientSource, NodeSource, Note};
use crate::cluster::{installed, redis_program};
use model::topology::{InstalledClient, Program};

pub const DEFAULT_NODE_IMAGE: &str = "redis:7";

#[derive(Clone, Debug, Default)]
pub struct ImageRequest {
    pub node: NodeSource,
    /// The program of the lock nodes. If it is not Redis, [`ImageRequest::node`] is only about the resource.
    pub nodes_run: Program,
    pub client: ClientSource,
    /// The redjepsen binary that agents and built-in clients run; None for this program.
    pub program: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct Images {
    /// Runs Redis.
    pub node: NodeImage,
    /// Runs the lock nodes, if they are not Redis.
    pub service: Option<NodeImage>,
    pub runtime: Image,
    pub client: Option<Image>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage {
    pub image: Image,
    /// The command for the image's entrypoint: `redis-server`, `valkey-server`, or a path that ends in one of them. For other
    /// servers, a program and its first arguments.
    pub command: Vec<String>,
}

impl From<BuiltImage> for NodeImage {
    fn from(made: BuiltImage) -> NodeImage {
        NodeImage { image: made.image, command: made.command }
    }
}

struct Official {
    image: &'static str,
    /// The command for its entrypoint.
    command: &'static [&'static str],
}

fn official(program: Program) -> Official {
    match program {
        Program::Redis => Official { image: DEFAULT_NODE_IMAGE, command: &["redis-server"] },
        Program::Postgres => Official { image: "postgres:17", command: &["sh"] },
        Program::Zookeeper => Official { image: "zookeeper:3.9", command: &["zkServer.sh", "start-foreground"] },
        Program::Etcd => Official { image: "quay.io/coreos/etcd:v3.5.21", command: &["etcd"] },
    }
}

impl Images {
    pub fn of(&self, program: Program) -> &NodeImage {
        match &self.service {
            Some(service) if program != Program::Redis => service,
            _ => &self.node,
        }
    }
}

/// How long to wait for a registry's first answer.
const PULL_FIRST_WORD: Duration = Duration::from_secs(10);
/// A pull that reports nothing for this long has failed.
const PULL_NEXT_WORD: Duration = Duration::from_secs(60);

impl Docker {
    /// Makes sure that every image of a run is present. `note` gets a line about each slow step, and about everything else that
    /// the user should know.
    pub async fn prepare(&self, request: &ImageRequest, note: Note<'_>) -> Result<Images, ClusterError> {
        let runtime = self.runtime_image(request.program.as_deref()).await?;
        let client = match &request.client {
            ClientSource::Runtime => None,
            ClientSource::Named(name) => Some(self.named_image(name, note).await?.0),
            ClientSource::Installed(client) => Some(self.installed_client_image(client, note).await?),
        };
        let service = match request.nodes_run {
            Program::Redis => None,
            program => Some(self.service_image(program, note).await?),
        };
        let node = match &service {
            // Without a Redis resource, no member runs Redis.
            Some(service) if request.nodes_run.keeps_resource() => service.clone(),
            _ => self.node_image(&request.node, note).await?,
        };
        Ok(Images { node, service, runtime, client })
    }

    /// An image that runs redjepsen and local clusters. It is made from this program and the servers installed here, unless an
    /// image of these same files exists.
    pub fn machine_image(&self) -> BoxFuture<'_, Result<Image, ClusterError>> {
        Box::pin(async move {
            let bundle = Bundle::of_machine(&redjepsen(None)?)?;
            self.made_image(&bundle, made::ImageKind::Machine).await.map(|(image, _)| image)
        })
    }

    /// The image of redjepsen itself; made unless this build already has an image.
    async fn runtime_image(&self, program: Option<&Path>) -> Result<Image, ClusterError> {
        let program = redjepsen(program)?;
        let bundle = Bundle::of(&program, Path::new(RUNTIME_PROGRAM))?;
        self.made_image(&bundle, made::ImageKind::Runtime).await.map(|(image, _)| image)
    }

    async fn installed_client_image(&self, client: &InstalledClient, note: Note<'_>) -> Result<Image, ClusterError> {
        let bundle = Bundle::of_client(client)?;
        let (image, new) = self.made_image(&bundle, made::ImageKind::Client).await?;
        if new {
            note(format!("built {} from this machine's {}", image.name, bundle.program.display()));
        }
        Ok(image)
    }

    async fn node_image(&self, source: &NodeSource, note: Note<'_>) -> Result<NodeImage, ClusterError> {
        match source {
            NodeSource::Named(name) => {
                let (image, server) = self.named_image(name, note).await?;
                Ok(NodeImage { image, command: vec![server] })
            }
            NodeSource::Program(path) => self.node_image_of(path, note).await,
            // Existing servers do not run in redjepsen's containers.
            NodeSource::Default | NodeSource::Existing(_) => {
                if let Some((image, server)) = self.present(DEFAULT_NODE_IMAGE).await? {
                    return Ok(NodeImage { image, command: vec![server] });
                }
                let local = redis_program::find();
                if let Some(node) = self.node_image_made_before(local.as_deref()).await? {
                    return Ok(node);
                }
                match self.pull(DEFAULT_NODE_IMAGE, note).await {
                    Ok(()) => {
                        let (image, server) = self.named_image(DEFAULT_NODE_IMAGE, note).await?;
                        Ok(NodeImage { image, command: vec![server] })
                    }
                    Err(reason) => match local {
                        Some(path) => {
                            note(format!("{DEFAULT_NODE_IMAGE} cannot be pulled ({reason})"));
                            self.node_image_of(&path, note).await
                        }
                        None => Err(ClusterError::NoRedis { image: DEFAULT_NODE_IMAGE.to_string(), reason }),
                    },
                }
            }
        }
    }

    /// A node image that was made here before. If this machine has a server program, the image made from it; otherwise the newest
    /// image.
    async fn node_image_made_before(&self, local: Option<&Path>) -> Result<Option<NodeImage>, ClusterError> {
        let fingerprint = match local {
            Some(path) => Some(Bundle::of_server(path)?.fingerprint()?),
            None => None,
        };
        let made = self.made_images(made::ImageKind::Server(Program::Redis), fingerprint.as_deref()).await?;
        Ok(made.into_iter().next().map(NodeImage::from))
    }

    async fn node_image_of(&self, path: &Path, note: Note<'_>) -> Result<NodeImage, ClusterError> {
        let version = redis_program::version(path)?;
        let bundle = Bundle::of_server(path)?;
        let (image, new) =
            self.made_image(&bundle, made::ImageKind::Server(Program::Redis)).await.map_err(|error| match error {
                ClusterError::ForeignProgram { found, wanted, .. } => {
                    ClusterError::ForeignProgram { program: path.display().to_string(), found, wanted }
                }
                other => other,
            })?;
        if new {
            note(format!("built {} from this machine's {} ({version})", image.name, path.display()));
        }
        Ok(NodeImage { image, command: bundle.command })
    }

    /// The image of a server other than Redis: the official image, or an image made from this machine's installation.
    async fn service_image(&self, program: Program, note: Note<'_>) -> Result<NodeImage, ClusterError> {
        let Official { image: name, command } = official(program);
        let command = || command.iter().map(|word| (*word).to_string()).collect();
        if let Some((image, _)) = self.present(name).await? {
            return Ok(NodeImage { image, command: command() });
        }
        let installed = installed::find(program);
        let bundle = installed.as_ref().map(Bundle::of_installed).transpose()?;
        // As with Redis: the image of the installed program or, if none is installed, the newest image.
        let fingerprint = bundle.as_ref().map(Bundle::fingerprint).transpose()?;
        let before = self.made_images(made::ImageKind::Server(program), fingerprint.as_deref()).await?;
        if let Some(made) = before.into_iter().next() {
            return Ok(NodeImage::from(made));
        }
        let reason = match self.pull(name, note).await {
            Ok(()) => {
                let (image, _) = self.named_image(name, note).await?;
                return Ok(NodeImage { image, command: command() });
            }
            Err(reason) => reason,
        };
        let Some(bundle) = bundle else {
            let package = installed::package(program);
            return Err(ClusterError::NoService { program, image: name.to_string(), reason, package });
        };
        note(format!("{name} cannot be pulled ({reason})"));
        let (image, _) = self.made_image(&bundle, made::ImageKind::Server(program)).await?;
        note(format!("built {} from this machine's {program}", image.name));
        Ok(NodeImage { image, command: bundle.command })
    }

    /// The image that the user named, with its server program. Pulls the image if it is not present.
    async fn named_image(&self, name: &str, note: Note<'_>) -> Result<(Image, String), ClusterError> {
        if let Some(found) = self.present(name).await? {
            return Ok(found);
        }
        let missing = |reason| ClusterError::ImageMissing { image: name.to_string(), reason };
        self.pull(name, note).await.map_err(missing)?;
        self.present(name).await?.ok_or_else(|| missing("the pull ended without an image".to_string()))
    }

    /// The image with this name and its server program; None if the engine does not have it.
    async fn present(&self, name: &str) -> Result<Option<(Image, String)>, ClusterError> {
        let found = match ask(format!("look for the image {name}"), self.api.inspect_image(name)).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let command = found.config.and_then(|config| config.cmd).unwrap_or_default();
        let server = command.into_iter().next().filter(|program| program.ends_with("-server"));
        let image = Image { name: name.to_string(), id: found.id.unwrap_or_else(|| name.to_string()) };
        Ok(Some((image, server.unwrap_or_else(|| "redis-server".to_string()))))
    }

    /// Pulls an image; the error is the engine's reason.
    async fn pull(&self, name: &str, note: Note<'_>) -> Result<(), String> {
        // Without a tag the engine would pull all tags.
        let last = name.rsplit('/').next().unwrap_or(name);
        let full = if last.contains([':', '@']) { name.to_string() } else { format!("{name}:latest") };
        let options = CreateImageOptionsBuilder::new().from_image(&full).build();
        let mut words = self.api.create_image(Some(options), None, None);
        let mut limit = PULL_FIRST_WORD;
        loop {
            match tokio::time::timeout(limit, words.next()).await {
                Err(_) => return Err(format!("the registry did not answer for {} s", limit.as_secs())),
                Ok(None) => return Ok(()),
                Ok(Some(Err(error))) => return Err(in_words(&error).0),
                Ok(Some(Ok(_))) => {
                    if limit == PULL_FIRST_WORD {
                        note(format!("pulling {full}"));
                    }
                    limit = PULL_NEXT_WORD;
                }
            }
        }
    }
}

/// The redjepsen binary: `program`, or this program's own file if None.
fn redjepsen(program: Option<&Path>) -> Result<PathBuf, ClusterError> {
    let program = match program {
        Some(program) => program.to_path_buf(),
        None => std::env::current_exe()
            .map_err(|error| ClusterError::Program { program: "redjepsen".to_string(), reason: error.to_string() })?,
    };
    match program.exists() {
        true => Ok(program),
        false => Err(ClusterError::ProgramReplaced { path: program.display().to_string() }),
    }
}

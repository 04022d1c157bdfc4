//! Images made here from programs with the engine's import, without a Dockerfile, builder or registry.
//!
//! Labels tell them apart from all other images, and the digest of their content names them. redjepsen keeps these images, except
//! old runtime images, because every build of redjepsen makes a new one.

use std::time::Duration;

use bollard::models::ImageSummary;
use bollard::query_parameters::{CreateImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder};
use futures_util::StreamExt;

use super::LABEL;
use super::ask::{ask, ask_within, label_filters};
use super::bundle::Bundle;
use super::engine::Docker;
use crate::cluster::error::ClusterError;
use model::topology::Program;

/// redjepsen's path in a runtime image. It is outside the folder into which files are uploaded.
pub const RUNTIME_PROGRAM: &str = "/bin/redjepsen";

/// Label: the purpose of the image.
const KIND: &str = "redjepsen.image";
/// Label: the fingerprint of the files from which the image was made.
const SOURCE: &str = "redjepsen.source";
/// Label: the path of the image's program.
const PROGRAM: &str = "redjepsen.program";
/// Label: the program with its first arguments, as JSON. Absent if there are no arguments.
const COMMAND: &str = "redjepsen.command";

/// An image younger than this may belong to another process's run that has not created its containers yet.
const TOO_YOUNG_TO_REMOVE: Duration = Duration::from_secs(600);
/// Time limit of an import. A debug build of redjepsen takes a few seconds on a slow disk.
const IMPORT_LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    Server(Program),
    /// Runs redjepsen itself: agents and built-in clients.
    Runtime,
    /// Runs a client made from a program of this machine.
    Client,
    /// Runs redjepsen and, in the same container, local clusters.
    Machine,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: String,
    pub id: String,
}

#[derive(Clone, Debug)]
pub struct BuiltImage {
    pub image: Image,
    /// The image's command: a program and its first arguments.
    pub command: Vec<String>,
    created: i64,
}

impl ImageKind {
    fn word(self) -> &'static str {
        match self {
            ImageKind::Server(Program::Redis) => "node",
            ImageKind::Server(Program::Etcd) => "etcd",
            ImageKind::Server(Program::Zookeeper) => "zookeeper",
            ImageKind::Server(Program::Postgres) => "postgres",
            ImageKind::Runtime => "runtime",
            ImageKind::Client => "client",
            ImageKind::Machine => "machine",
        }
    }

    fn repository(self) -> String {
        match self {
            ImageKind::Server(Program::Redis) => "redjepsen/redis".to_string(),
            other => format!("redjepsen/{}", other.word()),
        }
    }
}

impl Docker {
    /// An image of a client that is a single program of this machine. The program keeps its path.
    pub async fn client_image(&self, program: &std::path::Path) -> Result<Image, ClusterError> {
        let bundle = Bundle::of(program, program)?;
        self.made_image(&bundle, ImageKind::Client).await.map(|(image, _)| image)
    }

    /// The image made from a bundle, and whether it was made just now.
    pub async fn made_image(&self, bundle: &Bundle, kind: ImageKind) -> Result<(Image, bool), ClusterError> {
        if bundle.architecture != self.engine.architecture {
            return Err(ClusterError::ForeignProgram {
                program: bundle.program.display().to_string(),
                found: bundle.architecture.to_string(),
                wanted: self.engine.architecture.clone(),
            });
        }
        let fingerprint = bundle.fingerprint()?;
        if let Some(made) = self.made_images(kind, Some(&fingerprint)).await?.into_iter().next() {
            return Ok((made.image, false));
        }
        let image = self.import(bundle, kind, &fingerprint).await?;
        if kind == ImageKind::Runtime {
            self.remove_old_runtimes(&image).await?;
        }
        Ok((image, true))
    }

    /// The images of this kind made here, newest first. With a fingerprint, only images made from these files.
    pub async fn made_images(
        &self,
        kind: ImageKind,
        fingerprint: Option<&str>,
    ) -> Result<Vec<BuiltImage>, ClusterError> {
        let mut labels = vec![LABEL.to_string(), format!("{KIND}={}", kind.word())];
        labels.extend(fingerprint.map(|fingerprint| format!("{SOURCE}={fingerprint}")));
        let options = ListImagesOptionsBuilder::new().filters(&label_filters(labels)).build();
        let found = ask("list its images", self.api.list_images(Some(options))).await?;
        let mut made: Vec<BuiltImage> =
            found.into_iter().filter_map(|summary| BuiltImage::from_summary(summary, kind)).collect();
        made.sort_by_key(|made| std::cmp::Reverse(made.created));
        Ok(made)
    }

    async fn import(&self, bundle: &Bundle, kind: ImageKind, fingerprint: &str) -> Result<Image, ClusterError> {
        let (tar, hash) = {
            let bundle = bundle.clone();
            let fail = |error: tokio::task::JoinError| ClusterError::Program {
                program: RUNTIME_PROGRAM.to_string(),
                reason: error.to_string(),
            };
            // This reads and hashes tens of megabytes, so it runs on a blocking thread.
            tokio::task::spawn_blocking(move || bundle.tar()).await.map_err(fail)??
        };
        let tag = match &bundle.version {
            Some(version) => format!("{}-{hash}", version_for_tag(version)),
            None => hash,
        };
        let name = format!("{}:{tag}", kind.repository());
        let program = bundle.program.display().to_string();
        let command = serde_json::Value::from(bundle.command.clone()).to_string();
        let mut changes = vec![
            format!("LABEL {LABEL}=1 {KIND}={} {SOURCE}={fingerprint} {PROGRAM}={}", kind.word(), quoted(&program)),
            format!("LABEL {COMMAND}={}", quoted(&command)),
            // A machine image is called with redjepsen's arguments, like the image from docker/Dockerfile.
            format!("{} {command}", if kind == ImageKind::Machine { "ENTRYPOINT" } else { "CMD" }),
        ];
        if !bundle.library_path().is_empty() {
            changes.push(format!("ENV LD_LIBRARY_PATH={}", quoted(&bundle.library_path())));
        }
        if let Some(path) = &bundle.path {
            changes.push(format!("ENV PATH={}", quoted(path)));
        }
        let options = CreateImageOptionsBuilder::new()
            .from_src("-")
            .repo(&kind.repository())
            .tag(&tag)
            .message("made by redjepsen of programs of this machine")
            .changes(changes)
            .build();
        let body = bollard::body_full(tar.into());
        let mut words = self.api.create_image(Some(options), Some(body), None);
        ask_within(IMPORT_LIMIT, format!("import the image {name}"), async {
            while let Some(word) = words.next().await {
                word?;
            }
            Ok(())
        })
        .await?;
        let found = ask(format!("look at the image {name}"), self.api.inspect_image(&name)).await?;
        Ok(Image { id: found.id.unwrap_or_else(|| name.clone()), name })
    }

    /// Removes images of earlier redjepsen builds unless something uses them.
    async fn remove_old_runtimes(&self, newest: &Image) -> Result<(), ClusterError> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        for old in self.made_images(ImageKind::Runtime, None).await? {
            let age = now.as_secs().saturating_sub(u64::try_from(old.created).unwrap_or(0));
            if old.image.id == newest.id || age < TOO_YOUNG_TO_REMOVE.as_secs() {
                continue;
            }
            if let Err(error) = self.remove_made(&old.image).await {
                tracing::debug!("{} stays: {error}", old.image.name);
            }
        }
        Ok(())
    }

    /// Removes an image that was made here. The engine refuses while a container uses it.
    pub async fn remove_made(&self, image: &Image) -> Result<(), ClusterError> {
        let options = RemoveImageOptionsBuilder::new().force(false).build();
        let removal = self.api.remove_image(&image.id, Some(options), None);
        ask(format!("remove the image {}", image.name), removal).await.map(|_| ())
    }
}

impl BuiltImage {
    fn from_summary(summary: ImageSummary, kind: ImageKind) -> Option<BuiltImage> {
        let program = summary.labels.get(PROGRAM)?.clone();
        let command = summary.labels.get(COMMAND).and_then(|words| serde_json::from_str(words).ok());
        let ours = |tag: &&String| tag.starts_with(&kind.repository());
        // If another image took its name, the image has no tag of this repository, but its labels still identify it.
        let name = summary.repo_tags.iter().find(ours).unwrap_or(&summary.id).clone();
        Some(BuiltImage {
            image: Image { name, id: summary.id },
            command: command.unwrap_or_else(|| vec![program]),
            created: summary.created,
        })
    }
}

/// A server's version as part of an image tag, which allows few characters.
fn version_for_tag(version: &str) -> String {
    version.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(40).collect()
}

/// Quotes a text in double quotes, as both Dockerfile instructions and JSON accept.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

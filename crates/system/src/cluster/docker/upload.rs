//! Files that redjepsen puts into a container before its start, whatever its image.

use bollard::query_parameters::UploadToContainerOptionsBuilder;

use super::ask::ask;
use super::engine::Docker;
use crate::cluster::error::ClusterError;
use crate::cluster::spec::{FILES, Member};
use crate::faults::clock::{CONTROL_PATH, LIBRARY, LIBRARY_PATH, blank_control};
use model::topology::server::{self, ServerFile};

/// The files to put into a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upload {
    /// The folder [`server::DATA`].
    pub data: bool,
    /// redjepsen's folder, writable for a client, whatever user its image has.
    pub own: bool,
    /// The files that a server needs at its start.
    pub files: Vec<ServerFile>,
    /// The preload library, with its control file.
    pub preload: bool,
}

impl Upload {
    /// The files as a tar; None if there is nothing to upload.
    fn tar(&self) -> std::io::Result<Option<Vec<u8>>> {
        if *self == Upload::default() {
            return Ok(None);
        }
        let mut builder = tar::Builder::new(Vec::new());
        let mut add = |path: &str, mode: u32, content: Option<&[u8]>| {
            let mut header = tar::Header::new_gnu();
            let content = match content {
                Some(content) => content,
                None => {
                    header.set_entry_type(tar::EntryType::Directory);
                    &[]
                }
            };
            header.set_size(content.len() as u64);
            header.set_mode(mode);
            builder.append_data(&mut header, path.trim_start_matches('/'), content)
        };
        // The image's processes must be able to write, whatever user they run as.
        add(FILES, if self.own { 0o777 } else { 0o755 }, None)?;
        if self.data || self.own {
            add(server::DATA, 0o777, None)?;
        }
        for file in &self.files {
            add(&file.path, 0o666, Some(file.content.as_bytes()))?;
        }
        if self.preload {
            add(LIBRARY_PATH, 0o755, Some(LIBRARY))?;
            add(CONTROL_PATH, 0o666, Some(&blank_control()))?;
        }
        builder.into_inner().map(Some)
    }
}

impl Docker {
    /// Puts these files into a container that was created and not yet started.
    pub async fn upload(&self, member: &Member, upload: Upload) -> Result<(), ClusterError> {
        let fail = |error: std::io::Error| ClusterError::Program {
            program: LIBRARY_PATH.to_string(),
            reason: error.to_string(),
        };
        let Some(tar) = upload.tar().map_err(fail)? else { return Ok(()) };
        let options = UploadToContainerOptionsBuilder::new().path("/").build();
        let upload = self.api.upload_to_container(member.container_id(), Some(options), bollard::body_full(tar.into()));
        ask(format!("put files into {}", member.name), upload).await
    }
}

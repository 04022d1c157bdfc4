//! The keys that a run has written on existing servers.
//!
//! A file names each key before the first command on it reaches its server. So the keys can be removed however the run ended.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout_at};

use super::{Existing, LIMIT};
use base::files;
use base::sync::lock;
use model::topology::ExistingServers;
use remote::packed;

/// In the run's own folder. Its first line has the servers, each other line a key.
const FILE: &str = "keys-on-servers.jsonl";
const LONGEST_FILE: u64 = 256 << 20;
/// Keys that are removed before the answers are read.
const AT_ONCE: usize = 100;

#[derive(Serialize, Deserialize)]
struct WrittenKey {
    node: usize,
    key: String,
}

/// The file, and what is in it.
pub(super) struct WrittenKeys {
    path: PathBuf,
    noted: Mutex<(File, BTreeSet<(usize, String)>)>,
}

impl WrittenKeys {
    pub fn begin(folder: &Path, servers: &ExistingServers) -> io::Result<WrittenKeys> {
        let path = folder.join(FILE);
        let mut file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path)?;
        file.write_all(&line(servers)?)?;
        Ok(WrittenKeys { path, noted: Mutex::new((file, BTreeSet::new())) })
    }

    /// Notes keys that a command to this node may write.
    pub fn note(&self, node: usize, keys: Vec<Vec<u8>>) -> io::Result<()> {
        let mut noted = lock(&self.noted);
        let (file, known) = &mut *noted;
        for key in keys {
            let key = String::from_utf8(key).map_err(io::Error::other)?;
            if known.contains(&(node, key.clone())) {
                continue;
            }
            file.write_all(&line(&WrittenKey { node, key: key.clone() })?)?;
            known.insert((node, key));
        }
        Ok(())
    }

    /// Where the file is.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// True if a run's folder says that keys of it may be on servers.
pub(super) fn is_there(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Removes the keys of the run whose folder this is from the servers, and then the file that names them. Does nothing without the file.
/// The error is a sentence.
pub(super) async fn remove(folder: &Path) -> Result<(), String> {
    if !is_there(folder) {
        return Ok(());
    }
    let path = folder.join(FILE);
    let text = files::read_own(&path, LONGEST_FILE).map_err(|error| error.to_string())?;
    let mut lines = text.lines();
    let servers = lines.next().and_then(|line| serde_json::from_str::<ExistingServers>(line).ok());
    let servers = servers.ok_or_else(|| format!("{}: its first line does not name the servers", path.display()))?;
    // A line that was cut off was not written when its command was to be sent.
    let written: Vec<WrittenKey> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let existing = Existing::of(&servers).map_err(|error| error.to_string())?;
    for (node, address) in existing.addresses.iter().enumerate() {
        let keys: Vec<&str> = written.iter().filter(|one| one.node == node).map(|one| one.key.as_str()).collect();
        let failed = |why: String| {
            format!("{} of redjepsen may still be on {address}: {why}", base::words::plural(keys.len() as u64, "key"))
        };
        if !keys.is_empty() {
            removed_from(&existing, node, &keys).await.map_err(failed)?;
        }
    }
    std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))
}

async fn removed_from(existing: &Existing, node: usize, keys: &[&str]) -> Result<(), String> {
    let stream = existing.open(node).await?;
    let (reader, mut writer) = tokio::io::split(stream);
    let mut replies = BufReader::new(reader).lines();
    for some in keys.chunks(AT_ONCE) {
        let until = Instant::now() + LIMIT;
        let asked = async {
            for key in some {
                writer.write_all(&packed(&["DEL", key])).await?;
            }
            writer.flush().await?;
            for _ in some {
                let reply = replies.next_line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
                if let Some(error) = reply.strip_prefix('-') {
                    return Ok(Err(existing.access.clean(error)));
                }
            }
            io::Result::Ok(Ok(()))
        };
        match timeout_at(until, asked).await {
            Ok(Ok(done)) => done?,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("it did not answer in time".to_string()),
        }
    }
    Ok(())
}

//! The keys that a run has written on existing servers.
//!
//! A file names each key before the first command on the key reaches its server. So the keys can be removed, however the run
//! ended.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{Existing, LIMIT};
use base::files;
use base::sync::lock;
use model::topology::ExistingServers;
use remote::Address;

/// A file in the run's folder. Its first line lists all nodes; each other line is a key.
const FILE: &str = "keys-on-servers.jsonl";
const LONGEST_FILE: u64 = 256 << 20;

/// The nodes, and how to connect to them.
#[derive(Serialize, Deserialize)]
struct Nodes {
    servers: ExistingServers,
    /// True if the nodes are a group, in which a key may move to another node.
    group: bool,
}

#[derive(Serialize, Deserialize)]
struct WrittenKey {
    node: usize,
    key: String,
}

/// The open file, and the keys in it.
pub(super) struct WrittenKeys {
    path: PathBuf,
    noted: Mutex<(File, BTreeSet<(usize, String)>)>,
}

impl WrittenKeys {
    pub fn begin(folder: &Path, servers: ExistingServers, group: bool) -> io::Result<WrittenKeys> {
        let path = folder.join(FILE);
        let mut file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path)?;
        file.write_all(&line(&Nodes { servers, group })?)?;
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

    /// The folder of the file.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// True if servers may still have keys of the run with this folder.
pub(super) fn is_there(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Removes the keys of the run with this folder from the servers, and then the file that names them. Does nothing without the
/// file. The error is a sentence.
pub(super) async fn remove(folder: &Path) -> Result<(), String> {
    if !is_there(folder) {
        return Ok(());
    }
    let path = folder.join(FILE);
    let text = files::read_own(&path, LONGEST_FILE).map_err(|error| error.to_string())?;
    let mut lines = text.lines();
    let nodes = lines.next().and_then(|line| serde_json::from_str::<Nodes>(line).ok());
    let nodes = nodes.ok_or_else(|| format!("{}: its first line does not name the servers", path.display()))?;
    // A torn line was not complete when its command was due, so its command was never sent.
    let written: Vec<WrittenKey> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let existing = Existing::of(&nodes.servers).map_err(|error| error.to_string())?;
    // In a group, a key may be on any node by now.
    let place = |one: &WrittenKey| (Some(one.node).filter(|_| !nodes.group), one.key.clone());
    let all: BTreeSet<(Option<usize>, String)> = written.iter().map(place).collect();
    let mut left = all.clone();
    let mut why = None;
    for (node, address) in existing.addresses.iter().enumerate() {
        // Also removes keys that another node has already removed: that node may have been a primary that was replaced.
        let here: Vec<_> = all.iter().filter(|(of, _)| of.is_none_or(|of| of == node)).collect();
        let keys: Vec<&str> = here.iter().map(|(_, key)| key.as_str()).collect();
        match removed_from(&existing, address, &keys).await {
            Ok(refused) => here.iter().zip(refused).for_each(|(one, refused)| match refused {
                None => _ = left.remove(one),
                Some(error) => why = Some((address, error)),
            }),
            Err(error) => why = Some((address, error)),
        }
    }
    if let Some((address, why)) = why.filter(|_| !left.is_empty()) {
        let keys = base::words::plural(left.len() as u64, "key");
        return Err(format!("{keys} of redjepsen may still be on {address}: {why}"));
    }
    std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// For each key, the server's error if it does not remove the key. The outer error is the connection's.
async fn removed_from(existing: &Existing, address: &Address, keys: &[&str]) -> Result<Vec<Option<String>>, String> {
    let mut refused = Vec::with_capacity(keys.len());
    if keys.is_empty() {
        return Ok(refused);
    }
    let mut stream = existing.open_at(address).await?;
    for key in keys {
        match timeout(LIMIT, remote::ask(&mut stream, &["DEL", key])).await {
            Ok(Ok(reply)) => refused.push(reply.as_error().map(|error| existing.access.clean(&error))),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("it did not answer in time".to_string()),
        }
    }
    Ok(refused)
}

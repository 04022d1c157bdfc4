//! The folder of a local run, with its members' files, in the folder for temporary files.
//!
//! It is all that a killed controller leaves behind, so it names its owner.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::cluster::clean::{CleanOptions, Cleaned, CleanedRun, KeptRun};
use crate::cluster::error::ClusterError;
use crate::cluster::owner::{Liveness, Owner};
use crate::cluster::{FILES, Member, server};
use crate::faults::clock::{CONTROL_PATH, LIBRARY, LIBRARY_PATH, blank_control};

/// The name of every run's folder starts with this, followed by the run's id.
const PREFIX: &str = "redjepsen-run-";
/// The file that names the owner.
const OWNER: &str = "owner.json";

/// A run's folder. Removed when dropped, if not before.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub fn make(run_id: &str, owner: &Owner) -> Result<Folder, ClusterError> {
        let path = path(run_id);
        let failed = |source| ClusterError::Write { path: path.display().to_string(), source };
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(ClusterError::RunExists { run_id: run_id.to_string() });
            }
            other => other.map_err(failed)?,
        }
        let folder = Folder(path.clone());
        let labels: HashMap<String, String> = owner.labels().into_iter().collect();
        let text = serde_json::to_vec(&labels).map_err(io::Error::other).map_err(failed)?;
        fs::write(path.join(OWNER), text).map_err(failed)?;
        fs::create_dir(folder.root()).map_err(failed)?;
        Ok(folder)
    }

    /// The empty folder on which the members' view of the file system is assembled.
    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// What the member sees as [`FILES`].
    pub fn files_of(&self, member: &str) -> PathBuf {
        self.0.join(member)
    }

    /// A server's log file.
    pub fn log_of(&self, member: &str) -> PathBuf {
        self.0.join(format!("{member}.log"))
    }

    /// Creates the files that a member starts with.
    pub fn furnish(&self, member: &Member, preload: bool) -> Result<(), ClusterError> {
        let files = self.files_of(&member.name);
        // The path on this machine of a file that the member sees as `seen`.
        let here = |seen: &str| files.join(seen.trim_start_matches(FILES).trim_start_matches('/'));
        let make = || {
            fs::create_dir(&files)?;
            fs::create_dir(here(server::DATA))?;
            // Writable by whatever user the server runs as; nobody else sees this folder.
            fs::set_permissions(here(server::DATA), fs::Permissions::from_mode(0o777))?;
            for file in member.server.iter().flat_map(|server| &server.files) {
                fs::write(here(&file.path), &file.content)?;
            }
            if preload {
                fs::write(here(LIBRARY_PATH), LIBRARY)?;
                fs::set_permissions(here(LIBRARY_PATH), fs::Permissions::from_mode(0o755))?;
                fs::write(here(CONTROL_PATH), blank_control())?;
            }
            Ok(())
        };
        make().map_err(|source| ClusterError::Write { path: files.display().to_string(), source })
    }

    /// Removes the folder and all its content. Safe to call more than once.
    pub fn remove(&self) -> Result<(), ClusterError> {
        remove(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // `redjepsen clean` will try again.
        if let Err(error) = self.remove() {
            tracing::warn!("{error}");
        }
    }
}

/// The folder of the run of this id.
pub(super) fn path(run_id: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{run_id}"))
}

/// Removes the folders of dead runs of this user. Their processes ended with their controllers.
pub(crate) fn clean(options: &CleanOptions) -> Result<Cleaned, ClusterError> {
    clean_in(&std::env::temp_dir(), options)
}

fn clean_in(place: &Path, options: &CleanOptions) -> Result<Cleaned, ClusterError> {
    let mut cleaned = Cleaned::default();
    let failed = |source| ClusterError::Write { path: place.display().to_string(), source };
    for entry in fs::read_dir(place).map_err(failed)?.flatten() {
        let name = entry.file_name();
        let Some(run_id) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        // Skips links, which somebody else may have put there.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match reason_to_keep(&entry.path(), options.all) {
            Some(reason) => cleaned.kept.push(KeptRun { run_id: run_id.to_string(), reason }),
            None => {
                remove(&entry.path())?;
                let names = vec![entry.path().display().to_string()];
                cleaned.removed.push(CleanedRun { run_id: run_id.to_string(), names });
            }
        }
    }
    Ok(cleaned)
}

fn reason_to_keep(folder: &Path, all: bool) -> Option<String> {
    let labels = fs::read(folder.join(OWNER)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let Some(owner) = labels.and_then(|labels| Owner::from_labels(&labels)) else {
        return (!all).then(|| "its owner is not known; --all removes it".to_string());
    };
    match owner.liveness() {
        Liveness::Alive => Some(format!("process {} on this machine is running it", owner.pid)),
        Liveness::Dead => None,
        Liveness::Unknown if all => None,
        // No process outlives a boot.
        Liveness::Unknown if owner.host == Owner::current().host && owner.boot_id != Owner::current().boot_id => None,
        Liveness::Unknown => {
            Some(format!("process {} on {} may still be running it; --all removes it", owner.pid, owner.host))
        }
    }
}

/// Removes the folder, with the owner's name last: a removal that is cut short leaves what `clean` knows.
fn remove(folder: &Path) -> Result<(), ClusterError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.file_name() != OWNER) {
        // What fails here fails again below, where it is told.
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
            _ => fs::remove_file(entry.path()),
        };
    }
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| ClusterError::Write { path: folder.display().to_string(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_runs_are_removed_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let folder = |run_id: &str, owner: Option<Owner>| {
            let path = place.path().join(format!("{PREFIX}{run_id}"));
            fs::create_dir(&path).unwrap();
            if let Some(owner) = owner {
                let labels: HashMap<String, String> = owner.labels().into_iter().collect();
                fs::write(path.join(OWNER), serde_json::to_vec(&labels).unwrap()).unwrap();
            }
        };
        let me = Owner::current();
        folder("living", Some(me.clone()));
        folder("dead", Some(Owner { start_ticks: me.start_ticks + 1, ..me.clone() }));
        folder("before-the-boot", Some(Owner { boot_id: "another".to_string(), ..me.clone() }));
        folder("elsewhere", Some(Owner { host: "another".to_string(), ..me }));
        folder("unsigned", None);
        fs::create_dir(place.path().join("a-strangers")).unwrap();
        std::os::unix::fs::symlink("/etc", place.path().join(format!("{PREFIX}link"))).unwrap();

        let run_ids = |cleaned: &Cleaned| {
            let mut ids: Vec<_> = cleaned.removed.iter().map(|run| run.run_id.clone()).collect();
            ids.sort();
            ids
        };
        let cleaned = clean_in(place.path(), &CleanOptions::default()).unwrap();
        assert_eq!(run_ids(&cleaned), ["before-the-boot", "dead"]);
        assert_eq!(cleaned.kept.len(), 3);
        let cleaned = clean_in(place.path(), &CleanOptions { all: true, images: false }).unwrap();
        assert_eq!(run_ids(&cleaned), ["elsewhere", "unsigned"]);
        assert!(place.path().join("a-strangers").exists() && place.path().join(format!("{PREFIX}living")).exists());
    }
}

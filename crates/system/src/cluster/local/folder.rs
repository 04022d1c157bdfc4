//! The folder of a local run, in the folder for temporary files. It contains its members' files.
//!
//! A killed controller leaves only this folder behind, so the folder names its owner.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::cluster::cleaned::{CleanOptions, Cleaned, CleanedRun, KeptRun};
use crate::cluster::error::ClusterError;
use crate::cluster::existing;
use crate::cluster::owner::{Liveness, Owner};
use crate::cluster::spec::{FILES, Member};
use crate::faults::clock::{CONTROL_PATH, LIBRARY, LIBRARY_PATH, blank_control};
use base::files::{self, FileError};
use model::topology::server;

/// The name of every run's folder starts with this, followed by the run's id.
const PREFIX: &str = "redjepsen-run-";
const OWNER: &str = "owner.json";
/// The owner's file has a few hundred bytes.
const LONGEST_OWNER: u64 = 16 << 10;

/// A run's folder. Dropping it removes it, unless it was removed before.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub fn make(run_id: &str, owner: &Owner) -> Result<Folder, ClusterError> {
        let path = path(run_id);
        let failed = |source| ClusterError::File(FileError::write(&path, source));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(ClusterError::RunExists { run_id: run_id.to_string() });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ClusterError::NoTemporaryFolder { path: std::env::temp_dir() });
            }
            other => other.map_err(failed)?,
        }
        let folder = Folder(path.clone());
        let labels: HashMap<String, String> = owner.labels().into_iter().collect();
        let text = serde_json::to_vec(&labels).map_err(io::Error::other).map_err(failed)?;
        files::write(&path.join(OWNER), text).map_err(ClusterError::File)?;
        fs::create_dir(folder.root()).map_err(failed)?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The empty folder on which the members' view of the file system is assembled.
    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// The folder that the member sees as [`FILES`]; the sandbox knows this name too.
    pub fn files_of(&self, member: &str) -> PathBuf {
        self.0.join(member)
    }

    pub fn log_of(&self, member: &str) -> PathBuf {
        self.0.join(format!("{member}.log"))
    }

    /// Creates the files that a member needs at its start.
    pub fn furnish(&self, member: &Member, preload: bool) -> Result<(), ClusterError> {
        let files = self.files_of(&member.name);
        // The path on this machine of a file that the member sees as `seen`.
        let here = |seen: &str| files.join(seen.trim_start_matches(FILES).trim_start_matches('/'));
        let make = || {
            fs::create_dir(&files)?;
            fs::create_dir(here(server::DATA))?;
            // Any user as which the server runs can write here; no other program sees this folder.
            fs::set_permissions(here(server::DATA), fs::Permissions::from_mode(0o777))?;
            for file in member.server.iter().flat_map(|server| &server.files) {
                fs::write(here(&file.path), &file.content)?;
            }
            if preload {
                fs::write(here(LIBRARY_PATH), LIBRARY)?;
                fs::set_permissions(here(LIBRARY_PATH), fs::Permissions::from_mode(0o755))?;
                fs::write(here(CONTROL_PATH), blank_control())?;
                fs::set_permissions(here(CONTROL_PATH), fs::Permissions::from_mode(0o666))?;
            }
            Ok(())
        };
        make().map_err(|source| ClusterError::File(FileError::write(&files, source)))
    }

    /// Removes the folder and all its content. Safe to call more than once.
    pub fn remove(&self) -> Result<(), ClusterError> {
        remove(&self.0).map_err(ClusterError::File)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // `redjepsen clean` will try again. It needs the folder until the keys on existing servers are removed.
        if !existing::has_keys(&self.0)
            && let Err(error) = self.remove()
        {
            tracing::warn!("{error}");
        }
    }
}

pub(super) fn path(run_id: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{run_id}"))
}

/// Removes the folders of this user's dead runs, and the runs' keys on existing servers. The runs' processes ended with their
/// controllers.
pub async fn clean(options: &CleanOptions) -> Cleaned {
    let remove = async |folder: &Path| {
        existing::remove_keys(folder).await?;
        remove(folder).map_err(|error| error.to_string())
    };
    clean_in(&std::env::temp_dir(), options, remove).await
}

async fn clean_in(place: &Path, options: &CleanOptions, remove: impl AsyncFn(&Path) -> Result<(), String>) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) => {
            cleaned.failed.push(format!("{}: {error}, so redjepsen did not look for local runs", place.display()));
            return cleaned;
        }
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(run_id) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        // Skips links and files, which another user may have put there.
        let Some(there) = entry.metadata().ok().filter(fs::Metadata::is_dir) else { continue };
        let run_id = run_id.to_string();
        let owner = owner_of(&entry.path());
        if options.of.is_some() && options.of != owner.as_ref().ok().map(|owner| owner.pid) {
            continue;
        }
        match reason_to_keep(owner, there.uid(), options.all) {
            Some(reason) => cleaned.kept.push(KeptRun { run_id, reason }),
            None => match remove(&entry.path()).await {
                Ok(()) => {
                    cleaned.removed.push(CleanedRun { run_id, names: vec![entry.path().display().to_string()] });
                }
                Err(error) => cleaned.failed.push(format!("run {run_id}: {error}")),
            },
        }
    }
    cleaned
}

/// Every user can create folders in this place. So this function trusts or removes only folders that belong to this user.
fn reason_to_keep(owner: Result<Owner, String>, user: u32, all: bool) -> Option<String> {
    if user != rustix::process::geteuid().as_raw() {
        return Some(format!("its folder belongs to user {user}, who can remove it with `redjepsen clean`"));
    }
    let owner = match owner {
        Ok(owner) => owner,
        Err(_) if all => return None,
        Err(reason) => return Some(format!("its owner is not known{reason}; --all removes it")),
    };
    match owner.liveness() {
        Liveness::Alive => Some(format!("process {} on this machine is running it", owner.pid)),
        Liveness::Dead => None,
        Liveness::Unknown if all => None,
        // No process survives a reboot.
        Liveness::Unknown if owner.host == Owner::current().host && owner.boot_id != Owner::current().boot_id => None,
        Liveness::Unknown => {
            Some(format!("process {} on {} may still be running it; --all removes it", owner.pid, owner.host))
        }
    }
}

/// The owner of a run's folder. If the owner is unknown, the error says why, as the end of a sentence.
fn owner_of(folder: &Path) -> Result<Owner, String> {
    let labels = files::read_own(&folder.join(OWNER), LONGEST_OWNER).map_err(|error| format!(" ({error})"))?;
    let labels = serde_json::from_str(&labels).map_err(|error| format!(" ({OWNER}: {error})"))?;
    Owner::from_labels(&labels).ok_or_else(String::new)
}

/// Removes the folder, and the owner's file last: if the removal stops half-way, `clean` still finds the owner.
fn remove(folder: &Path) -> Result<(), FileError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.file_name() != OWNER) {
        // A failure here repeats below, where it is reported.
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
            _ => fs::remove_file(entry.path()),
        };
    }
    files::remove_folder(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    async fn remove_folder(path: &Path) -> Result<(), String> {
        files::remove_folder(path).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn folders_of_dead_runs_are_removed_and_no_others() {
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
        symlink("/etc", place.path().join(format!("{PREFIX}link"))).unwrap();

        let run_ids = |cleaned: &Cleaned| {
            let mut ids: Vec<_> = cleaned.removed.iter().map(|run| run.run_id.clone()).collect();
            ids.sort();
            ids
        };
        let of = |pid| CleanOptions { of: Some(pid), ..CleanOptions::default() };
        assert_eq!(clean_in(place.path(), &of(1), remove_folder).await, Cleaned::default(), "nothing is another's");
        let cleaned = clean_in(place.path(), &CleanOptions::default(), remove_folder).await;
        assert_eq!(run_ids(&cleaned), ["before-the-boot", "dead"]);
        folder("of-mine", Some(Owner { start_ticks: Owner::current().start_ticks + 1, ..Owner::current() }));
        assert_eq!(run_ids(&clean_in(place.path(), &of(std::process::id()), remove_folder).await), ["of-mine"]);
        assert_eq!(cleaned.kept.len(), 3);
        let cleaned =
            clean_in(place.path(), &CleanOptions { all: true, ..CleanOptions::default() }, remove_folder).await;
        assert_eq!(run_ids(&cleaned), ["elsewhere", "unsigned"]);
        assert!(place.path().join("a-strangers").exists() && place.path().join(format!("{PREFIX}living")).exists());
    }

    #[tokio::test]
    async fn what_cannot_be_removed_is_told_and_the_rest_is_removed() {
        let place = tempfile::tempdir().unwrap();
        for run_id in ["one", "stuck", "two"] {
            fs::create_dir(place.path().join(format!("{PREFIX}{run_id}"))).unwrap();
        }
        let stuck = async |path: &Path| match path.ends_with("redjepsen-run-stuck") {
            true => Err(FileError::remove(path, io::ErrorKind::ResourceBusy.into()).to_string()),
            false => remove_folder(path).await,
        };
        let cleaned = clean_in(place.path(), &CleanOptions { all: true, ..CleanOptions::default() }, stuck).await;
        assert_eq!((cleaned.removed.len(), cleaned.failed.len()), (2, 1), "{cleaned:?}");
        assert!(cleaned.failed[0].starts_with("run stuck: cannot remove /"), "{cleaned:?}");
        let nowhere = clean_in(Path::new("/nowhere"), &CleanOptions::default(), remove_folder).await;
        assert!(nowhere.failed[0].contains("/nowhere: No such file"), "{nowhere:?}");
    }

    /// Files that any user can put into a folder for temporary files.
    #[tokio::test]
    async fn traps_for_the_one_who_cleans_up_do_not_hold_it_up() {
        let place = tempfile::tempdir().unwrap();
        let folder = |run_id: &str| {
            let path = place.path().join(format!("{PREFIX}{run_id}"));
            fs::create_dir(&path).unwrap();
            path
        };
        let pipe = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        pipe(&folder("pipe").join(OWNER));
        pipe(&place.path().join(format!("{PREFIX}no-folder")));
        symlink("/dev/zero", folder("link").join(OWNER)).unwrap();
        fs::write(folder("huge").join(OWNER), vec![b' '; 1 << 20]).unwrap();
        fs::write(folder("words").join(OWNER), "me").unwrap();
        let cleaned = clean_in(place.path(), &CleanOptions::default(), remove_folder).await;
        assert_eq!((cleaned.removed.len(), cleaned.failed.len()), (0, 0), "{cleaned:?}");
        for (run_id, words) in [
            ("pipe", "it is a named pipe, not a regular file"),
            ("link", "it is a link, not a regular file"),
            ("huge", "it is larger than 16 KiB"),
            ("words", "owner.json: expected value"),
        ] {
            let kept = cleaned.kept.iter().find(|kept| kept.run_id == run_id).unwrap();
            assert!(kept.reason.contains(words) && kept.reason.ends_with("--all removes it"), "{kept:?}");
        }
        let me = rustix::process::geteuid().as_raw();
        let reason = reason_to_keep(owner_of(&place.path().join(format!("{PREFIX}words"))), me + 1, true).unwrap();
        assert!(reason.contains(&format!("belongs to user {}", me + 1)), "{reason}");
        let cleaned =
            clean_in(place.path(), &CleanOptions { all: true, ..CleanOptions::default() }, remove_folder).await;
        assert_eq!((cleaned.removed.len(), cleaned.kept.len()), (4, 0), "{cleaned:?}");
    }
}

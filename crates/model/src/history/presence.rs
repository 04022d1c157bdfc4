//! Notices when the history that is being written is deleted or moved away. The kernel still accepts writes to a file without a
//! name, so nothing else would show it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A file that must stay where it is.
pub struct Presence {
    path: PathBuf,
    /// Its device and number.
    file: (u64, u64),
}

impl Presence {
    /// The file that is there now.
    pub fn of(path: &Path) -> io::Result<Presence> {
        Ok(Presence { path: path.to_path_buf(), file: identity(&fs::symlink_metadata(path)?) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if the file is no longer there, even if another file is in its place.
    pub fn is_lost(&self) -> bool {
        // The next write reports any other error, such as a network drive that does not answer.
        match fs::symlink_metadata(&self.path) {
            Ok(there) => identity(&there) != self.file,
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }

    /// Resolves once the file is no longer there.
    pub async fn lost(&self) {
        while !self.is_lost() {
            sleep(LOOK_EVERY).await;
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_file_that_goes_or_is_replaced_is_missed_and_one_that_grows_is_not() {
        type Lose = fn(&Path);
        let ways: [Lose; 4] = [
            |path| fs::remove_file(path).unwrap(),
            |path| fs::remove_dir_all(path.parent().unwrap()).unwrap(),
            |path| fs::rename(path.parent().unwrap(), path.parent().unwrap().with_extension("moved")).unwrap(),
            |path| {
                fs::write(path.with_extension("new"), "another").unwrap();
                fs::rename(path.with_extension("new"), path).unwrap();
            },
        ];
        for lose in ways {
            let store = tempfile::tempdir().unwrap();
            let path = store.path().join("run/history.jsonl");
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(&path, "one\n").unwrap();
            let presence = Presence::of(&path).unwrap();
            fs::write(&path, "one\ntwo\n").unwrap();
            assert!(timeout(LOOK_EVERY * 2, presence.lost()).await.is_err());
            lose(&path);
            timeout(LOOK_EVERY * 10, presence.lost()).await.unwrap();
        }
        assert!(Presence::of(Path::new("/nowhere")).is_err());
    }
}

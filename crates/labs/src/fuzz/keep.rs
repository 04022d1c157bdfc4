//! Files of the scenarios that a hunt found.

use std::io;
use std::path::{Path, PathBuf};

use super::Shrunk;
use base::files::{self, FileError};
use model::nemesis::Nemesis;

impl Shrunk {
    /// Writes the scenario as a nemesis file below the store, with its seed in the name if that of its cause has fewer steps
    /// already. Returns its path, and whether it was written: the same seed may have led to fewer steps before.
    pub fn write(&self, store: &Path, seed: u64) -> Result<(PathBuf, bool), FileError> {
        let folder = store.join("fuzz");
        let name = self.name();
        let nemesis = self.nemesis(seed);
        let files = [format!("{name}.toml"), format!("{name}-seed-{seed}.toml")].map(|file| folder.join(file));
        let Some(file) = files.iter().find(|file| !is_shorter(file, &nemesis)) else {
            let [_, known] = files;
            return Ok((known, false));
        };
        let text = toml::to_string(&nemesis).map_err(|error| FileError::write(file, io::Error::other(error)))?;
        files::create_folder(store)?;
        files::create_folder(&folder)?;
        files::write(file, text)?;
        Ok((file.clone(), true))
    }
}

/// Whether there is such a file already, which has fewer steps or is no scenario.
fn is_shorter(file: &Path, than: &Nemesis) -> bool {
    if !file.exists() {
        return false;
    }
    let known = files::read_named(file, files::BY_HAND).ok();
    let known = known.and_then(|text| toml::from_str::<Nemesis>(&text).ok());
    known.is_none_or(|known| known.script.len() < than.script.len())
}

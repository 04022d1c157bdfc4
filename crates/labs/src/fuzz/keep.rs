//! Saves the scenarios that a hunt found as files.

use std::io;
use std::path::{Path, PathBuf};

use super::Shrunk;
use base::files::{self, FileError};
use model::nemesis::Nemesis;

impl Shrunk {
    /// Writes the scenario as a nemesis file below the store. If a file of the same cause already has fewer steps, the new file
    /// has the seed in its name. Returns the path, and false if the existing file of this seed is shorter and was kept.
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

/// True if the file exists and has fewer steps, or if it is not a scenario.
fn is_shorter(file: &Path, than: &Nemesis) -> bool {
    if !file.exists() {
        return false;
    }
    let known = files::read_named(file, files::BY_HAND).ok();
    let known = known.and_then(|text| toml::from_str::<Nemesis>(&text).ok());
    known.is_none_or(|known| known.script.len() < than.script.len())
}

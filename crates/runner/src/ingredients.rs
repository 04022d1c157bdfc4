//! Hashes everything that an installation depends on: its command, the files that the command names, and the sources.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use base::files;
use base::words::hex;

/// The largest nesting of requirement files.
const DEEPEST: usize = 8;

/// The hash of everything that an installation depends on.
#[derive(Default)]
pub(super) struct Ingredients(Sha256);

impl Ingredients {
    /// Adds a part, with its length, so that different lists of parts have different hashes.
    pub fn add(&mut self, part: impl AsRef<[u8]>) {
        let part = part.as_ref();
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        self.add(files::content(path).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Adds a requirements file for pip, and the files that it includes. Without `sources`, it must not install anything from
    /// this machine.
    pub fn add_requirements(&mut self, path: &Path, has_sources: bool) -> Result<(), String> {
        self.add_requirements_below(path, has_sources, DEEPEST)
    }

    fn add_requirements_below(&mut self, path: &Path, has_sources: bool, deeper: usize) -> Result<(), String> {
        let text = files::read_named(path, files::BY_HAND).map_err(|error| error.to_string())?;
        self.add(&text);
        for line in text.lines() {
            match named_by(line) {
                Some(RequirementTarget::Source(what)) if !has_sources => {
                    return Err(format!(
                        "{} installs `{what}` from this machine; name in `sources` the files and folders from which it is built, \
                         so that redjepsen reinstalls it after a change",
                        path.display()
                    ));
                }
                Some(RequirementTarget::Included(what)) if deeper > 0 => {
                    let included = path.parent().unwrap_or(Path::new("")).join(what);
                    // pip has the best message for an unreadable file.
                    if included.is_file() {
                        self.add_requirements_below(&included, has_sources, deeper - 1)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the words of an installation, and the files below a folder that they name. redjepsen's folder counts by its
    /// content, wherever it is. A user's folder also counts by its path, because a script there may read files beside it.
    pub fn add_words(&mut self, words: &[String], folder: &Folder, has_sources: bool) -> Result<(), String> {
        for word in words {
            let parts: Vec<&str> = word.split(FOLDER).collect();
            self.add(parts.len().to_le_bytes());
            parts.iter().for_each(|part| self.add(part));
            for rest in parts.iter().skip(1) {
                self.add_named(rest, folder, has_sources)?;
            }
            // An installer elsewhere on this machine. A large one is a program, which has a version.
            let elsewhere = Path::new(word);
            if elsewhere.is_absolute() && elsewhere.is_file() {
                self.add(files::bytes_named(elsewhere, files::BY_HAND).unwrap_or_default());
            }
        }
        if let Folder::Own(place) = folder {
            self.add(std::fs::canonicalize(place).unwrap_or_else(|_| place.clone()).as_os_str().as_encoded_bytes());
        }
        Ok(())
    }

    /// Adds the file that a word names, given the text after `{folder}`.
    fn add_named(&mut self, rest: &str, folder: &Folder, has_sources: bool) -> Result<(), String> {
        let in_a_path = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
        let name = &rest[..rest.find(|c| !in_a_path(c)).unwrap_or(rest.len())];
        let place = folder.place().join(name.trim_start_matches('/'));
        if place.is_file() {
            // A user's script may read files beside it.
            let beside = match folder {
                Folder::Own(_) if !has_sources => beside(&place),
                _ => vec![place],
            };
            return beside.iter().try_for_each(|file| self.add_file(file));
        }
        match folder {
            Folder::Own(_) if !has_sources => Err(format!(
                "`install` reads the folder {}; name in `sources` the files and folders from which it installs, so that \
                 redjepsen reinstalls it after a change",
                place.display()
            )),
            _ => Ok(()),
        }
    }

    pub fn short_hex(self) -> String {
        hex(&self.0.finalize()[..6])
    }
}

/// The regular files in the folder of this file, by name, without large ones.
fn beside(file: &Path) -> Vec<PathBuf> {
    let folder = file.parent().map(std::fs::read_dir).and_then(Result::ok);
    let is_small = |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.len() <= LARGEST_BESIDE);
    let mut files: Vec<PathBuf> =
        folder.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_small).collect();
    files.push(file.to_path_buf());
    files.sort();
    files.dedup();
    files
}

const LARGEST_BESIDE: u64 = 1 << 20;

/// The placeholder for the workload file's folder.
pub(super) const FOLDER: &str = "{folder}";

pub(super) enum Folder {
    /// The files that come with redjepsen.
    Ours(PathBuf),
    Own(PathBuf),
}

impl Folder {
    pub fn place(&self) -> &Path {
        match self {
            Folder::Ours(place) | Folder::Own(place) => place,
        }
    }
}

/// The target of a line in a pip requirements file, on this machine.
#[derive(Debug, PartialEq)]
enum RequirementTarget<'l> {
    Included(&'l str),
    /// A package, or a folder with packages.
    Source(&'l str),
}

fn named_by(line: &str) -> Option<RequirementTarget<'_>> {
    let line = line.trim();
    let line = line.split(" #").next().unwrap_or(line).trim();
    let after = |options: &[&str]| {
        let rest = options.iter().find_map(|option| line.strip_prefix(option))?;
        Some(rest.trim_start_matches(['=', ' ', '\t'])).filter(|rest| !rest.is_empty())
    };
    let is_elsewhere = |what: &str| what.contains("://") && !what.contains("file:");
    if let Some(what) = after(&["--requirement", "--constraint", "-r", "-c"]) {
        return (!is_elsewhere(what)).then_some(RequirementTarget::Included(what));
    }
    if let Some(what) = after(&["--editable", "-e", "--find-links", "-f"]) {
        return (!is_elsewhere(what)).then_some(RequirementTarget::Source(what));
    }
    if line.starts_with(['#', '-']) {
        return None;
    }
    let what = line.split([' ', ';', '[']).next().unwrap_or(line);
    let is_archive = [".whl", ".zip", ".tar.gz"].iter().any(|end| what.ends_with(end));
    let is_place = (what.starts_with('.') || what.contains('/') || is_archive) && !is_elsewhere(what);
    (is_place || line.contains("file:")).then_some(RequirementTarget::Source(if is_place { what } else { line }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirement_names_this_machine_or_not() {
        for (line, expected) in [
            (".", Some(RequirementTarget::Source("."))),
            ("  ./lib[fast] ; python_version > '3'", Some(RequirementTarget::Source("./lib"))),
            ("../lib", Some(RequirementTarget::Source("../lib"))),
            ("lib/mylock", Some(RequirementTarget::Source("lib/mylock"))),
            (
                "/home/me/mylock-1.0-py3-none-any.whl",
                Some(RequirementTarget::Source("/home/me/mylock-1.0-py3-none-any.whl")),
            ),
            ("mylock-1.0.tar.gz", Some(RequirementTarget::Source("mylock-1.0.tar.gz"))),
            ("-e .", Some(RequirementTarget::Source("."))),
            ("--editable=./lib", Some(RequirementTarget::Source("./lib"))),
            ("--find-links wheels", Some(RequirementTarget::Source("wheels"))),
            ("mylock @ file:///home/me/mylock", Some(RequirementTarget::Source("mylock @ file:///home/me/mylock"))),
            ("-r base.txt", Some(RequirementTarget::Included("base.txt"))),
            ("--constraint=pins.txt", Some(RequirementTarget::Included("pins.txt"))),
            ("redis==8.1.0", None),
            ("redis[hiredis]==8.1.0 ; python_version > '3'", None),
            ("redis==8.1.0 --hash=sha256:abc/def", None),
            ("    --hash=sha256:abc", None),
            ("--require-hashes", None),
            ("# ./not", None),
            ("mylock @ https://example.org/mylock.whl", None),
            ("-r https://example.org/base.txt", None),
            ("", None),
        ] {
            assert_eq!(named_by(line), expected, "{line}");
        }
    }

    #[test]
    fn words_count_whole_with_the_files_that_they_name() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&one, &other] {
            std::fs::write(folder.path().join("install.sh"), "cp").unwrap();
        }
        let own = |folder: &tempfile::TempDir| Folder::Own(folder.path().to_path_buf());
        let ours = |folder: &tempfile::TempDir| Folder::Ours(folder.path().to_path_buf());
        let hash = |words: &[&str], folder: &Folder, sources| {
            let mut of = Ingredients::default();
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            of.add_words(&words, folder, sources).map(|()| of.short_hex())
        };
        let script = ["sh", "{folder}/install.sh", "{env}"];
        let before = hash(&script, &own(&one), false).unwrap();
        assert_eq!(hash(&script, &own(&one), false).unwrap(), before);
        assert_ne!(hash(&script, &own(&other), false).unwrap(), before, "another folder");
        let of_ours = hash(&script, &ours(&one), false).unwrap();
        assert_eq!(hash(&script, &ours(&other), false).unwrap(), of_ours, "ours is the same wherever it is");
        std::fs::write(one.path().join("install.sh"), "mv").unwrap();
        assert_ne!(hash(&script, &own(&one), false).unwrap(), before, "another content");
        assert_ne!(hash(&script, &ours(&one), false).unwrap(), of_ours, "another content of ours");
        let said = |text| hash(&["sh", "-c", text], &own(&one), false).unwrap();
        assert_ne!(said("echo ONE >/a/x"), said("echo TWO >/a/x"), "what stands before the last slash");
        assert_ne!(hash(&["ab", "c"], &own(&one), false), hash(&["a", "bc"], &own(&one), false));
        for word in ["{folder}", "--path={folder}/src", "cp -r {folder}/* ."] {
            let refused = hash(&[word], &own(&one), false).unwrap_err();
            assert!(refused.contains("name in `sources`"), "{refused}");
            assert!(hash(&[word], &own(&one), true).is_ok() && hash(&[word], &ours(&one), false).is_ok(), "{word}");
        }
    }
}

//! Embeds two sets of files in the program. These are the catalogue (`workloads/`, `nemeses/`, `suites/`, `issues/`), and the
//! files from which clients of published libraries are built (`workloads/clients/`).

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folders of the catalogue. The build finds new `.toml` files in them by itself.
const CATALOGUE: [&str; 4] = ["workloads", "nemeses", "suites", "issues"];
const CLIENTS: &str = "workloads/clients";
/// Folders that tests, builds and installations leave there.
const NO_SOURCES: [&str; 5] = ["tests", "target", "node_modules", "__pycache__", "build"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    // These folders are at the top of the repository.
    env::set_current_dir("../..")?;
    let root = env::current_dir()?;
    // `workloads` contains the clients too.
    for folder in CATALOGUE {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    if let Err(error) = list_catalogue() {
        println!("cargo::error=cannot list the catalogue: {error}");
    }
    if let Err(error) = list_client_files() {
        println!("cargo::error=cannot list {CLIENTS}: {error}");
    }
    Ok(())
}

/// Writes an array for each folder of the catalogue: the names of its files without `.toml`, sorted, each with its text.
fn list_catalogue() -> io::Result<()> {
    for folder in CATALOGUE {
        let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
        let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
        let named = |path: PathBuf| (path.with_extension("").strip_prefix(folder).unwrap_or(&path).to_owned(), path);
        embed(folder, paths.into_iter().filter(is_toml).map(named).collect())?;
    }
    Ok(())
}

/// Writes an array of paths, relative to `workloads/`, each with the file's text.
fn list_client_files() -> io::Result<()> {
    let mut files = Vec::new();
    files_below(Path::new(CLIENTS), &mut files)?;
    let named = |path: PathBuf| (path.strip_prefix("workloads").unwrap_or(&path).to_owned(), path);
    embed("client_files", files.into_iter().map(named).collect())
}

/// Writes `LIST.rs`, an array of names and texts, sorted by name, for `include!`.
fn embed(list: &str, mut files: Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    files.sort();
    let root = env::current_dir()?;
    let entries = files.iter().map(|(name, path)| format!("    ({name:?}, include_str!({:?})),\n", root.join(path)));
    let text = format!("&[\n{}]\n", entries.collect::<String>());
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join(list).with_extension("rs"), text)
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if NO_SOURCES.contains(&&*name) || name.starts_with('.') || name.ends_with(".egg-info") {
            continue;
        }
        if path.is_dir() {
            files_below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

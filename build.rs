//! Makes what is embedded in the program: the catalogue (`workloads/`, `nemeses/`, `suites/`, `issues/`), the files that clients of
//! published libraries are made of (`workloads/clients/`), and the preload library (`nemeses/clock/`); and says which version
//! this is.
//!
//! The library is built with this same compiler and its linker, into OUT_DIR; nothing else is needed. The library needs no libc, so it
//! is built for the host's own target if the architecture is the same, even if the program itself is built for musl.
//! For another architecture it is built with the program's target and linker (so far only seen to compile on x86_64).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const SOURCE: &str = "nemeses/clock";
/// The folders of the catalogue. A new `.toml` file in one of them is found by itself.
const CATALOGUE: [&str; 4] = ["workloads", "nemeses", "suites", "issues"];
const CLIENTS: &str = "workloads/clients";
/// What tests, builds and installations leave there.
const NO_SOURCES: [&str; 5] = ["tests", "target", "node_modules", "__pycache__", "build"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // These hold the clients and the preload library too.
    for folder in CATALOGUE {
        println!("cargo::rerun-if-changed={folder}");
    }
    println!("cargo::rustc-env=REDJEPSEN_VERSION={}", version());
    if let Err(error) = list_catalogue() {
        println!("cargo::error=cannot list the catalogue: {error}");
    }
    if let Err(error) = list_client_files() {
        println!("cargo::error=cannot list {CLIENTS}: {error}");
    }
    if let Err(reason) = build() {
        // Cargo prints what follows this, and fails.
        println!("cargo::error=cannot build the preload library in {SOURCE}: {reason}");
    }
}

/// The package's version with the commit that it is built from, and that commit's date: `0.1.0 (0123456789ab 2026-11-24)`. Outside
/// of git, REDJEPSEN_COMMIT may say so; else it is the version alone. A build for development does not ask, so that a new commit
/// compiles nothing again.
fn version() -> String {
    println!("cargo::rerun-if-env-changed=REDJEPSEN_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let said = env::var("REDJEPSEN_COMMIT").ok().filter(|said| !said.is_empty());
    let commit = match env::var("PROFILE").as_deref() {
        _ if said.is_some() => said,
        Ok("release") => of_git(),
        _ => Some("development build".to_string()),
    };
    commit.map_or(version.clone(), |commit| format!("{version} ({})", commit.trim()))
}

/// The commit and its date, marked if files were changed since; None outside of git, or in somebody else's.
fn of_git() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        // Cargo takes a file that is not there for one that changed.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    let commit = git(&["log", "-1", "--abbrev=12", "--format=%h %cs"])?;
    Some(if changed { format!("{commit}, changed") } else { commit })
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

/// Writes `LIST.rs`, an array of names and texts, sorted by name, to be included.
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

fn build() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let (host, target) = (variable("HOST")?, variable("TARGET")?);
    let library = PathBuf::from(variable("OUT_DIR")?).join("libredjepsen_clock.so");

    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.arg(format!("{SOURCE}/lib.rs")).arg("-o").arg(&library);
    rustc.args(["--crate-name=redjepsen_clock", "--crate-type=cdylib", "--edition=2024"]);
    rustc.args(["-Copt-level=2", "-Cpanic=abort", "-Ccodegen-units=1", "-Cstrip=symbols"]);
    // musl's loader accepts shared objects, however this compiler links its programs.
    rustc.arg("-Ctarget-feature=-crt-static");
    for argument in ["-nostdlib", "-nostartfiles", "-Wl,--hash-style=both", "-Wl,-soname,redjepsen-clock"] {
        rustc.arg(format!("-Clink-arg={argument}"));
    }
    let architecture = |triple: &str| triple.split('-').next().unwrap_or_default().to_string();
    if architecture(&host) != architecture(&target) {
        rustc.args(["--target", &target]);
        if let Ok(linker) = variable("RUSTC_LINKER") {
            rustc.arg(format!("-Clinker={linker}"));
        }
    }
    let output = rustc.output().map_err(|error| error.to_string())?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}, {}", output.status, messages.trim().replace('\n', " | ")));
    }
    // Otherwise nobody would see the warnings of a build script's child processes.
    for line in messages.lines() {
        println!("cargo::warning={line}");
    }
    Ok(())
}

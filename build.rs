//! Says which version this is.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=REDJEPSEN_VERSION={}", version());
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

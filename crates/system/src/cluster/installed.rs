//! Servers other than Redis that are installed on this machine. Local clusters run them. If no registry can be reached, images
//! are made from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::topology::Program;

/// An installed server program and the files it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// The program and its first arguments; a member's own arguments follow.
    pub command: Vec<String>,
    /// For example `3.4.23`.
    pub version: String,
    /// Other programs that the server starts.
    pub programs: Vec<PathBuf>,
    /// Libraries that the server loads at run time. The libraries that they need in turn are found through them.
    pub libraries: Vec<PathBuf>,
    /// Files that the server reads.
    pub files: Vec<PathBuf>,
    /// The user as which the server must run, if it refuses to run as root.
    pub user: Option<&'static str>,
    /// A folder that the server needs on PATH.
    pub path: Option<PathBuf>,
}

impl Installed {
    pub fn program(&self) -> &Path {
        Path::new(self.command.first().map(String::as_str).unwrap_or_default())
    }
}

/// This machine's installation of a program; None if it is not installed. For Redis, see [`redis_program`](super::redis_program).
pub fn find(program: Program) -> Option<Installed> {
    match program {
        Program::Redis => None,
        Program::Etcd => etcd(),
        Program::Zookeeper => zookeeper(),
        Program::Postgres => postgres(),
    }
}

pub fn package(program: Program) -> &'static str {
    match program {
        Program::Redis => "redis-server",
        Program::Etcd => "etcd-server",
        Program::Zookeeper => "zookeeper",
        Program::Postgres => "postgresql",
    }
}

fn etcd() -> Option<Installed> {
    let path = on_path("etcd")?;
    // Parses `etcd Version: 3.4.23`.
    let version = first_version(&output_of(&path, &["--version"])?)?;
    Some(Installed { command: vec![path.display().to_string()], version, ..Installed::default() })
}

/// A JVM with Debian's packages of ZooKeeper.
fn zookeeper() -> Option<Installed> {
    // Leaves out the jars that only secure connections and its web page need.
    const JARS: [&str; 10] = [
        "zookeeper",
        "zookeeper-jute",
        "slf4j-api",
        "slf4j-simple",
        "metrics-core",
        "snappy-java",
        "netty-buffer",
        "netty-common",
        "netty-handler",
        "netty-transport",
    ];
    let java = fs::canonicalize(on_path("java")?).ok()?;
    let home = java.parent()?.parent()?;
    let jars = JARS.map(|name| PathBuf::from(format!("/usr/share/java/{name}.jar")));
    // The package has both `zookeeper.jar` and, with the version in its name, a file such as `zookeeper-3.8.0.jar`.
    let (named, version) = fs::read_dir("/usr/share/java").ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix("zookeeper-")?.strip_suffix(".jar")?;
        version.starts_with(|c: char| c.is_ascii_digit()).then(|| (entry.path(), version.to_string()))
    })?;
    if !jars.iter().all(|jar| jar.is_file()) {
        return None;
    }
    let class_path: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
    let machine = home.join("lib/server/libjvm.so");
    let not_needed =
        |file: &PathBuf| file.ends_with("src.zip") || file.extension().is_some_and(|end| end == "debuginfo");
    let mut files: Vec<PathBuf> = jars.into();
    // Keeps the version known in an image that has only these files.
    files.push(named);
    files.extend(["lib", "conf"].iter().flat_map(|folder| files_in(&home.join(folder), true)));
    files.retain(|file| !not_needed(file));
    let mut command: Vec<String> = vec![java.display().to_string()];
    // A small JVM that starts fast; the server never runs for long.
    let flags = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp"];
    command.extend(flags.map(str::to_string));
    command.push(class_path.join(":"));
    command.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".to_string());
    Some(Installed { command, version, libraries: vec![machine], files, ..Installed::default() })
}

/// A shell that runs redjepsen's script, since the database must be created before the server can start.
fn postgres() -> Option<Installed> {
    let folder = postgres_folder()?;
    let (server, maker) = (folder.join("postgres"), folder.join("initdb"));
    // Parses `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
    let version = first_version(&output_of(&server, &["--version"])?)?;
    let config = folder.join("pg_config");
    let reported = |what: &str| output_of(&config, &[what]).map(|text| PathBuf::from(text.trim()));
    // Debian's paths are the fallback without pg_config.
    let libraries = reported("--pkglibdir").or_else(|| Some(folder.parent()?.join("lib")))?;
    let major = version.split('.').next().unwrap_or_default();
    let shared = reported("--sharedir").unwrap_or_else(|| Path::new("/usr/share/postgresql").join(major));
    let mut files = Vec::new();
    // Leaves out the query compiler, which is as large as everything else.
    files.extend(files_in(&libraries, false).into_iter().filter(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".so") && !name.starts_with("llvm")
    }));
    files.extend(files_in(&shared, true));
    Some(Installed {
        command: vec!["/bin/sh".to_string()],
        version,
        programs: vec![server, maker],
        files,
        user: Program::Postgres.user(),
        path: Some(folder),
        ..Installed::default()
    })
}

/// The folder of PostgreSQL's programs: the folder on PATH, or the newest version in Debian's folder.
fn postgres_folder() -> Option<PathBuf> {
    let linked = on_path("initdb").and_then(|file| fs::canonicalize(file).ok());
    let on_path = linked.and_then(|file| Some(file.parent()?.to_path_buf()));
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|entry| {
        let major: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((major, entry.path().join("bin")))
    });
    on_path.or_else(|| newest.max().map(|(_, folder)| folder)).filter(|folder| folder.join("postgres").is_file())
}

/// The files in a folder. With `below`, also the files in its subfolders.
fn files_in(folder: &Path, below: bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // `is_file` follows links.
        if path.is_file() {
            files.push(path);
        } else if below && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(files_in(&path, true));
        }
    }
    files
}

/// The program with this name on PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn output_of(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first word that looks like a version.
fn first_version(text: &str) -> Option<String> {
    let looks_so = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    text.split_whitespace().find(looks_so).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_where_programs_say_them() {
        let etcd =
            "etcd Version: 3.4.23\nGit SHA: Not provided (use ./build instead of go build)\nGo Version: go1.19.8\n";
        assert_eq!(first_version(etcd).as_deref(), Some("3.4.23"));
        let postgres = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";
        assert_eq!(first_version(postgres).as_deref(), Some("15.18"));
        assert_eq!(first_version("usage: etcd [flags]"), None);
    }

    #[test]
    fn files_are_listed_with_and_without_those_below() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("here"), "").unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/below"), "").unwrap();
        assert_eq!(files_in(folder.path(), false).len(), 1);
        assert_eq!(files_in(folder.path(), true).len(), 2);
        assert!(files_in(&folder.path().join("nothing"), true).is_empty());
    }
}

//! The published versions of a package. redjepsen asks the registry through the package manager's own client, so the user's
//! mirrors, proxies and credentials apply.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::process::Command;

use super::RunnerError;
use super::installer_error;
use base::interrupt::Interrupt;
use model::scenario::{Package, Registry};

const ASK_LIMIT: Duration = Duration::from_secs(120);

/// All versions of a package in its registry, unordered.
pub fn published<'a>(
    package: &'a Package,
    interrupt: &'a Interrupt,
) -> LocalBoxFuture<'a, Result<Vec<String>, RunnerError>> {
    Box::pin(async move {
        let fail = |text: String| {
            RunnerError::could_not_run(format!("cannot list the published versions of {package}: {text}"))
        };
        let name = package.name.as_str();
        let listed = async {
            match package.registry {
                Registry::Pypi => {
                    Ok(of_pip(&ask("python3", &["-I", "-m", "pip", "index", "versions", "--pre", name]).await?))
                }
                Registry::Npm => of_npm(&ask("npm", &["view", name, "versions", "--json"]).await?),
                Registry::Go => Ok(of_go(&ask("go", &["list", "-m", "-versions", name]).await?)),
                Registry::Maven => {
                    let newest = format!("-Dartifact={name}:RELEASE");
                    let get = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:get";
                    ask("mvn", &["--batch-mode", "--quiet", get, &newest, "-Dtransitive=false"]).await?;
                    let folder = "-Dexpression=settings.localRepository";
                    let evaluate = "org.apache.maven.plugins:maven-help-plugin:3.5.1:evaluate";
                    let local = ask("mvn", &["--batch-mode", "--quiet", evaluate, folder, "-DforceStdout"]).await?;
                    of_maven(Path::new(local.trim()), name)
                }
                Registry::Cargo => {
                    // cargo has no command that lists versions, but it keeps the answer of the index.
                    ask("cargo", &["info", name]).await?;
                    of_cargo(name)
                }
            }
        };
        let versions = interrupt.unless(listed).await?.map_err(fail)?;
        if versions.is_empty() { Err(fail("its registry lists no version".to_string())) } else { Ok(versions) }
    })
}

/// The output of a program. It runs in `/`, so that no project's settings apply.
async fn ask(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    let answer = tokio::time::timeout(ASK_LIMIT, command.output()).await;
    let answer = answer.map_err(|_| format!("{program} did not answer within {} s", ASK_LIMIT.as_secs()))?;
    let answer = answer.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("this needs {program}, which is not on PATH"),
        _ => format!("{program}: {error}"),
    })?;
    if !answer.status.success() {
        return Err(format!("{program} failed: {}", installer_error::why(&[answer.stderr, answer.stdout].concat())));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}

/// Parses `Available versions: 8.1.0, 8.0.1`
fn of_pip(answer: &str) -> Vec<String> {
    let line = answer.lines().find_map(|line| line.trim().strip_prefix("Available versions:"));
    line.into_iter().flat_map(|line| line.split(',')).map(|version| version.trim().to_string()).collect()
}

/// Parses a list, or a single text if there is one version.
fn of_npm(answer: &str) -> Result<Vec<String>, String> {
    let many = serde_json::from_str::<Vec<String>>(answer);
    many.or_else(|_| serde_json::from_str::<String>(answer).map(|one| vec![one]))
        .map_err(|error| format!("npm: {error}"))
}

/// Parses `github.com/bsm/redislock v0.9.0 v0.9.4`
fn of_go(answer: &str) -> Vec<String> {
    answer.split_whitespace().skip(1).map(|version| version.trim_start_matches('v').to_string()).collect()
}

/// The versions in the metadata that Maven keeps beside a downloaded artifact.
fn of_maven(local: &Path, name: &str) -> Result<Vec<String>, String> {
    let (group, artifact) = name.split_once(':').ok_or_else(|| format!("`{name}` is not GROUP:ARTIFACT"))?;
    let folder = group.split('.').fold(local.to_path_buf(), |path, part| path.join(part)).join(artifact);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut versions = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("maven-metadata") && name.ends_with(".xml") {
            let text = std::fs::read_to_string(entry.path()).map_err(|error| format!("{name}: {error}"))?;
            versions
                .extend(text.split("<version>").skip(1).filter_map(|rest| Some(rest.split_once('<')?.0.to_string())));
        }
    }
    Ok(versions)
}

/// The versions in the index entry that cargo keeps for a crate.
fn of_cargo(name: &str) -> Result<Vec<String>, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let index = home.ok_or("neither CARGO_HOME nor HOME is set")?.join("registry/index");
    let place = in_index(&name.to_lowercase());
    let indexes = std::fs::read_dir(&index).map_err(|error| format!("{}: {error}", index.display()))?;
    for entry in indexes.flatten() {
        if let Ok(bytes) = std::fs::read(entry.path().join(".cache").join(&place)) {
            let text = String::from_utf8_lossy(&bytes);
            let version = |rest: &str| Some(rest.split_once('"')?.0.to_string());
            return Ok(text.split("\"vers\":\"").skip(1).filter_map(version).collect());
        }
    }
    Err(format!("cargo has no index entry of {name} in {}; name one version at a time", index.display()))
}

/// The path of a crate in an index (doc.rust-lang.org/cargo/reference/registry-index.html).
fn in_index(name: &str) -> PathBuf {
    match name.len() {
        0 => PathBuf::new(),
        1 => PathBuf::from("1").join(name),
        2 => PathBuf::from("2").join(name),
        3 => PathBuf::from("3").join(&name[..1]).join(name),
        _ => PathBuf::from(&name[..2]).join(&name[2..4]).join(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_package_managers_are_read() {
        let pip = "redis (8.1.0)\nAvailable versions: 8.1.0, 8.0.1\n  INSTALLED: 8.0.1\n";
        assert_eq!(of_pip(pip), ["8.1.0", "8.0.1"]);
        assert_eq!(of_pip("ERROR: No matching distribution found\n"), Vec::<String>::new());
        assert_eq!(of_npm("[\n  \"1.0.0\",\n  \"1.0.1\"\n]\n").unwrap(), ["1.0.0", "1.0.1"]);
        assert_eq!(of_npm("\"1.0.0\"\n").unwrap(), ["1.0.0"]);
        assert!(of_npm("{\"error\": {}}").is_err());
        assert_eq!(of_go("github.com/bsm/redislock v0.9.0 v0.9.4\n"), ["0.9.0", "0.9.4"]);
        assert_eq!(of_go("github.com/bsm/redislock\n"), Vec::<String>::new());

        let local = tempfile::tempdir().unwrap();
        let folder = local.path().join("net/javacrumbs/shedlock");
        std::fs::create_dir_all(&folder).unwrap();
        let metadata = "<metadata><versioning><latest>7.0</latest><versions><version>6.3.0</version><version>7.0</version></versions>";
        std::fs::write(folder.join("maven-metadata-central.xml"), metadata).unwrap();
        assert_eq!(of_maven(local.path(), "net.javacrumbs:shedlock").unwrap(), ["6.3.0", "7.0"]);
        assert!(of_maven(local.path(), "net.javacrumbs:other").is_err());
        assert!(of_maven(local.path(), "shedlock").is_err());
    }

    #[test]
    fn a_crate_has_its_place_in_the_index() {
        for (name, place) in [("rslock", "rs/lo/rslock"), ("abc", "3/a/abc"), ("ab", "2/ab"), ("a", "1/a")] {
            assert_eq!(in_index(name), PathBuf::from(place));
        }
    }
}

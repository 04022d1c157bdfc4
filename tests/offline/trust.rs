//! Tests which actions foreign files may cause on this machine: a run's folder, a scenario and a matrix. Other actions need a
//! file that the user names.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use model::scenario::{Options, Scenario, WorkloadClient};
use rustix::fs::{Uid, chown};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// An empty cache, the folder in which the program is called, and a folder with foreign files.
struct Place {
    cache: TempDir,
    here: TempDir,
    sent: TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = || tempfile::tempdir().unwrap();
        Place { cache: folder(), here: folder(), sent: folder() }
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        command.args(words).current_dir(&self.here).env("XDG_CACHE_HOME", self.cache.path());
        // There is no engine and no Redis, so nothing is started.
        command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
        command
    }

    /// The exit code and the whole output.
    fn call(&self, words: &[&str]) -> (i32, String) {
        let output = Command::from_std(self.command(words)).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!said.contains("panicked") && !said.contains('\u{1b}'), "{said}");
        (output.status.code().unwrap(), said)
    }

    /// A file that exists once a hostile file was executed.
    fn trace(&self) -> PathBuf {
        self.sent.path().join("ran")
    }

    /// A run's folder with this scenario.
    fn send(&self, scenario: &str) -> String {
        fs::write(self.sent.path().join("scenario.toml"), scenario).unwrap();
        self.sent.path().display().to_string()
    }

    /// True if a process that an installation started is running.
    fn is_installing(&self) -> bool {
        let temporary = format!("TMPDIR={}", self.cache.path().display());
        fs::read_dir("/proc").unwrap().flatten().any(|process| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&temporary)
        })
    }

    fn cached(&self) -> Vec<String> {
        let clients = self.cache.path().join("redjepsen/clients");
        let entries = fs::read_dir(clients).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn saved(workload: &str, cluster: &str) -> String {
    let mut scenario = Options::default().scenario(workload, "none", 7, Path::new("")).unwrap();
    scenario.cluster.kind = toml::from_str::<std::collections::BTreeMap<String, _>>(&format!("kind = \"{cluster}\""))
        .unwrap()
        .remove("kind")
        .unwrap();
    toml::to_string(&scenario).unwrap()
}

/// The scenario of redis-py, with a client whose installation leaves a trace.
fn hostile(place: &Place, cluster: &str) -> String {
    let mut scenario: Scenario = toml::from_str(&saved("redis-py", cluster)).unwrap();
    let install = format!(
        "[command]\ncommand = [\"/bin/true\"]\ninstall = [\"sh\", \"-c\", \"touch {}\"]\n",
        place.trace().display()
    );
    scenario.workload.client = Some(toml::from_str(&install).unwrap());
    toml::to_string(&scenario).unwrap()
}

#[test]
fn a_saved_run_has_nothing_of_others_run_unless_the_user_trusts_it() {
    for cluster in ["docker", "sim", "local"] {
        let place = Place::new();
        let folder = place.send(&hostile(&place, cluster));
        let file = format!("{folder}/scenario.toml");
        for words in [
            &["replay", &folder, "--cluster", cluster][..],
            &["run", "--scenario", &folder],
            &["run", "--scenario", &file],
        ] {
            let (code, said) = place.call(words);
            assert_eq!(code, 254, "{words:?}: {said}");
            for part in
                ["do not come with this redjepsen", "installed by: sh -c 'touch ", "client: /bin/true", "add --trust"]
            {
                assert!(said.contains(part), "{part} in {said}");
            }
        }
        assert!(!place.trace().exists() && place.cached().is_empty(), "{:?}", place.cached());
    }
    // With the user's consent, it is shown and installed; but not for a run that cannot be simulated anyway.
    let place = Place::new();
    let folder = place.send(&hostile(&place, "sim"));
    let (code, said) = place.call(&["run", "--scenario", &folder, "--trust"]);
    assert_eq!((code, place.trace().exists()), (254, false), "{said}");
    assert!(said.contains("only redjepsen's own clients can be simulated"), "{said}");
    let folder = place.send(&hostile(&place, "docker"));
    let (_, said) = place.call(&["run", "--scenario", &folder, "--trust"]);
    assert!(place.trace().exists() && said.contains("no Docker engine answers"), "{said}");
}

#[test]
fn another_version_of_a_library_needs_the_users_word() {
    let place = Place::new();
    let another = |version: &str| {
        let mut scenario: Scenario = toml::from_str(&saved("redis-py", "docker")).unwrap();
        let library = scenario.workload.library.as_mut().unwrap();
        library.instead_of = Some(std::mem::replace(&mut library.version, version.to_string()));
        toml::to_string(&scenario).unwrap()
    };
    let folder = place.send(&another("7.0.1"));
    for words in [&["replay", &folder, "--cluster", "docker"][..], &["run", "--scenario", &folder]] {
        let (code, said) = place.call(words);
        assert_eq!(code, 254, "{words:?}: {said}");
        for part in ["in version 7.0.1 instead of the pinned ", "without a hash", "add --trust"] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
    // An invalid version never becomes a word of a command, even with the user's consent.
    for evil in ["--index-url=https://evil.invalid", "1.0 evil", "1.0;touch ran", "../x", ""] {
        let folder = place.send(&another(evil));
        let (code, said) = place.call(&["run", "--scenario", &folder, "--trust"]);
        assert_eq!(code, 254, "{evil}: {said}");
        assert!(said.contains("is not a version"), "{evil}: {said}");
    }
    let (code, said) = place.call(&["run", "--workload", "redis-py", "--library-version", "--evil"]);
    assert_eq!(code, 254, "{said}");
    for (words, expected) in [
        (["redlock", "7.0.1"], "workload redlock is not a published library"),
        (["redis-py", "latest"], "`latest` is not a version"),
        (["redis-py", "8.1..7.0"], "write `7.0..8.1`"),
        (["symfony-lock", "7.0.1"], "only version 5.4.53 of Symfony Lock can be installed"),
    ] {
        let (code, said) = place.call(&["run", "--workload", words[0], "--library-version", words[1]]);
        assert_eq!((code, said.contains(expected)), (254, true), "{words:?}: {said}");
    }
    assert!(place.cached().is_empty(), "{:?}", place.cached());
}

#[test]
fn a_saved_run_of_an_embedded_workload_is_run_again() {
    let place = Place::new();
    for workload in ["redlock", "rslock", "redis-py"] {
        let folder = place.send(&saved(workload, "sim"));
        let (code, said) = place.call(&["run", "--scenario", &folder]);
        // Clients of libraries do not run in virtual time, which is another reason.
        let is_refused = code == 254 && !said.contains("can be simulated");
        assert!(!said.contains("--trust") && !is_refused, "{workload}: {said}");
    }
}

#[test]
fn a_workload_file_that_the_user_names_is_shown_before_it_is_installed() {
    let place = Place::new();
    let scenario: Scenario = toml::from_str(&hostile(&place, "docker")).unwrap();
    let file = place.sent.path().join("mine.toml");
    fs::write(&file, toml::to_string(&scenario.workload).unwrap()).unwrap();
    for words in [&["install"][..], &["run", "--cluster", "docker", "--workload"]] {
        let (_, said) = place.call(&[words, &[file.to_str().unwrap()]].concat());
        let shown = said.find("installed by: sh -c 'touch ").unwrap_or_else(|| panic!("{said}"));
        assert!(said.find("installing ").is_none_or(|installing| shown < installing), "{said}");
        assert!(place.trace().exists());
    }
}

#[test]
fn a_name_in_a_saved_run_leads_nowhere() {
    for name in ["../../esc", "a/b", "x\\u001b[2J", "..", ""] {
        for key in ["workload_name", "nemesis_name"] {
            let place = Place::new();
            let good = saved("redlock", "sim");
            let line = good.lines().find(|line| line.starts_with(key)).unwrap();
            let folder = place.send(&good.replace(line, &format!("{key} = \"{name}\"")));
            for words in [
                &["run", "--scenario", &folder, "--store", "store/deep/er"][..],
                &["replay", &folder],
                &["report", &folder],
            ] {
                let (code, said) = place.call(words);
                assert!([254, 255].contains(&code), "{said}");
            }
            let (_, said) = place.call(&["run", "--scenario", &folder]);
            assert!(said.contains("is not a name; it has"), "{said}");
            assert_eq!(fs::read_dir(&place.here).unwrap().count(), 0, "nothing was written");
        }
    }
}

#[test]
fn python_in_the_working_directory_is_not_imported() {
    let place = Place::new();
    let ran = place.trace();
    let evil = format!("open({:?}, 'w')\n", ran.display().to_string());
    fs::create_dir(place.here.path().join("pip")).unwrap();
    for name in ["json.py", "sysconfig.py", "runpy.py", "pip/__main__.py", "pip/__init__.py", "redjepsen.py"] {
        fs::write(place.here.path().join(name), &evil).unwrap();
    }
    let file = place.sent.path().join("mine.toml");
    let mut scenario: Scenario = toml::from_str(&saved("redis-py", "docker")).unwrap();
    // Without pip, the client cannot be imported from an installation.
    let pip = std::process::Command::new("python3").args(["-I", "-m", "pip", "--version"]).output();
    let requirements = match pip {
        Ok(output) if output.status.success() => "requirements = \"none.txt\"\n",
        _ => "",
    };
    let client = format!("[python]\nadapter = \"mine.py\"\n{requirements}arguments = [\"--slow\"]\n");
    scenario.workload.client = Some(toml::from_str(&client).unwrap());
    fs::write(&file, toml::to_string(&scenario.workload).unwrap()).unwrap();
    fs::write(place.sent.path().join("none.txt"), "").unwrap();
    fs::write(place.sent.path().join("beside.py"), "there = 'beside'\n").unwrap();
    let adapter = "import json, sys, redjepsen, beside\nprint(redjepsen.__name__, beside.there, sys.argv[1:])\n";
    fs::write(place.sent.path().join("mine.py"), adapter).unwrap();
    let mut command = place.command(&["install", file.to_str().unwrap()]);
    let output = command.env("PYTHONPATH", place.here.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let shown = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = shown.trim().split(' ').skip(1).collect();
    // The client also gets the arguments.
    let mut client = std::process::Command::new(words[0]);
    let output =
        client.args(&words[1..]).current_dir(&place.here).env("PYTHONPATH", place.here.path()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "redjepsen beside ['--slow']\n", "{:?}", output.stderr);
    assert!(!ran.exists(), "{}", ran.display());
}

/// Starts an installation that takes long.
fn slow(place: &Place) -> Child {
    let begun = place.trace();
    let mut scenario: Scenario = toml::from_str(&saved("redis-py", "docker")).unwrap();
    let install = format!(
        "[command]\ncommand = [\"/bin/true\"]\ninstall = [\"sh\", \"-c\", \"mktemp; touch {{env}}/half {}; exec sleep 60\"]\n",
        begun.display()
    );
    scenario.workload.client = Some(toml::from_str(&install).unwrap());
    let file = place.sent.path().join("slow.toml");
    fs::write(&file, toml::to_string(&scenario.workload).unwrap()).unwrap();
    let mut command = place.command(&["install", file.to_str().unwrap()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !begun.exists() {
        assert!(Instant::now() < until, "it did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn an_installation_that_is_interrupted_leaves_nothing_and_one_that_is_killed_is_cleaned() {
    for (signal, left) in [(Signal::INT, 0), (Signal::TERM, 0), (Signal::HUP, 0), (Signal::KILL, 1)] {
        let place = Place::new();
        let mut child = slow(&place);
        let unfinished = |place: &Place| place.cached().into_iter().filter(|name| name.ends_with(".new")).count();
        assert_eq!(unfinished(&place), 1);
        let (code, said) = place.call(&["clean"]);
        assert_eq!((code, unfinished(&place)), (0, 1), "one that is at work is left alone: {said}");
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
        child.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while place.is_installing() {
            assert!(Instant::now() < until, "{signal:?}: the installer goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(unfinished(&place), left, "{signal:?}: {:?}", place.cached());
        let (_, said) = place.call(&["clean"]);
        assert_eq!((unfinished(&place), said.contains("removed an unfinished installation")), (0, left > 0), "{said}");
    }
}

#[test]
fn the_cache_is_the_users_own_and_whole() {
    let place = Place::new();
    let clients = place.cache.path().join("redjepsen/clients");
    let install = || place.call(&["install", "redlock", "no-such"]);
    // A workload without requirements does not touch the cache.
    assert!(install().1.contains("redlock needs no installation"));
    let file = place.sent.path().join("mine.toml");
    let mut scenario: Scenario = toml::from_str(&saved("redis-py", "docker")).unwrap();
    let client = "[command]\ncommand = [\"{env}/client\"]\ninstall = [\"sh\", \"-c\", \"touch {env}/client\"]\n";
    scenario.workload.client = Some(toml::from_str(client).unwrap());
    fs::write(&file, toml::to_string(&scenario.workload).unwrap()).unwrap();
    let install = || place.call(&["install", file.to_str().unwrap()]);
    let (code, said) = install();
    assert_eq!(code, 0, "{said}");
    let name = place.cached().into_iter().find(|name| !name.contains('.')).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();

    // Without its mark, the installation is made again, and foreign files in it are gone.
    fs::remove_file(clients.join(&name).join(".redjepsen-complete")).unwrap();
    fs::write(clients.join(&name).join("planted"), "").unwrap();
    let (code, said) = install();
    assert!(code == 0 && said.contains("installing "), "{said}");
    assert!(clients.join(&name).join("client").exists() && !clients.join(&name).join("planted").exists());
    assert!(!install().1.contains("installing "), "and only once");

    // Folders that an earlier version left open are closed again. If others could have changed an installation, it is made anew.
    for (folder, could_be_changed) in
        [(clients.join(&name), false), (clients.clone(), true), (place.cache.path().join("redjepsen"), true)]
    {
        for open in [0o777, 0o775] {
            mode(&folder, open);
            let (code, said) = install();
            assert_eq!((code, said.contains("installing ")), (0, could_be_changed), "{}: {said}", folder.display());
            assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o7777, 0o700, "{}", folder.display());
        }
    }
    for folder in [&clients, &place.cache.path().join("redjepsen")] {
        mode(folder, 0o755);
    }
    mode(&clients.join(&name), 0o775);
    assert!(install().1.contains("installing "), "others could enter the open folder");
    assert!(!install().1.contains("installing "));
    if geteuid().is_root() {
        let theirs = clients.join(&name);
        chown(&theirs, Some(Uid::from_raw(65534)), None).unwrap();
        let (code, said) = install();
        assert!(code == 255 && said.contains("it belongs to user 65534, not to 0"), "{said}");
        chown(&theirs, Some(Uid::ROOT), None).unwrap();
    }
    mode(place.cache.path(), 0o777);
    assert!(install().1.contains("so others could replace programs in it"));
    mode(place.cache.path(), 0o1777);
    assert_eq!(install().0, 0, "where only owners can rename, nobody replaces it");
}

#[test]
fn packages_are_pinned_with_hashes_and_only_those_without_a_wheel_are_built() {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let folder = workloads.join("clients/python/requirements");
    let mut built = std::collections::BTreeSet::new();
    let builds = workloads.join("clients/python/setuptools.txt");
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).chain([builds]) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.display();
        assert!(text.starts_with("--require-hashes\n--only-binary :all:\n"), "{name}");
        let whole = text.replace("\\\n", " ");
        for line in whole.lines().skip(2).filter(|line| !line.starts_with('#')) {
            match line.strip_prefix("--no-binary ") {
                Some(package) => _ = built.insert(package.to_string()),
                None => assert!(line.contains("==") && line.contains("--hash=sha256:"), "{name}: {line}"),
            }
        }
        // For the Python of Debian 12 and Ubuntu 22.04, redis-py needs one more package, which pip refuses unless it is pinned.
        let pins = |package: &str| whole.lines().any(|line| line.starts_with(&format!("{package}==")));
        assert!(!pins("redis") || pins("async-timeout"), "{name}: redis needs async-timeout before Python 3.11.3");
    }
    assert_eq!(built.into_iter().collect::<Vec<_>>(), ["celery-once", "crontab", "redlock", "redlock-py"]);
    // Build requirements are pinned too.
    for (name, _) in model::scenario::catalogue::WORKLOADS {
        let workload = Options::default().scenario(name, "none", 7, Path::new("")).unwrap().workload;
        let Some(WorkloadClient::Python(client)) = &workload.client else { continue };
        let Some(requirements) = &client.requirements else { continue };
        let text = fs::read_to_string(workloads.join(requirements)).unwrap();
        let built_with = client.built_with.as_deref().map(|file| file.file_name().unwrap().to_str().unwrap());
        assert_eq!(built_with, text.contains("--no-binary ").then_some("setuptools.txt"), "{name}");
    }
}

#[test]
fn packages_of_debian_are_pinned_with_hashes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/clients/php/packages");
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        for line in fs::read_to_string(&path).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [sum, package, version] = words[..] else { panic!("{}: {line}", path.display()) };
            assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            assert!(package.starts_with("php-") && version.starts_with(|first: char| first.is_ascii_digit()), "{line}");
        }
    }
}

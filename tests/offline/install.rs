//! `redjepsen install` installs a workload's client once, as a whole or not at all, and reports problems with a remedy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

/// A folder with a workload that has this `[client]`, and an empty cache.
struct Place {
    folder: TempDir,
    cache: TempDir,
}

const WORKLOAD: &str = r#"description = "Mine"
source = "Here"
nodes = 1
claims = ["updates", "mutual-exclusion", "liveness", "promises"]
resource = { kind = "register", fencing = "none" }

[library]
name = "mylock"
version = "1.2"

[lock.library]
node_timeout = "0.2ttl"
retry_delay = "20ms..100ms"
"#;

impl Place {
    fn new(client: &str) -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
        place.write("mine.toml", &format!("{WORKLOAD}\n{client}\n"));
        place
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Exit code, standard output, standard error.
    fn install(&self) -> (i32, String, String) {
        self.install_of("mine.toml")
    }

    fn install_of(&self, workload: &str) -> (i32, String, String) {
        let mut command = Command::cargo_bin("redjepsen").unwrap();
        let command = command.env("XDG_CACHE_HOME", self.cache.path()).arg("install");
        let output = command.arg(self.folder.path().join(workload)).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// The folders with installations, and the times that the installations wrote into them.
    fn installed(&self) -> Vec<String> {
        let clients = fs::read_dir(self.cache.path().join("redjepsen/clients")).unwrap();
        let mut names: Vec<String> =
            clients.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.starts_with("files-") && !name.ends_with(".log"));
        names
    }
}

fn command(install: &str) -> String {
    format!(
        "[client.command]\ncommand = [\"{{env}}/client\", \"--fast\"]\ninstall = [\"sh\", \"-c\", \"{install}\"]\nsources = [\"lock.txt\"]"
    )
}

#[test]
fn a_client_is_installed_once_for_what_it_is_made_of() {
    let place = Place::new(&command("echo once >> {env}/client"));
    place.write("lock.txt", "mylock 1.2");
    let (code, shown, told) = place.install();
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("installing mylock 1.2 into "), "{told}");
    let words: Vec<&str> = shown.trim().split(' ').collect();
    let [name, program, flag] = words[..] else { panic!("{shown}") };
    assert_eq!((name, flag), ("mine:", "--fast"));
    assert_eq!(fs::read_to_string(program).unwrap(), "once\n");
    let (code, again, told) = place.install();
    assert_eq!((code, again.as_str(), told.as_str()), (0, shown.as_str(), ""), "nothing is installed twice");
    assert_eq!(fs::read_to_string(program).unwrap(), "once\n");
    place.write("lock.txt", "mylock 1.3");
    assert_ne!(place.install().1, shown, "another version is another client");
    assert_eq!(place.installed().len(), 2);
}

#[test]
fn an_installation_that_fails_leaves_nothing_and_says_why() {
    let place = Place::new(&command("touch {env}/half; echo no such version: 1.2 >&2; exit 3"));
    place.write("lock.txt", "");
    let (code, _, told) = place.install();
    assert_eq!(code, 255);
    assert!(told.contains("the client of workload mine: sh failed (exit status: 3): no such version: 1.2"), "{told}");
    let log = told.split("its whole output is in ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert_eq!(fs::read_to_string(Path::new(log)).unwrap(), "no such version: 1.2\n");
    assert_eq!(place.installed(), Vec::<String>::new());
    // Once the problem is fixed, the installation is tried again.
    place.write("mine.toml", &format!("{WORKLOAD}\n{}\n", command("touch {env}/client")));
    assert_eq!(place.install().0, 0);
}

#[test]
fn what_an_installer_says_is_told_from_its_error_on_and_without_colours() {
    let say = r"printf 'begin\n\\033[31mERROR: no such version\\033[0m\n'; seq 20; exit 1";
    let place = Place::new(&command(say));
    place.write("lock.txt", "");
    let (code, _, told) = place.install();
    assert_eq!(code, 255);
    // The command is shown before its output.
    let (_, told) = told.split_once("installing ").unwrap();
    assert!(told.contains("sh failed (exit status: 1): ERROR: no such version\n1\n2\n3\n4\n…\n11\n"), "{told}");
    assert!(!told.contains("begin") && !told.contains('\u{1b}'), "{told}");
}

#[test]
fn workloads_that_install_the_same_share_it() {
    let place = Place::new(&command("touch {env}/client"));
    place.write("lock.txt", "");
    assert_eq!(place.install().0, 0);
    let as_it_was = fs::read_to_string(place.folder.path().join("mine.toml")).unwrap();
    place.write("mine-watched.toml", &as_it_was);
    let (code, _, told) = place.install_of("mine-watched.toml");
    assert_eq!((code, told.as_str()), (0, ""), "nothing is installed again");
    assert_eq!(place.installed().len(), 1);
    place.write("mine-watched.toml", &as_it_was.replace("touch {env}/client", "touch {env}/client {env}/more"));
    assert_eq!(place.install_of("mine-watched.toml").0, 0);
    assert_eq!(place.installed().len(), 2, "what is installed by other words is another");
}

#[test]
fn a_client_that_makes_no_sense_is_refused_with_a_remedy() {
    let python = |adapter: &str| format!("[client.python]\nadapter = \"{adapter}\"\n");
    let missing = "[client.command]\ncommand = [\"no-such-program-here\"]".to_string();
    let installer = "[client.command]\ncommand = [\"/bin/true\"]\ninstall = [\"no-such-installer\"]".to_string();
    for (client, code, expected) in [
        (python("../../etc/passwd"), 254, "leads out of the workload file's folder; give a path below it"),
        (python("/etc/passwd"), 254, "leads out of the workload file's folder"),
        (python("nothing.py"), 255, "nothing.py does not exist"),
        ("[client.command]\ncommand = []".to_string(), 254, "`command` is empty"),
        (missing, 255, "it needs no-such-program-here, which is not on PATH"),
        (installer, 255, "it is installed by no-such-installer, which is not on PATH"),
        ("[client.ruby]\nadapter = \"x\"".to_string(), 254, "expected `python` or `command`"),
        (String::new(), 254, "add `[client.python]` or `[client.command]`"),
    ] {
        let place = Place::new(&client);
        let (found, _, told) = place.install();
        assert_eq!(found, code, "{client}: {told}");
        assert!(told.contains(expected) && !told.contains("panicked"), "{client}: {told}");
    }
}

#[test]
fn a_python_client_finds_the_package_and_its_own_folder() {
    let place = Place::new("[client.python]\nadapter = \"mine.py\"\narguments = [\"--slow\"]");
    place.write("mine.py", "import redjepsen, sys\nprint(redjepsen.__name__, sys.argv[1])\n");
    let (code, shown, told) = place.install();
    assert_eq!(code, 0, "{told}");
    let words: Vec<&str> = shown.trim().split(' ').skip(1).collect();
    let output = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "redjepsen --slow\n");
}

/// Creates a source package without a wheel, and a wheel of its build requirement.
const PACKAGES: &str = r#"
import io, sys, tarfile, zipfile
folder = sys.argv[1]
def wheel(name, text):
    info = name + "-1.0.dist-info/"
    with zipfile.ZipFile(folder + "/" + name + "-1.0-py3-none-any.whl", "w") as file:
        file.writestr(name + ".py", text)
        file.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n")
        file.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(info + "RECORD", "")
wheel("maker", "import shutil\ndef build_wheel(into, *more):\n    name = 'mine-1.0-py3-none-any.whl'\n"
      "    shutil.copy(" + repr(folder + "/made") + ", into + '/' + name)\n    return name\n")
wheel("mine", "by = 'maker'\n")
import os
os.rename(folder + "/mine-1.0-py3-none-any.whl", folder + "/made")
with tarfile.open(folder + "/mine-1.0.tar.gz", "w:gz") as file:
    for name, text in [("pyproject.toml", "[build-system]\nrequires = ['maker']\nbuild-backend = 'maker'\n"),
                       ("PKG-INFO", "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")]:
        about = tarfile.TarInfo("mine-1.0/" + name)
        about.size = len(text)
        file.addfile(about, io.BytesIO(text.encode()))
"#;

#[test]
fn a_package_without_a_wheel_is_built_with_what_is_pinned_for_that() {
    let pip = std::process::Command::new("python3").args(["-I", "-m", "pip", "--version"]).output();
    if !pip.is_ok_and(|output| output.status.success()) {
        println!("not run: no pip on this machine");
        return;
    }
    for (built_with, code) in [("built_with = \"maker.txt\"", 0), ("", 255)] {
        let client = format!(
            "[client.python]\nadapter = \"adapter.py\"\nrequirements = \"mine.txt\"\nsources = [\"mine-1.0.tar.gz\"]\n{built_with}"
        );
        let place = Place::new(&client);
        place.write("adapter.py", "import mine\nprint(mine.by)\n");
        let folder = place.folder.path().display();
        // There is no network: a package that is not in this folder does not exist.
        place.write("mine.txt", &format!("--no-index\n--find-links {folder}/none\n{folder}/mine-1.0.tar.gz\n"));
        place.write("maker.txt", &format!("--no-index\n{folder}/maker-1.0-py3-none-any.whl\n"));
        let made = std::process::Command::new("python3").args(["-I", "-c", PACKAGES]).arg(place.folder.path()).status();
        assert!(made.unwrap().success());
        let (ended, shown, told) = place.install();
        assert_eq!(ended, code, "{built_with}: {told}");
        if code == 0 {
            let words: Vec<&str> = shown.trim().split(' ').skip(1).collect();
            let output = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), "maker\n");
            assert_eq!(place.installed().len(), 1);
        } else {
            assert!(place.installed().is_empty(), "{:?}", place.installed());
        }
    }
}

/// Builds the package of its folder, without other packages.
const BACKEND: &str = r#"
import zipfile
def build_wheel(into, *more):
    info = "mylock-1.2.dist-info/"
    with zipfile.ZipFile(into + "/mylock-1.2-py3-none-any.whl", "w") as file:
        file.write("mylock/__init__.py")
        file.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: mylock\nVersion: 1.2\n")
        file.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(info + "RECORD", "")
    return "mylock-1.2-py3-none-any.whl"
"#;

#[test]
fn a_package_that_lies_in_the_folder_is_installed_anew_where_its_sources_change() {
    let place = Place::new(
        "[client.python]\nadapter = \"adapter.py\"\nrequirements = \"mylock.txt\"\nsources = [\"mylock\", \"pyproject.toml\"]",
    );
    fs::create_dir(place.folder.path().join("mylock")).unwrap();
    place.write("mylock.txt", "--no-index\n.\n");
    place.write("backend.py", BACKEND);
    let backend = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";
    place.write("pyproject.toml", backend);
    place.write("adapter.py", "import mylock\nprint(mylock.__file__, mylock.SAYS)\n");
    place.write("mylock/__init__.py", "SAYS = 'first'\n");
    // Compiled files beside the sources are not text.
    fs::write(place.folder.path().join("mylock/_fast.so"), [0x7f, 0xff, 0xfe]).unwrap();
    let said = || {
        let (code, shown, told) = place.install();
        assert_eq!(code, 0, "{told}");
        let words: Vec<&str> = shown.trim().split(' ').skip(1).collect();
        let output = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        // The installed package is used, although its source is beside the adapter.
        assert!(said.starts_with(&place.cache.path().display().to_string()), "{said}");
        (said.trim().rsplit(' ').next().unwrap().to_string(), told)
    };
    assert_eq!(said().0, "first");
    let as_it_was = names(place.folder.path());
    assert_eq!(said(), ("first".to_string(), String::new()), "nothing is installed twice");
    place.write("README.md", "It is not named.\n");
    place.write("mylock/__init__.py", "SAYS = 'second'\n");
    let (says, told) = said();
    assert!(says == "second" && told.contains("installing mylock 1.2 into "), "{says}: {told}");
    assert_eq!(place.installed().len(), 2);
    fs::remove_file(place.folder.path().join("README.md")).unwrap();
    assert_eq!(said(), (says, String::new()), "what `sources` does not name is nothing that it is made of");
    assert_eq!(names(place.folder.path()), as_it_was);
}

/// The names of all files and folders in a folder, at any depth.
fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        names.push(entry.path().display().to_string());
        if entry.path().is_dir() {
            names.extend(self::names(&entry.path()));
        }
    }
    names.sort();
    names
}

#[test]
fn the_python_package_passes_its_own_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/clients/python");
    let mut tests = std::process::Command::new("python3");
    // Tests only this package: other packages on the path do not matter here.
    tests.args(["-B", "-m", "unittest", "discover"]).env_remove("PYTHONPATH").current_dir(folder);
    let output = tests.output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("\nOK"), "{said}");
    let number = said.split("Ran ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|text| text.parse().ok());
    assert!(number.is_some_and(|number: u32| number > 30), "they were found: {said}");
}

#[test]
fn what_a_client_is_made_of_is_read_without_following_links_and_within_bounds() {
    let place = Place::new(&command("touch {env}/client").replace("lock.txt", "made"));
    let made = place.folder.path().join("made");
    fs::create_dir(&made).unwrap();
    fs::write(made.join("lock.rs"), "fn lock() {}").unwrap();
    std::os::unix::fs::symlink(".", made.join("round")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", made.join("endless")).unwrap();
    let (code, _, told) = place.install();
    assert_eq!(code, 0, "{told}");
    for number in 0..65 {
        fs::write(made.join(format!("{number}.rs")), "x".repeat(1 << 20)).unwrap();
    }
    let (code, _, told) = place.install();
    assert_eq!(code, 255);
    assert!(told.contains("more than 64 MiB to install from; name fewer `sources`"), "{told}");
}

#[test]
fn folders_of_ours_are_private_whatever_the_umask() {
    for umask in ["000", "002", "022", "077"] {
        let place = Place::new(&command("mkdir {env}/below; touch {env}/client"));
        place.write("lock.txt", "");
        let file = place.folder.path().join("mine.toml");
        let call = format!("umask {umask}; exec {} install {}", env!("CARGO_BIN_EXE_redjepsen"), file.display());
        for words in [&["-c", &call], &["-c", &call]] {
            let mut shell = std::process::Command::new("sh");
            let output =
                shell.args(words).env("XDG_CACHE_HOME", place.cache.path().join("made/here")).output().unwrap();
            assert!(output.status.success(), "{umask}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let clients = place.cache.path().join("made/here/redjepsen/clients");
        let made = fs::read_dir(&clients).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        for folder in made.chain([clients.clone(), clients.parent().unwrap().to_path_buf()]) {
            let mode = fs::metadata(&folder).unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode, 0o700, "{umask}: {}", folder.display());
        }
    }
}

#[test]
fn installations_of_different_words_scripts_and_folders_differ() {
    let client = |install: &str| format!("[client.command]\ncommand = [\"{{env}}/client\"]\ninstall = {install}");
    let with = |word: &str| {
        client(&format!(
            r#"["sh", "-c", "cp /bin/true {{env}}/client; echo {word} >{{env}}/which; cp /dev/null {{env}}/x"]"#
        ))
    };
    let which = |place: &Place| {
        let (code, shown, told) = place.install();
        assert_eq!(code, 0, "{told}");
        fs::read_to_string(Path::new(shown.trim().split(' ').nth(1).unwrap()).with_file_name("which")).unwrap()
    };
    let mut one = Place::new(&with("ONE"));
    assert_eq!(which(&one), "ONE\n");
    one.write("mine.toml", &format!("{WORKLOAD}\n{}\n", with("TWO")));
    assert_eq!(which(&one), "TWO\n");
    // The same command in another folder, with another script.
    let script = client(r#"["sh", "{folder}/install.sh", "{env}"]"#);
    one.write("mine.toml", &format!("{WORKLOAD}\n{script}\n"));
    one.write("install.sh", "echo A >$1/which; touch $1/client");
    let mut other = Place::new(&script);
    std::mem::swap(&mut one.cache, &mut other.cache);
    other.cache = tempfile::tempdir().unwrap();
    assert_eq!(which(&one), "A\n");
    std::mem::swap(&mut one.cache, &mut other.cache);
    other.write("install.sh", "echo B >$1/which; touch $1/client");
    assert_eq!(which(&other), "B\n");
    other.write("install.sh", "echo C >$1/which; touch $1/client");
    assert_eq!(which(&other), "C\n", "the script was changed");
    // The script reads a file beside it.
    other.write("install.sh", "cp $(dirname $0)/beside $1/which; touch $1/client");
    for text in ["D\n", "E\n"] {
        other.write("beside", text);
        assert_eq!(which(&other), text);
    }
}

#[test]
fn sources_are_asked_for_where_something_below_the_folder_is_installed() {
    let client = |install: &str, more: &str| {
        format!("[client.command]\ncommand = [\"{{env}}/client\"]\ninstall = {install}\n{more}")
    };
    let all = r#"["sh", "-c", "cp \"$0\"/lock.txt {env}/client", "{folder}"]"#;
    let place = Place::new(&client(all, ""));
    place.write("lock.txt", "one");
    let (code, _, told) = place.install();
    assert!(code == 255 && told.contains("name in `sources` the files and folders from which it installs"), "{told}");
    place.write("mine.toml", &format!("{WORKLOAD}\n{}\n", client(all, "sources = [\"lock.txt\"]")));
    assert_eq!(place.install().0, 0);
    // pip must build from this folder.
    let python = "[client.python]\nadapter = \"adapter.py\"\nrequirements = \"mylock.txt\"";
    place.write("mine.toml", &format!("{WORKLOAD}\n{python}\n"));
    place.write("adapter.py", "");
    place.write("mylock.txt", "-r more.txt\n");
    place.write("more.txt", ".\n");
    let (code, _, told) = place.install();
    assert!(code == 255 && told.contains("more.txt installs `.` from this machine; name in `sources`"), "{told}");
}

#[test]
fn installer_that_replaces_its_folder_is_refused() {
    let elsewhere = tempfile::tempdir().unwrap();
    let link = format!("rmdir {{env}}; ln -s {} {{env}}", elsewhere.path().display());
    let place = Place::new(&command(&link));
    place.write("lock.txt", "");
    let (code, _, told) = place.install();
    assert!(code == 255 && told.contains("the installer replaced its folder"), "{told}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "nothing is written where it leads");
    assert_eq!(place.installed(), Vec::<String>::new());
    // A new folder in place of the original folder is accepted.
    place.write("mine.toml", &format!("{WORKLOAD}\n{}\n", command("rmdir {env}; mkdir {env}; touch {env}/client")));
    assert_eq!(place.install().0, 0);
}

#[test]
fn python_that_answers_nonsense_is_quoted() {
    let place = Place::new("[client.python]\nadapter = \"adapter.py\"");
    place.write("adapter.py", "");
    let bin = tempfile::tempdir().unwrap();
    for (script, expected) in
        [("echo no python here", "it answered: no python here"), ("exit 3", "it answered: nothing")]
    {
        let python = bin.path().join("python3");
        fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::cargo_bin("redjepsen").unwrap();
        let command = command.env("XDG_CACHE_HOME", place.cache.path()).env("PATH", bin.path()).arg("install");
        let output = command.arg(place.folder.path().join("mine.toml")).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("python3 on PATH does not work") && told.contains(expected), "{told}");
    }
}

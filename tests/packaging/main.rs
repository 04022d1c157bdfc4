//! Tests redjepsen's packages as users would: completions in their shells, manual pages, the Debian package and the archive. Also
//! tests the crate `linearizability` as a registry takes it, the Python package in a clean environment, and the site.
//!
//! `docker/setup test` installs the requirements. Without them, the tests fail and never skip. The three tests that fetch
//! packages need a registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_redjepsen");
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}; `docker/setup test` installs what tests need"))
}

/// The output of a command that must succeed.
fn printed(command: &mut Command) -> String {
    let output = run(command);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The completions of a shell, in a separate file.
fn completions(shell: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(if shell == "zsh" { "_redjepsen".to_string() } else { format!("redjepsen.{shell}") });
    fs::write(&file, printed(Command::new(PROGRAM).args(["completions", shell]))).unwrap();
    (folder, file)
}

#[test]
fn bash_completes() {
    let (_folder, file) = completions("bash");
    let complete = |words: &str| {
        let count = words.split(' ').count() - 1;
        let script = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD={count}; _redjepsen redjepsen '{}' x; echo ${{COMPREPLY[@]}}",
            file.display(),
            words.rsplit(' ').next().unwrap()
        );
        printed(Command::new("bash").args(["--norc", "-c", &script]))
    };
    assert!(complete("redjepsen su").contains("suite"));
    assert!(complete("redjepsen suite --fai").contains("--failed"));
    assert!(complete("redjepsen run --work").contains("--workload"));
    // Commands that only redjepsen itself starts are not offered.
    assert!(!complete("redjepsen ").contains("sandbox"), "{}", complete("redjepsen "));
    assert_eq!(complete("redjepsen nosuch").trim(), "");
}

#[test]
fn fish_completes() {
    let (_folder, file) = completions("fish");
    let complete = |line: &str| {
        let script = format!("source '{}'; complete -C '{line}'", file.display());
        printed(Command::new("fish").args(["--no-config", "-c", &script]))
    };
    assert!(complete("redjepsen su").starts_with("suite\t"), "{}", complete("redjepsen su"));
    assert!(complete("redjepsen suite --fai").contains("--failed"));
    assert!(!complete("redjepsen ").contains("sandbox"));
    assert!(!complete("redjepsen nosuch").contains("redjepsen"));
}

#[test]
fn zsh_completes() {
    let (folder, file) = completions("zsh");
    let _ = file;
    // A shell inside a shell, into which the test types and presses the tab key.
    let complete = |typed: &str| {
        let script = format!(
            "zmodload zsh/zpty; zpty z zsh -f -i\n\
             zpty -w z \"PS1=; fpath=('{0}' \\$fpath); autoload -U compinit; compinit -u -d '{0}/dump'; compdef _redjepsen redjepsen\"\n\
             zpty -w z 'zstyle \":completion:*\" list-colors \"\"; LISTMAX=0; print -r READY; stty cols 200'\n\
             zpty -r -m z x '*READY*READY*'; sleep 0.3\n\
             zpty -n -w z '{typed}'$'\\t'; sleep 1\n\
             while zpty -r -t z out; do print -rn -- \"$out\"; done\n\
             zpty -n -w z $'\\t'; sleep 1\n\
             while zpty -r -t z out; do print -rn -- \"$out\"; done",
            folder.path().display()
        );
        printed(Command::new("zsh").args(["-f", "-c", &script]).env("TERM", "xterm"))
    };
    let said = complete("redjepsen sui");
    assert!(said.contains("suite"), "{said:?}");
    let said = complete("redjepsen suite --fai");
    assert!(said.contains("--fail-fast") && said.contains("--failed"), "{said:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    printed(Command::new(PROGRAM).arg("man").arg(folder.path()));
    let names = |name: &str| folder.path().join(name);
    for page in ["redjepsen.1", "redjepsen-run.1", "redjepsen-suite.1", "redjepsen-client-check.1"] {
        let text = fs::read_to_string(names(page)).unwrap();
        assert!(text.contains(".TH") && text.contains("SH SYNOPSIS"), "{page}: {text}");
    }
    assert!(!names("redjepsen-sandbox.1").exists(), "nobody types that");
    printed(Command::new(PROGRAM).arg("man").arg(names("new")));
    assert!(names("new/redjepsen.1").exists(), "it makes the folder");
    let refused = run(Command::new(PROGRAM).arg("man").arg(names("redjepsen.1")));
    assert_eq!(refused.status.code(), Some(255), "a file is no folder");
}

#[test]
fn the_debian_package_is_installed_and_removed_whole() {
    let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let make = |to: &Path| {
        let mut deb = Command::new(self::root().join("packaging/deb"));
        // Otherwise half a minute goes into compressing a program with all its symbols.
        deb.arg(PROGRAM).arg(to).env("REDJEPSEN_DEB_COMPRESSION", "none").env("SOURCE_DATE_EPOCH", "1790000000");
        PathBuf::from(printed(&mut deb).trim())
    };
    let deb = make(folder.path());
    let architecture = printed(Command::new("dpkg").arg("--print-architecture"));
    let name = format!("redjepsen_{VERSION}_{}.deb", architecture.trim());
    assert_eq!(deb.file_name().unwrap().to_string_lossy(), name);
    let field = |name: &str| printed(Command::new("dpkg-deb").arg("--field").arg(&deb).arg(name)).trim().to_string();
    assert_eq!([field("Package"), field("Version")], ["redjepsen", VERSION]);
    assert!(field("Recommends").contains("redis-server"));
    let again = make(&folder.path().join("again"));
    assert!(fs::read(&deb).unwrap() == fs::read(again).unwrap(), "the same files are the same package");

    // Uses dpkg itself, with an otherwise empty root.
    fs::create_dir_all(root.path().join("var/lib/dpkg/updates")).unwrap();
    fs::create_dir_all(root.path().join("var/lib/dpkg/info")).unwrap();
    fs::write(root.path().join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |what: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg("--root").arg(root.path()).args(["--force-not-root", "--force-depends", "--log=/dev/null"]).args(what);
        printed(&mut dpkg)
    };
    dpkg(&["--install", deb.to_str().unwrap()]);
    let installed = root.path().join("usr/bin/redjepsen");
    assert!(printed(Command::new(&installed).arg("--version")).starts_with(&format!("redjepsen {VERSION}")));
    for file in [
        "usr/share/bash-completion/completions/redjepsen",
        "usr/share/zsh/vendor-completions/_redjepsen",
        "usr/share/fish/vendor_completions.d/redjepsen.fish",
        "usr/share/man/man1/redjepsen-suite.1.gz",
        "usr/share/doc/redjepsen/copyright",
        "usr/share/doc/redjepsen/changelog.gz",
    ] {
        assert!(fs::metadata(root.path().join(file)).is_ok_and(|of| of.len() > 100), "{file}");
    }
    dpkg(&["--purge", "redjepsen"]);
    assert!(!installed.exists() && !root.path().join("usr/share/doc/redjepsen").exists());
}

#[test]
fn the_archive_is_where_binstall_looks() {
    let folder = tempfile::tempdir().unwrap();
    let made = printed(Command::new(root().join("packaging/archive")).arg(PROGRAM).arg("x86_64").arg(folder.path()));
    let manifest: toml::Table = toml::from_str(&fs::read_to_string(root().join("Cargo.toml")).unwrap()).unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let filled = |template: &str| {
        let of =
            [("{ version }", VERSION), ("{ target-arch }", "x86_64"), ("{ bin }", "redjepsen"), ("{ binary-ext }", "")];
        of.iter().fold(template.to_string(), |text, (name, value)| text.replace(name, value))
    };
    let url = filled(binstall["pkg-url"].as_str().unwrap());
    assert_eq!(url.rsplit('/').next(), made.trim().rsplit('/').next());
    let listed = printed(Command::new("tar").args(["--list", "--file", made.trim()]));
    assert!(listed.lines().any(|line| line == filled(binstall["bin-dir"].as_str().unwrap())), "{listed}");
}

#[test]
fn a_tag_is_that_of_the_version_and_has_notes() {
    let check = |tag: &str| run(Command::new(root().join("packaging/check-tag")).arg(tag));
    let other = check("v99.0.0");
    assert!(!other.status.success() && String::from_utf8_lossy(&other.stderr).contains("make them agree"));
    let ours = check(&format!("v{VERSION}"));
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let owned = read(".github/CODEOWNERS").lines().any(|line| !line.starts_with('#'));
    let ready =
        changelog.contains(&format!("\n## {VERSION}")) && read("Cargo.toml").contains("\nrepository = ") && owned;
    assert_eq!(ours.status.success(), ready, "{ours:?}");
    let notes = printed(Command::new(root().join("packaging/notes")).arg("Unreleased"));
    assert!(notes.contains("client-check") && !notes.contains("\n## "), "{notes}");
}

#[test]
fn no_release_passes_without_an_address_and_reviewers() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        fs::write(folder.path().join(name), text).unwrap();
    };
    fs::create_dir(folder.path().join("packaging")).unwrap();
    for script in ["check-tag", "notes"] {
        fs::copy(root().join("packaging").join(script), folder.path().join("packaging").join(script)).unwrap();
    }
    write("CHANGELOG.md", "# Changelog\n\n## 1.2.3\n\nIt is new.\n");
    let (nowhere, somewhere) =
        ("version = \"1.2.3\"\n", "version = \"1.2.3\"\nrepository = \"https://example.org/us\"\n");
    let (nobody, somebody) = ("# Who reviews.\n#* us\n", "* us\n");
    for (manifest, owners, refused) in [
        (somewhere, somebody, None),
        (nowhere, somebody, Some("has no `repository`")),
        (somewhere, nobody, Some("nobody reviews anything")),
    ] {
        write("Cargo.toml", manifest);
        write(".github/CODEOWNERS", owners);
        let output = run(Command::new(folder.path().join("packaging/check-tag")).arg("v1.2.3"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), refused.is_none(), "{said}");
        assert!(said.contains(refused.unwrap_or_default()), "{said}");
    }
}

#[test]
fn a_registry_would_take_the_crate() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["publish", "--dry-run", "--allow-dirty", "--package", "linearizability", "--target-dir"]);
    // A separate target folder, since other tests may be compiling at the same time.
    let output = run(cargo.arg(root().join("target/publish")).current_dir(root()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("aborting upload due to dry run"), "{said}");
    let known = ["aborting upload due to dry run", "ignoring test `all` as `tests/all/main.rs` is not included"];
    let warnings = said.lines().filter_map(|line| line.strip_prefix("warning: "));
    let new: Vec<&str> = warnings.filter(|said| !known.iter().any(|known| said.starts_with(known))).collect();
    assert!(new.is_empty(), "{new:?}");
    let readme = fs::read_to_string(root().join("crates/linearizability/README.md")).unwrap();
    assert!(
        !readme.contains("](..") && !readme.contains("](examples"),
        "a registry shows it without the files beside it"
    );
    let [ours, its] = ["LICENSE", "crates/linearizability/LICENSE"].map(|file| fs::read(root().join(file)).unwrap());
    assert!(ours == its);
}

#[test]
fn the_python_package_installs_in_a_clean_environment_with_the_programs_version() {
    let folder = tempfile::tempdir().unwrap();
    let (build, clean) = (folder.path().join("build"), folder.path().join("clean"));
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    // Building leaves files beside the sources.
    let files = ["pyproject.toml", "redjepsen/__init__.py", "redjepsen/py.typed"];
    for file in files {
        fs::create_dir_all(source.join(file).parent().unwrap()).unwrap();
    }
    for entry in fs::read_dir(root().join("workloads/clients/python/redjepsen")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, source.join("redjepsen").join(path.file_name().unwrap())).unwrap();
        }
    }
    fs::copy(root().join("workloads/clients/python/pyproject.toml"), source.join("pyproject.toml")).unwrap();
    for environment in [&build, &clean] {
        printed(Command::new("python3").args(["-m", "venv"]).arg(environment));
    }
    let wheels = folder.path().join("wheels");
    let mut pip = Command::new(build.join("bin/pip"));
    printed(pip.args(["wheel", "--quiet", "--no-deps", "--wheel-dir"]).arg(&wheels).arg(&source));
    let wheel = wheels.join(format!("redjepsen-{VERSION}-py3-none-any.whl"));
    assert!(
        wheel.exists(),
        "{:?}",
        fs::read_dir(&wheels).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    );
    let mut pip = Command::new(clean.join("bin/pip"));
    printed(pip.args(["install", "--quiet", "--no-index", "--no-deps"]).arg(&wheel));
    let script = "import redjepsen, importlib.metadata as m; print(m.version('redjepsen'), redjepsen.serve.__name__)";
    // With -I, Python can't take the sources in this folder for the package.
    let said = printed(Command::new(clean.join("bin/python")).args(["-I", "-c", script]));
    assert_eq!(said.trim(), format!("{VERSION} serve"));
}

#[test]
fn a_package_of_the_users_own_is_built_without_a_trace_in_its_folder() {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("mylock")).unwrap();
    // The package is imported to learn its version, as for many packages.
    write("mylock/__init__.py", "__version__ = '1.2.0'\n");
    let project = "[project]\nname = \"mylock\"\ndynamic = [\"version\"]\n[project.optional-dependencies]\nfast = []\n";
    let tools = "[tool.setuptools]\npackages = [\"mylock\"]\n[tool.setuptools.dynamic]\nversion = { attr = \"mylock.__version__\" }\n";
    let build = "[build-system]\nrequires = [\"setuptools>=61\"]\nbuild-backend = \"setuptools.build_meta\"\n";
    write("pyproject.toml", &format!("{build}{project}{tools}"));
    write("mylock.txt", "-r more.txt\n.[fast]  # as it lies here\n");
    write("more.txt", "");
    write("adapter.py", "import importlib.metadata as m, mylock; print(m.version('mylock'), mylock.__file__)\n");
    write(
        "mylock.toml",
        "description = \"Mine\"\nsource = \"Here\"\nnodes = 1\nclaims = [\"updates\"]\n\
         resource = { kind = \"register\", fencing = \"none\" }\n\
         [library]\nname = \"mylock\"\nversion = \"1.2.0\"\n\
         [lock.library]\nnode_timeout = \"5ttl\"\nretry_delay = \"20ms..100ms\"\n\
         [client.python]\nadapter = \"adapter.py\"\nrequirements = \"mylock.txt\"\nsources = [\"mylock\", \"pyproject.toml\"]\n",
    );
    let there = || {
        let mut names: Vec<_> = (fs::read_dir(folder.path()).unwrap())
            .chain(fs::read_dir(folder.path().join("mylock")).unwrap())
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        names
    };
    let before = there();
    let mut install = Command::new(PROGRAM);
    let shown =
        printed(install.arg("install").arg(folder.path().join("mylock.toml")).env("XDG_CACHE_HOME", cache.path()));
    assert_eq!(there(), before);
    let words: Vec<&str> = shown.trim().split(' ').skip(1).collect();
    let said = printed(Command::new(words[0]).args(&words[1..]));
    assert!(said.starts_with(&format!("1.2.0 {}", cache.path().display())), "{said}");
}

#[test]
fn the_site_has_every_page_and_each_link_leads_somewhere() {
    let folder = tempfile::tempdir().unwrap();
    printed(Command::new("python3").arg(root().join("packaging/site")).arg(folder.path()));
    let src = folder.path().join("src");
    let mut links = 0;
    for entry in fs::read_dir(&src).unwrap() {
        let page = entry.unwrap().path();
        if page.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' ')) {
            assert!(src.join(target).exists(), "{}: {target}", page.display());
            links += 1;
        }
    }
    assert!(links > 150, "only {links} links were found");
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_page = name.ends_with(".md") && name != "SUMMARY.md";
        assert!(!is_page || summary.contains(&format!("({name})")), "docs/SUMMARY.md does not name {name}");
    }
}

#[test]
fn an_image_is_built_from_the_sources_alone() {
    let ignored = fs::read_to_string(root().join(".dockerignore")).unwrap();
    // Gigabytes that would be sent to the builder although it reads none of them.
    for folder in ["target", "store", ".git"] {
        assert!(ignored.lines().any(|line| line == folder), "{folder}");
    }
    for needed in ["Cargo.lock", "build.rs", "crates", "nemeses", "src", "suites", "workloads"] {
        assert!(root().join(needed).exists() && !ignored.lines().any(|line| line == needed), "{needed}");
    }
}

#[test]
fn actions_are_pinned_to_commits() {
    let mut found = 0;
    for file in ["workflows/ci.yml", "workflows/nightly.yml", "workflows/release.yml", "actions/suite/action.yml"] {
        let text = fs::read_to_string(root().join(".github").join(file)).unwrap();
        for line in text.lines().filter_map(|line| line.split_once("uses: ")).map(|(_, action)| action) {
            if line.starts_with("./") {
                continue;
            }
            let commit = line.split_once('@').unwrap().1.split(' ').next().unwrap();
            let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit && line.contains(" # v"), "{file}: {line}");
            found += 1;
        }
    }
    assert!(found > 10, "only {found} actions were found");
}

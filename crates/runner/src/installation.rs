//! Installs clients of published libraries. Each has a folder in the user's cache, named by the hash of its ingredients, and is
//! installed once for all runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use serde::Deserialize;
use tokio::process::Command;

use super::cache::{Cache, Unfinished};
use super::ingredients::{FOLDER, Folder, Ingredients};
use super::installer::{self, NotEnded};
use super::{RunnerError, installer_error};
use base::files::{self, FileError};
use base::interrupt::Interrupt;
use base::sync::lock;
use model::scenario::{
    CLIENT_FILES, CommandClient, Library, Package, PythonClient, Scenario, Workload, WorkloadClient,
};
use model::topology::InstalledClient;

/// The package that Python clients use, in redjepsen's own files.
const PYTHON_PACKAGE: &str = "clients/python";
/// The scripts in that folder that install packages and start clients.
const PYTHON_INSTALL: &str = "install.py";
const PYTHON_START: &str = "start.py";
/// Python then ignores the working directory, the user's packages, and the environment.
pub(super) const ISOLATED: [&str; 1] = ["-I"];
/// Long, because packages are downloaded and some are compiled.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);
const ASK_LIMIT: Duration = Duration::from_secs(20);

/// The steps that are necessary to run a client.
pub(super) struct Recipe {
    /// A program and its arguments. Empty if nothing has to be installed.
    pub install: Vec<String>,
    /// The hash of everything that the result depends on.
    pub made_of: Ingredients,
    pub client: InstalledClient,
}

/// The placeholder for the folder that a recipe installs into.
const ENV: &str = "{env}";

/// The client of a scenario's workload, installed if necessary. None if the scenario uses another client.
pub(super) async fn client_of(
    scenario: &Scenario,
    interrupt: &Interrupt,
    say: fn(&str),
) -> Result<Option<InstalledClient>, RunnerError> {
    let (Some(client), None) = (&scenario.workload.client, &scenario.client) else { return Ok(None) };
    let what =
        InstalledNames { workload: &scenario.workload_name, library: scenario.workload.library.as_ref(), shown: None };
    let installed = installed_client(client, &what, interrupt, say).await?;
    Ok(Some(InstalledClient { image: scenario.cluster.client_image.clone(), ..installed }))
}

/// Shows the commands of a user's own workload file, once per process. Such a file is trusted like a Makefile, so its commands are
/// shown too.
pub(super) fn announce(scenario: &Scenario, say: fn(&str)) {
    static ANNOUNCED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let own = scenario.workload.client.as_ref().filter(|client| scenario.client.is_none() && client.folder().is_some());
    if let Some(text) = own.map(|client| shown(&scenario.workload_name, client))
        && lock(&ANNOUNCED).insert(text.clone())
    {
        say(&text);
    }
}

fn shown(workload: &str, client: &WorkloadClient) -> String {
    format!("workload {workload} starts its own programs:\n  {}", client.commands().join("\n  "))
}

/// The names for messages and for the name of the folder.
pub(super) struct InstalledNames<'w> {
    pub workload: &'w str,
    pub library: Option<&'w Library>,
    /// The client whose commands are shown before the installation.
    pub shown: Option<&'w WorkloadClient>,
}

/// Another version of a library than the pinned one.
#[derive(Clone, Copy)]
struct Another<'l> {
    package: &'l Package,
    version: &'l str,
}

impl<'l> Another<'l> {
    fn of(library: &'l Library) -> Option<Another<'l>> {
        library.instead_of.as_ref()?;
        Some(Another { package: library.package.as_ref()?, version: &library.version })
    }
}

async fn installed_client(
    client: &WorkloadClient,
    what: &InstalledNames<'_>,
    interrupt: &Interrupt,
    say: fn(&str),
) -> Result<InstalledClient, RunnerError> {
    let fail = |text: String| RunnerError::could_not_run(format!("the client of workload {}: {text}", what.workload));
    let cache = Cache::open().map_err(fail)?;
    let folder = match client.folder() {
        Some(folder) => Folder::Own(folder.to_path_buf()),
        None => Folder::Ours(unpacked(&cache).map_err(fail)?),
    };
    let another = what.library.and_then(Another::of);
    let recipe = match client {
        WorkloadClient::Python(client) => interrupt.unless(python(client, another, &folder, &cache)).await?,
        WorkloadClient::Command(client) => command(client, another, &folder),
    };
    let mut recipe = recipe.map_err(fail)?;
    let env = interrupt.unless(installed(&mut recipe, what, &cache, say)).await?.map_err(fail)?;
    let InstalledClient { command, environment, mut folders, runtime, .. } = recipe.client;
    let into_env = |text: String| text.replace(ENV, &env.to_string_lossy());
    if !recipe.install.is_empty() {
        folders.push(env.clone());
    }
    Ok(InstalledClient {
        command: command.into_iter().map(into_env).collect(),
        environment: environment.into_iter().map(|(name, value)| (name, into_env(value))).collect(),
        image: None,
        folders,
        runtime,
    })
}

/// Installs the client of a workload, as a run would. Returns its command. None if it has no client of its own.
pub fn install<'a>(
    name: &'a str,
    workload: &'a Workload,
    interrupt: &'a Interrupt,
    say: fn(&str),
) -> LocalBoxFuture<'a, Result<Option<Vec<String>>, RunnerError>> {
    Box::pin(async move {
        let Some(client) = &workload.client else { return Ok(None) };
        let shown = Some(client).filter(|client| client.folder().is_some());
        let what = InstalledNames { workload: name, library: workload.library.as_ref(), shown };
        installed_client(client, &what, interrupt, say).await.map(|installed| Some(installed.command))
    })
}

/// A Python's report about itself.
#[derive(Deserialize)]
struct Python {
    /// Its program, after following shims and links.
    program: PathBuf,
    version: String,
    library: Vec<PathBuf>,
}

const ABOUT_PYTHON: &str = "import json, os, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({'program': os.path.realpath(sys.executable), 'version': sys.version,
                  'library': sorted({paths['stdlib'], paths['platstdlib']})}))";

async fn python(
    client: &PythonClient,
    another: Option<Another<'_>>,
    folder: &Folder,
    cache: &Cache,
) -> Result<Recipe, String> {
    let (about, package) = (about_python().await?, unpacked(cache)?);
    let (program, folder) = (about.program.display().to_string(), folder.place());
    let adapter = existing(folder, &client.adapter)?;
    let package = package.join(PYTHON_PACKAGE);
    let mut path = vec![package.display().to_string()];
    let (mut install, mut made_of) = (Vec::new(), Ingredients::default());
    if let Some(requirements) = &client.requirements {
        let script = package.join(PYTHON_INSTALL);
        made_of.add_file(&script)?;
        install.push(program.clone());
        install.extend(ISOLATED.map(str::to_string));
        install.push(script.display().to_string());
        if let Some(Another { package, version }) = another {
            let instead = format!("{}=={version}", package.name);
            made_of.add(&instead);
            install.extend(["--instead".to_string(), instead]);
        }
        install.push(ENV.to_string());
        for file in [requirements].into_iter().chain(&client.built_with) {
            let file = existing(folder, file)?;
            made_of.add_requirements(&file, !client.sources.is_empty())?;
            install.push(file.display().to_string());
        }
        for path in &client.sources {
            made_of.add_file(&existing(folder, path)?)?;
        }
        for part in [&program, &about.version] {
            made_of.add(part);
        }
        path.insert(0, ENV.to_string());
    }
    let start = package.join(PYTHON_START);
    let words = [start.display().to_string(), path.join(":"), adapter.display().to_string()];
    let flags = ISOLATED.iter().chain(["-B", "-u"].iter()).map(ToString::to_string);
    let command = [program].into_iter().chain(flags).chain(words).chain(client.arguments.iter().cloned()).collect();
    let mut folders = vec![adapter.parent().unwrap_or(folder).to_path_buf()];
    folders.retain(|folder| !folder.starts_with(&package));
    folders.push(package);
    let client =
        InstalledClient { command, environment: BTreeMap::new(), image: None, folders, runtime: about.library };
    Ok(Recipe { install, made_of, client })
}

/// The Python on PATH, after following shims and links.
pub(super) async fn python_program() -> Result<String, String> {
    Ok(about_python().await?.program.display().to_string())
}

async fn about_python() -> Result<Python, String> {
    let mut ask = Command::new("python3");
    ask.args(ISOLATED).args(["-c", ABOUT_PYTHON]).current_dir("/");
    let answer = installer::run(ask, ASK_LIMIT).await.map_err(|why| match why {
        NotEnded::NotFound => "it needs python3, which is not on PATH (Debian: apt install python3-pip)".to_string(),
        NotEnded::TooLong => format!("python3 did not answer within {} s", ASK_LIMIT.as_secs()),
        NotEnded::Failed(error) => format!("python3: {error}"),
    })?;
    serde_json::from_slice(&answer.stdout).map_err(|_| {
        let said = [&answer.stdout, &answer.stderr].into_iter().rfind(|said| !said.trim_ascii().is_empty());
        let said = said.map_or_else(|| "nothing".to_string(), |said| installer_error::why(said));
        format!(
            "python3 on PATH does not work ({}): redjepsen asked for its version and its folders, and it answered: {said}",
            answer.status
        )
    })
}

fn command(client: &CommandClient, another: Option<Another<'_>>, folder: &Folder) -> Result<Recipe, String> {
    let here = folder.place().display().to_string();
    let place = |word: &String| word.replace(FOLDER, &here);
    let mut command: Vec<String> = client.command.iter().map(place).collect();
    if let Some(program) = command.first_mut().filter(|program| !program.contains('/')) {
        *program = on_path(program)?.display().to_string();
    }
    let environment: BTreeMap<_, _> =
        client.environment.iter().map(|(name, value)| (name.clone(), place(value))).collect();
    let reads_folder = client.command.iter().chain(client.environment.values()).any(|word| word.contains(FOLDER));
    let folders = if reads_folder { vec![folder.place().to_path_buf()] } else { Vec::new() };
    let words: Vec<String> = match another {
        None => client.install.clone(),
        Some(Another { package, version }) => {
            let asked = |word: &String| word.replace("{package}", &package.name).replace("{version}", version);
            client.another_version.iter().map(asked).collect()
        }
    };
    let mut made_of = Ingredients::default();
    made_of.add_words(&words, folder, !client.sources.is_empty())?;
    for path in &client.sources {
        made_of.add_file(&existing(folder.place(), path)?)?;
    }
    Ok(Recipe {
        install: words.iter().map(place).collect(),
        made_of,
        client: InstalledClient { command, environment, folders, ..InstalledClient::default() },
    })
}

/// The folder of a recipe's installation. Installs it if necessary.
pub(super) async fn installed(
    recipe: &mut Recipe,
    what: &InstalledNames<'_>,
    cache: &Cache,
    say: fn(&str),
) -> Result<PathBuf, String> {
    let Some((program, arguments)) = recipe.install.split_first() else { return Ok(cache.path().to_path_buf()) };
    let name = what
        .library
        .map_or_else(|| what.workload.to_string(), |library| format!("{} {}", library.name, library.version));
    // The name depends on the content, so all workloads of a library share the folder.
    let folder = folder_name(&name, std::mem::take(&mut recipe.made_of));
    if let Some(place) = cache.complete(&folder)? {
        return Ok(place);
    }
    let place = cache.path().join(&folder);
    if let Some(client) = what.shown {
        say(&shown(what.workload, client));
    }
    say(&format!("installing {name} into {}", place.display()));
    if let Some(pinned) = what.library.and_then(|library| library.instead_of.as_ref()) {
        say(&format!(
            "this is not the version that comes with redjepsen, {pinned}: redjepsen has no hashes to check it or its dependencies"
        ));
    }
    let new = cache.begin(&folder)?;
    let log = place.with_extension("log");
    match run_into(program, arguments, &new).await {
        Ok(said) => files::write(&log, said).map_err(|error| error.to_string()).and_then(|()| new.finish()),
        Err((why, said)) if said.is_empty() => Err(why),
        Err((why, said)) => {
            let _ = files::write(&log, &said);
            Err(format!("{why}: {}\nits whole output is in {}", installer_error::why(&said), log.display()))
        }
    }
}

pub(super) fn folder_name(name: &str, made_of: Ingredients) -> String {
    format!("{}-{}", in_a_path(name), made_of.short_hex())
}

/// Runs an installation in a new folder and returns its output. If it fails, also the reason.
async fn run_into(program: &str, arguments: &[String], new: &Unfinished) -> Result<Vec<u8>, (String, Vec<u8>)> {
    let fail = |why: String| (why, Vec::new());
    let content = new.content();
    let words = arguments.iter().map(|word| word.replace(ENV, &content.to_string_lossy()));
    let mut install = Command::new(program);
    install.current_dir(new.temporary()).env("TMPDIR", new.temporary()).args(words);
    let ended = installer::run(install, INSTALL_LIMIT).await.map_err(|why| match why {
        NotEnded::NotFound => fail(format!("it is installed by {program}, which is not on PATH")),
        NotEnded::TooLong => fail(format!("{program} took longer than {} min", INSTALL_LIMIT.as_secs() / 60)),
        NotEnded::Failed(error) => fail(format!("{program}: {error}")),
    })?;
    let said = [ended.stdout, ended.stderr].concat();
    if ended.status.success() { Ok(said) } else { Err((format!("{program} failed ({})", ended.status), said)) }
}

/// redjepsen's own files, unpacked into a folder.
fn unpacked(cache: &Cache) -> Result<PathBuf, String> {
    let mut of = Ingredients::default();
    for (path, text) in CLIENT_FILES {
        of.add(path);
        of.add(text);
    }
    let name = format!("files-{}", of.short_hex());
    if let Some(place) = cache.complete(&name)? {
        return Ok(place);
    }
    let new = cache.begin(&name)?;
    let content = new.content();
    for (path, text) in CLIENT_FILES {
        let file = content.join(path);
        let folder = file.parent().unwrap_or(&content);
        std::fs::create_dir_all(folder).map_err(|source| FileError::write(folder, source).to_string())?;
        files::write(&file, text).map_err(|error| error.to_string())?;
    }
    new.finish()
}

fn existing(folder: &Path, path: &Path) -> Result<PathBuf, String> {
    let whole = folder.join(path);
    if whole.exists() { Ok(whole) } else { Err(format!("{} does not exist", whole.display())) }
}

fn on_path(program: &str) -> Result<PathBuf, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| format!("it needs {program}, which is not on PATH"))
}

/// A folder name without a dot: the text after a dot would be replaced in the names of files beside it.
fn in_a_path(name: &str) -> String {
    name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

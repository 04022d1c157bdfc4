//! `redjepsen client-check`: checks if the user's client follows the protocol, and which claims and scenarios it supports.

use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Exit, Failure, exit_after, look, print, tell_progress};
use super::flags::parse_u64;
use super::progress::CONSOLE;
use base::runs::Temporary;
use base::words::plural;
use labs::client_check::{self, ClientCheck};
use model::history::History;
use model::nemesis::Nemesis;
use model::plan::Plan;
use model::scenario::{Options, Scenario, catalogue, quoted, typed};
use runner::{Console, KeepCluster, Place, RunSettings, Runner};

const TIME_LIMIT: &str = "3s";
/// The acquire timeout. A client that never answers is given up some seconds later.
const ACQUIRE_TIMEOUT: &str = "2s";

#[derive(Debug, Args)]
#[command(mut_arg("client_cmd", |client| client.hide(true)))]
pub struct ClientCheckFlags {
    /// Command of your client, which speaks the client protocol (docs/client-protocol.md) [default: the client of the workload]
    command: Option<String>,
    /// Lock and resource for the client: a name from `redjepsen list locks`, or the path of a .toml file
    #[arg(long, default_value = "single")]
    workload: String,
    /// Seed of an earlier check, to repeat it
    #[arg(long, value_parser = parse_u64, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    options: Options,
    /// Keep the two runs and the client's logs in this folder [default: remove them]
    #[arg(long)]
    store: Option<PathBuf>,
}

/// Exits 0 if nothing is missing, 1 if the client breaks the protocol. Exits 2 if a claim or an ordinary breakpoint is missing,
/// or if the lock keeps no client out.
pub async fn client_check(flags: ClientCheckFlags) -> Result<Exit, Failure> {
    let options = flags.options()?;
    let fits = |nemesis: &str| -> Result<Scenario, String> {
        let here = Path::new("");
        let scenario = options.scenario(&flags.workload, nemesis, flags.seed, here);
        let scenario = scenario.map_err(|error| error.to_string())?;
        Plan::draw(&scenario).map(|_| scenario).map_err(|error| error.to_string())
    };
    let is_file = |command: &&String| command.ends_with(".toml") && !command.contains(' ');
    if let Some(file) = flags.command.as_ref().filter(is_file) {
        return Err(Failure::arguments(format!("{file} is not a command; for a workload file, use --workload {file}")));
    }
    let mut like = fits("none").map_err(Failure::arguments)?;
    // The clients take turns, and one of them asks while all permits are held.
    like.clients = flags.options.clients.unwrap_or(like.workload.permits + 1);
    if flags.command.is_none() && like.workload.client.is_none() {
        return Err(Failure::arguments(format!(
            "workload {} does not name a client; give the command of your client: redjepsen client-check \"COMMAND\"",
            flags.workload
        )));
    }
    let stopped = client_check::stopped(&like).map_err(Failure::could_not_run)?;

    let (store, temporary) = match &flags.store {
        Some(store) => (store.clone(), None),
        None => {
            // The folder is removed with this value, however the check ends.
            let temporary = Temporary::new().map_err(Failure::could_not_run)?;
            (temporary.path().to_path_buf(), Some(temporary))
        }
    };
    // Progress is hidden: a run's messages name a folder that will be removed.
    let mut runner = Runner::new(false, Console { progress: |_| {}, ..CONSOLE })?;
    let many = plural(like.clients.into(), "client");
    tell_progress(&format!("{many} at work for 3 s; then a script stops one of them at each phase"));
    let histories = async {
        let mut at_work = make(&mut runner, &store, &client_check::at_work(&like)).await?;
        let longer = client_check::longer_at_work(&like, &at_work);
        if let Some(longer) = longer.filter(|_| flags.options.time_limit.is_none()) {
            let time = humantime::format_duration(longer.time_limit).to_string();
            tell_progress(&format!("operations take long, so this part runs once more, for {time}"));
            at_work = make(&mut runner, &store, &longer).await?;
        }
        if client_check::never_answers(&at_work) {
            let nothing = History { run: at_work.run.clone(), ..History::default() };
            return Ok((at_work, nothing));
        }
        Ok::<_, Failure>((at_work, make(&mut runner, &store, &stopped).await?))
    };
    let histories = histories.await;
    let removed = runner.remove_cluster().await;
    let (at_work, stopped) = histories.map_err(|failure| match &temporary {
        Some(temporary) => Failure { text: without_log(&failure.text, temporary.path()), ..failure },
        None => failure,
    })?;

    // The scenarios set the number of clients themselves if it matters.
    let of_the_catalogue = |name: &str| -> Result<Nemesis, String> {
        let any_number = Options { clients: None, ..options.clone() };
        let scenario = any_number.scenario(&flags.workload, name, flags.seed, Path::new(""));
        let scenario = scenario.map_err(|error| error.to_string())?;
        Plan::draw(&scenario).map(|_| scenario.nemesis).map_err(|error| error.to_string())
    };
    let catalogue: Vec<(String, Result<Nemesis, String>)> =
        catalogue::NEMESES.iter().map(|(name, _)| (name.to_string(), of_the_catalogue(name))).collect();
    let check = ClientCheck::new(&at_work, &stopped, &catalogue);
    let shown = print(client_check::page::terminal(&check, &flags.then(), flags.store.is_some(), look()));
    let exit = match (check.is_right(), check.is_complete()) {
        (true, true) => Exit::Valid,
        (true, false) => Exit::Unknown,
        (false, _) => Exit::Invalid,
    };
    exit_after(exit, shown.and(removed.map_err(Failure::from)))
}

async fn make(runner: &mut Runner, store: &Path, scenario: &Scenario) -> Result<History, Failure> {
    let place = Place::Store(store.to_path_buf());
    let settings = RunSettings { place, repeat: None, keep_cluster: KeepCluster::ForNextRun, observe: false };
    let mut made = runner.make(scenario, &settings).await?;
    made.write_report(report::Pictures::Painted).map_err(Failure::could_not_run)?;
    Ok(made.checked.history)
}

/// The error of a client that cannot take part. The path of its log is replaced by how to keep the log.
fn without_log(text: &str, gone: &Path) -> String {
    let place = format!(" ({}", gone.display());
    match text.split_once(&place).and_then(|(before, rest)| Some((before, rest.split_once(')')?.1))) {
        Some((before, after)) => format!("{before}{after}; `--store FOLDER` keeps the client's whole log"),
        None => text.to_string(),
    }
}

impl ClientCheckFlags {
    fn options(&self) -> Result<Options, Failure> {
        if self.options.client_cmd.is_some() {
            return Err(Failure::arguments(
                "--client-cmd is not an option of client-check: write the command alone, as in `redjepsen client-check \"COMMAND\"`",
            ));
        }
        let time_limit = TIME_LIMIT.parse().map_err(Failure::could_not_run)?;
        let acquire_timeout = Some(ACQUIRE_TIMEOUT.parse().map_err(Failure::could_not_run)?);
        Ok(Options {
            client_cmd: self.command.clone(),
            time_limit: self.options.time_limit.or(Some(time_limit)),
            acquire_timeout: self.options.acquire_timeout.or(acquire_timeout),
            ..self.options.clone()
        })
    }

    /// The next command for the user.
    fn then(&self) -> String {
        let said =
            self.options.to_flags().into_iter().filter(|(name, _)| !matches!(name.as_str(), "clients" | "time-limit"));
        let said = typed(said);
        let command = self.command.as_ref().map(|command| format!(" --client-cmd {}", quoted(command)));
        let (workload, command) = (quoted(&self.workload), command.unwrap_or_default());
        format!("redjepsen run --workload {workload} --nemesis pause-before-write{command}{said}")
    }
}

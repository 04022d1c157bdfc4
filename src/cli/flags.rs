//! The flags of `run`, and the scenario that they define. Other modules never see a flag.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::console::Failure;
use base::units::{Length, LengthError};
use base::words::plural;
use model::nemesis::Expectation;
use model::scenario::{self, Issue, Options, Scenario, Versions, catalogue, quoted};
use runner::MOST_JOBS;

/// The flags that a saved scenario replaces. They are listed one by one: for a group, clap would name all of them in an error.
fn said_by_a_scenario() -> impl Iterator<Item = &'static str> {
    ["workload", "nemesis"].into_iter().chain(Options::NAMES.iter().copied())
}

/// The least memory for a search. A smaller number probably lacks its unit.
const LEAST_MEMORY: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct RunFlags {
    /// Lock and resource
    ///
    /// A name from `redjepsen list locks`, or the path of a .toml file.
    #[arg(long, value_name = "NAME", default_value = "redlock")]
    workload: String,
    /// Faults; separate several with commas
    ///
    /// Names from `redjepsen list faults`, or paths of .toml files.
    #[arg(long, value_name = "NAMES", default_value = "pause")]
    nemesis: Vec<String>,
    /// Reproduce a known issue of a library, such as redis-py#554, in the failing version
    #[arg(long, hide_short_help = true, conflicts_with_all = ["workload", "nemesis", "scenario"])]
    issue: Option<String>,
    /// With a range of versions, run each version instead of bisecting
    #[arg(long, hide_short_help = true, requires = "library_version")]
    pub each: bool,
    /// Repeat a saved run: its folder or scenario.toml
    #[arg(long, value_name = "FILE", conflicts_with_all = said_by_a_scenario())]
    scenario: Option<PathBuf>,
    /// With --scenario: also start programs that do not come with redjepsen, such as the run's client, with your permissions
    #[arg(long, hide_short_help = true, requires = "scenario")]
    trust: bool,
    /// Seed for all random choices [default: random]
    ///
    /// The same seed gives the same plan. With --scenario, the default is the saved seed.
    #[arg(long, value_name = "N", value_parser = parse_u64)]
    seed: Option<u64>,
    #[command(flatten)]
    options: Options,
    /// Folder for the runs
    #[arg(long, default_value = "store")]
    pub store: PathBuf,
    /// Exit 0 only if the run shows this
    #[arg(long, value_enum)]
    expect: Option<Expectation>,
    /// Keep the cluster in Docker running after the run; `redjepsen clean` removes it
    #[arg(long, hide_short_help = true)]
    pub keep: bool,
    /// Do not record keys and commands of the lock's nodes; the timeline then lacks them, and there is no diagnosis
    #[arg(long, hide_short_help = true)]
    pub no_observer: bool,
    /// Open the report in a browser
    ///
    /// Does nothing if standard output is not a terminal.
    #[arg(long)]
    pub open: bool,
    /// Print results.json instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Print more, and show the log on stderr
    ///
    /// Prints each claim, the counts, the gates and the first incident.
    #[arg(short, long)]
    pub verbose: bool,
    /// Names without an option, which are refused with the option that they need
    #[arg(hide = true)]
    bare: Vec<String>,
}

impl RunFlags {
    /// The checked scenario from the flags. Draws a seed if none was given.
    pub fn scenario(&self) -> Result<Scenario, Failure> {
        let Some(saved) = &self.scenario else {
            return self.scenario_with(self.options.library_version.as_deref(), self.seed()?);
        };
        self.no_bare_name()?;
        let failed = |text: String| Failure::arguments(format!("--scenario {text}"));
        let mut scenario = Scenario::read_to_run(saved, self.trust).map_err(|error| failed(error.to_string()))?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.check().map_err(|error| failed(format!("{}: {error}", saved.display())))?;
        scenario.expect = self.expect.or(scenario.expect);
        Ok(scenario)
    }

    /// The given seed, or a new one.
    pub fn seed(&self) -> Result<u64, Failure> {
        match self.seed {
            Some(seed) => Ok(seed),
            // 32 bits, so that users can type it again.
            None => Ok(u64::from(getrandom::u32().map_err(Failure::could_not_run)?)),
        }
    }

    /// The scenario from the flags with this version of the library, ignoring a saved scenario. None means the version of the
    /// issue, or else the pinned version.
    pub fn scenario_with(&self, version: Option<&str>, seed: u64) -> Result<Scenario, Failure> {
        self.no_bare_name()?;
        let options = Options { library_version: version.map(str::to_string), ..self.options.clone() };
        let (workload, nemesis, options) = match self.known_issue()? {
            None => (self.workload.clone(), self.nemesis.join(","), options),
            Some((_, issue)) => {
                let (workload, with) = issue.run(issue.side(version));
                (workload, issue.nemesis.clone(), options.or(&with))
            }
        };
        let mut scenario = options.scenario(&workload, &nemesis, seed, Path::new("")).map_err(Failure::arguments)?;
        scenario.expect = self.expect;
        Ok(scenario)
    }

    /// The requested issue with its name. None if no issue was requested.
    pub fn known_issue(&self) -> Result<Option<(String, Issue)>, Failure> {
        let named = self.issue.as_ref().map(|name| scenario::known_issue(name));
        named.transpose().map_err(|error| Failure::arguments(format!("--issue: {error}")))
    }

    /// The requested range of versions. None for a single version.
    pub fn range(&self) -> Result<Option<(String, String)>, Failure> {
        let Some(text) = &self.options.library_version else { return Ok(None) };
        match text.parse() {
            Ok(Versions::Range(low, high)) => Ok(Some((low, high))),
            Ok(Versions::One(one)) if self.each => {
                Err(Failure::arguments(format!("--each needs a range of versions, such as {one}..{one}.9")))
            }
            Ok(Versions::One(_)) => Ok(None),
            Err(error) => Err(Failure::arguments(format!("--library-version: {error}"))),
        }
    }

    fn no_bare_name(&self) -> Result<(), Failure> {
        let Some(bare) = self.bare.first() else { return Ok(()) };
        let is_nemesis = catalogue::NEMESES.iter().any(|(name, _)| name == bare);
        let option = if is_nemesis { "--nemesis" } else { "--workload" };
        Err(Failure::arguments(format!("`{bare}` needs an option; did you mean `{option} {bare}`?")))
    }
}

/// The command that repeats a run: the words of the user's command line, with the folder to which `latest` points now, and the
/// seed.
pub(super) fn repeat(said: &[String], seed: u64) -> String {
    let mut words = vec!["redjepsen".to_string()];
    let mut said = said.iter();
    while let Some(word) = said.next() {
        if word == "--seed" {
            said.next();
        } else if word == "--scenario" {
            words.push(word.clone());
            words.extend(said.next().map(|path| quoted(&without_latest(path))));
        } else if let Some(path) = word.strip_prefix("--scenario=") {
            words.extend(["--scenario".to_string(), quoted(&without_latest(path))]);
        } else if !word.starts_with("--seed=") {
            words.push(quoted(word));
        }
    }
    words.push(format!("--seed {seed}"));
    words.join(" ")
}

/// The path with the target of each link `latest` in its place, since later runs change these links.
fn without_latest(path: &str) -> String {
    let mut resolved = PathBuf::new();
    for part in Path::new(path) {
        match resolved.join(part).read_link() {
            Ok(target) if part == "latest" => resolved.push(target),
            _ => resolved.push(part),
        }
    }
    resolved.display().to_string()
}

/// Parses a length of time without `ttl`.
pub(super) fn absolute(text: &str) -> Result<Duration, LengthError> {
    Length::without_ttl(text)
}

/// Parses an amount of memory: `4GiB`, `512MiB`, `2GB`, `1000000`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => 0,
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(bytes) if (1..LEAST_MEMORY).contains(&bytes) => {
            let bytes = plural(bytes, "byte");
            Err(format!("`{text}` is {bytes}, and a search needs at least 1MiB; for example, use `4GiB` or `512MiB`"))
        }
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(format!("`{text}` is not an amount of memory; for example, use `4GiB` or `512MiB`")),
    }
}

/// Parses a whole number, such as a seed.
pub(super) fn parse_u64(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number, such as 7".to_string())
}

/// Parses a whole number from `least` to `most`; None if any greater number will do.
pub(super) fn from_to<N>(
    least: N,
    most: Option<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if number >= least && most.is_none_or(|most| number <= most) => Ok(number),
        _ => Err(match most {
            Some(most) => format!("expected a whole number from {least} to {most}"),
            None => format!("expected a whole number, {least} or more"),
        }),
    }
}

/// Parses the number of parallel runs, as `suite --jobs` does, without `auto`.
pub(super) fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs @ 1..=MOST_JOBS) => Ok(jobs),
        _ => Err(format!("expected a whole number from 1 to {MOST_JOBS}")),
    }
}

/// The default number of parallel runs: one per processor.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_JOBS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use model::topology::ClusterKind;
    use suite::file::SuiteFile;
    use suite::plan::{PlannedCell, Source, Suite};

    #[derive(Parser)]
    struct FlagsCommand {
        #[command(flatten)]
        flags: RunFlags,
    }

    fn scenario(words: &str) -> Result<Scenario, Failure> {
        let words = shlex::split(&format!("run {words}")).unwrap();
        FlagsCommand::parse_from(words).flags.scenario()
    }

    #[test]
    fn a_repeat_names_the_folder_behind_latest() {
        let store = tempfile::tempdir().unwrap();
        let latest = store.path().join("latest").display().to_string();
        std::os::unix::fs::symlink("single-none/a", &latest).unwrap();
        let run = format!("{}/single-none/a", store.path().display());
        for (said, repeated) in [
            (vec!["run".into(), "--scenario".into(), latest.clone()], format!("--scenario {run}")),
            (
                vec!["run".into(), format!("--scenario={latest}/scenario.toml")],
                format!("--scenario {run}/scenario.toml"),
            ),
        ] {
            assert_eq!(repeat(&said, 8), format!("redjepsen run {repeated} --seed 8"));
        }
    }

    /// The cells of a suite whose paths are relative to the working directory.
    fn cells(text: &str) -> Vec<PlannedCell> {
        let file: SuiteFile = toml::from_str(&format!("description = \"mine\"\n{text}")).unwrap();
        let source = Source { name: "mine", file: &file, folder: Path::new("") };
        Suite::plan(&source, ClusterKind::Auto).unwrap().cells
    }

    #[test]
    fn amounts_of_memory_are_read_as_people_write_them() {
        for (text, amount) in [("4GiB", Some(4 << 30)), ("512 mib", Some(512 << 20)), ("2GB", Some(2_000_000_000))] {
            assert_eq!(bytes(text).ok(), amount, "{text}");
        }
        for text in ["", "0", "7", "10", "1000k", "GiB", "-1", "4 furlongs", "99999999999999GiB", "1.5GiB"] {
            assert!(bytes(text).is_err_and(|error| error.contains("for example")), "{text}");
        }
    }

    #[test]
    fn a_cell_and_flags_of_the_same_words_mean_the_same_run() {
        for (flags, cell) in [
            ("--seed 1", "workload = \"redlock\"\nnemesis = \"pause\"\nexpect = \"nothing\""),
            (
                "--workload single --nemesis pause,kill-node --seed 1 --expect valid --cluster docker --time-limit 20s \
                 --ttl 400ms --clients 3 --nodes 2 --keys 4 --rate 12.5 --hold 10ms..0.5ttl --acquire-timeout 2ttl \
                 --persistence always --image valkey:8 --subnet 10.9.8.0/24",
                "workload = \"single\"\nnemesis = \"pause,kill-node\"\nexpect = \"valid\"\n\
                 with = { cluster = \"docker\", time_limit = \"20s\", ttl = \"400ms\", clients = 3, nodes = 2, keys = 4, \
                 rate = 12.5, hold = \"10ms..0.5ttl\", acquire_timeout = \"2ttl\", persistence = \"always\", \
                 image = \"valkey:8\", subnet = \"10.9.8.0/24\" }",
            ),
            (
                "--workload single --nemesis none --seed 1 --expect valid --client-cmd 'python3 -u /client/x.py' \
                 --client-image python:3-slim --mount ./src:/client --mount tests:/tests --redis-server bin/redis-server",
                "workload = \"single\"\nnemesis = \"none\"\nwith = { client_cmd = \"python3 -u /client/x.py\", \
                 client_image = \"python:3-slim\", mount = [\"./src:/client\", \"tests:/tests\"], \
                 redis_server = \"bin/redis-server\" }",
            ),
            (
                "--workload single --nemesis none --seed 1 --expect valid --server valkey:9.1",
                "workload = \"single\"\nnemesis = \"none\"\nservers = \"valkey:9.1\"",
            ),
            (
                "--workload single --nemesis none --seed 1 --expect valid --server ./bin/valkey-server",
                "workload = \"single\"\nnemesis = \"none\"\nwith = { server = \"./bin/valkey-server\" }",
            ),
            (
                "--workload single --nemesis none --seed 1 --expect valid --client-cmd 'python3 client.py'",
                "workload = \"single\"\nnemesis = \"none\"\nwith = { client_cmd = \"python3 client.py\" }",
            ),
        ] {
            let mut expected = scenario(flags).unwrap();
            let cells = cells(&format!("[[cells]]\n{cell}\n"));
            // A suite chooses the kind of its clusters in advance. A run does so when it is made.
            expected.cluster.kind = expected.cluster_kind();
            assert_eq!(cells[0].scenario, expected, "{flags}");
            // The command in the matrix repeats the same run.
            match cells[0].repeat(1) {
                Some(command) => {
                    let repeated = scenario(command.strip_prefix("redjepsen run ").unwrap()).unwrap();
                    assert_eq!(repeated, expected, "{command}");
                }
                None => assert_eq!(expected.client.unwrap().folder, std::env::current_dir().ok()),
            }
        }
    }

    #[test]
    fn options_of_a_cell_go_before_those_of_its_suite_and_only_those_are_told() {
        let cells = cells(
            "[with]\nclient_cmd = \"ours --fast\"\nttl = \"400ms\"\n[[cells]]\nworkload = \"single\"\nnemesis = \"none\"\n\
             with = { ttl = \"2s\", client_cmd = \"theirs\" }\n[[cells]]\nworkload = \"single\"\nnemesis = \"pause\"\n",
        );
        let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names, ["single under none with ttl 2s, client-cmd theirs", "single under pause"]);
        let command = |cell: &PlannedCell| cell.scenario.client.as_ref().unwrap().command.join(" ");
        assert_eq!([command(&cells[0]), command(&cells[1])], ["theirs", "ours --fast"]);
        assert_eq!([0, 1].map(|cell| cells[cell].scenario.ttl.as_millis()), [2000, 400]);
    }

    #[test]
    fn each_server_of_a_block_has_its_cell() {
        let of = |more: &str| {
            let cells = cells(&format!("[[cells]]\nworkload = \"single\"\nnemesis = [\"none\", \"pause\"]\n{more}"));
            cells.into_iter().map(|cell| cell.name).collect::<Vec<String>>()
        };
        assert_eq!(
            of("servers = [\"redis:7.0\", \"valkey/valkey:9.1\"]\nsweep = { ttl = [\"1s\", \"2s\"] }")[..4],
            [
                "single under none with ttl 1s, server redis:7.0",
                "single under none with ttl 1s, server valkey/valkey:9.1",
                "single under none with ttl 2s, server redis:7.0",
                "single under none with ttl 2s, server valkey/valkey:9.1",
            ]
        );
        assert_eq!(of("")[..], ["single under none", "single under pause"]);
    }

    #[test]
    fn every_option_is_one_that_a_saved_scenario_stands_for() {
        let command = <Options as Args>::augment_args(clap::Command::new("options"));
        let named: Vec<&str> = command.get_arguments().map(|option| option.get_id().as_str()).collect();
        assert_eq!(Options::NAMES, named);
    }

    #[test]
    fn a_saved_scenario_is_the_run_that_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let saved = scenario("--workload several-keys --seed 9 --expect violation --client-cmd ./client").unwrap();
        std::fs::write(folder.path().join("scenario.toml"), toml::to_string(&saved).unwrap()).unwrap();
        let path = folder.path().display();
        let refused = scenario(&format!("--scenario {path}")).unwrap_err();
        assert!(refused.text.contains("./client") && refused.text.contains("--trust"), "{}", refused.text);
        assert_eq!(scenario(&format!("--scenario {path} --trust")).unwrap(), saved);
        let elsewhere = format!("--scenario {path}/scenario.toml --trust --store elsewhere --verbose");
        assert_eq!(scenario(&elsewhere).unwrap(), saved);
        let other = scenario(&format!("--scenario {path} --trust --seed 10 --expect valid")).unwrap();
        assert_eq!(other, Scenario { seed: 10, expect: Some(Expectation::Valid), ..saved });
    }

    #[test]
    fn a_workload_says_how_many_keys_there_are_unless_the_user_does() {
        for (words, keys) in [("--seed 1", 1), ("--workload several-keys", 5), ("--workload several-keys --keys 2", 2)]
        {
            assert_eq!(scenario(words).map(|scenario| scenario.keys).ok(), Some(keys), "{words}");
        }
        assert!(scenario("--workload several-keys --keys 0").is_err());
    }
}

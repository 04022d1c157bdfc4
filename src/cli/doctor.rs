//! `redjepsen doctor`: checks what an existing Redis offers to a lock.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::console::{Exit, Failure, look, print, tell};
use super::progress::CONSOLE;
use super::run::show;
use base::files;
use base::units::Length;
use doctor::{PREFIX, Request, Verdict, diagnose, observe};
use model::scenario::{Options, Scenario};
use remote::{Access, Address, LONGEST_PASSWORD, RequestError, Secret, Tls};
use runner::{KeepCluster, Place, RunSettings, Runner};

const LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub struct DoctorFlags {
    /// Servers, Sentinels or nodes of a cluster: redis://host:port, or rediss://host:port for TLS, without a password
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Name of the group that the Sentinels at these addresses watch
    #[arg(long, value_name = "NAME")]
    sentinel: Option<String>,
    /// The lock's TTL, to compare it with the time of a failover
    #[arg(long, value_name = "TIME", value_parser = super::flags::absolute)]
    ttl: Option<Duration>,
    /// ACL user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Read the password from this file [default: the environment variable REDISCLI_AUTH]
    #[arg(long, value_name = "FILE", conflicts_with = "ask_password")]
    password_file: Option<PathBuf>,
    /// Ask for the password
    #[arg(long)]
    ask_password: bool,
    /// PEM file with the certificates to trust [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with the client's certificate
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the key of the client's certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Accept any certificate of a server
    #[arg(long)]
    insecure: bool,
    /// Prefix of the keys that doctor writes and removes
    #[arg(long, value_name = "TEXT", default_value = PREFIX)]
    prefix: String,
    /// Print the diagnosis and all observations as JSON
    #[arg(long)]
    json: bool,
    /// Also write the answer as a page (HTML) to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Then test this lock there for half a minute, without faults: a name from `redjepsen list locks`, or a .toml file
    ///
    /// The run writes only its own keys, and removes them at the end.
    #[arg(long = "try", value_name = "WORKLOAD", requires = "allow_writes", conflicts_with_all = ["json", "ask_password"])]
    tried: Option<String>,
    /// Allow --try to write its own keys on these servers
    #[arg(long, requires = "tried")]
    allow_writes: bool,
    /// Folder for the run of --try
    #[arg(long, value_name = "DIR", default_value = "store")]
    store: PathBuf,
}

pub async fn doctor(flags: DoctorFlags) -> Result<Exit, Failure> {
    let ttl = flags.ttl;
    let (json, page) = (flags.json, flags.page.clone());
    // A wrong workload is an error before any server is asked.
    let (tried, store) = (flags.tried()?, flags.store.clone());
    let request = flags.request()?;
    let diagnosis = diagnose(observe(&request).await.map_err(Failure::arguments)?, ttl);
    if let Some(file) = &page {
        files::write(file, report::doctor::page(&diagnosis)).map_err(Failure::could_not_run)?;
    }
    if json {
        let text = serde_json::to_string_pretty(&diagnosis).map_err(Failure::could_not_run)?;
        print(text + "\n")?;
    } else {
        let class = report::doctor::class(diagnosis.verdict);
        let look = look();
        let head = look.headline(diagnosis.verdict.word(), class, &diagnosis.headline).join("\n");
        print(format!("{head}\n{}", doctor::text(&diagnosis, look.line())))?;
    }
    let exit = match diagnosis.verdict {
        Verdict::NothingFound => Exit::Valid,
        Verdict::LosesLocks => Exit::Invalid,
        Verdict::CouldNotTell => Exit::Unknown,
        Verdict::NotReached => return Ok(Exit::CouldNotRun),
    };
    let Some(scenario) = tried else { return Ok(exit) };
    print("\n".to_string())?;
    let settings =
        RunSettings { place: Place::Store(store), repeat: None, keep_cluster: KeepCluster::No, observe: true };
    let mut made = Runner::new(false, CONSOLE)?.make(&scenario, &settings).await?;
    let run = show(&mut made, false)?;
    Ok(if matches!(exit, Exit::Valid) { run } else { exit })
}

impl DoctorFlags {
    fn tried(&self) -> Result<Option<Scenario>, Failure> {
        let Some(workload) = &self.tried else { return Ok(None) };
        let options = Options {
            server: self.addresses.clone(),
            sentinel: self.sentinel.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            ca: self.ca.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            insecure: self.insecure.then_some(true),
            allow_writes: Some(true),
            ttl: self.ttl.map(Length::Absolute),
            ..Options::default()
        };
        options.scenario(workload, "none", 1, Path::new("")).map(Some).map_err(Failure::arguments)
    }

    fn request(self) -> Result<Request, Failure> {
        let sentinel = self.sentinel.is_some();
        let addresses = self.addresses.iter().map(|text| Address::parse(text, sentinel));
        let addresses = addresses.collect::<Result<Vec<Address>, RequestError>>().map_err(Failure::arguments)?;
        let encrypted = addresses.iter().any(|address| address.tls);
        if !encrypted && (self.ca.is_some() || self.cert.is_some() || self.insecure) {
            let text = "--ca, --cert, --key and --insecure are for TLS: write rediss:// in place of redis://";
            return Err(Failure::arguments(text));
        }
        if self.prefix.is_empty() || self.prefix.contains(['{', '}']) || self.prefix.contains(char::is_control) {
            return Err(Failure::arguments(format!(
                "--prefix {:?} must have at least one character, and no braces or control characters",
                self.prefix
            )));
        }
        let password = match (&self.password_file, self.ask_password) {
            (Some(file), _) => Some(Secret::of_file(file).map_err(Failure::arguments)?),
            (None, true) => Some(Secret::new(asked()?)),
            (None, false) => Secret::of_environment(),
        };
        Ok(Request {
            addresses,
            sentinel: self.sentinel,
            access: Access {
                user: self.user,
                password,
                tls: Tls { ca: self.ca, client: self.cert.zip(self.key), insecure: self.insecure },
            },
            prefix: self.prefix,
            limit: LIMIT,
        })
    }
}

/// Asks for the password at the terminal without echo. Without a terminal, reads a line.
fn asked() -> Result<String, Failure> {
    let stdin = io::stdin();
    let hidden = if stdin.is_terminal() {
        let before = tcgetattr(&stdin).map_err(|error| Failure::could_not_run(format!("--ask-password: {error}")))?;
        let mut quiet = before.clone();
        // Like getpass(3): Ctrl-C ends the line and not the program, which would leave the terminal without echo.
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        let _ = io::stderr().write_all(b"Password: ");
        tcsetattr(&stdin, OptionalActions::Flush, &quiet)
            .map_err(|error| Failure::could_not_run(format!("--ask-password: {error}")))?;
        Some(before)
    } else {
        None
    };
    let mut line = String::new();
    let read = stdin.lock().take(LONGEST_PASSWORD).read_line(&mut line);
    if let Some(before) = hidden {
        let _ = tcsetattr(&stdin, OptionalActions::Flush, &before);
        tell("");
    }
    read.map_err(|error| Failure::could_not_run(format!("--ask-password: {error}")))?;
    match line.trim_end_matches(['\r', '\n']) {
        "" => Err(Failure::arguments("--ask-password: no password was typed")),
        text if text.contains('\u{3}') => Err(Failure::arguments("--ask-password: interrupted with Ctrl-C")),
        text => Ok(text.to_string()),
    }
}

//! Hooks: the user's own commands disturb servers, show the effect, and undo it. They run on this machine with the user's
//! environment, each in its own process group, so that Ctrl-C does not end them.
//!
//! The output of a command is not kept, since it may contain secrets.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::info;

use super::Run;
use super::nemesis::{FIRST_KEY, InEffect};
use crate::faults::Observation;
use base::sync::lock;
use base::units::millis;
use model::nemesis::{Argument, Fault, Hook};

/// Pause between two looks at the effect.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The environment variables with the addresses of the lock's primary and of its next replica.
const PRIMARY: &str = "REDJEPSEN_PRIMARY";
const REPLICA: &str = "REDJEPSEN_REPLICA";

/// Variables of the environment, with values.
type Env = Vec<(&'static str, String)>;

/// The environment of each fault whose `inject` was started, for its `heal`; None once `heal` was started too.
pub(super) type BegunHooks = Mutex<BTreeMap<u32, Option<Env>>>;

/// A hook's commands, with their time limit.
struct Commands {
    hook: Hook,
    env: Env,
    until: Instant,
    within: Duration,
}

impl Run<'_> {
    /// Carries out a hook, and waits until its effect is observed. `seen` must fail before the hook, or it shows nothing.
    pub(super) async fn begin_hook(&self, fault: u32, what: &Fault) -> Observation {
        let env = self.addresses().await;
        let Some(commands) = self.commands_of(what, env) else { return unknown(what) };
        let began = Instant::now();
        let seen = async {
            let before = match &commands.hook.seen {
                Some(seen) if commands.run("seen", seen).await?.is_ok() => {
                    return Err("`seen` succeeded before the hook, so it cannot show its effect".to_string());
                }
                Some(_) => None,
                None => Some(commands.in_time("the lock had no primary", self.primary(FIRST_KEY)).await?),
            };
            lock(&self.hooks).insert(fault, Some(commands.env.clone()));
            match &commands.hook.inject {
                Some(inject) => commands.run("inject", inject).await??,
                None => self.ask_for(what, &commands, before.as_deref()),
            }
            match &before {
                Some(before) => self.successor_of(before, &commands).await,
                None => commands.until_seen(true).await,
            }
        };
        let (observed, text) = told(seen.await, began);
        Observation::of(observed, text)
    }

    /// Undoes a hook. Its command is started at once, goes on if the run ends meanwhile, and is not started twice.
    pub(super) async fn undo_hook(&self, in_effect: &InEffect) -> Observation {
        let env = match lock(&self.hooks).get_mut(&in_effect.fault).map(Option::take) {
            None => return Observation::nothing_to_undo(),
            Some(None) => {
                return Observation::unseen("`heal` was started before, and its end was not seen".to_string());
            }
            Some(Some(env)) => env,
        };
        let Some(commands) = self.commands_of(&in_effect.what, env) else { return unknown(&in_effect.what) };
        if commands.hook.heal.is_none() && commands.hook.seen.is_none() {
            return Observation::nothing_to_undo();
        }
        let began = Instant::now();
        let healed = async {
            if let Some(heal) = &commands.hook.heal {
                let child = commands.start(heal).map_err(|error| format!("`heal` did not start: {error}"))?;
                commands.end_of("heal", child).await??;
            }
            match commands.hook.seen {
                Some(_) => commands.until_seen(false).await,
                None => Ok("`heal` succeeded".to_string()),
            }
        };
        let (observed, text) = told(healed.await, began);
        Observation::of(observed, text)
    }

    fn commands_of(&self, what: &Fault, env: Env) -> Option<Commands> {
        let Argument::Hook(name) = &what.with else { return None };
        let hook = self.scenario.nemesis.hook(name)?;
        let within = hook.within.resolve(self.scenario.ttl);
        Some(Commands { hook, env, until: Instant::now() + within, within })
    }

    /// The addresses of the lock's primary and of its next replica; empty if nodes have no roles.
    async fn addresses(&self) -> Env {
        let mut env = Vec::new();
        if let Some(primary) = self.cluster.primary_of(&self.on_the_nodes(FIRST_KEY)).await {
            let replica = self.cluster.replicas_of(&primary).await.into_iter().next();
            let named = [(PRIMARY, Some(primary)), (REPLICA, replica)];
            env.extend(named.into_iter().filter_map(|(of, name)| Some((of, self.cluster.behind(&name?)?))));
        }
        env
    }

    /// Asks a person to disturb the servers.
    fn ask_for(&self, what: &Fault, commands: &Commands, primary: Option<&str>) {
        let within = humantime::format_duration(commands.within);
        let effect = match primary {
            Some(name) => {
                let address = self.cluster.behind(name).unwrap_or_default();
                format!("another node than {name} ({address}) is the primary")
            }
            None => "`seen` succeeds".to_string(),
        };
        let text = format!("{what}: it is your turn. The run waits up to {within} until {effect}");
        info!(text);
        self.status.send_modify(|status| status.notes.push(text));
    }

    /// Waits until another node is the primary.
    async fn successor_of(&self, before: &str, commands: &Commands) -> Result<String, String> {
        let changed = async {
            loop {
                let primary = self.primary(FIRST_KEY).await;
                if primary != before {
                    return format!("{primary} became the primary instead of {before}");
                }
                sleep(LOOK_AGAIN).await;
            }
        };
        commands.in_time(&format!("{before} was still the primary"), changed).await
    }
}

impl Commands {
    async fn in_time<T>(&self, late: &str, work: impl Future<Output = T>) -> Result<T, String> {
        let late = |_| format!("{late} after {}", humantime::format_duration(self.within));
        timeout_at(self.until, work).await.map_err(late)
    }

    fn start(&self, command: &str) -> std::io::Result<Child> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).process_group(0);
        shell.envs(self.env.iter().map(|(of, address)| (of, address)));
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    }

    /// Waits for the end of a command. The inner error is its failure.
    async fn end_of(&self, name: &str, mut child: Child) -> Result<Result<(), String>, String> {
        let ended = self.in_time(&format!("`{name}` was still running"), child.wait()).await?;
        let ended = ended.map_err(|error| format!("`{name}`: {error}"))?;
        Ok(if ended.success() { Ok(()) } else { Err(format!("`{name}` failed: {ended}")) })
    }

    /// Runs a command to its end. If the run goes on before, the command and its children are killed.
    async fn run(&self, name: &str, command: &str) -> Result<Result<(), String>, String> {
        struct Killed(Option<Pid>);
        impl Drop for Killed {
            fn drop(&mut self) {
                self.0.map(|group| kill_process_group(group, Signal::KILL));
            }
        }
        let child = self.start(command).map_err(|error| format!("`{name}` did not start: {error}"))?;
        let mut group = Killed(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let ended = self.end_of(name, child).await?;
        // Its number may belong to another process by now.
        group.0 = None;
        Ok(ended)
    }

    /// Runs `seen` until it succeeds, or until it fails.
    async fn until_seen(&self, succeeds: bool) -> Result<String, String> {
        let Some(seen) = &self.hook.seen else { return Ok(String::new()) };
        let so = if succeeds { "succeeds" } else { "fails again" };
        let looks = async {
            while self.run("seen", seen).await?.is_ok() != succeeds {
                sleep(LOOK_AGAIN).await;
            }
            Ok(format!("`seen` {so}"))
        };
        let late = format!("`seen` {}", if succeeds { "did not succeed" } else { "still succeeded" });
        self.in_time(&late, looks).await?
    }
}

fn unknown(what: &Fault) -> Observation {
    Observation::unseen(format!("the nemesis has no hook for `{what}`"))
}

/// The result as an observation: true if it was observed, and the text with the time that it took.
fn told(seen: Result<String, impl Display>, began: Instant) -> (bool, String) {
    match seen {
        Ok(text) => (true, format!("{text}, after {} ms", millis(began.elapsed()))),
        Err(reason) => (false, reason.to_string()),
    }
}

//! A nemesis: the faults of a run, their times, and their targets.
//!
//! A nemesis file has recurring faults (`[[faults]]`), or a script that creates a situation step by step, or neither. Faults,
//! targets and steps are short phrases ([`Fault`], [`Target`], [`Step`]), so that a file is easy to read: `pause holder`,
//! `partition client:0 from node:1`, `clock node:2 +2ttl`. The vocabulary is closed and has no conditions. An invalid phrase gets
//! a message with the expected ones. Reading executes nothing.

mod command;
mod fault;
mod hook;
mod links;
mod need;
mod phrase;
mod script;
mod target;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use fault::{Argument, ClockChange, Fault};
pub use hook::{BY_HAND, Hook};
pub use links::{Direction, LinkSelector, Shape, TargetSpec};
pub use need::Need;
pub use phrase::PhraseError;
pub use script::{Milestone, Step};
pub use target::{Target, Targets};

use crate::history::{Outlives, Progress};
use crate::topology::{NamedServer, Persistence};
use base::texts::one_or_more;
use base::units::{Length, LengthRange};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nemesis {
    /// One line for `redjepsen list`.
    pub description: String,
    /// The events, and the source of the idea.
    pub story: String,
    /// True if updates are acknowledged while faults are in effect.
    #[serde(default)]
    pub progress: Progress,
    /// At least one of its faults must last longer than this while a client holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlives: Option<Outlives>,
    /// The default number of clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The default number of clients that share one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The default number of locks for which clients contend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u32>,
    /// The default TTL of the lock, for scenarios that take longer than the usual one allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Length>,
    /// The default time that holders think between read and write, for faults that come meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<LengthRange>,
    /// The default for the data that the lock's nodes store on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// The old form of [`Need::Nodes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voters: Option<u32>,
    /// The old form of [`Need::Holders`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// The old form of [`Need::Takeover`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_over: bool,
    /// The expected result for each workload, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expect: BTreeMap<String, Expectation>,
    /// The steps of a script. Clients then do only what the steps say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub script: Vec<Step>,
    /// Faults that recur while the clients work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<RecurringFault>,
    /// The user's own commands, by the names that its faults use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Hook>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    Valid,
    Violation,
}

impl Expectation {
    pub fn word(self) -> &'static str {
        match self {
            Expectation::Valid => "valid",
            Expectation::Violation => "violation",
        }
    }
}

/// One fault that recurs over the run, or one of several drawn each time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurringFault {
    pub fault: OneOf,
    /// The time from the start of one fault to the start of the next, drawn each time.
    pub every: LengthRange,
    /// How long each fault lasts, drawn each time.
    #[serde(rename = "for")]
    pub lasts: LengthRange,
}

/// A fault, or a list of faults from which one is drawn each time.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOf(pub Vec<Fault>);

impl Serialize for OneOf {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OneOf {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<OneOf, D::Error> {
        one_or_more(deserializer, "a fault such as \"pause holder\", or a list of faults").map(OneOf)
    }
}

impl Nemesis {
    pub fn all_faults(&self) -> impl Iterator<Item = &Fault> {
        let of_steps = self.script.iter().filter_map(|step| match step {
            Step::Inject(fault) => Some(fault),
            _ => None,
        });
        self.faults.iter().flat_map(|recurring| &recurring.fault.0).chain(of_steps)
    }

    /// True if it disturbs no member: no fault, and clients that run one operation after another as in any run.
    pub fn is_plain(&self) -> bool {
        let is_usual = |step: &Step| {
            matches!(
                step,
                Step::Start { to: None, releases_again: None, .. } | Step::Await { .. } | Step::Expect { .. }
            )
        };
        !self.injects() && self.script.iter().all(is_usual)
    }

    pub fn injects(&self) -> bool {
        self.all_faults().next().is_some()
    }

    /// True if it affects packets between members.
    pub fn touches_the_network(&self) -> bool {
        self.all_faults().any(|fault| fault.kind.is_of_the_network())
    }

    /// True if members must be started with the preload library.
    pub fn needs_preload(&self) -> bool {
        self.all_faults().any(|fault| fault.kind.needs.preload)
    }

    /// The servers to which its faults upgrade nodes, each once.
    pub fn upgrades(&self) -> Vec<NamedServer> {
        let mut servers: Vec<NamedServer> = Vec::new();
        for fault in self.all_faults() {
            if let Argument::Server(server) = &fault.with
                && !servers.contains(server)
            {
                servers.push(server.clone());
            }
        }
        servers
    }

    /// The names of the hooks that its faults use.
    pub fn hooks_in_use(&self) -> impl Iterator<Item = &str> {
        self.all_faults().filter_map(|fault| match &fault.with {
            Argument::Hook(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The hook with this name.
    pub fn hook(&self, name: &str) -> Option<Hook> {
        self.hooks.get(name).cloned().or_else(|| (name == BY_HAND).then(Hook::default))
    }

    /// Checks that its parts make sense together.
    pub fn check(&self) -> Result<(), String> {
        for (name, hook) in &self.hooks {
            hook.check().map_err(|text| format!("hook {name}: {text}"))?;
        }
        if let Some(name) = self.hooks_in_use().find(|name| self.hook(name).is_none()) {
            return Err(format!("`hook {name}` needs a table `[hooks.{name}]`"));
        }
        if let Some(name) = self.hooks.keys().find(|name| !self.hooks_in_use().any(|used| used == *name)) {
            return Err(format!("`[hooks.{name}]` is not used; add a fault `hook {name}`"));
        }
        if !self.script.is_empty() && !self.faults.is_empty() {
            return Err(
                "has both a `script` and `[[faults]]`; a script describes the whole run, so leave one of them out"
                    .into(),
            );
        }
        match self.ttl {
            Some(ttl @ Length::Ttl(_)) => Err(format!("`ttl = \"{ttl}\"` must be absolute, such as `3s`")),
            _ => Ok(()),
        }
    }

    /// The properties that a lock needs, in their current form.
    pub fn needs(&self) -> Vec<Need> {
        let earlier = [self.voters.map(Need::Nodes), self.permits.map(Need::Holders)];
        let takeover = self.takes_over.then_some(Need::Takeover);
        self.needs.iter().copied().chain(earlier.into_iter().flatten()).chain(takeover).collect()
    }

    /// Combines two nemeses. Neither may have a script, since a script says everything that happens.
    pub fn and(self, other: Nemesis) -> Result<Nemesis, PhraseError> {
        let scripted = [&self, &other].into_iter().any(|nemesis| !nemesis.script.is_empty());
        if scripted {
            return Err(PhraseError::new(
                "a scripted nemesis describes the whole run and can't be combined with another one",
            ));
        }
        if let Some(name) = self.hooks.keys().find(|name| other.hooks.contains_key(*name)) {
            return Err(PhraseError::new(format!("two nemeses have a table `[hooks.{name}]`; rename one")));
        }
        let progress = match (self.progress, other.progress) {
            (one, another) if one == another => one,
            _ => Progress::Any,
        };
        Ok(Nemesis {
            description: format!("{}; {}", self.description, other.description),
            story: format!("{}\n{}", self.story, other.story),
            progress,
            outlives: self.outlives.or(other.outlives),
            clients: self.clients.max(other.clients),
            threads: self.threads.max(other.threads),
            keys: self.keys.max(other.keys),
            ttl: self.ttl.or(other.ttl),
            hold: self.hold.or(other.hold),
            persistence: self.persistence.or(other.persistence),
            needs: self.needs().into_iter().chain(other.needs()).collect(),
            faults: self.faults.into_iter().chain(other.faults).collect(),
            hooks: self.hooks.into_iter().chain(other.hooks).collect(),
            ..Nemesis::default()
        })
    }
}

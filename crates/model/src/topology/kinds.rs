//! The kinds of clusters, and facts about each that need no started cluster. The code that starts one is in a folder of
//! `cluster`, and its line in the list there.

use std::sync::LazyLock;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The word that the user types.
    pub name: &'static str,
    /// For `--help`.
    help: &'static str,
    /// True if members are in containers, each made from an image.
    pub containers: bool,
    /// True if servers, network and processes are in memory, and time is virtual.
    pub simulated: bool,
    /// True if redjepsen starts the lock's nodes, and may stop, configure and empty them.
    pub owns_nodes: bool,
    /// Why a cluster can't be kept for the user after its run; None if it can.
    pub not_kept: Option<&'static str>,
    /// The time that a run takes before and after its clients work, in milliseconds. It includes the cluster's start and stop,
    /// the final reads, the check and the report. Measured on two cores.
    pub around_ms: u64,
}

const DOCKER: Kind = Kind {
    name: "docker",
    help: "In containers",
    containers: true,
    simulated: false,
    owns_nodes: true,
    not_kept: None,
    around_ms: 4_000,
};

const LOCAL: Kind = Kind {
    name: "local",
    help: "On this machine, in processes with their own namespaces",
    containers: false,
    simulated: false,
    owns_nodes: true,
    not_kept: Some("a local cluster ends with this process"),
    around_ms: 1_000,
};

const SIM: Kind = Kind {
    name: "sim",
    help: "In memory and virtual time: simulated servers, network and processes; a seed repeats the run exactly",
    containers: false,
    simulated: true,
    owns_nodes: true,
    not_kept: Some("a simulated cluster has no servers to keep"),
    around_ms: 100,
};

const EXISTING: Kind = Kind {
    name: "existing",
    help: "On Redis servers that already run, named by --server: faults hit only clients and their connections",
    containers: false,
    simulated: false,
    owns_nodes: false,
    not_kept: Some("existing servers run independently of redjepsen"),
    around_ms: 1_000,
};

pub static KINDS: &[Kind] = &[DOCKER, LOCAL, EXISTING, SIM];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterKind {
    /// In Docker if an engine answers, else on this machine.
    #[default]
    Auto,
    /// Like auto, or simulated if there is neither Docker nor Redis.
    Any,
    Named(&'static Kind),
}

impl ClusterKind {
    pub const DOCKER: ClusterKind = ClusterKind::Named(&DOCKER);
    pub const LOCAL: ClusterKind = ClusterKind::Named(&LOCAL);
    pub const EXISTING: ClusterKind = ClusterKind::Named(&EXISTING);
    pub const SIM: ClusterKind = ClusterKind::Named(&SIM);

    pub fn word(self) -> &'static str {
        match self {
            ClusterKind::Auto => "auto",
            ClusterKind::Any => "any",
            ClusterKind::Named(kind) => kind.name,
        }
    }

    /// The kind; None if it is not settled.
    pub fn named(self) -> Option<&'static Kind> {
        match self {
            ClusterKind::Named(kind) => Some(kind),
            ClusterKind::Auto | ClusterKind::Any => None,
        }
    }

    /// True if it is certainly simulated.
    pub fn is_simulated(self) -> bool {
        self.named().is_some_and(|kind| kind.simulated)
    }

    /// True if redjepsen starts the lock's nodes.
    pub fn owns_nodes(self) -> bool {
        self.named().is_none_or(|kind| kind.owns_nodes)
    }

    /// True if it may turn out to be simulated.
    pub fn may_be_simulated(self) -> bool {
        self == ClusterKind::Any || self.is_simulated()
    }

    fn help(self) -> &'static str {
        match self {
            ClusterKind::Auto => "In Docker if an engine answers, otherwise on this machine",
            ClusterKind::Any => "Like auto, but simulated if there is neither Docker nor Redis",
            ClusterKind::Named(kind) => kind.help,
        }
    }
}

/// The user's choices, in the order of `--help`.
static CHOICES: LazyLock<Vec<ClusterKind>> = LazyLock::new(|| {
    let named = KINDS.iter().map(ClusterKind::Named);
    [ClusterKind::Auto].into_iter().chain(named).chain([ClusterKind::Any]).collect()
});

static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| CHOICES.iter().map(|choice| choice.word()).collect());

impl clap::ValueEnum for ClusterKind {
    fn value_variants<'a>() -> &'a [ClusterKind] {
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let value = clap::builder::PossibleValue::new(self.word()).help(self.help());
        Some(if self.is_simulated() { value.alias("simulated") } else { value })
    }
}

impl Serialize for ClusterKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for ClusterKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ClusterKind, D::Error> {
        let word = String::deserialize(deserializer)?;
        let choice = CHOICES.iter().find(|choice| choice.word() == word);
        choice.copied().ok_or_else(|| D::Error::unknown_variant(&word, &WORDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_known_by_its_name_and_no_other_word() {
        assert_eq!(*WORDS, ["auto", "docker", "local", "existing", "sim", "any"]);
        for choice in CHOICES.iter() {
            let text = serde_json::to_string(choice).unwrap();
            assert_eq!(serde_json::from_str::<ClusterKind>(&text).unwrap(), *choice);
        }
        let error = serde_json::from_str::<ClusterKind>("\"podman\"").unwrap_err().to_string();
        assert!(error.contains("unknown variant `podman`, expected one of `auto`, `docker`, `local`"), "{error}");
    }
}

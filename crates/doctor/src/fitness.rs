//! The kinds of lock and the libraries of the catalogue that work on these servers.
//!
//! The needs of a library come from its description in the catalogue, which names scripts, WAIT, functions and messages. If the
//! description does not say if a library sends EVAL, and EVAL is not available, the result is unknown.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::checks::{Case, Finding, Shape, Weight};
use crate::observations::{Ability, Name, Observations, Seen, Server};
use base::words::{count, list};
use model::scenario::{Workload, catalogue};
use model::topology::Topology;

/// Redlock needs a majority that survives the loss of one server.
const VOTERS: usize = 3;

/// A kind of lock on these servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fitness {
    /// `single`, `redlock`, `failover` or `cluster`.
    pub kind: String,
    pub what: String,
    pub suits: Suits,
    /// The reasons, as sentences. Empty if it works without a condition.
    pub reason: String,
    /// Published libraries of this kind.
    pub libraries: Vec<Fit>,
}

/// A library on these servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fit {
    pub library: String,
    /// Its workloads in the catalogue.
    pub workloads: Vec<String>,
    pub suits: Suits,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suits {
    Works,
    WithCondition,
    WillNot,
    Unknown,
}

impl Suits {
    pub fn words(self) -> &'static str {
        match self {
            Suits::Works => "works",
            Suits::WithCondition => "works, with a condition",
            Suits::WillNot => "will not work",
            Suits::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LockKind {
    Single,
    Redlock,
    Failover,
    Cluster,
}

const KINDS: [(LockKind, &str, &str); 4] = [
    (LockKind::Single, "single", "a lock on one server"),
    (LockKind::Redlock, "redlock", "Redlock on independent servers"),
    (LockKind::Failover, "failover", "a lock on the primary of a Sentinel group"),
    (LockKind::Cluster, "cluster", "a lock on a Redis Cluster"),
];

/// All kinds of lock, each with the libraries of the catalogue.
pub fn fitness(observations: &Observations, findings: &[Finding]) -> Vec<Fitness> {
    let case = Case { observations, ttl: None };
    let libraries = libraries();
    let each = KINDS.iter().map(|(kind, name, what)| {
        let (suits, reason) = judged(*kind, &case, findings);
        let of_kind = libraries.iter().filter(|library| library.kind == *kind);
        Fitness {
            kind: (*name).to_string(),
            what: (*what).to_string(),
            suits,
            libraries: of_kind.map(|library| library.fit(&case, suits, &reason)).collect(),
            reason,
        }
    });
    each.collect()
}

fn judged(kind: LockKind, case: &Case, findings: &[Finding]) -> (Suits, String) {
    let shape = case.shape();
    if shape == Shape::Nothing {
        return (Suits::Unknown, "No server that can grant a lock was reached.".to_string());
    }
    if let Some(lacking) = findings.iter().find(|finding| finding.check == "least-commands") {
        return (Suits::WillNot, lacking.sentence.clone());
    }
    let (fits, reason) = match (kind, shape) {
        (LockKind::Single, Shape::Cluster) => (true, "The library must follow the redirections of a cluster."),
        (LockKind::Single, Shape::Sentinel) => (true, "The library must ask the Sentinels for the primary."),
        (LockKind::Single, _) => (true, ""),
        (LockKind::Redlock, Shape::Independent(number)) if number >= VOTERS => (
            true,
            if number % 2 == 0 {
                "An even number of servers survives no more failures than one server fewer."
            } else {
                ""
            },
        ),
        (LockKind::Redlock, Shape::Independent(_) | Shape::Single) => {
            (false, "Redlock needs three independent servers, but fewer were named.")
        }
        (LockKind::Redlock, _) => (false, "Redlock needs independent servers, but these servers replicate."),
        (LockKind::Failover, Shape::Sentinel) => (true, ""),
        (LockKind::Failover, Shape::Replicated) => (
            true,
            "Sentinels must promote a replica, but no Sentinel was named. Give their addresses and --sentinel NAME.",
        ),
        (LockKind::Failover, Shape::Cluster) => (false, "A cluster promotes its replicas itself: see cluster."),
        (LockKind::Failover, _) => (false, "The server has no replica that Sentinels could promote."),
        (LockKind::Cluster, Shape::Cluster) => (true, ""),
        (LockKind::Cluster, _) => (false, "The server is not in cluster mode."),
    };
    if !fits {
        return (Suits::WillNot, reason.to_string());
    }
    let mut titles: Vec<String> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.weight == Weight::Loses) {
        let title = base::words::small(&finding.title);
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let mut reasons: Vec<String> = Vec::new();
    if !reason.is_empty() {
        reasons.push(reason.to_string());
    }
    if !titles.is_empty() {
        reasons.push(format!("Locks can be lost: {}.", list(&titles)));
    }
    if findings.iter().any(|finding| finding.weight == Weight::Blocks) {
        reasons.push("Clients may be unable to acquire a lock: see above.".to_string());
    }
    match reasons.is_empty() {
        false => (Suits::WithCondition, reasons.join(" ")),
        true if findings.iter().any(|finding| finding.weight == Weight::Unseen) => {
            (Suits::WithCondition, "Settings that matter for locks could not be read.".to_string())
        }
        true => (Suits::Works, String::new()),
    }
}

/// A library of the catalogue, with its needs.
struct Entry {
    name: String,
    kind: LockKind,
    workloads: Vec<String>,
    needs: BTreeSet<Ability>,
}

/// A library by its kind of lock, its name and its home.
type Which = (LockKind, String, Option<String>);

/// All libraries on Redis, by kind and name.
fn libraries() -> Vec<Entry> {
    let known = catalogue::WORKLOADS.iter().filter_map(|(name, _)| catalogue::workload(name).ok());
    let known: Vec<(String, Workload)> = known.filter(|(_, workload)| workload.lock.is_on_redis()).collect();
    // The needs of one workload of a library hold for all of its workloads.
    let mut needs: BTreeMap<(String, Option<String>), BTreeSet<Ability>> = BTreeMap::new();
    let mut entries: BTreeMap<Which, (Vec<String>, bool)> = BTreeMap::new();
    for (name, workload) in &known {
        let Some(library) = &workload.library else { continue };
        let which = (library.name.clone(), library.home.clone());
        needs.entry(which).or_default().extend(needs_of(&workload.description));
        let key = (kind_of(workload), library.name.clone(), library.home.clone());
        let entry = entries.entry(key).or_default();
        entry.0.push(name.clone());
        // On one server there is no replica to wait for, so this holds only for a kind of lock.
        entry.1 |= workload.description.contains("WAIT ");
    }
    let each = entries.into_iter().map(|((kind, name, home), (workloads, waits))| {
        let mut needs = needs.get(&(name.clone(), home)).cloned().unwrap_or_default();
        if waits {
            needs.insert(Ability::Wait);
        }
        Entry { name, kind, workloads, needs }
    });
    each.collect()
}

fn kind_of(workload: &Workload) -> LockKind {
    match workload.topology {
        Topology::Sentinel(_) => LockKind::Failover,
        Topology::Cluster(_) => LockKind::Cluster,
        Topology::Independent if workload.nodes > 1 => LockKind::Redlock,
        Topology::Independent => LockKind::Single,
    }
}

/// The needs that a description names, except for WAIT.
fn needs_of(description: &str) -> BTreeSet<Ability> {
    let mut needs = BTreeSet::new();
    let says = |words: &[&str]| words.iter().any(|word| description.contains(word));
    if says(&["Lua", "script"]) {
        needs.insert(Ability::Eval);
    }
    if says(&["Redis function"]) {
        needs.insert(Ability::Functions);
    }
    if says(&["published message", "pub-sub", "release message", "subscription"]) {
        needs.extend([Ability::Publish, Ability::Subscribe]);
    }
    needs
}

impl Entry {
    fn fit(&self, case: &Case, kind: Suits, reason: &str) -> Fit {
        let (suits, reason) = self.suits(case, kind, reason);
        Fit { library: self.name.clone(), workloads: self.workloads.clone(), suits, reason }
    }

    fn suits(&self, case: &Case, kind: Suits, reason: &str) -> (Suits, String) {
        if matches!(kind, Suits::WillNot | Suits::Unknown) {
            return (kind, reason.to_string());
        }
        for need in &self.needs {
            if let Some(why) = lacks(case, need.name(), |server| server.abilities.get(need)) {
                return (Suits::WillNot, why);
            }
        }
        if self.name.starts_with("Redisson") {
            for name in Name::ALL {
                if let Some(why) = lacks(case, name.pattern(), |server| server.names.get(name)) {
                    return (Suits::WillNot, why);
                }
            }
        }
        let scripts = lacks(case, Ability::Eval.name(), |server| server.abilities.get(&Ability::Eval));
        if scripts.is_some() && !self.needs.contains(&Ability::Eval) {
            let text = "EVAL is not available, and the catalogue does not say whether this library sends it.";
            return (Suits::Unknown, text.to_string());
        }
        (kind, reason.to_string())
    }
}

/// The sentence for a server that lacks something. None if no server lacks it.
fn lacks<'a>(case: &Case<'a>, what: &str, of: impl Fn(&'a Server) -> Option<&'a Seen<String>>) -> Option<String> {
    case.granting().find_map(|server| match of(server)? {
        Seen::Known(_) => None,
        Seen::Forbidden => Some(format!("{what} is not allowed for this user at {}.", server.address)),
        Seen::Refused(error) => Some(format!("{what} fails at {}: {error}.", server.address)),
        Seen::Unknown => Some(format!("{what} received no reply from {}.", server.address)),
    })
}

/// Libraries grouped by result: the result, the reason and the names.
pub(crate) fn grouped(fitness: &Fitness) -> Vec<(Suits, String, Vec<String>)> {
    let mut groups: Vec<(Suits, String, Vec<String>)> = Vec::new();
    for fit in &fitness.libraries {
        // If two libraries have the same name, their workloads are added.
        let twice = fitness.libraries.iter().filter(|other| other.library == fit.library).count() > 1;
        let name = match fit.workloads.first().filter(|_| twice) {
            Some(workload) => format!("{} ({workload})", fit.library),
            None => fit.library.clone(),
        };
        match groups.iter_mut().find(|(suits, reason, _)| (*suits, reason.as_str()) == (fit.suits, &fit.reason)) {
            Some((_, _, names)) => names.push(name),
            None => groups.push((fit.suits, fit.reason.clone(), vec![name])),
        }
    }
    groups.sort_by_key(|(suits, ..)| *suits);
    groups
}

/// `1 library`, `12 libraries`
pub(crate) fn number_of(libraries: usize) -> String {
    format!("{} {}", count(libraries as u64), if libraries == 1 { "library" } else { "libraries" })
}

#[cfg(test)]
mod tests;

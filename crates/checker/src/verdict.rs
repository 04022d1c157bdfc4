//! The checker's conclusions: types only.

use serde::{Deserialize, Serialize};

use super::AnomalyKind;
use super::sentence::Sentence;
use model::history::Claim;

/// The checker's conclusion about one history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub valid: Validity,
    /// Why the verdict is not `valid`, most important first, one sentence each; empty when it is.
    pub reasons: Vec<String>,
    /// The outcome and the evidence of each claim: the workload's claims, and others that the history bears on.
    #[serde(default)]
    pub claims: Vec<ClaimVerdict>,
    pub lost_updates: LostUpdates,
    /// The final state of each key, in the order of their names.
    #[serde(default)]
    pub keys: Vec<KeyEnd>,
    pub mutual_exclusion: MutualExclusion,
    #[serde(default)]
    pub lock: LockProperties,
    pub gates: Vec<Gate>,
    /// Ordered by time.
    pub anomalies: Vec<Anomaly>,
    /// Anomalies that would contradict conditional claims that the workload does not make. They decide nothing.
    #[serde(skip)]
    pub unclaimed: Vec<Anomaly>,
    pub counts: Counts,
}

/// The outcome of one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimVerdict {
    pub claim: Claim,
    /// True if the workload makes this claim, so that it decides the verdict.
    pub claimed: bool,
    /// The outcome of the claim alone, whatever the gates say: unknown if too little could have contradicted it.
    pub valid: Validity,
    /// How many facts could have contradicted it.
    pub evidence: u64,
    /// A description of these facts, with their number.
    pub text: String,
    /// The missing evidence, if there are too few facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Contradictions that do not count, and why: `1 handed out with nothing left, after its client was blocked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
}

/// Three-valued, as in Jepsen: `true`, `false` or `"unknown"` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    Valid,
    Invalid,
    Unknown,
}

/// Acknowledged updates that did not survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LostUpdates {
    /// How many updates are certainly lost: in no lineage of the register's final value, whatever the indeterminate operations
    /// did. Blind writes hide earlier values. Under them, updates count that were rolled back: an older value was read later and
    /// they were never seen again. Excludes updates lost to a write in flight when its client released the lock
    /// ([`AnomalyKind::WriteInFlight`]).
    pub count: u64,
    /// The number of all acknowledged updates.
    pub acknowledged: u64,
    /// `count / acknowledged`, 0 if nothing was acknowledged.
    pub fraction: f64,
}

/// The final state of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEnd {
    pub key: String,
    /// The number of acknowledged updates of this key.
    pub acknowledged: u64,
    /// How many of them are certainly lost, without those lost to writes in flight.
    pub lost: u64,
    /// How many of these no anomaly names, because only the amount shows that they are gone.
    #[serde(default, skip_serializing_if = "base::words::is_zero")]
    pub lost_unnamed: u64,
    /// The number of updates that took effect without an acknowledgement, as far as the final value shows.
    pub unacknowledged: u64,
    /// A counter's number or a list's length after the last update; None for a register, or if it was not read.
    pub amount: Option<u64>,
}

/// Times at which two clients certainly held the lock at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MutualExclusion {
    /// The number of pairs of overlapping holds. If several clients may hold the lock: the number of holds beyond that.
    pub violations: u64,
    /// The number of holds with certain enough times to be compared.
    pub comparable_holds: u64,
    /// The number of holds that end at the holder's last act: it was stopped, and then learnt of its loss before it acted again.
    #[serde(default, skip_serializing_if = "is_none")]
    pub to_last_act: u64,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

/// Results on a lock besides exclusion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockProperties {
    /// The number of acquisitions with a fencing token and known times.
    pub tokens: u64,
    /// The number of acquisitions with a token not greater than the token of an acquisition that was over before they began.
    pub token_regressions: u64,
    /// Nanoseconds from the last heal to the next acquisition; None if there was no heal or no later acquisition.
    pub reacquired_after_ns: Option<u64>,
    /// The longest wait for a free lock, with faults or without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap: Option<Gap>,
    /// Holders that went on acting after another client had acquired their lock, without learning of it.
    pub untold_losses: Vec<UntoldLoss>,
}

/// A time in which clients asked for a key's free lock, and none acquired it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub key: String,
    /// In nanoseconds of run time.
    pub from: u64,
    pub to: u64,
}

/// A holder that did not learn that its lock was gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntoldLoss {
    /// Index of its `invoke` event.
    pub operation: u64,
    /// When another client had acquired the lock, in nanoseconds of run time.
    pub time: u64,
    /// The last time at which it certainly still acted as the holder.
    pub acted_until: u64,
    pub fault: Option<u32>,
}

/// A condition that a run must meet to prove anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// A stable name, such as `faults-observed`.
    pub name: String,
    pub passed: bool,
    /// The observation, in words and numbers.
    pub text: String,
    /// True if a failure of this gate puts the evidence itself in doubt, so that not even a violation is believed. Example: the
    /// resource was not empty at the start.
    pub undermines_violations: bool,
}

/// The names of the gates, which are the same in every version.
macro_rules! gate_names {
    ($($gate:ident = $word:literal: $title:literal, $applies:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GateName {
            $($gate),*
        }

        impl GateName {
            pub const ALL: &[GateName] = &[$(GateName::$gate),*];

            pub const fn word(self) -> &'static str {
                match self {
                    $(GateName::$gate => $word),*
                }
            }

            /// The condition of the gate, and the runs that it applies to.
            pub(super) const fn title_and_applies(self) -> (&'static str, &'static str) {
                match self {
                    $(GateName::$gate => ($title, $applies)),*
                }
            }
        }
    };
}

gate_names! {
    Completed = "completed": "The run reaches its planned end", "every run",
    ResourceEmpty = "resource-empty": "The resource is empty at the start", "every run",
    ClientsReady = "clients-ready": "Every client is ready at the start", "every run",
    NodesReady = "nodes-ready": "Every node answers at the start", "every run",
    ClientsSteady = "clients-steady": "No client fails on its own", "every run",
    ClientsConsistent = "clients-consistent": "No client contradicts itself", "every run",
    ClientsCareful = "clients-careful": "No client releases the lock with a write still under way that later overwrites an update", "every run",
    ScriptPlayed = "script-played": "Every step of the script has its effect", "runs with a script",
    CancellationsTaken = "cancellations-taken": "Each cancelled operation ends as cancelled", "runs that cancel operations",
    FaultsObserved = "faults-observed": "redjepsen observes the start of every fault", "runs with faults",
    FaultsHealed = "faults-healed": "redjepsen observes the end of every fault", "runs with faults",
    NodesHealthy = "nodes-healthy": "Every node answers at the end", "every run",
    FinalReads = "final-reads": "Every key is read at the end", "every run",
    EnoughAcknowledged = "enough-acknowledged": "Enough updates are acknowledged", "every run",
    EveryClient = "every-client": "Every client has an update acknowledged", "every run",
    Contention = "contention": "Clients compete for the lock", "every run",
    FaultsMetHolds = "faults-met-holds": "A fault hits a holder, or in a script any client with an operation in progress", "runs with faults",
    ProgressBefore = "progress-before": "Updates are acknowledged before the faults", "runs with faults",
    ProgressDuring = "progress-during": "Updates are acknowledged during the faults, as the nemesis expects", "runs with faults",
    ProgressAfter = "progress-after": "Updates are acknowledged after the faults", "runs with faults",
    BreakpointsBrief = "breakpoints-brief": "No script keeps a holder until its lock has expired", "runs with a script whose locks expire",
}

impl Gate {
    /// The gate with this name; None if only a later version has it.
    pub fn which(&self) -> Option<GateName> {
        GateName::ALL.iter().copied().find(|gate| gate.word() == self.name)
    }
}

/// A finding of an advisory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The advisory's id.
    pub id: String,
    /// The advisory's title.
    pub title: String,
    /// The number of operations, clients or releases that contradict it, and the number of all that could.
    pub count: u64,
    pub of: u64,
    /// How bad the worst of them is, for comparing runs: a higher number is worse. Each advisory has its own scale.
    #[serde(default, skip_serializing_if = "base::words::is_zero")]
    pub severity: u64,
    /// True if a fault was injected or an operation cancelled before the worst of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// The worst of them, as a sentence without a full stop.
    pub text: String,
}

impl Remark {
    /// A remark whose id and title its advisory fills in; None if `count` is zero.
    pub(super) fn new(count: u64, of: u64, text: String) -> Option<Remark> {
        let (id, title) = Default::default();
        (count > 0).then_some(Remark { id, title, count, of, severity: 0, disturbed: false, text })
    }
}

/// An event that should not have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    pub key: String,
    /// When it became visible, in nanoseconds of run time.
    pub time: u64,
    /// The operations involved, as indices of their `invoke` events. Two holders: the earlier one first. A lost update:
    /// the loser first, then the operation that overwrote it.
    pub operations: Vec<u64>,
    /// The fault that explains it, if one was in effect on one of the clients or on the lock's nodes.
    pub fault: Option<u32>,
    /// Acknowledged updates that this anomaly lost, as indices of their `invoke` events.
    pub lost: Vec<u64>,
    /// The event, in one plain sentence.
    pub summary: String,
    /// How it came about, if the history makes that certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<How>,
}

impl Anomaly {
    /// An anomaly that lost no update and has no explanation yet.
    pub(super) fn new(kind: AnomalyKind, key: &str, time: u64, operations: Vec<u64>, summary: String) -> Anomaly {
        Anomaly { kind, key: key.to_string(), time, operations, fault: None, lost: Vec::new(), how: None, summary }
    }
}

/// How the fault that explains an anomaly is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blames {
    /// Not at all: it is the fault of the library or the program.
    Nothing,
    /// By `causes`, which explains how two clients came to hold the lock at once.
    Holders,
    /// Faults between reading and writing, or on the server that lost the data.
    Writes,
    /// Faults that may have set a counter back: on the data of nodes, or on the way to independent nodes.
    Counters,
    /// Any fault in effect.
    Effects,
}

/// How an anomaly came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    pub kind: HowKind,
    pub sentence: Sentence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HowKind {
    /// The earlier holder received an extension of its lock when another client already had it.
    Extended,
    /// The machine stood still when the earlier holder's lock expired.
    StoodStill,
    /// The earlier holder waited for a processor when its lock expired.
    Starved,
    /// Another process had stopped the earlier holder when its lock expired.
    StoppedOutside,
    /// A script kept the earlier holder at a breakpoint when its lock expired.
    Breakpoint,
    /// The lock lets a client steal it from another client, and a client did.
    Stolen,
    /// Another node had become the primary.
    Promoted,
    /// A client acquired a lock whose validity was over by its own account.
    Expired,
    /// An earlier holder released the lock meanwhile.
    Released,
}

impl How {
    /// None if no line of the history proves it. The text has no full stop.
    pub(super) fn new(kind: HowKind, text: String, lines: impl IntoIterator<Item = u64>) -> Option<How> {
        Sentence::new(format!("{text}."), lines).map(|sentence| How { kind, sentence })
    }
}

/// The number of operations by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub ok: u64,
    pub fail: u64,
    pub info: u64,
}

impl Verdict {
    /// The outcome of a claim; None if the workload does not make it and the history does not bear on it.
    pub fn claim(&self, claim: Claim) -> Option<&ClaimVerdict> {
        self.claims.iter().find(|verdict| verdict.claim == claim)
    }

    /// True if there is an anomaly of this kind.
    pub fn has(&self, kind: AnomalyKind) -> bool {
        self.count_of(kind) > 0
    }

    /// The number of anomalies of this kind.
    pub fn count_of(&self, kind: AnomalyKind) -> u64 {
        self.anomalies.iter().filter(|anomaly| anomaly.kind == kind).count() as u64
    }
}

impl Serialize for Validity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Validity::Valid => serializer.serialize_bool(true),
            Validity::Invalid => serializer.serialize_bool(false),
            Validity::Unknown => serializer.serialize_str("unknown"),
        }
    }
}

impl<'de> Deserialize<'de> for Validity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Bool(true) => Ok(Validity::Valid),
            serde_json::Value::Bool(false) => Ok(Validity::Invalid),
            serde_json::Value::String(word) if word == "unknown" => Ok(Validity::Unknown),
            other => Err(serde::de::Error::custom(format!("`valid` must be true, false or \"unknown\", not {other}"))),
        }
    }
}

/// The 95% confidence interval of a share, if `count` of `of` were seen; None if `of` is 0. It is the score interval of Wilson
/// (1927), "Probable inference, the law of succession, and statistical inference", JASA 22, 209-212. It also holds for small
/// numbers and for shares of 0 and 1 (Brown, Cai and DasGupta, 2001, "Interval estimation for a binomial proportion").
///
/// Use it for independent events, such as whether runs violate a claim. Updates are not independent: one late write may overwrite
/// several.
pub fn wilson_95(count: u64, of: u64) -> Option<(f64, f64)> {
    /// The 97.5% point of the normal distribution.
    const Z: f64 = 1.959_963_984_540_054;
    if of == 0 {
        return None;
    }
    let n = of as f64;
    let share = (count as f64 / n).min(1.0);
    let divisor = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / divisor;
    let half = Z / divisor * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    // At the ends the formula gives exactly 0 and 1, except for rounding.
    let low = if count == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if count >= of { 1.0 } else { (centre + half).min(1.0) };
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
        for (count, of, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let (found_low, found_high) = wilson_95(count, of).unwrap();
            assert!((found_low - low).abs() < 5e-5 && (found_high - high).abs() < 5e-5, "{count} of {of}");
        }
        assert_eq!(wilson_95(0, 0), None);
        assert_eq!(wilson_95(7, 7).unwrap().1, 1.0);
    }
}

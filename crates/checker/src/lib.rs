//! Decides from a history whether updates were lost and whether the lock excluded. Pure: it uses no IO, clock or randomness.
//!
//! - [`properties`]: the questions to a history, one property per file, with its words and its check
//! - [`case`]: facts that several properties need, computed once
//! - [`gates`]: did the run prove anything?
//! - [`updates`]: did every acknowledged update survive? [`register`] links operations by the values they read and wrote,
//!   [`lineage`] decides which updates survived, [`order`] compares with real time. Under blind writes, [`rollback`] finds undone
//!   updates. For counters and lists, [`amounts`] checks that the numbers agree
//! - [`holds`]: did two clients hold a lock at once?
//! - [`liveness`]: could a free lock be acquired?
//! - [`locks`]: did tokens rise, was the lock acquired when a script expected it, did holders learn of a lost lock?
//! - [`owners`]: which client certainly had a lock? [`stopped`]: which client could not report?
//! - [`evidence`]: which facts could have contradicted each claim?
//! - [`starved`]: what kept a member from its work, so that measured times prove nothing?
//! - [`blame`]: is the lock to blame for a loss?
//! - [`causes`]: why did two clients hold the lock at once? [`attribute`]: which fault explains the other anomalies?
//! - [`minimal_counterexample`]: which few operations show the violation? (The crate [`linearizability`] answers that for any
//!   history.)
//!
//! The verdict is `invalid` if an anomaly contradicts a claim of the workload, unless the evidence itself is in doubt. Otherwise
//! it is `unknown` if a gate failed or a claim has too little evidence. Otherwise it is `valid`.

mod amounts;
mod attribute;
mod blame;
mod case;
mod causes;
mod evidence;
mod gates;
mod holds;
mod known;
mod lineage;
mod liveness;
mod locks;
mod minimal_counterexample;
#[cfg(debug_assertions)]
mod mutants;
mod order;
mod owners;
pub mod properties;
mod reach;
mod register;
mod rollback;
mod sentence;
mod starved;
mod stopped;
mod updates;
mod verdict;
mod words;

pub use evidence::LEAST_EVIDENCE;
pub use gates::LEAST_ACKNOWLEDGED;
pub use liveness::STUCK_AFTER_TTLS;
pub use minimal_counterexample::{MinimalCounterexample, minimal_counterexample};
pub use sentence::Sentence;
pub use starved::{QUIETER, a_server_was_missing, covered, everyone_ran};
pub use verdict::*;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::case::Case;
use self::evidence::{Evidence, NotCounted};
use self::properties::{
    ADVISORIES, AnomalyDef, Property, Recorded, Seen, amounts as amount, answers, client_crash, grants, kept_out,
    liveness as live, losses, mutual_exclusion, ownership, releases, tokens, updates as update, write_in_flight,
};
use model::history::{Claim, History, Outcome, Process, RecordedCommand};

/// The properties, each with its kinds of anomalies.
macro_rules! properties {
    ($($property:ident: $($(#[$attribute:meta])? $kind:ident = $anomaly:ident),*;)*) => {
        /// In the order of the report.
        pub static PROPERTIES: &[&Property] = &[$(&$property::DEF),*];

        /// A kind of anomaly. The file of its property describes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum AnomalyKind {
            $($(
                #[doc = concat!("See `", stringify!($property), "::", stringify!($anomaly), "`.")]
                $(#[$attribute])?
                $kind,
            )*)*
        }

        impl AnomalyKind {
            pub const ALL: &[AnomalyKind] = &[$($(AnomalyKind::$kind),*),*];

            pub fn def(self) -> &'static AnomalyDef {
                match self {
                    $($(AnomalyKind::$kind => &$property::$anomaly,)*)*
                }
            }

            /// The property that an anomaly of this kind violates.
            pub fn property(self) -> &'static Property {
                match self {
                    $($(AnomalyKind::$kind => &$property::DEF,)*)*
                }
            }
        }
    };
}

properties! {
    update: LostUpdate = LOST_UPDATE, StaleRead = STALE_READ, ImpossibleRead = IMPOSSIBLE_READ, OrderViolation = ORDER_VIOLATION;
    mutual_exclusion: OverlappingHolders = OVERLAPPING_HOLDERS;
    tokens: TokenRegress = TOKEN_REGRESS;
    live: NotObtained = NOT_OBTAINED, AcquiredLate = ACQUIRED_LATE, Unavailable = UNAVAILABLE;
    amount: WrongAmount = WRONG_AMOUNT;
    write_in_flight: WriteInFlight = WRITE_IN_FLIGHT;
    answers: WaitedTooLong = WAITED_TOO_LONG, LeftBehind = LEFT_BEHIND;
    releases: FalseRelease = FALSE_RELEASE;
    ownership: FalseOwnership = FALSE_OWNERSHIP;
    losses: #[serde(rename = "told-late")] LateLossReport = LATE_LOSS_REPORT;
    grants: ExpiredGrant = EXPIRED_GRANT;
    client_crash: EndedByItself = ENDED_BY_ITSELF;
    kept_out: KeptOut = KEPT_OUT;
}

/// A property as lists and tables show it.
pub struct PropertyRow {
    pub id: &'static str,
    /// `claim`, `gate`, `advisory`
    pub rank: &'static str,
    pub title: &'static str,
    pub applies: &'static str,
    pub parameter: Option<&'static str>,
}

/// All properties: claims, then gates, then advisories.
pub fn properties_by_rank() -> Vec<PropertyRow> {
    let claims = PROPERTIES.iter().filter(|property| property.claim().is_some());
    let claims = claims.map(|of| ("claim", of.id, of.title, of.applies, of.parameter));
    let gates = GateName::ALL.iter().map(|gate| {
        let (title, applies) = gate.title_and_applies();
        ("gate", gate.word(), title, applies, None)
    });
    let advisories = ADVISORIES.iter().map(|of| ("advisory", of.id, of.title, of.applies, None));
    let all = claims.chain(gates).chain(advisories);
    all.map(|(rank, id, title, applies, parameter)| PropertyRow { id, rank, title, applies, parameter }).collect()
}

impl AnomalyKind {
    /// The displayed name.
    pub fn name(self) -> &'static str {
        self.def().name
    }

    /// The claim that an anomaly of this kind contradicts; None if the anomaly is not about the lock.
    pub fn contradicts(self) -> Option<Claim> {
        self.property().claim().map(|def| def.claim)
    }
}

/// Checks a history against the claims in its header, or against every property if it has no header.
pub fn check(history: &History) -> Verdict {
    let case = Case::new(history);
    let mut gates = gates::check(history, &case.updates.anomalies);
    let (mut anomalies, mut evidence) = (Vec::new(), BTreeMap::new());
    let mut unclaimed = Vec::new();
    for property in PROPERTIES {
        let findings = (property.check)(&case);
        if !property.is_asked(history) {
            unclaimed.extend(findings.anomalies);
            continue;
        }
        anomalies.extend(findings.anomalies);
        evidence.insert(property.id, findings.evidence);
    }
    attribute::explain_all(history, &mut anomalies);
    anomalies.sort_by(|a, b| (a.time, a.kind, &a.operations).cmp(&(b.time, b.kind, &b.operations)));
    gates.extend(gates::nobody_kept(history, &anomalies));
    if let Some(there) = starved::servers_there(history, &anomalies)
        && let Some(healthy) = gates.iter_mut().find(|gate| gate.name == there.name)
    {
        *healthy = there;
    }
    #[cfg(debug_assertions)]
    mutants::blind(&mut gates, &mut anomalies);

    let lock = LockProperties {
        tokens: case.tokens.seen,
        token_regressions: case.tokens.regressions,
        reacquired_after_ns: case.liveness.reacquired_after_ns,
        longest_gap: case.liveness.longest_gap.clone(),
        untold_losses: locks::untold_losses(history, &case.overlaps.anomalies),
    };
    let mutual_exclusion = MutualExclusion {
        violations: case.overlaps.violations,
        comparable_holds: case.overlaps.comparable_holds,
        to_last_act: case.overlaps.to_last_act,
    };
    let (claims, doubts) = claims(history, &anomalies, evidence);
    let mut verdict = Verdict {
        valid: Validity::Unknown,
        reasons: Vec::new(),
        claims,
        lost_updates: case.updates.lost,
        keys: case.updates.keys,
        mutual_exclusion,
        lock,
        gates,
        anomalies,
        unclaimed,
        counts: counts(history),
    };
    (verdict.valid, verdict.reasons) = decide(history, &verdict, doubts);
    verdict
}

/// The findings of the advisories, which never change the verdict. `commands` are the commands that the nodes recorded, if they
/// did. A long history gets no findings, because attempts are compared with each other.
pub fn advise(history: &History, verdict: &Verdict, commands: &[RecordedCommand]) -> Vec<Remark> {
    let run = Recorded { history, verdict, commands };
    let advisories = ADVISORIES.iter().filter(|_| !history.is_long());
    let remarks = advisories.filter_map(|advisory| {
        let remark = (advisory.check)(&run)?;
        Some(Remark { id: advisory.id.to_string(), title: advisory.title.to_string(), ..remark })
    });
    let not_made = PROPERTIES.iter().filter_map(|property| {
        let mut unclaimed = verdict.unclaimed.iter().filter(|anomaly| anomaly.kind.property().id == property.id);
        let (first, more) = (unclaimed.next()?, unclaimed.count() as u64);
        let (id, title, text) = (property.id.to_string(), property.title.to_string(), first.summary.clone());
        Some(Remark { id, title, count: more + 1, of: more + 1, severity: 0, disturbed: false, text })
    });
    remarks.chain(not_made).collect()
}

/// The verdict, by the ranks of the violated properties, and its reasons, most important first.
fn decide(history: &History, verdict: &Verdict, missing: Vec<String>) -> (Validity, Vec<String>) {
    let broken = || verdict.claims.iter().filter(|claim| claim.claimed && claim.valid == Validity::Invalid);
    let believable = verdict.gates.iter().all(|gate| gate.passed || !gate.undermines_violations);
    if believable && broken().next().is_some() {
        let reason = |claim: &ClaimVerdict| {
            let seen = Seen::new(history, verdict, claim.claim);
            (seen.def.reason)(&seen)
        };
        return (Validity::Invalid, broken().map(reason).collect());
    }
    let mut failed: Vec<&Gate> = verdict.gates.iter().filter(|gate| !gate.passed).collect();
    failed.sort_by_key(|gate| gates::rank(history, gate));
    let failed = failed.into_iter().map(|gate| gate.text.clone());
    match failed.chain(missing).collect::<Vec<String>>() {
        doubts if doubts.is_empty() => (Validity::Valid, doubts),
        doubts => (Validity::Unknown, doubts),
    }
}

/// The outcome of each claim, updates first: the claims of the workload, and other claims that the history bears on. Also the
/// evidence that is missing for the claims that decide the verdict.
fn claims(
    history: &History,
    anomalies: &[Anomaly],
    mut evidence: BTreeMap<&'static str, Evidence>,
) -> (Vec<ClaimVerdict>, Vec<String>) {
    let (mut claims, mut doubts) = (Vec::new(), Vec::new());
    for (property, def) in PROPERTIES.iter().filter_map(|property| Some((property, property.claim()?))) {
        let claim = def.claim;
        // A history without a header may be of any library.
        let claimed = history.run.as_ref().map_or(!def.conditional, def.decides);
        let broken = anomalies.iter().any(|anomaly| anomaly.kind.contradicts() == Some(claim));
        if !claimed && !broken && !(def.concerns)(history) {
            continue;
        }
        let Evidence { count, text, missing, not_counted } = evidence.remove(property.id).unwrap_or_default();
        let is_needed = !def.conditional || matches!(not_counted, Some(NotCounted::Undecided(_)));
        let (missing, not_counted) = match not_counted {
            Some(NotCounted::Undecided(why)) => (Some(why), None),
            Some(NotCounted::Explained(why)) => (missing, Some(why)),
            None => (missing, None),
        };
        // A violation needs no further evidence.
        let missing = missing.filter(|_| !broken);
        doubts.extend(
            missing.as_ref().filter(|_| claimed && is_needed).map(|missing| format!("{}: {missing}", claim.name())),
        );
        let valid = match missing {
            _ if broken => Validity::Invalid,
            Some(_) => Validity::Unknown,
            None => Validity::Valid,
        };
        claims.push(ClaimVerdict { claim, claimed, valid, evidence: count, text, missing, not_counted });
    }
    (claims, doubts)
}

/// The operations of clients, without the final reads.
fn counts(history: &History) -> Counts {
    let mut counts = Counts::default();
    for operation in history.operations.iter().filter(|operation| operation.process != Process::Controller) {
        match operation.outcome {
            Outcome::Ok => counts.ok += 1,
            Outcome::Fail => counts.fail += 1,
            Outcome::Info => counts.info += 1,
        }
    }
    counts
}

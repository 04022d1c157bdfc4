//! Decides which scripts are fair: only faults may take the time that breaks the lock.
//!
//! A client that waits at a breakpoint is like a client that works slowly. A lock does not protect a holder that works for
//! longer than its TTL. So a fair script keeps no client waiting that long.

use std::collections::{BTreeMap, BTreeSet};

use base::units::Length;
use model::history::Phase;
use model::nemesis::{Fault, Step, Target};

/// How long a client may wait at breakpoints, in TTLs. The rest of the TTL suffices for the rest of its operation.
pub(super) const PATIENCE: f64 = 0.7;

/// True if the script is fair. No client waits for longer than `patience`, in TTLs. At the end, no client waits and no fault is
/// active. Each client begins at most one operation, and no fault takes down a member that is already down.
pub(super) fn is_fair(script: &[Step], patience: f64) -> bool {
    if longest_wait(script, Phase::Acquiring) > patience + 0.005 {
        return false;
    }
    let (mut waiting, mut begun, mut in_effect) = (BTreeSet::new(), BTreeSet::new(), Vec::<&Fault>::new());
    for step in script {
        match step {
            Step::Start { client, .. } if !begun.insert(*client) => return false,
            Step::Start { client, to: Some(_), .. } => _ = waiting.insert(*client),
            Step::Go { client, to: None } | Step::Cancel { client } => _ = waiting.remove(client),
            Step::Inject(fault) => {
                if in_effect.iter().any(|other| clash(fault, other)) {
                    return false;
                }
                in_effect.push(fault);
            }
            Step::Heal(fault) => match in_effect.iter().rposition(|other| *other == fault) {
                Some(place) => _ = in_effect.remove(place),
                None => return false,
            },
            Step::HealAll => in_effect.clear(),
            _ => {}
        }
    }
    waiting.is_empty() && in_effect.is_empty()
}

/// The longest time, in TTLs, for which a script keeps a client waiting at the breakpoints of one operation, from this phase
/// on.
pub(super) fn longest_wait(script: &[Step], from: Phase) -> f64 {
    // The time that each waiting client has waited.
    let mut waiting: BTreeMap<u32, f64> = BTreeMap::new();
    let (mut holds, mut longest) = (BTreeSet::new(), 0.0_f64);
    for step in script {
        let takes = match step {
            Step::Wait(length) => in_ttls(Some(*length)),
            // Without a time limit, the client decides when the step ends.
            Step::Await { within, .. } => in_ttls(*within),
            Step::Expect { .. } => f64::INFINITY,
            Step::AwaitStrike { within, .. } => in_ttls(*within),
            Step::AwaitPrimary { within } => in_ttls(Some(*within)),
            Step::Start { to: Some(_), within: Some(within), .. } => in_ttls(Some(*within)),
            Step::Start { to: Some(_), gives_up, .. } => in_ttls(*gives_up),
            // How long a client takes to acquire the lock is unknown.
            Step::Go { client, to: Some(to) } if *to >= Phase::Acquired && !holds.contains(client) => f64::INFINITY,
            Step::Start { .. }
            | Step::Go { .. }
            | Step::Cancel { .. }
            | Step::Inject(_)
            | Step::Heal(_)
            | Step::HealAll => 0.0,
        };
        let goes = |client: u32| matches!(step, Step::Go { client: going, .. } if *going == client);
        for (client, waited) in &mut waiting {
            *waited += if goes(*client) { 0.0 } else { takes };
            longest = longest.max(*waited);
        }
        match step {
            Step::Go { client, to: None } | Step::Cancel { client } => _ = waiting.remove(client),
            Step::Start { client, to: Some(to), .. } | Step::Go { client, to: Some(to) } => {
                if *to >= Phase::Acquired {
                    holds.insert(*client);
                }
                if *to >= from {
                    waiting.entry(*client).or_insert(0.0);
                }
            }
            _ => {}
        }
    }
    longest
}

/// True if two faults cannot be active at once: they are equal, or one needs a process that the other has ended.
pub(super) fn clash(one: &Fault, other: &Fault) -> bool {
    let ends = |fault: &Fault| fault.kind.ends_processes();
    let both_need_processes = one.kind.needs.process && other.kind.needs.process;
    let members = |fault: &Fault| -> Vec<Target> { fault.all_targets().iter().flat_map(|all| all.0.clone()).collect() };
    let share = || members(one).iter().any(|member| members(other).contains(member));
    one == other || ((ends(one) || ends(other)) && both_need_processes && share())
}

/// A length in TTLs. A missing or absolute length counts as infinite.
fn in_ttls(length: Option<Length>) -> f64 {
    match length {
        Some(Length::Ttl(factor)) => factor,
        Some(Length::Absolute(_)) | None => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::nemesis::Need;
    use model::scenario::catalogue;

    /// Scenarios that stop a holder for longer than its TTL, and why that is fair.
    const KEPT: [(&str, &str); 17] = [
        ("crash-holder", "it is dead"),
        ("crash-in-acquisition", "it is dead"),
        ("refused-write", "it is dead"),
        ("thief-crash", "it is dead"),
        ("stopped-while-three-become-five", "it is dead"),
        ("hung-holder", "it is paused all the while"),
        ("pause-before-check", "its lock ran out while it was paused"),
        ("revived-lock", "its lock ran out while it was paused"),
        ("late-thief", "its lock was taken or ran out while it was paused"),
        ("robbed-at-work", "its lock was taken, and it was told so"),
        ("late-extend-reply", "its lock is renewed, until a fault prevents it"),
        ("late-extend-request", "its lock is renewed, until a fault prevents it"),
        ("reset-in-extension", "its lock is renewed, and the fault fires at a renewal"),
        ("reset-in-renewal", "its lock is renewed"),
        ("long-work", "its lock is renewed"),
        ("long-reading", "its lock is renewed"),
        ("dead-reader", "the one that lives is renewed"),
    ];

    #[test]
    fn no_scenario_keeps_a_holder_by_itself() {
        let mut kept = Vec::new();
        for (name, _) in catalogue::NEMESES {
            let (_, nemesis) = catalogue::nemesis(name).unwrap();
            // Scenarios that test renewal keep the holder beyond its TTL on purpose.
            let says = nemesis.needs().iter().any(|need| matches!(need, Need::Renewal | Need::NoRenewal));
            if !says && longest_wait(&nemesis.script, Phase::HalfAcquired) > 0.95 {
                kept.push(*name);
            }
        }
        kept.sort_unstable();
        let mut meant: Vec<&str> = KEPT.iter().map(|(name, _)| *name).collect();
        meant.sort_unstable();
        assert_eq!(kept, meant, "bound what the script waits for meanwhile: `within 0.3ttl or go on`");
    }

    fn fair(steps: &[&str]) -> bool {
        is_fair(&steps.iter().map(|step| step.parse().unwrap()).collect::<Vec<_>>(), PATIENCE)
    }

    #[test]
    fn only_faults_may_take_the_time_that_breaks_a_lock() {
        assert!(fair(&["start client:0 to before-write", "pause client:0", "go client:0", "wait 2ttl", "heal all"]));
        assert!(!fair(&["start client:0 to before-write", "wait 2ttl", "go client:0"]), "it works slowly");
        assert!(fair(&["start client:0 to read", "wait 0.3ttl", "wait 0.3ttl", "go client:0"]));
        assert!(!fair(&["start client:0 to read", "wait 0.5ttl", "wait 0.3ttl", "go client:0"]));
        assert!(!fair(&["start client:0 to read", "start client:1 to read", "go client:0", "go client:1"]));
        assert!(fair(&[
            "start client:0 to read",
            "start client:1 to read giving up after 0.5ttl",
            "go client:0",
            "go client:1"
        ]));
        assert!(!fair(&["start client:0 to read"]), "it waits for ever");
        let asks = ["start client:0 to acquiring", "start client:1 to acquired giving up after 0.1ttl"];
        assert!(!fair(&[&asks[..], &["go client:0 to read", "go client:1", "go client:0"]].concat()), "for how long?");
        assert!(fair(&[&asks[..], &["go client:1", "go client:0 to read", "go client:0"]].concat()));
        assert!(!fair(&["start client:0 to read", "start client:0", "go client:0"]), "two operations at once");
        assert!(!fair(&["pause client:0"]), "it stays paused");
        assert!(fair(&["kill node:0", "kill node:1", "heal all"]));
        assert!(!fair(&["kill node:0", "kill node:0,node:1", "heal all"]), "it is down");
        assert!(!fair(&["pause node:0", "kill node:0", "heal all"]));
        assert!(fair(&["partition client:0 from node:0", "kill node:0", "heal all"]));
        assert!(!fair(&["heal pause client:0"]));
    }
}

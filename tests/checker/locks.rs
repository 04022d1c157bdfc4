//! What a lock owes beside exclusion: rising tokens, coming back, a word when it is lost.

use redjepsen::checker::AnomalyKind::{NeverReacquired, TokenRegress};
use redjepsen::checker::{STUCK_AFTER_TTLS, Validity};
use redjepsen::history::{Claim, Fact, FactName, Outcome, Phase};

use crate::build::{Build, MS};

/// Acquisitions as (began, over, token), each by a client of its own.
fn tokens(grants: &[(u64, u64, u64)]) -> Vec<Vec<u64>> {
    let mut build = Build::new();
    for (client, &(began, over, token)) in (0..).zip(grants) {
        build.rmw("k0", Outcome::Fail, client, began - 1, Some(over + 1), "?", &format!("v{client}"));
        build.phase(began - 1, Phase::Acquiring, began).phase(began - 1, Phase::Acquired, over);
        build.operation(began - 1).phases[1].token = Some(token);
    }
    let verdict = build.check();
    assert_eq!(verdict.lock.tokens, grants.len() as u64);
    let found: Vec<_> = verdict.anomalies.into_iter().filter(|anomaly| anomaly.kind == TokenRegress).collect();
    assert_eq!(verdict.lock.token_regressions, found.len() as u64);
    found.into_iter().map(|anomaly| anomaly.operations).collect()
}

#[test]
fn tokens_rise_from_one_acquisition_to_the_next() {
    assert_eq!(tokens(&[(10, 20, 1), (30, 40, 2), (50, 60, 7)]), Vec::<Vec<u64>>::new());
    assert_eq!(tokens(&[(10, 20, 2), (15, 30, 1)]), Vec::<Vec<u64>>::new(), "acquired side by side: no order to keep");
    assert_eq!(tokens(&[(10, 20, 2), (30, 40, 1)]), [vec![9, 29]]);
    assert_eq!(tokens(&[(10, 20, 2), (30, 40, 2)]), [vec![9, 29]], "the same token twice protects nothing");
    assert_eq!(tokens(&[(10, 20, 5), (30, 40, 6), (50, 60, 5)]), [vec![29, 49]], "told with the greatest before it");
}

#[test]
fn a_falling_token_is_a_violation_only_where_rising_ones_are_claimed() {
    let mut build = Build::sound();
    for (invoked, token) in [(1, 9), (1_001, 3)] {
        build.phase(invoked, Phase::Acquiring, invoked + 10).operation(invoked).phases[0].token = Some(token);
    }
    let verdict = build.check();
    assert_eq!((verdict.valid, verdict.lock.token_regressions), (Validity::Valid, 1));
    build.header().claims.push(Claim::Tokens);
    let verdict = build.check();
    assert_eq!(verdict.valid, Validity::Invalid);
    assert_eq!(verdict.reasons, ["1 acquisition with a token that does not rise"]);
}

/// After a fault healed at 100 ms, an attempt that ends so many milliseconds later.
fn after_the_heal(tried_for: u64, acquires: bool) -> Build {
    let mut build = Build::new();
    build.history.facts.push(Fact { name: FactName::NodesHealthy, holds: true, text: String::new() });
    build.header().claims = vec![Claim::Liveness];
    build.hold(0, 10, 20).fault(0, "n0", 30, 100);
    build.rmw("k0", Outcome::Fail, 1, 110, Some(100 + tried_for), "?", "late").phase(110, Phase::Acquiring, 111);
    if acquires {
        build.phase(110, Phase::Acquired, 150);
    }
    build
}

#[test]
fn a_lock_must_come_back_after_the_faults() {
    let patience = STUCK_AFTER_TTLS * 1000;
    let stuck = |build: &Build| build.check().anomalies.iter().any(|anomaly| anomaly.kind == NeverReacquired);
    let back = after_the_heal(2 * patience, true);
    assert!(!stuck(&back));
    assert_eq!(back.check().lock.reacquired_after_ns, Some(50 * MS));

    let never = after_the_heal(patience + 1, false);
    assert!(stuck(&never));
    let verdict = never.check();
    assert_eq!((verdict.valid, verdict.lock.reacquired_after_ns), (Validity::Invalid, None));
    assert_eq!(verdict.reasons, ["the lock was never acquired again after the last heal"]);

    assert!(!stuck(&after_the_heal(patience, false)), "what an expiry explains is not held against it");
    let mut sick = after_the_heal(patience + 1, false);
    sick.history.facts.pop();
    assert!(!stuck(&sick), "nodes that did not come back are not the lock's fault");
    let mut unhealed = after_the_heal(patience + 1, false);
    unhealed.history.faults[0].healed = None;
    assert!(!stuck(&unhealed));
    let mut silent = after_the_heal(patience + 1, false);
    silent.operation(110).phases.clear();
    assert!(!stuck(&silent), "nobody is known to have tried");
}

#[test]
fn a_holder_is_told_of_its_loss_or_it_is_not() {
    let losses = |told: bool| {
        let mut build = Build::new();
        build.rmw("k0", Outcome::Info, 0, 9, Some(999), "?", "a").fault(4, "c0", 20, 900);
        build.phase(9, Phase::Acquired, 10).phase(9, Phase::Read, 12);
        if told {
            build.phase(9, Phase::Lost, 905);
        } else {
            build.phase(9, Phase::Written, 910).phase(9, Phase::Releasing, 920);
        }
        build.hold(1, 500, 600).hold(2, 700, 800);
        build.check().lock.untold_losses
    };
    assert_eq!(losses(true), []);
    let found = losses(false);
    assert_eq!(found.len(), 1, "once, however many held the lock meanwhile");
    let loss = found[0];
    assert_eq!((loss.operation, loss.time, loss.acted_until, loss.fault), (9, 500 * MS, 920 * MS, Some(4)));
}

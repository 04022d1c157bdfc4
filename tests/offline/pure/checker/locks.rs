//! Duties of a lock besides exclusion: to issue rising tokens, and to tell a client when its lock is lost.

use checker::AnomalyKind::TokenRegress;
use checker::Validity;
use model::history::{Claim, FaultKind, Outcome, Phase};

use crate::kit::histories::{Build, MS};

/// Acquisitions as (began, ended, token), each by a different client.
fn tokens(grants: &[(u64, u64, u64)]) -> Vec<Vec<u64>> {
    let mut build = Build::new();
    for (client, &(began, over, token)) in (0..).zip(grants) {
        build.rmw("k0", Outcome::Fail, client, began - 1, Some(over + 1), "?", &format!("v{client}"));
        build.phase(began - 1, Phase::Acquiring, began).phase(began - 1, Phase::Acquired, over);
        build.operation(began - 1).phases.edit(|stamps| stamps[1].token = Some(token));
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
    assert_eq!(tokens(&[(10, 20, 2), (20, 30, 1)]), Vec::<Vec<u64>>::new(), "one began as the other was over");
    assert_eq!(tokens(&[(10, 20, 2), (30, 40, 1)]), [vec![9, 29]]);
    assert_eq!(tokens(&[(10, 20, 2), (30, 40, 2)]), [vec![9, 29]], "the same token twice protects nothing");
    assert_eq!(tokens(&[(10, 20, 5), (30, 40, 6), (50, 60, 5)]), [vec![29, 49]], "told with the greatest before it");
}

#[test]
fn a_token_that_is_small_is_explained_by_a_fault_during_the_only_fall() {
    let of = |tokens: [u64; 5], from: u64, to: u64| {
        let mut build = Build::new();
        for (client, token) in (0..).zip(tokens) {
            let (began, over) = (10 + 100 * u64::from(client), 20 + 100 * u64::from(client));
            build.rmw("k0", Outcome::Fail, client, began - 1, Some(over + 1), "?", &format!("v{client}"));
            build.phase(began - 1, Phase::Acquiring, began).phase(began - 1, Phase::Acquired, over);
            build.operation(began - 1).phases.edit(|stamps| stamps[1].token = Some(token));
        }
        build.fault(7, "n0", from, to).history.faults[0].kind = FaultKind::Flush;
        let mut found = build.check().anomalies.into_iter().filter(|anomaly| anomaly.kind == TokenRegress);
        found.find(|anomaly| anomaly.operations.last() == Some(&409)).unwrap().fault
    };
    // The counter fell between 220 and 320 ms.
    let by = |from: u64, to: u64| of([50, 51, 52, 1, 2], from, to);
    assert_eq!(by(250, 260), Some(7));
    assert_eq!((by(50, 60), by(130, 140), by(350, 360)), (None, None, None));
    assert_eq!(
        of([50, 1, 2, 1, 2], 250, 260),
        None,
        "without this fall, the token would be 4, which is too small as well"
    );
    assert_eq!(of([50, 1, 49, 1, 2], 250, 260), Some(7), "without this fall, the token would be 51");
}

#[test]
fn a_falling_token_is_a_violation_only_where_rising_ones_are_claimed() {
    let mut build = Build::sound();
    for (invoked, token) in [(1, 9), (1_001, 3)] {
        build
            .phase(invoked, Phase::Acquiring, invoked + 10)
            .operation(invoked)
            .phases
            .edit(|stamps| stamps[0].token = Some(token));
    }
    let verdict = build.check();
    assert_eq!((verdict.valid, verdict.lock.token_regressions), (Validity::Valid, 1));
    build.header().claims.push(Claim::Tokens);
    let verdict = build.check();
    assert_eq!(verdict.valid, Validity::Invalid);
    assert_eq!(verdict.reasons, ["1 acquisition with a token that does not increase"]);
}

#[test]
fn a_holder_is_told_of_its_loss_or_it_is_not() {
    let losses = |told: bool| {
        let mut build = Build::new();
        build.rmw("k0", Outcome::Info, 0, 9, Some(1_999), "?", "a").fault(4, "c0", 20, 1_900);
        build.phase(9, Phase::Acquired, 10).phase(9, Phase::Read, 12);
        if told {
            build.phase(9, Phase::Lost, 1_905);
        } else {
            build.phase(9, Phase::Written, 1_910).phase(9, Phase::Releasing, 1_920);
        }
        build.hold(1, 1_500, 1_600).hold(2, 1_700, 1_800);
        build.check().lock.untold_losses
    };
    assert_eq!(losses(true), []);
    let found = losses(false);
    assert_eq!(found.len(), 1, "once, however many held the lock meanwhile");
    let loss = found[0];
    assert_eq!((loss.operation, loss.time, loss.acted_until, loss.fault), (9, 1_500 * MS, 1_920 * MS, Some(4)));
}

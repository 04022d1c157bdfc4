//! Lost updates, stale and impossible reads, contradictions with real time: each next to its nearest legal neighbour.

use checker::{AnomalyKind::*, Validity};
use model::history::{Claim, FaultKind, Outcome, Phase, Process};

use crate::kit::histories::{Build, MS, reading};

#[test]
fn one_after_the_other_is_legal_and_so_is_every_value_of_a_read_in_flight() {
    Build::new().ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").final_read("b").accepted();
    for seen in ["-", "a", "b"] {
        Build::new().ok(0, 10, 50, "-", "a").read(2, 1, 95, seen).ok(1, 60, 90, "a", "b").final_read("b").accepted();
    }
}

#[test]
fn two_acknowledged_updates_of_one_value_lose_one() {
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").ok(2, 10, 12, "a", "c").final_read("c");
    assert_eq!(build.found(), [(LostUpdate, vec![6, 10], vec![6])]);
    let verdict = build.check();
    assert_eq!((verdict.lost_updates.count, verdict.lost_updates.acknowledged), (1, 3));
    assert_eq!(verdict.lost_updates.fraction, 1.0 / 3.0);
    assert_eq!(verdict.valid, Validity::Invalid);
    assert_eq!(verdict.reasons, ["1 of 3 acknowledged updates lost (33.3%)"]);
    // The same, with an unacknowledged first update.
    Build::new().ok(0, 1, 5, "-", "a").info(1, 6, 9, "a", "b").ok(2, 10, 12, "a", "c").final_read("c").accepted();
}

#[test]
fn a_paused_holder_erases_a_whole_branch_in_one_event() {
    let mut build = Build::new();
    build
        .ok(4, 1, 5, "-", "v1")
        .ok(0, 10, 5_000, "v1", "a2")
        .phase(10, Phase::Written, 4_000)
        .ok(1, 100, 200, "v1", "b2")
        .ok(2, 300, 400, "b2", "c3")
        .ok(3, 5_100, 5_200, "a2", "d3")
        .final_read("d3")
        .fault(0, "c0", 20, 3_900);
    assert_eq!(build.found(), [(LostUpdate, vec![100, 10], vec![100, 300])]);
    let anomaly = &build.check().anomalies[0];
    assert_eq!(anomaly.time, 4_000_000_000);
    assert_eq!(anomaly.fault, Some(0));
    assert_eq!(
        anomaly.summary,
        "c0 and c1 both read k0 = v1; c0's write of a2 at 4.000 s erased b2 and c3, which had been acknowledged"
    );
}

#[test]
fn each_part_of_a_branch_is_erased_by_the_first_write_that_came_after_it() {
    // c3 read c2's value before c1 erased it, and wrote after c0.
    let mut build = Build::new();
    build
        .ok(4, 1, 5, "-", "v1")
        .ok(2, 10, 20, "v1", "b2")
        .ok(1, 11, 30, "v1", "a2")
        .ok(3, 15, 90, "b2", "b3")
        .ok(0, 40, 60, "a2", "a3")
        .ok(1, 95, 120, "a3", "a4")
        .final_read("a4");
    assert_eq!(build.found(), [(LostUpdate, vec![10, 11], vec![10]), (LostUpdate, vec![10, 95, 11], vec![15])]);
    let summaries: Vec<String> = build.check().anomalies.into_iter().map(|anomaly| anomaly.summary).collect();
    assert_eq!(
        summaries,
        [
            "c1 and c2 both read k0 = v1; c1's write of a2 at 0.030 s erased b2, which had been acknowledged",
            "c1 and c2 both read k0 = v1; c1 wrote a4 (based on c1's a2) at 0.120 s without reading b3, which \
             is based on b2 and had been acknowledged"
        ]
    );
}

#[test]
fn a_write_erases_only_the_value_that_it_found() {
    // c2's write came between, or may have: then c0's write erased c2's value.
    let of = |between: &dyn Fn(&mut Build)| {
        let mut build = Build::new();
        build.ok(3, 1, 5, "-", "v1").ok(1, 10, 20, "v1", "b2");
        between(&mut build);
        build.ok(0, 50, 60, "v1", "a2").final_read("a2");
        build.check().anomalies[0].summary.clone()
    };
    let nothing = of(&|_| {});
    assert!(nothing.contains("c0's write of a2 at 0.060 s erased b2"), "{nothing}");
    let not_built_on = "c0 wrote a2 at 0.060 s without reading b2";
    let written = of(&|build| _ = build.ok(2, 15, 40, "v1", "c2"));
    assert!(written.contains(not_built_on), "{written}");
    let in_doubt = of(&|build| _ = build.info(2, 15, 40, "v1", "c2"));
    assert!(in_doubt.contains(not_built_on), "{in_doubt}");
    // c2 had read, and never wrote.
    let unsent = of(&|build| _ = build.info(2, 15, 40, "v1", "c2").phase(15, Phase::Read, 16));
    assert!(unsent.contains("erased b2"), "{unsent}");
}

#[test]
fn of_two_writes_at_one_time_neither_erased_the_other_for_certain() {
    // c0's write erased both. Only a client that saw the second value after both writes proves that it came last.
    let is_told = |seen: bool| {
        let mut build = Build::new();
        build.ok(3, 1, 5, "-", "v1").ok(1, 7, 9, "v1", "x").ok(1, 10, 30, "x", "b2").ok(2, 11, 31, "x", "c2");
        // c0 sends its write after both.
        build.ok(0, 6, 60, "v1", "a2").phase(6, Phase::BeforeWrite, 40);
        if seen {
            build.read(3, 35, 36, "c2");
        }
        build.final_read("a2");
        build.check().anomalies.iter().any(|anomaly| anomaly.summary.contains("c2's write of c2 at 0.031 s erased b2"))
    };
    assert!(is_told(true) && !is_told(false));
}

#[test]
fn what_was_erased_before_its_answer_came_was_not_acknowledged_by_then() {
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "v1").ok(1, 10, 30, "v1", "a2").ok(2, 11, 40, "v1", "b2").final_read("a2");
    assert_eq!(
        build.check().anomalies[0].summary,
        "c1 and c2 both read k0 = v1; c1's write of a2 at 0.030 s erased b2, which was nevertheless acknowledged"
    );
}

#[test]
fn one_client_is_not_both() {
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").ok(1, 10, 12, "a", "c").final_read("c");
    let summary = &build.check().anomalies[0].summary;
    assert_eq!(summary, "c1 read k0 = a twice; c1's write of c at 0.012 s erased b, which had been acknowledged");
    let mut build = Build::new();
    build.info(0, 1, 2, "-", "a").info(0, 3, 4, "-", "b").read(1, 5, 6, "a").read(2, 7, 8, "b").final_read("b");
    let summary = &build.check().anomalies[0].summary;
    let expected = "c0 read k0 = empty twice, and the values that they then wrote, a and b, were acknowledged or seen: no order allows that";
    assert_eq!(summary, expected);
}

#[test]
fn the_overwriter_is_the_write_that_came_after_wherever_the_lineage_parted() {
    // c1 was the first to build on v1. c0 overwrote this, and c2, which had read b2, overwrote c0.
    let mut build = Build::new();
    build
        .ok(4, 1, 5, "-", "v1")
        .ok(1, 10, 20, "v1", "b2")
        .ok(0, 11, 100, "v1", "a2")
        .ok(2, 30, 200, "b2", "d3")
        .final_read("d3");
    assert_eq!(build.found(), [(LostUpdate, vec![11, 30, 10], vec![11])]);
    assert_eq!(
        build.check().anomalies[0].summary,
        "c1 and c0 both read k0 = v1; c2 wrote d3 (based on c1's b2) at 0.200 s without reading a2, which had \
         been acknowledged"
    );
    // c1's b2 took effect at the same time as a2, so it need not have come after a2.
    let mut build = Build::new();
    build
        .ok(4, 1, 5, "-", "v1")
        .ok(1, 10, 100, "v1", "b2")
        .ok(0, 11, 100, "v1", "a2")
        .ok(2, 30, 200, "b2", "d3")
        .final_read("d3");
    assert_eq!(build.found(), [(LostUpdate, vec![11, 30, 10], vec![11])]);
}

#[test]
fn many_losers_of_one_write_are_one_anomaly_and_every_write_that_overwrote_is_one() {
    let mut build = Build::new();
    build.ok(0, 1, 10, "-", "a").ok(1, 2, 11, "-", "b").ok(2, 3, 12, "-", "c").final_read("c");
    assert_eq!(build.found(), [(LostUpdate, vec![1, 3, 2], vec![1, 2])]);
    // A lost branch had itself overwritten another branch.
    let mut build = Build::new();
    build.ok(0, 1, 50, "-", "z").ok(1, 2, 11, "-", "a").ok(2, 12, 20, "a", "b").ok(3, 13, 21, "a", "c").final_read("z");
    assert_eq!(build.found(), [(LostUpdate, vec![12, 13], vec![12]), (LostUpdate, vec![2, 1], vec![2, 13])]);
    assert_eq!(build.check().lost_updates.count, 3);
}

#[test]
fn the_final_read_decides_which_branch_survived_and_without_it_the_last_to_complete() {
    let forked = || {
        let mut build = Build::new();
        build.ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").ok(2, 7, 12, "a", "c");
        build
    };
    assert_eq!(forked().final_read("b").found(), [(LostUpdate, vec![7, 6], vec![7])]);
    assert_eq!(forked().final_read("c").found(), [(LostUpdate, vec![6, 7], vec![6])]);
    assert_eq!(forked().found(), [(LostUpdate, vec![6, 7], vec![6])]);
}

#[test]
fn a_final_value_that_was_replaced_loses_what_replaced_it() {
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").ok(2, 10, 12, "b", "c");
    build.clone().final_read("c").accepted();
    assert_eq!(build.clone().final_read("a").found(), [(LostUpdate, vec![6, 10_000], vec![6, 10])]);
    assert_eq!(build.clone().final_read("-").found(), [(LostUpdate, vec![1, 10_000], vec![1, 6, 10])]);
    // A client saw the value, but it was never acknowledged: nothing is lost, yet time ran backwards.
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").info(1, 6, 9, "a", "b").read(2, 20, 25, "b");
    build.clone().final_read("b").accepted();
    assert_eq!(build.final_read("a").found(), [(StaleRead, vec![10_000, 20], vec![])]);
}

#[test]
fn an_update_outside_every_lineage_of_the_final_value_is_lost_although_nobody_read_the_same() {
    // c1's branch starts with an indeterminate write whose read value is unknown, so it may be anywhere...
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").info(1, 6, 9, "?", "w").ok(2, 10, 20, "w", "x");
    build.clone().final_read("x").accepted();
    // ...but not before the beginning of the register.
    assert_eq!(build.clone().final_read("a").found(), [(LostUpdate, vec![10, 10_000], vec![10])]);
    // Another lineage of this kind, observed before x began, and final: x is in neither.
    let mut build = Build::new();
    build.info(3, 1, 8, "?", "y").info(1, 2, 9, "?", "w").ok(2, 20, 30, "w", "x");
    build.clone().read(4, 10, 15, "y").final_read("x").accepted();
    build.clone().final_read("y").accepted();
    assert_eq!(build.read(4, 10, 15, "y").final_read("y").found(), [(LostUpdate, vec![20, 10_000], vec![20])]);
}

#[test]
fn a_lineage_that_begins_empty_leaves_no_room_before_it() {
    let mut build = Build::new();
    build.info(1, 1, 9, "?", "w").ok(2, 2, 20, "w", "x").ok(0, 3, 30, "-", "a");
    build.clone().final_read("x").accepted();
    assert_eq!(build.final_read("a").found(), [(LostUpdate, vec![2, 3], vec![2])]);
}

#[test]
fn the_branch_that_may_have_survived_gets_the_benefit_of_the_doubt() {
    // y was seen at 15 and is final, so later operations are lost. x began earlier, and y may have replaced it.
    let mut build = Build::new();
    build.info(3, 1, 8, "?", "y").info(1, 2, 9, "?", "w").read(4, 10, 15, "y").ok(0, 3, 30, "w", "x");
    build.clone().final_read("y").accepted();
    build.ok(2, 20, 40, "w", "b").ok(3, 50, 60, "b", "c").final_read("y");
    assert_eq!(build.check().lost_updates.count, 2);
    assert_eq!(build.found(), [(LostUpdate, vec![20, 3], vec![20, 50])]);
}

#[test]
fn a_read_by_the_controller_that_is_not_the_last_word_is_a_read_like_any_other() {
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").read_on("k0", Process::Controller, 6, 9, "a").ok(1, 10, 15, "a", "b");
    build.accepted();
}

#[test]
fn what_was_written_before_the_values_parted_overwrote_nothing() {
    let mut build = Build::new();
    build.ok(0, 1, 50, "-", "a").ok(1, 2, 20, "a", "b").ok(2, 3, 40, "a", "c").final_read("c");
    assert_eq!(build.found(), [(LostUpdate, vec![2, 3], vec![2])]);
}

#[test]
fn what_a_client_read_before_it_died_counts_from_the_report() {
    let read_at = |at: u64| {
        let mut build = Build::new();
        build.rmw("k0", Outcome::Info, 1, 1, None, "a", "b").ok(0, 20, 30, "-", "a").final_read("a");
        build.phase(1, Phase::Read, at);
        build
    };
    read_at(25).accepted();
    assert_eq!(read_at(15).found(), [(ImpossibleRead, vec![1, 20], vec![])]);
}

#[test]
fn an_indeterminate_write_may_take_effect_any_time_later_but_not_before_it_began() {
    let mut build = Build::new();
    build.info(0, 1, 2, "-", "a").ok(1, 500, 600, "a", "b").final_read("b");
    build.accepted();
    let mut build = Build::new();
    build.ok(1, 5, 6, "a", "b").info(0, 10, 20, "-", "a").final_read("b");
    assert_eq!(build.found(), [(ImpossibleRead, vec![5, 10], vec![])]);
}

#[test]
fn two_that_happened_after_one_value_contradict_each_other_even_if_neither_was_acknowledged() {
    let mut build = Build::new();
    build.info(0, 1, 2, "-", "a").info(1, 3, 4, "-", "b").read(2, 5, 6, "a");
    build.accepted();
    build.read(3, 7, 8, "b");
    assert_eq!(build.found(), [(OrderViolation, vec![1, 3], vec![])]);
}

#[test]
fn a_read_of_a_replaced_value_is_stale() {
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").final_read("b");
    build.clone().read(2, 8, 20, "a").accepted();
    build.read(2, 10, 20, "a").read(3, 11, 21, "-");
    assert_eq!(build.found(), [(StaleRead, vec![10, 6], vec![]), (StaleRead, vec![11, 1], vec![])]);
    assert_eq!(
        build.check().anomalies[0].summary,
        "c2 read k0 = a after 0.010 s, but c1's write of b, a later value, had completed by 0.009 s"
    );
    assert_eq!(build.check().reasons, ["2 stale reads"]);
    // The value that a failed operation read still counts.
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").final_read("b");
    build.clone().fail(2, 8, 20, "a", "f").accepted();
    assert_eq!(build.fail(2, 10, 20, "a", "f").found(), [(StaleRead, vec![10, 6], vec![])]);
}

#[test]
fn a_stale_read_that_follows_from_a_lost_update_is_not_told_again() {
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").read(3, 10, 11, "a").ok(2, 12, 15, "a", "c").final_read("c");
    assert_eq!(build.found(), [(LostUpdate, vec![6, 12], vec![6])]);
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").ok(1, 6, 9, "a", "b").info(2, 10, 15, "a", "x").ok(3, 16, 20, "x", "y").final_read("b");
    assert_eq!(build.found(), [(LostUpdate, vec![10, 6], vec![16])]);
}

#[test]
fn values_from_nowhere_from_failures_and_from_the_future_are_impossible() {
    let mut build = Build::new();
    build.ok(0, 1, 5, "-", "a").read(1, 6, 7, "ghost").read(2, 8, 9, "ghost");
    assert_eq!(build.found(), [(ImpossibleRead, vec![6, 8], vec![])]);

    let failed = |outcome: fn(&mut Build)| {
        let mut build = Build::new();
        outcome(&mut build);
        build.ok(1, 6, 7, "f", "g").final_read("g");
        build
    };
    failed(|build| _ = build.info(0, 1, 5, "-", "f")).accepted();
    assert_eq!(failed(|build| _ = build.fail(0, 1, 5, "-", "f")).found(), [(ImpossibleRead, vec![6, 1], vec![])]);

    let mut build = Build::new();
    build.read(1, 1, 5, "a").ok(0, 6, 9, "-", "a");
    assert_eq!(build.found(), [(ImpossibleRead, vec![1, 6], vec![])]);
    Build::new().read(1, 1, 7, "a").ok(0, 6, 9, "-", "a").accepted();

    // Values do not move between keys.
    let mut build = Build::new();
    build.ok_on("k1", 0, 1, 5, "-", "a").read(1, 6, 7, "a");
    assert_eq!(build.found(), [(ImpossibleRead, vec![6], vec![])]);

    let mut build = Build::new();
    build.ok(0, 1, 5, "a", "a");
    assert_eq!(build.found(), [(ImpossibleRead, vec![1], vec![])]);
}

#[test]
fn a_circle_has_no_first() {
    let mut build = Build::new();
    build.ok(0, 1, 10, "b", "a").ok(1, 2, 11, "a", "b").ok(2, 12, 15, "b", "c");
    assert_eq!(build.found().iter().map(|found| found.0).filter(|kind| *kind == OrderViolation).count(), 1);
}

#[test]
fn the_order_of_values_must_be_the_order_in_time_also_over_several_steps() {
    // c was written from b, and b from a. c completed before a began, though neither completed before b began.
    let mut build = Build::new();
    build.info(1, 1, 100, "a", "b").ok(2, 2, 10, "b", "c").ok(0, 20, 30, "-", "a").final_read("c");
    assert_eq!(build.found(), [(OrderViolation, vec![20, 2], vec![])]);
    let mut build = Build::new();
    build.info(1, 1, 100, "?", "b").ok(2, 2, 10, "b", "c").ok(0, 20, 30, "c", "d").final_read("d");
    build.accepted();
}

#[test]
fn lineages_of_unknown_origin_must_fit_between_each_other() {
    // y was seen before and after x, so x's lineage fits neither before nor after it.
    let mut build = Build::new();
    build.info(0, 1, 2, "?", "y").info(1, 3, 4, "?", "x");
    build.clone().read(2, 10, 11, "y").read(3, 20, 21, "x").accepted();
    build.read(2, 10, 11, "y").read(3, 20, 21, "x").read(4, 30, 31, "y");
    assert_eq!(build.found(), [(StaleRead, vec![30, 20], vec![])]);
    // The same, but seen by a write that builds on y.
    let mut build = Build::new();
    build.info(0, 1, 2, "?", "y").info(1, 3, 4, "?", "x");
    build.read(2, 10, 11, "y").read(3, 20, 21, "x").info(4, 30, 31, "y", "z");
    assert_eq!(build.found(), [(StaleRead, vec![30, 20], vec![])], "what an operation read, it read");
}

#[test]
fn keys_are_apart() {
    let mut build = Build::new();
    build.ok_on("k0", 0, 1, 5, "-", "a").ok_on("k1", 1, 6, 9, "-", "b");
    build.accepted();
    build.ok_on("k1", 2, 10, 12, "-", "c");
    assert_eq!(build.found(), [(LostUpdate, vec![6, 10], vec![6])]);
    assert_eq!(build.check().anomalies[0].key, "k1");
}

#[test]
fn a_property_that_is_not_claimed_is_reported_and_does_not_decide() {
    let mut build = Build::sound();
    build.ok(0, 4_001, 4_005, "-", "a").ok(1, 4_006, 4_009, "-", "b").final_read("b");
    assert_eq!(build.check().valid, Validity::Invalid);
    build.header().claims = vec![Claim::MutualExclusion];
    for (invoked, from, to) in [(4_001, 4_002, 4_004), (4_006, 4_007, 4_008)] {
        build.phase(invoked, Phase::Acquired, from).phase(invoked, Phase::Releasing, to);
    }
    let verdict = build.check();
    assert_eq!((verdict.valid, verdict.anomalies.len()), (Validity::Valid, 1));
    assert_eq!(verdict.reasons, Vec::<String>::new());
}

#[test]
fn the_fault_that_explains_was_seen_and_hit_somebody_involved_meanwhile() {
    let forked = || {
        let mut build = Build::new();
        build.ok(1, 1, 1_000, "-", "a").ok(2, 100, 200, "-", "b").final_read("a");
        build
    };
    let explained = |build: &mut Build| build.check().anomalies[0].fault;
    assert_eq!(explained(&mut forked()), None);
    assert_eq!(explained(forked().fault(0, "c3", 50, 900)), None, "somebody else");
    assert_eq!(explained(forked().fault(0, "c1", 1_100, 1_200)), None, "afterwards");
    assert_eq!(explained(forked().fault(0, "n1", 2_000, 2_100)), None, "afterwards");
    assert_eq!(explained(forked().fault(0, "n1", 50, 900)), None, "a node of the lock keeps no updates");
    assert_eq!(explained(forked().fault(0, "store", 50, 900)), None, "what is only stopped loses nothing");
    assert_eq!(
        explained(forked().fault(0, "c1", 50, 900).fault(1, "c2", 150, 160)),
        Some(0),
        "the overwriter before the loser"
    );
    for (on_client, on_store, alone, expected) in [
        (FaultKind::Kill, FaultKind::Kill, Some(0), Some(1)),
        (FaultKind::Pause, FaultKind::Kill, Some(0), None),
        (FaultKind::Delay, FaultKind::PowerLoss, None, Some(1)),
        (FaultKind::Partition, FaultKind::Flush, None, Some(1)),
        (FaultKind::Clock, FaultKind::Evict, None, Some(1)),
    ] {
        let mut both = forked();
        both.fault(0, "c1", 50, 900).fault(1, "store", 50, 900);
        (both.history.faults[0].kind, both.history.faults[1].kind) = (on_client, on_store);
        assert_eq!(explained(&mut both), expected, "{on_client:?} of a client, {on_store:?} of the resource");
        both.history.faults.pop();
        assert_eq!(explained(&mut both), alone, "{on_client:?} of a client alone");
    }
    let mut on_its_way = forked();
    on_its_way.fault(0, "c1", 50, 900).history.faults[0].kind = FaultKind::Delay;
    on_its_way.history.faults[0].targets.push("store".into());
    assert_eq!(explained(&mut on_its_way), Some(0), "packets between a client and what keeps the updates");
    let mut over = forked();
    over.fault(0, "c1", 50, 90);
    assert_eq!(explained(&mut over), None, "it was over before the lost update began");
    let mut unseen = forked();
    unseen.fault(0, "c1", 50, 900).history.faults[0].injected = Some((50_000_000, false));
    assert_eq!(explained(&mut unseen), None);
}

#[test]
fn a_client_keeps_its_name_over_a_crash() {
    let mut build = Build::new();
    build.ok(6, 1, 1_000, "-", "a").ok(2, 100, 200, "-", "b").final_read("a").fault(7, "c1", 50, 900);
    let anomaly = &build.check().anomalies[0];
    assert_eq!(anomaly.fault, Some(7));
    assert!(anomaly.summary.starts_with("c1 and c2 both read k0 = empty; c1's write of a"), "{}", anomaly.summary);
}

/// The resource acknowledged the write, so it happened, whatever its client reported.
#[test]
fn a_write_that_was_acknowledged_happened_even_if_its_client_does_not_know() {
    let history = |written: bool| {
        let mut build = Build::new();
        build.ok(0, 1, 5, "-", "a").info(1, 10, 20, "a", "b");
        if written {
            build.phase(10, Phase::Written, 15);
        }
        build.ok(2, 30, 40, "a", "c").final_read("c");
        build
    };
    history(false).accepted();
    let lost = history(true).check();
    assert_eq!((lost.lost_updates.count, lost.lost_updates.acknowledged), (1, 3));
    assert_eq!(lost.anomalies[0].kind, LostUpdate);
    // The write may have come after writes during its operation, but not after its own report.
    let mut late = Build::new();
    late.ok(0, 1, 5, "-", "a").info(1, 10, 60, "c", "b").phase(10, Phase::Written, 50);
    late.ok(2, 30, 40, "a", "c").final_read("b");
    late.accepted();
}

/// Every operation builds on the operation before it, two hundred thousand in all. A quadratic algorithm would take minutes.
#[test]
fn long_histories_are_checked_in_one_go() {
    let mut build = Build::new();
    let template = build.ok(0, 1, 5, "-", "v0").history.operations.remove(0);
    let number = 200_000u64;
    for turn in 0..number {
        let mut operation = template.clone();
        operation.index = 4 * turn;
        operation.completed_index = Some(4 * turn + 6);
        (operation.invoked, operation.completed) = (4 * turn, Some(4 * turn + 6));
        // Every tenth operation is lost: the next operation reads the same value.
        let before = if turn % 10 == 5 { turn - 2 } else { turn - u64::from(turn > 0) };
        operation.old = reading(&if turn == 0 { "-".to_string() } else { format!("v{before}") });
        operation.new = Some(format!("v{turn}").into());
        build.history.operations.push(operation);
    }
    let verdict = build.check();
    assert_eq!(verdict.lost_updates.count, number / 10);
    assert_eq!(verdict.anomalies.len() as u64, number / 10);
}

/// A reader holds the lock from 20 on and has read `a`, which c1 replaces with `b` from 42 to 58.
fn read_under_a_lock(until: u64) -> Build {
    let mut build = Build::new();
    build.update(0, 5, 10, "-", "a").shared(2, 20, until, "a").update(1, 42, 57, "a", "b");
    build
}

#[test]
fn what_a_reader_has_read_stays_until_it_gives_its_lock_back() {
    let kinds =
        |build: &Build| build.found().into_iter().map(|(kind, operations, _)| (kind, operations)).collect::<Vec<_>>();
    read_under_a_lock(41).accepted();
    let broken = read_under_a_lock(59);
    assert_eq!(kinds(&broken), [(OverlappingHolders, vec![19, 41]), (StaleRead, vec![19, 41])]);
    let verdict = broken.check();
    assert_eq!(
        verdict.anomalies[1].summary,
        "c2 read k0 = a and still held the lock for reading at 0.059 s, but c1's write of b, a later value, had completed by 0.058 s"
    );
    // The write may have been carried out before its answer was read: a shorter overlap is not reported.
    assert_eq!(kinds(&read_under_a_lock(58)), [(OverlappingHolders, vec![19, 41])]);
    // The comparison is only as exact as the clocks of clients and controller.
    let mut vague = read_under_a_lock(59);
    vague.history.clock.as_mut().unwrap().error_ns = MS;
    assert_eq!(kinds(&vague), [(OverlappingHolders, vec![19, 41])]);
    // A reader that knows of its loss no longer relies on its lock.
    let mut told = read_under_a_lock(59);
    told.phase(19, Phase::Lost, 41).operation(19).phases.edit(|stamps| stamps.swap(1, 2));
    assert_eq!(kinds(&told), []);
    // A reader that failed did not rely on its lock.
    let mut failed = read_under_a_lock(59);
    failed.operation(19).outcome = Outcome::Fail;
    assert_eq!(kinds(&failed), [(OverlappingHolders, vec![19, 41])]);
}

#[test]
fn a_write_that_was_in_flight_when_its_client_gave_its_lock_back_is_no_fault_of_a_reader_s_lock() {
    let late = |in_doubt: bool| {
        let mut build = Build::new();
        build.update(0, 5, 10, "-", "a").info(1, 11, 200, "a", "late");
        build.phase(11, Phase::Acquired, 12).phase(11, Phase::BeforeWrite, 13);
        if in_doubt {
            build.phase(11, Phase::Releasing, 19);
        }
        // Two readers hold the lock together: the second sees the value that has arrived meanwhile.
        build.shared(2, 25, 90, "a").shared(3, 50, 60, "late");
        build.found().into_iter().map(|(kind, operations, _)| (kind, operations)).collect::<Vec<_>>()
    };
    assert_eq!(late(true), [(WriteInFlight, vec![24, 49, 11])]);
    assert_eq!(late(false), [(StaleRead, vec![24, 49, 11])]);
}

#[test]
fn reads_under_a_lock_are_evidence_of_what_they_would_have_shown() {
    let evidence = |known: &str| {
        let mut build = Build::new();
        build.update(0, 5, 10, "-", "a");
        for reader in 1..5 {
            build.shared(reader, 10 * u64::from(reader) + 10, 10 * u64::from(reader) + 15, known);
        }
        let claim = build.check().claims.into_iter().find(|claim| claim.claim == Claim::Updates).unwrap();
        (claim.evidence, claim.text)
    };
    assert_eq!(evidence("a"), (5, "1 update with a known predecessor, and 4 shared reads".into()));
    assert_eq!(evidence("?"), (1, "1 update with a known predecessor".into()));
}

//! How two clients came to hold a lock at once: reported only where the history makes the cause certain.

use checker::AnomalyKind::{LostUpdate, OverlappingHolders};
use checker::{Anomaly, HowKind};
use model::history::{
    Fact, FactName, FaultKind, Opened, Outcome, Phase, Promotion, ResourceKind, SeenPromotion, StepEvent, StepOutcome,
};

use crate::kit::histories::{Build, MS};

fn overlap(build: &Build) -> Anomaly {
    let mut overlaps = build.check().anomalies.into_iter().filter(|anomaly| anomaly.kind == OverlappingHolders);
    overlaps.next().expect("two holders at once")
}

fn how(build: &Build) -> Option<(HowKind, String)> {
    overlap(build).how.map(|how| (how.kind, how.sentence.text().to_string()))
}

fn fault(build: &Build) -> Option<u32> {
    overlap(build).fault
}

/// The TTL is one second. The first holder holds from 100 to `until`, the second acquires at `taken`.
fn two(until: u64, taken: u64) -> Build {
    let mut build = Build::new();
    build.hold(0, 100, until).hold(1, taken, taken + 100);
    build
}

#[test]
fn an_order_alone_is_no_cause() {
    // Less than a TTL apart, nothing shows which of the two was wrong.
    assert_eq!((how(&two(900, 400)), fault(&two(900, 400))), (None, None));
    assert_eq!((how(&two(2_000, 1_500)), fault(&two(2_000, 1_500))), (None, None));
}

#[test]
fn whoever_is_stopped_when_its_lock_runs_out_stays_too_long_for_that_reason() {
    for (from, to, expected) in [(500, 1_700, Some(7)), (500, 1_000, None), (1_200, 1_700, None)] {
        let mut build = two(1_900, 1_500);
        build.fault(7, "c0", from, to);
        assert_eq!(fault(&build), expected, "stopped from {from} to {to}; the lock ran out at 1,100");
    }
    let mut busy = two(2_000, 1_500);
    busy.fault(7, "c0", 500, 1_700);
    assert_eq!(fault(&busy), None, "it worked for 300 ms more, so its work alone may have taken too long");
    // A simulated client goes on at once.
    let simulated = |until: u64| {
        let mut build = two(until, 1_500);
        build.fault(7, "c0", 500, 1_700).header().simulated = true;
        fault(&build)
    };
    assert_eq!((simulated(1_710), simulated(1_800)), (Some(7), None));
    let mut other = two(2_000, 1_500);
    other.fault(7, "c1", 500, 1_700);
    assert_eq!(fault(&other), None, "another client's pause keeps nobody");
    let mut early = two(900, 400);
    early.fault(7, "c0", 200, 800);
    assert_eq!(fault(&early), None, "it still had its lock");
    let mut unseen = two(2_000, 1_500);
    unseen.fault(7, "c0", 500, 1_700);
    unseen.history.faults[0].injected = Some((500 * MS, false));
    assert_eq!(fault(&unseen), None, "an order is no fault");
}

#[test]
fn a_fault_beside_another_that_could_delay_the_holder_is_no_cause() {
    let paused = |other: &dyn Fn(&mut Build)| {
        let mut build = two(1_900, 1_500);
        build.fault(7, "c0", 500, 1_700);
        other(&mut build);
        fault(&build)
    };
    assert_eq!(paused(&|_| {}), Some(7));
    // Of several stops, the one that was in effect when the lock expired.
    assert_eq!(paused(&|build| _ = build.fault(8, "c0", 900, 1_800)), Some(7));
    assert_eq!(paused(&|build| _ = build.fault(8, "c0", 300, 1_200)), Some(8));
    assert_eq!(paused(&|build| _ = build.fault(8, "c0", 300, 800)), Some(7));
    assert_eq!(paused(&|build| _ = build.fault(8, "c0", 300, 450)), Some(7), "that stop was over before");
    let cut = |build: &mut Build| {
        let window = build.fault(8, "c0", 90, 600).history.faults.last_mut().unwrap();
        window.kind = FaultKind::Partition;
        window.targets.push("store".into());
    };
    assert_eq!(paused(&cut), None, "a lost packet is sent again only later");
    // The client asks the resource as soon as it has the lock.
    assert_eq!(paused(&|build| _ = build.fault(8, "store", 50, 1_200)), None, "no answer could come");
    assert_eq!(
        paused(&|build| _ = build.fault(8, "store", 50, 600)),
        Some(7),
        "the answer came before the lock expired"
    );
    let slowed = |length: &'static str| {
        move |build: &mut Build| {
            let window = build.fault(8, "c0", 50, 1_200).history.faults.last_mut().unwrap();
            (window.kind, window.what) = (FaultKind::Delay, format!("delay {length} client:0 to resource"));
            window.targets.push("store".into());
        }
    };
    assert_eq!(paused(&slowed("20ms..80ms")), Some(7), "too short a delay");
    assert_eq!(paused(&slowed("20ms..800ms")), None);
    // A holder at work would have met the silent resource at its next request.
    let at_work = |phase: Phase| {
        move |build: &mut Build| {
            build.phase(99, phase, 400).fault(8, "store", 450, 1_200);
            build.operation(99).phases.edit(|stamps| stamps.sort_by_key(|stamp| stamp.received));
        }
    };
    assert_eq!(paused(&at_work(Phase::Read)), None);
    assert_eq!(paused(&at_work(Phase::Written)), Some(7), "it needed the resource no more");
}

#[test]
fn a_silent_resource_explains_a_holder_that_waited_for_its_answer() {
    let silent = |from: u64, last: Phase| {
        let mut build = two(1_900, 1_500);
        build.phase(99, last, 300).fault(7, "store", from, 1_800);
        build.operation(99).phases.edit(|stamps| stamps.sort_by_key(|stamp| stamp.received));
        fault(&build)
    };
    assert_eq!(silent(250, Phase::BeforeWrite), Some(7));
    assert_eq!(silent(350, Phase::BeforeWrite), None, "the request came first");
    assert_eq!(silent(250, Phase::Read), None, "the holder waited for no answer");
}

#[test]
fn a_cut_that_began_after_the_request_was_sent_is_no_cause() {
    let cut = |from: u64| {
        let mut build = two(1_900, 1_500);
        let window = build.fault(7, "c0", from, 1_800).history.faults.last_mut().unwrap();
        window.kind = FaultKind::Partition;
        window.targets.push("store".into());
        fault(&build)
    };
    assert_eq!((cut(90), cut(400)), (Some(7), None));
}

/// A client that stopped at a breakpoint reports the phase again, which gives it no more time.
#[test]
fn a_repeated_report_of_the_lock_extends_nothing() {
    let mut build = Build::new();
    build.rmw("k0", Outcome::Info, 0, 99, Some(2_001), "?", "v0").phase(99, Phase::Acquired, 100);
    build.phase(99, Phase::Acquired, 700).phase(99, Phase::Releasing, 1_900).hold(1, 1_500, 1_600);
    build.fault(7, "c0", 800, 1_800);
    assert_eq!(fault(&build), Some(7), "its lock expired at 1,100");
    build.history.faults[0].inject = 100 * MS;
    (build.history.faults[0].heal, build.history.faults[0].healed) = (Some(690 * MS), Some((690 * MS, true)));
    assert_eq!(fault(&build), None, "the pause was over when the lock expired");
}

#[test]
fn a_script_that_keeps_a_holder_beyond_its_lock_says_so_itself() {
    let kept = |go: u64| {
        let mut build = Build::new();
        build.rmw("k0", Outcome::Ok, 0, 50, Some(2_100), "?", "v0").phase(50, Phase::Acquired, 100);
        build.phase(50, Phase::BeforeWrite, 200).phase(50, Phase::BeforeWrite, 1_900);
        build.phase(50, Phase::Releasing, 2_000).hold(1, 1_500, 1_600);
        build.history.steps.push((
            go * MS,
            StepEvent {
                number: 1,
                step: "go client:0".into(),
                outcome: StepOutcome::Happened,
                text: String::new(),
                missed: None,
                expects: None,
                opens: vec![Opened { client: 0, from: Phase::BeforeWrite, meant: false }],
            },
        ));
        build
    };
    let (kind, text) = how(&kept(1_890)).unwrap();
    assert_eq!(kind, HowKind::Breakpoint);
    assert_eq!(text, "The script stopped c0 at `before-write` at 0.200 s, and its lock expired there.");
    assert_eq!(how(&kept(300)), None, "it was let go before");
    let mut stalled = kept(1_890);
    stalled.history.stalls.push((700 * MS, 1_400 * MS));
    stalled.history.stall_lines.push(40);
    let (kind, text) = how(&stalled).unwrap();
    assert_eq!(kind, HowKind::StoodStill, "the machine kept it too");
    assert_eq!(text, "The machine stood still from 0.700 s to 1.400 s, and c0's lock expired meanwhile.");
    stalled.history.stalls[0] = (300 * MS, 900 * MS);
    assert_eq!(how(&stalled).unwrap().0, HowKind::Breakpoint, "that was over before");
    let mut paused = kept(300);
    paused.fault(7, "c0", 250, 1_850);
    assert_eq!((how(&paused), fault(&paused)), (None, Some(7)));
}

#[test]
fn an_extension_that_comes_too_late_is_told_with_its_time() {
    let extended = |at: u64| {
        let mut build = Build::new();
        build.rmw("k0", Outcome::Ok, 0, 50, Some(2_100), "?", "v0").phase(50, Phase::Acquired, 100);
        build.phase(50, Phase::Extended, at).phase(50, Phase::Releasing, 2_000).hold(1, 1_500, 1_600);
        build
    };
    let (kind, text) = how(&extended(1_550)).unwrap();
    assert_eq!(kind, HowKind::Extended);
    assert_eq!(text, "At 1.550 s c0 was notified that its lock was extended, 50 ms after c1 had acquired it.");
    assert_eq!(how(&extended(1_450)), None, "it had it then");
}

#[test]
fn a_node_that_forgot_counts_only_between_the_two_acquisitions() {
    for (from, to, expected) in [(200, 300, Some(7)), (20, 60, None), (450, 500, None)] {
        let mut build = two(900, 400);
        build.fault(7, "n0", from, to);
        build.history.faults[0].kind = FaultKind::Kill;
        assert_eq!(fault(&build), expected, "killed from {from} to {to}");
    }
    let mut cut = two(900, 400);
    cut.fault(7, "n0", 200, 300);
    cut.history.faults[0].kind = FaultKind::Partition;
    assert_eq!(fault(&cut), None, "a node that is cut off forgets nothing");
}

fn promoted(build: &mut Build, key: &str, after: u64, seen: u64) {
    let promotion = Promotion { key: key.into(), node: "n1".into(), instead_of: "n0".into(), after_ns: after * MS };
    build.history.promotions.push(SeenPromotion { index: 9, time: seen * MS, promotion });
}

#[test]
fn a_promotion_before_the_second_holder_is_told_with_what_struck_the_primary() {
    let mut build = two(900, 400);
    build.fault(7, "n0", 200, 300);
    promoted(&mut build, "k0", 250, 350);
    assert_eq!(how(&build), Some((HowKind::Promoted, "n1 had replaced n0 as the primary of k0 by 0.350 s.".into())));
    assert_eq!(fault(&build), Some(7), "the primary was paused");
    for (key, seen) in [("k1", 350), ("k0", 450)] {
        let mut other = two(900, 400);
        promoted(&mut other, key, 250, seen);
        assert_eq!(how(&other), None, "{key} at {seen}");
    }
    let mut late = two(2_000, 1_500);
    promoted(&mut late, "k0", 250, 350);
    assert_eq!(how(&late), None, "its lock had run out by itself");
}

#[test]
fn a_promotion_that_was_over_before_either_asked_explains_nothing() {
    let promoted_before = |cut_until: Option<u64>| {
        let mut build = two(900, 400);
        if let Some(until) = cut_until {
            build.fault(7, "n0", 10, until);
            build.history.faults[0].kind = FaultKind::Partition;
        }
        promoted(&mut build, "k0", 20, 40);
        how(&build).map(|(kind, _)| kind)
    };
    assert_eq!(promoted_before(None), None, "nothing kept the old primary apart");
    assert_eq!(promoted_before(Some(60)), None, "it was together again");
    assert_eq!(promoted_before(Some(300)), Some(HowKind::Promoted), "the old primary gave the lock away as well");
}

/// Until an old primary has become a replica, either of two servers may have granted a lock.
#[test]
fn a_second_promotion_is_a_cause_only_once_the_first_one_has_settled() {
    let second = |first_seen: u64| {
        let mut build = Build::new();
        build.hold(0, 20_100, 20_900).hold(1, 20_400, 20_500);
        build.fault(7, "n0", 20_200, 20_300);
        promoted(&mut build, "k0", first_seen - 10, first_seen);
        promoted(&mut build, "k0", 20_250, 20_350);
        (how(&build).map(|(kind, _)| kind), fault(&build))
    };
    assert_eq!(second(5_000), (Some(HowKind::Promoted), Some(7)));
    assert_eq!(second(15_000), (None, None), "5 s before the fault");
}

#[test]
fn updates_that_more_than_one_loss_may_have_removed_have_no_cause() {
    let lost = |evicted: &[(u64, u64)]| {
        let mut build = Build::new();
        build.header().resource = ResourceKind::Replicated;
        build.ok(0, 100, 200, "-", "a").ok(0, 3_000, 3_100, "-", "b").final_read("b");
        for (number, (from, to)) in (7..).zip(evicted) {
            build.fault(number, "n0", *from, *to).history.faults.last_mut().unwrap().kind = FaultKind::Evict;
        }
        build.check().anomalies.into_iter().find(|anomaly| anomaly.kind == LostUpdate).unwrap().fault
    };
    assert_eq!(lost(&[(500, 600)]), Some(7));
    assert_eq!(lost(&[(500, 600), (900, 1_000)]), None, "either may have removed it");
    assert_eq!(lost(&[(10, 50), (900, 1_000)]), Some(8), "the first one came before the update");
}

#[test]
fn a_clients_clock_and_a_fault_that_was_over_let_nobody_in() {
    let by = |kind: FaultKind, from: u64, to: u64, validity: Option<u64>| {
        let mut build = two(900, 400);
        build.phase(399, Phase::Acquiring, 200);
        build.operation(399).phases.edit(|stamps| {
            let acquired = stamps.iter_mut().filter(|stamp| stamp.phase == Phase::Acquired);
            acquired.for_each(|stamp| stamp.validity_ms = validity);
        });
        build.fault(7, "c1", from, to).history.faults[0].kind = kind;
        fault(&build)
    };
    assert_eq!(by(FaultKind::Delay, 300, 450, None), Some(7));
    // The last try began 20 ms before the client had the lock.
    assert_eq!(by(FaultKind::Delay, 250, 300, Some(980)), None);
    assert_eq!(by(FaultKind::Clock, 300, 450, None), None);
    assert_eq!(by(FaultKind::Clock, 300, 450, Some(980)), Some(7), "it counts 20 ms of 200 ms");
}

#[test]
fn what_is_replicated_goes_with_its_primary() {
    let lost = |seen: u64| {
        let mut build = Build::new();
        build.header().resource = ResourceKind::Replicated;
        build.rmw("k0", Outcome::Ok, 0, 100, Some(200), "", "a").rmw("k0", Outcome::Ok, 1, 300, Some(400), "a", "b");
        build.final_read("a");
        promoted(&mut build, "k0", seen - 10, seen);
        let lost = build.check().anomalies.into_iter().find(|anomaly| anomaly.kind == LostUpdate).unwrap();
        lost.how.map(|how| how.kind)
    };
    assert_eq!(lost(600), Some(HowKind::Promoted));
    assert_eq!(lost(11_000), None, "nobody could see it then");
}

#[test]
fn a_lock_is_stolen_by_design_only_if_the_run_says_that_it_lets_clients_steal() {
    let stolen = |steals: bool, half: u64| {
        let mut build = Build::new();
        build.header().steals = steals;
        build.hold(0, 100, 900);
        build.rmw("k0", Outcome::Ok, 1, 300, Some(600), "?", "v1").phase(300, Phase::HalfAcquired, half);
        build.phase(300, Phase::Acquired, 400).phase(300, Phase::Releasing, 500);
        how(&build).map(|(kind, _)| kind)
    };
    assert_eq!(stolen(true, 350), Some(HowKind::Stolen));
    assert_eq!(stolen(false, 350), None);
}

#[test]
fn a_lock_with_no_validity_left_and_a_release_meanwhile_are_told_as_what_they_are() {
    let mut over = two(900, 400);
    over.operation(399).phases.edit(|stamps| stamps[0].validity_ms = Some(0));
    let (kind, text) = how(&over).unwrap();
    assert_eq!((kind, text.as_str()), (HowKind::Expired, "At 0.400 s c1 acquired the lock with no validity left."));
    // An earlier holder releases, and reports the release twice: it was stopped in between.
    let mut freed = Build::new();
    freed.rmw("k0", Outcome::Ok, 2, 10, Some(370), "?", "v2").phase(10, Phase::Acquired, 20);
    freed.phase(10, Phase::Releasing, 50).phase(10, Phase::Releasing, 350).phase(10, Phase::Released, 360);
    freed.hold(0, 100, 900).hold(1, 400, 500);
    let (kind, text) = how(&freed).unwrap();
    assert_eq!(kind, HowKind::Released);
    assert_eq!(text, "c2, which had acquired the lock before at 0.020 s, was releasing it from 0.350 s to 0.360 s.");
    let mut before = Build::new();
    before.rmw("k0", Outcome::Ok, 2, 10, Some(70), "?", "v2").phase(10, Phase::Acquired, 20);
    before.phase(10, Phase::Releasing, 50).phase(10, Phase::Released, 60);
    before.hold(0, 100, 900).hold(1, 400, 500);
    assert_eq!(how(&before), None, "it was over when the others came");
}

#[test]
fn of_several_who_may_hold_a_lock_whoever_stayed_too_long_explains_the_one_too_many() {
    // c0 renews its lock; c1's lock expires at 1,200.
    let third = |taken: u64, paused: &str| {
        let mut build = Build::new();
        build.header().permits = 2;
        build.hold(0, 100, 2_000).hold(1, 200, 2_000).hold(2, taken, taken + 100);
        build.phase(99, Phase::Extended, 900).fault(7, paused, 500, 1_900);
        build.operation(99).phases.edit(|stamps| stamps.swap(1, 2));
        let anomaly = overlap(&build);
        (anomaly.operations, anomaly.fault)
    };
    assert_eq!(third(1_500, "c1"), (vec![199, 1_499, 99], Some(7)), "it is told first");
    assert_eq!(third(1_500, "c0").1, None, "it had its lock, whatever it met");
    let struck = |target: &str| {
        let mut build = Build::new();
        build.header().permits = 2;
        build.hold(0, 100, 900).hold(1, 200, 900).hold(2, 600, 700).fault(7, target, 599, 600);
        build.history.faults[0].kind = FaultKind::Call;
        fault(&build)
    };
    assert_eq!((struck("c2"), struck("c1")), (Some(7), None), "the last one's call was struck while it asked");
    assert_eq!(third(600, "c1"), (vec![99, 599, 199], None), "all had theirs: nobody knows which is one too many");
}

/// Faults on nodes: the kind, the nodes, and from when to when it was ordered to be in effect.
type Struck<'a> = &'a [(FaultKind, &'a [&'a str], u64, u64)];

/// Faults on the nodes of a lock on five nodes. The first client holds it from 100 on, the second from 400 on.
fn on_five(struck: Struck) -> Build {
    let mut build = two(900, 400);
    build.header().nodes = 5;
    add(&mut build, struck);
    build
}

fn add(build: &mut Build, struck: Struck) {
    for (number, (kind, targets, from, to)) in (10..).zip(struck) {
        build.fault(number, targets[0], *from, *to);
        let window = build.history.faults.last_mut().unwrap();
        window.kind = *kind;
        window.targets = targets.iter().map(ToString::to_string).collect();
        window.injected = Some(((from + 5) * MS, true));
    }
}

#[test]
fn a_fault_on_too_few_nodes_is_not_blamed_for_what_another_one_did() {
    use FaultKind::{Clock, Evict, Flush, Kill, PowerLoss};
    let most: &[&str] = &["n0", "n1", "n4"];
    let [few, others, all]: [&[&str]; 3] = [&["n3"], &["n0", "n2"], &["n0", "n1", "n2", "n3", "n4"]];
    let cases: &[(Struck, Option<u32>, &str)] = &[
        (&[(Flush, most, 200, 900), (Evict, few, 300, 900)], Some(10), "the later one hit one node of five"),
        (&[(Evict, few, 200, 900), (Flush, most, 300, 900)], Some(11), "in the other order"),
        (&[(PowerLoss, most, 200, 280), (Flush, few, 300, 900)], Some(10), ""),
        (&[(Flush, most, 200, 900), (Evict, all, 300, 900)], Some(10), "there was nothing left to evict"),
        (&[(Flush, most, 200, 900), (Clock, few, 300, 900)], Some(10), "one wrong clock is not enough"),
        (&[(Flush, few, 200, 900)], None, "one node of five"),
        (&[(Clock, few, 200, 900)], None, ""),
        (&[(Clock, most, 200, 900)], Some(10), ""),
        (&[(Flush, few, 200, 900), (Evict, others, 300, 900)], None, "it took both"),
        (&[(Kill, few, 200, 250), (Kill, others, 300, 350)], Some(11), "it took both, which are of one kind"),
        (&[(Flush, most, 20, 900), (Evict, few, 200, 900)], None, "that was before the lock was taken"),
        (&[(Flush, most, 450, 900)], None, "that was later"),
    ];
    for (struck, expected, why) in cases {
        assert_eq!(fault(&on_five(struck)), *expected, "{struck:?}: {why}");
    }
}

#[test]
fn a_node_that_forgot_is_enough_where_the_holder_could_not_reach_the_others() {
    let kept = |links: &[(&str, &str)], from: u64, to: u64| {
        let mut build =
            on_five(&[(FaultKind::Partition, &["c0", "n3", "n4"], from, to), (FaultKind::Kill, &["n2"], 200, 250)]);
        let links = links.iter().map(|(one, other)| (one.to_string(), other.to_string()));
        build.history.faults[0].links = Some(links.collect());
        fault(&build)
    };
    let links = [("c0", "n3"), ("c0", "n4")];
    assert_eq!(kept(&links, 20, 900), Some(11), "its key was on three nodes");
    assert_ne!(kept(&links[..1], 20, 900), Some(11), "or on four");
    assert_ne!(kept(&[("c1", "n3"), ("c1", "n4")], 20, 900), Some(11), "somebody else could not reach them");
    assert_ne!(kept(&links, 200, 900), Some(11), "it could, when it asked");
}

#[test]
fn in_a_group_only_the_primary_of_the_key_can_lose_it() {
    let of = |struck: Struck| {
        let mut build = two(900, 400);
        build.header().nodes = 3;
        let text = "3 nodes and the resource answer; n0 primary of n1 and n2".into();
        build.history.facts.push(Fact { name: FactName::NodesReady, holds: true, text });
        add(&mut build, struck);
        fault(&build)
    };
    use FaultKind::{Evict, Flush};
    assert_eq!(of(&[(Flush, &["n0"], 200, 900), (Evict, &["n1", "n2"], 300, 900)]), Some(10));
    assert_eq!(of(&[(Evict, &["n1", "n2"], 200, 900)]), None, "replicas take it from the primary");
}

#[test]
fn what_cannot_silence_a_primary_did_not_promote_another_node() {
    let blamed = |struck: Struck, links: &[(&str, &str)]| {
        let mut build = two(900, 400);
        add(&mut build, struck);
        let links: Vec<_> = links.iter().map(|(one, other)| (one.to_string(), other.to_string())).collect();
        build.history.faults.last_mut().unwrap().links = (!links.is_empty()).then_some(links);
        promoted(&mut build, "k0", 250, 350);
        fault(&build)
    };
    use FaultKind::{Evict, Partition, Pause};
    let cut: (FaultKind, &[&str], u64, u64) = (Partition, &["n0", "s0", "s1"], 150, 900);
    let from_watchers = [("n0", "s0"), ("s1", "n0")];
    assert_eq!(blamed(&[(Evict, &["n0"], 200, 900), cut], &from_watchers), Some(11), "it answers while it evicts");
    assert_eq!(blamed(&[(Partition, &["c0", "n0"], 150, 900)], &[("c0", "n0")]), None, "others hear it");
    assert_eq!(blamed(&[(Pause, &["n0"], 150, 900), cut], &from_watchers), Some(10));
}

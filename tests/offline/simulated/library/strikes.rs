//! The generated scenarios, run with reference locks, and the locks for comparison.

use std::path::Path;

use checker::Validity;
use labs::library::commands::{ObservedCommand, RenewalMode, When};
use labs::library::kind::{Baseline, Kind, judged};
use labs::library::pairs::pairs;
use labs::library::strikes::{FaultPoint, Place, Scripted, Setting, Strike, scenarios};
use labs::library::{beside, takeovers};
use model::locks::LockSpec;
use model::nemesis::Nemesis;
use model::scenario::{Options, Scenario, Workload};
use runner::simulate::simulate;

use super::{command, forgets, kind, played, run_with, setting, upkeep_of};

#[test]
fn a_sound_lock_withstands_every_strike_at_its_own_commands() {
    let taking_and_releasing = [command(When::Taking, "SET"), command(When::Releasing, "EVAL")];
    let renewing = [command(When::Holding, "EVAL")];
    for (workload, nodes, sent) in [
        ("single", 1, &taking_and_releasing[..]),
        ("redlock", 3, &taking_and_releasing),
        ("redlock-watchdog", 3, &renewing),
        ("redlock-extend", 3, &renewing),
        ("redlock-asks", 3, &[command(When::Holding, "GET")]),
    ] {
        let setting = Setting { upkeep: upkeep_of(workload), ..setting(nodes, true) };
        for scripted in scenarios(sent, &setting) {
            if nodes == 1 && forgets(&scripted) {
                continue;
            }
            let scenario = run_with(&scripted, workload, nodes);
            let when = [scripted.aims[0].sent.when];
            let as_reference = kind(workload).scenario(&scenario, &when, 1).unwrap();
            for scenario in [scenario, as_reference] {
                let (valid, text) = played(&scripted, &scenario);
                assert_eq!(valid, Validity::Valid, "{text}");
            }
        }
    }
}

#[test]
fn who_lets_a_request_take_longer_than_a_lock_lives_is_compared_with_a_lock_that_does_so_too() {
    let theirs = |node_timeout: &str| {
        let mut of = Options::default().scenario("redlock-py", "one-node-hung", 1, Path::new("")).unwrap();
        let LockSpec::Library(options) = &mut of.workload.lock else { panic!("{:?}", of.workload.lock) };
        options.node_timeout = node_timeout.parse().unwrap();
        of
    };
    for (node_timeout, valid) in [("0.2ttl", Validity::Valid), ("5ttl", Validity::Invalid)] {
        let of = theirs(node_timeout);
        let ours = Kind::of(&of, RenewalMode::None).scenario(&of, &[], 1).unwrap();
        assert_eq!(simulate(&ours).unwrap().verdict.valid, valid, "{node_timeout}");
    }
    // If no node hangs, the lock asks as usual.
    let of = theirs("5ttl");
    let dead = Options::default().scenario("redlock-py", "one-node-down", 1, Path::new("")).unwrap();
    let of = Scenario { nemesis: dead.nemesis, ..of };
    let ours = Kind::of(&of, RenewalMode::None).scenario(&of, &[], 1).unwrap();
    assert_eq!(simulate(&ours).unwrap().verdict.valid, Validity::Valid);
}

#[test]
fn what_breaks_with_no_fault_is_excused_by_a_ttl_that_nothing_renews_in_the_background() {
    let of = |upkeep, outlived| Kind { upkeep, ..kind("single") }.without_faults(outlived);
    for upkeep in [RenewalMode::None, RenewalMode::Asked, RenewalMode::ByItsHolder] {
        assert_eq!((of(upkeep, true), of(upkeep, false)), (Baseline::Outlived, Baseline::Unexcused));
    }
    assert_eq!(of(RenewalMode::InTheBackground, true), Baseline::Unexcused);
}

#[test]
fn a_takeover_is_struck_where_one_client_may_hold_the_lock() {
    let taking_over = ["SET".to_string()];
    for scripted in takeovers::takeovers(&taking_over, &setting(3, true)) {
        let (valid, text) = played(&scripted, &run_with(&scripted, "redlock-watchdog", 3));
        assert_eq!(valid, Validity::Valid, "{text}");
    }
    assert_eq!(takeovers::takeovers(&taking_over, &setting(3, true)).len(), 1);
    assert!(takeovers::takeovers(&taking_over, &Setting { permits: 2, ..setting(3, true) }).is_empty());
}

#[test]
fn of_a_semaphore_all_permits_but_one_are_had_while_the_others_are_struck() {
    let [taking, waiting] = [When::Taking, When::Waiting].map(|when| command(when, "SET"));
    let sent = [taking, waiting, command(When::Holding, "EVAL"), command(When::Releasing, "EVAL")];
    let of = |permits| scenarios(&sent, &Setting { permits, ..setting(1, true) });
    let struck = |permits, when| of(permits).iter().any(|one| one.aims[0].sent.when == when);
    assert!([When::Taking, When::Waiting, When::Releasing].into_iter().all(|when| struck(2, when)));
    assert!(
        struck(1, When::Holding) && !struck(2, When::Holding),
        "what is done with a permit is nothing that it protects"
    );
    assert!(
        of(50).is_empty() && beside::scenarios(&Setting { permits: 50, ..setting(1, true) }).is_empty(),
        "too many clients for a script"
    );
    let (workload, theirs) = (Path::new("workloads/redis-semaphore-of-two.toml"), Path::new(""));
    for scripted in of(2).into_iter().chain(beside::scenarios(&Setting { permits: 2, ..setting(1, true) })) {
        let nemesis: Nemesis = toml::from_str(&scripted.toml).unwrap();
        assert_eq!(nemesis.clients, Some(4));
        assert_eq!(nemesis.script[0].to_string(), "start client:3 to acquired", "{}", scripted.toml);
        let scenario = Options::default().scenario(&workload.display().to_string(), "none", 1, theirs).unwrap();
        let scenario = Scenario { nemesis: nemesis.clone(), clients: 4, ..scenario };
        // A lock with a single holder has no other holders.
        let when: Vec<When> = scripted.aims.iter().map(|aim| aim.sent.when).collect();
        let ours = Kind::of(&scenario, RenewalMode::None).scenario(&scenario, &when, 1).unwrap();
        assert!(ours.nemesis.script.iter().all(|step| step.client() != Some(3)));
        if !forgets(&scripted) {
            let (valid, text) = played(&scripted, &ours);
            assert_eq!(valid, Validity::Valid, "{text}");
        }
    }
}

#[test]
fn a_sound_lock_withstands_every_pair_of_strikes_at_its_own_commands() {
    let taking_and_releasing = [command(When::Taking, "SET"), command(When::Releasing, "EVAL")];
    let renewing = [command(When::Taking, "SET"), command(When::Holding, "EVAL"), command(When::Releasing, "DEL")];
    for (workload, nodes, sent) in [
        ("single", 1, &taking_and_releasing[..]),
        ("redlock", 3, &taking_and_releasing),
        ("redlock-watchdog", 3, &renewing),
        ("redlock-extend", 3, &renewing),
    ] {
        let aims: Vec<FaultPoint> =
            scenarios(sent, &setting(nodes, true)).into_iter().flat_map(|scripted| scripted.aims).collect();
        let pairs = pairs(&aims, upkeep_of(workload));
        assert!(pairs.len() >= 4, "{workload}: {}", pairs.len());
        let mut shown = 0;
        for pair in pairs {
            let (valid, text) = played(&pair, &run_with(&pair, workload, nodes));
            // If the second fault finds no command, the run is inconclusive.
            assert_ne!(valid, Validity::Invalid, "{text}");
            shown += usize::from(valid == Validity::Valid);
        }
        assert!(shown > 2, "{workload}: {shown}");
    }
}

#[test]
fn an_unsound_lock_falls_to_those_that_its_defect_is_about_and_to_no_others() {
    let fell = |workload: &str, when, name: &str| {
        let all = scenarios(&[command(when, name)], &setting(1, true));
        let played = |scripted: &Scripted| played(scripted, &run_with(scripted, workload, 1)).0;
        let fell = all.iter().filter(|one| !forgets(one)).filter(|one| played(one) == Validity::Invalid);
        fell.map(|scripted| scripted.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        fell("redlock-unchecked", When::Taking, "SET"),
        ["taking-set-clock-back-before-reply", "taking-set-late-reply", "taking-set-pause-before-reply"]
    );
    // SETNX without a TTL, and EXPIRE after it.
    assert_eq!(fell("setnx-expire", When::Taking, "SETNX"), ["taking-setnx-kill-before-reply"]);
    // Nor does the lock check whether this command succeeded.
    assert_eq!(fell("setnx-expire", When::Taking, "PEXPIRE"), ["taking-pexpire-refused"]);
    // DEL, whichever client holds the lock.
    assert_eq!(
        fell("single-constant", When::Releasing, "DEL"),
        ["releasing-del-cancel-before-reply", "releasing-del-late-request"]
    );
    assert!(fell("single", When::Taking, "SET").is_empty());
}

#[test]
fn scenarios_are_about_the_locks_keys_and_waiting_has_its_own() {
    let other = ObservedCommand { key: None, ..command(When::Taking, "INCR") };
    assert!(scenarios(&[other], &setting(3, true)).is_empty());
    let waiting = scenarios(&[command(When::Waiting, "SUBSCRIBE")], &setting(1, true));
    let names: Vec<&str> = waiting.iter().map(|scripted| &*scripted.name).collect();
    assert_eq!(
        names,
        [
            "waiting-subscribe-late-reply",
            "waiting-subscribe-reset-after",
            "waiting-subscribe-cancel-before-reply",
            "waiting-subscribe-late-request",
            "waiting-subscribe-lost-reply",
            "waiting-subscribe-kill-before-reply",
            "waiting-subscribe-close-after",
            "waiting-subscribe-connection-reset-later",
            "waiting-subscribe-node-restart-synced-before-reply"
        ]
    );
    for scripted in waiting {
        let on = if scripted.aims[0].strike == Strike::Idle { "" } else { " on lock:k*" };
        assert!(scripted.toml.contains(&format!("SUBSCRIBE{on} client:0")), "{}", scripted.toml);
        assert!(toml::from_str::<model::nemesis::Nemesis>(&scripted.toml).is_ok(), "{}", scripted.toml);
    }
    // The part after the operation's key may be random each time, and a command may have the key in another position than its
    // keys.
    for (key, is_keyed, command_on) in
        [("{lock:k0}-reply-17", true, "PUBLISH on {lock:k* client"), ("lock:k0", false, "PUBLISH client")]
    {
        let sent = ObservedCommand { key: Some(key.into()), is_keyed, ..command(When::Waiting, "PUBLISH") };
        let toml = &scenarios(&[sent], &setting(1, true))[0].toml;
        assert!(toml.contains(command_on), "{toml}");
    }
    // The lock never expires, so the script does not wait for that.
    let forever = scenarios(&[command(When::Taking, "SET")], &setting(1, false));
    assert!(forever.iter().all(|scripted| !scripted.toml.contains("1.1ttl")));
}

#[test]
fn a_lock_that_its_holder_extends_is_compared_with_one_that_falls_where_nobody_extends_it() {
    let folder = Path::new("");
    let theirs = Options::default().scenario("redis-py-extend", "long-work", 1, folder).unwrap();
    let as_its_kind = |upkeep, nemesis: &str| {
        let kind = Kind::of(&theirs, upkeep);
        let scenario = Options::default().scenario("redis-py-extend", nemesis, 1, folder).unwrap();
        simulate(&kind.scenario(&scenario, &[], 1).unwrap()).unwrap().verdict.valid
    };
    for nemesis in ["long-work", "revived-lock", "delayed-write"] {
        assert_eq!(as_its_kind(RenewalMode::ByItsHolder, nemesis), Validity::Invalid, "{nemesis}");
        assert_eq!(as_its_kind(RenewalMode::InTheBackground, nemesis), Validity::Valid, "{nemesis}");
    }
    assert_eq!(as_its_kind(RenewalMode::ByItsHolder, "late-extension"), Validity::Valid);
    // Both must meet the requirements of the library's file.
    let gap = Some("1ttl".parse().unwrap());
    let asking = Scenario { workload: Workload { longest_gap: gap, ..theirs.workload.clone() }, ..theirs.clone() };
    let as_asked = Kind::of(&theirs, RenewalMode::None).scenario(&asking, &[], 1).unwrap();
    assert_eq!(as_asked.workload.longest_gap, gap);
}

#[test]
fn scenarios_beside_other_holders_are_for_several_permits_alone() {
    let names = |permits, cancels| {
        let setting = Setting { permits, cancels, ..setting(1, true) };
        beside::scenarios(&setting).into_iter().map(|one| one.name).collect::<Vec<_>>()
    };
    assert!(names(1, true).is_empty());
    assert_eq!(names(2, true).len(), names(2, false).len() + 1);
    assert!(names(2, true).contains(&"cancelled-while-waiting".to_string()));
}

#[test]
fn only_a_lock_that_was_struck_at_the_same_time_is_compared_with() {
    use Baseline::{Falls, Holds, Unknown};
    let taking = When::Taking;
    for (runs, judged_as) in [
        (vec![(Validity::Valid, vec![taking]), (Validity::Unknown, vec![])], Some(Holds)),
        (vec![(Validity::Valid, vec![When::Holding]), (Validity::Valid, vec![])], Some(Unknown)),
        // Of two faults, both must fire at the same points as with the library.
        (vec![(Validity::Valid, vec![taking, When::Releasing])], Some(Unknown)),
        (vec![(Validity::Valid, vec![taking]), (Validity::Invalid, vec![When::Holding])], Some(Falls)),
        (vec![(Validity::Unknown, vec![taking])], None),
    ] {
        assert_eq!(judged(runs.clone(), &[taking]), judged_as, "{runs:?}");
    }
}

#[test]
fn who_polls_gets_the_lock_whatever_becomes_of_what_another_waiter_had_asked() {
    for scripted in scenarios(&[command(When::Waiting, "BLPOP")], &setting(1, true)) {
        let of = run_with(&scripted, "single", 1);
        let (valid, text) = played(&scripted, &kind("single").scenario(&of, &[When::Waiting], 1).unwrap());
        assert_eq!(valid, Validity::Valid, "{text}");
        // The lock polls with another command than BLPOP.
        assert_eq!(played(&scripted, &of).0, Validity::Unknown, "{}", scripted.name);
    }
}

#[test]
fn who_has_no_event_loop_stands_still_where_another_one_is_blocked() {
    let blocked = Setting { blocks: true, ..setting(1, true) };
    let all = scenarios(&[command(When::Taking, "SET")], &blocked);
    let scripted = all.iter().find(|one| one.aims[0].strike == Strike::Block).unwrap();
    for (workload, comes) in [("single", Validity::Valid), ("redlock-unchecked", Validity::Invalid)] {
        let of = run_with(scripted, workload, 1);
        let (valid, text) = played(scripted, &kind(workload).scenario(&of, &[When::Taking], 1).unwrap());
        assert_eq!(valid, comes, "{text}");
    }
}

#[test]
fn what_tells_most_comes_first() {
    let sent = [command(When::Taking, "SET"), command(When::Holding, "EVAL"), command(When::Releasing, "DEL")];
    let all = scenarios(&[&sent[..], &[ObservedCommand { nth: 2, ..sent[0].clone() }]].concat(), &setting(3, true));
    let place = |name: &str| all.iter().position(|one| one.name == name).unwrap_or_else(|| panic!("{name}"));
    // First the scenarios that the catalogue has not run, for each command; then those that it has; then other nodes; then
    // repeated commands.
    let in_order = [
        "taking-set-late-request",
        "holding-eval-lost-reply",
        "releasing-del-kill-before-reply",
        "taking-set-node-restart-before-reply-at-n0",
        "taking-set-late-reply",
        "taking-set-late-request-at-n0",
        "taking-set-late-reply-2nd",
    ];
    let places = in_order.map(place);
    assert!(places.is_sorted(), "{places:?}");
    // If there was no time for the catalogue, its scenarios are not postponed.
    let unknown = scenarios(&sent, &Setting { knows_the_catalogue: false, ..setting(3, true) });
    let place = |name: &str| unknown.iter().position(|one| one.name == name).unwrap_or_else(|| panic!("{name}"));
    assert!(place("taking-set-late-reply") < place("taking-set-late-request"));
    // Only a client that can be cancelled is cancelled, and only a client with an event loop is blocked.
    let able = |cancels, blocks| {
        let of = scenarios(&sent, &Setting { cancels, blocks, ..setting(1, true) });
        let any = |strike| of.iter().any(|one| one.aims[0].strike == strike);
        (any(Strike::Cancel), any(Strike::Block))
    };
    assert_eq!((able(false, false), able(true, true)), ((false, false), (true, true)));
}

#[test]
fn a_release_is_cancelled_before_its_node_hears_of_it() {
    let of = scenarios(&[command(When::Releasing, "EVAL")], &setting(1, true));
    let cancelled = of.iter().find(|one| one.name == "releasing-eval-cancel-before-reply").unwrap();
    assert!(cancelled.toml.contains("hold request EVAL"), "{}", cancelled.toml);
    let of = scenarios(&[command(When::Taking, "SET")], &setting(1, true));
    let cancelled = of.iter().find(|one| one.name == "taking-set-cancel-before-reply").unwrap();
    assert!(cancelled.toml.contains("hold reply to SET"), "{}", cancelled.toml);
}

#[test]
fn pairs_are_made_of_what_was_withstood_and_name_both_strikes() {
    let aim = |strike, when, name, at| FaultPoint { strike, sent: command(when, name), at };
    let names = |aims: &[FaultPoint]| {
        pairs(aims, RenewalMode::InTheBackground).into_iter().map(|pair| pair.name).collect::<Vec<_>>()
    };
    let lost = aim(Strike::LostReply, When::Taking, "SET", Place::All);
    let late = aim(Strike::LateRequest, When::Releasing, "EVAL", Place::All);
    assert_eq!(names(&[lost.clone(), late.clone()]), ["taking-set-lost-reply-then-releasing-eval-late-request"]);
    // A fault that waits for a script can't distinguish the repeated acquisition script from the release script.
    assert!(names(&[FaultPoint { sent: command(When::Taking, "EVAL"), ..lost.clone() }, late]).is_empty());
    let at = |strike, node| aim(strike, When::Taking, "SET", Place::Node(node));
    assert_eq!(
        names(&[at(Strike::LostReply, 0), at(Strike::LateReply, 1), at(Strike::LateReply, 0)]),
        ["taking-set-lost-reply-at-n0-then-taking-set-late-reply-at-n1"]
    );
    assert!(names(&[lost]).is_empty());
}

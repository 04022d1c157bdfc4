//! Diagnoses that were once reported for runs that do not show them, each beside a run that does.

use diagnosis::Lives;

use diagnosis::Harm;

use super::scene::{diagnoses, run};

/// The sentence of a diagnosis for a run; None if there is no such diagnosis.
fn told(code: &str, text: &str) -> Option<String> {
    let found = diagnoses(text).into_iter().find(|diagnosis| diagnosis.code == code)?;
    Some(found.sentence().to_string())
}

/// The events of the keys in a run.
fn life(text: &str) -> Vec<String> {
    let (history, commands) = run(text);
    Lives::of(&history, &commands).of_key("k0", 0, u64::MAX).into_iter().map(|event| event.text).collect()
}

#[test]
fn a_kind_breaks_only_the_claims_that_its_defect_can_break() {
    use model::history::Claim;
    let breaks = |claim: Claim, code: &str| diagnosis::find(code).unwrap().breaks.contains(&claim);
    // A release that deletes nothing, and a key that is left behind, lose no update. A lost key keeps no client waiting.
    for code in ["RJ004", "RJ016", "RJ017", "RJ018", "RJ029", "RJ033"] {
        assert!(!breaks(Claim::Updates, code) && !breaks(Claim::MutualExclusion, code), "{code}");
    }
    for code in ["RJ001", "RJ008", "RJ020", "RJ021", "RJ022", "RJ023"] {
        assert!(breaks(Claim::Updates, code) && !breaks(Claim::Liveness, code), "{code}");
    }
    assert!(breaks(Claim::Releases, "RJ029") && breaks(Claim::Losses, "RJ026") && breaks(Claim::Ownership, "RJ039"));
    assert!(diagnosis::KINDS.iter().all(|kind| !kind.breaks.is_empty()));
}

/// Sentinels learn late of a promotion. A key that the old primary created in between was never the new primary's to lose.
#[test]
fn a_key_that_is_newer_than_the_promotion_was_not_lost_by_it() {
    let codes = |promotion: &str| {
        let text = format!(
            "nodes 3
            op c0 1-900 ok acquired=110 releasing=800 released=890
            op c1 2-850 ok acquired=320 releasing=700 released=840
            promoted n1 for n0 at 250
            at 105 n0 c0 SET lock:k0 a NX PX 1000
            {promotion}
            at 310 n1 c1 SET lock:k0 b NX PX 1000"
        );
        diagnoses(&text).into_iter().map(|diagnosis| diagnosis.code).collect::<Vec<_>>()
    };
    for before in ["at 200 n1 s0 EXEC", "fault kill n0 150-240"] {
        assert!(codes(before).contains(&"RJ020".to_string()), "{before}");
    }
    let after = ["at 50 n1 s0 EXEC", "fault kill n0 50-100", "", "at 200 n1 c2 EXEC", "at 200 n1 s0 EXEC\ngap 200 n1"];
    for after in after {
        assert!(!codes(after).contains(&"RJ020".to_string()), "{after}");
    }
    assert!(
        !codes("at 200 n1 s0 EXEC\nfault flush n1 260-300").contains(&"RJ020".to_string()),
        "the flush may have removed it"
    );
}

#[test]
fn a_request_in_doubt_is_no_creation() {
    let text = "op c0 1-200 ok acquired=10 releasing=150 released=190
        op c1 2-500 fail
        op c2 2-500 fail
        gap 3 n0
        at 5 n0 c1 SET lock:k0 b NX PX 1000
        at 7 n0 c2 SET lock:k0 c NX PX 1000
        at 300 n0 c2 DEL lock:k0";
    assert_eq!(
        life(text),
        [
            "c1's SET tried to create the key, for 1 s; the result is unknown",
            "c2's SET tried to create the key, for 1 s; the result is unknown",
            "c2's DEL tried to remove the key; the result is unknown",
        ]
    );
    assert_eq!(life(&text.replace("gap 3 n0", ""))[0], "c1's SET created the key, for 1 s");
}

#[test]
fn a_client_counts_the_nodes_on_its_own_list() {
    let text = |list: &str| {
        let on_each =
            |line: &str| -> String { (0..5).map(|node| line.replace("NODE", &format!("n{node}")) + "\n").collect() };
        format!(
            "nodes 5
            {list}
            op c0 1-900 ok acquired=20 releasing=800 released=890
            op c1 1000-1900 ok acquired=1020 releasing=1800 released=1890
            op c2 2000-2900 ok acquired=2020 releasing=2800 released=2890
            at 5 n0 c0 SET lock:k0 a NX PX 900
            at 5 n1 c0 SET lock:k0 a NX PX 900
            {}{}{}",
            on_each("at 2 NODE c3 GET lock:k0"),
            on_each("at 1005 NODE c1 SET lock:k0 b NX PX 900"),
            on_each("at 2005 NODE c2 SET lock:k0 c NX PX 900"),
        )
    };
    let too_few = "c0 received the lock at 0.020 s, though only 2 of 5 nodes had created its key.";
    assert_eq!(told("RJ008", &text("")).as_deref(), Some(too_few));
    assert_eq!(told("RJ008", &text("list c0 n0 n1 n2")), None, "these are 2 of its 3 nodes");
    let too_few = too_few.replace("2 of 5", "2 of 4");
    assert_eq!(told("RJ008", &text("list c0 n0 n1 n2 n3")), Some(too_few));
}

#[test]
fn lists_that_differ_are_no_cause_if_their_majorities_share_a_node() {
    let text = |more: &str| {
        format!(
            "nodes 5
            list c0 n0 n1 n2
            op c0 1-900 ok acquired=20 releasing=800 released=890
            op c1 30-990 ok acquired=60 releasing=950 released=980
            at 2 n2 c3 GET lock:k0
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            {more}
            at 40 n0 c1 SET lock:k0 b NX PX 1000
            at 40 n1 c1 SET lock:k0 b NX PX 1000
            at 40 n2 c1 SET lock:k0 b NX PX 1000
            at 40 n3 c1 SET lock:k0 b NX PX 1000
            at 40 n4 c1 SET lock:k0 b NX PX 1000
            at 805 n0 c0 DEL lock:k0
            at 955 n1 c1 DEL lock:k0
            at 955 n2 c1 DEL lock:k0
            at 955 n3 c1 DEL lock:k0
            at 955 n4 c1 DEL lock:k0"
        )
    };
    assert!(told("RJ050", &text("")).is_some());
    assert!(told("RJ050", &text("at 30 n1 c4 DEL lock:k0")).is_none(), "a node lost the first client's key");
    let same = text("").replace("list c0 n0 n1 n2", "list c0 n0 n1 n2 n3 n4");
    assert!(told("RJ050", &same).is_none(), "two of five are no majority");
}

#[test]
fn a_vote_of_a_node_that_was_not_watched_may_be_missing() {
    let text = |more: &str| {
        format!(
            "nodes 5
            op c0 580-900 ok acquired=700 releasing=800 released=890
            op c1 1-650 fail
            {more}
            at 500 n2 c1 GET lock:k0
            at 500 n3 c1 SET lock:k0 b NX PX 1000
            at 500 n4 c1 SET lock:k0 b NX PX 1000
            at 600 n0 c0 SET lock:k0 a NX PX 1000
            at 600 n1 c0 SET lock:k0 a NX PX 1000
            at 601 n3 c0 SET lock:k0 a NX PX 1000
            at 602 n4 c0 SET lock:k0 a NX PX 1000
            at 805 n0 c0 DEL lock:k0
            at 805 n1 c0 DEL lock:k0"
        )
    };
    // A killed node's third vote, after it had been watched for the last time. The recorder may notice late that it sees nothing.
    for (gap, is_told) in [
        ("", true),
        ("gap 550 n2", false),
        ("gap 750 n2", false),
        ("gap 400 n2 \n gap 450 n2", true),
        ("gap 550 n2 \n gap 640 n2", false),
    ] {
        assert_eq!(told("RJ008", &text(gap)).is_some(), is_told, "{gap}");
    }
}

#[test]
fn the_first_ttl_of_a_key_is_no_renewal() {
    let text = |more: &str| {
        format!(
            "op c0 1-2300 ok acquired=10 releasing=2200 released=2290
            op c1 1-2500 ok acquired=2110 releasing=2400 released=2490
            at 5 n0 c0 SETNX lock:k0 a
            at 6 n0 c0 PEXPIRE lock:k0 1000
            {more}
            at 2105 n0 c1 SETNX lock:k0 b
            at 2106 n0 c1 PEXPIRE lock:k0 1000"
        )
    };
    assert_eq!(told("RJ015", &text("")), None);
    let expired = told("RJ022", &text("")).unwrap();
    assert!(!expired.contains("extended"), "{expired}");
    let renewed = text("at 500 n0 c0 PEXPIRE lock:k0 1000");
    assert!(told("RJ015", &renewed).is_some_and(|sentence| sentence.contains("extended its key 1 time")));
    assert!(told("RJ022", &renewed).unwrap().contains("extended 1 time"));
}

#[test]
fn a_key_with_its_ttl_from_a_second_command_expires_before_the_grant() {
    let text = |acquired: u32| {
        format!(
            "op c0 1-2000 ok acquired={acquired} releasing=1900 released=1990
            op c1 1-2500 ok acquired=1110 releasing=2400 released=2490
            at 5 n0 c0 SETNX lock:k0 a
            at 6 n0 c0 PEXPIRE lock:k0 1000
            at 1105 n0 c1 SETNX lock:k0 b
            at 1106 n0 c1 PEXPIRE lock:k0 1000"
        )
    };
    assert!(told("RJ007", &text(1500)).is_some_and(|sentence| sentence.contains("494 ms after its key had expired")));
    assert_eq!(told("RJ007", &text(900)), None);
}

#[test]
fn a_key_that_is_left_behind_stays_until_it_is_removed_or_the_run_is_over() {
    let text = |more: &str| {
        format!(
            "op c0 1-50 fail
            op c1 60-2000 fail
            at 5 n0 c0 SET lock:k0 a NX PX 60000
            at 600 n0 c1 SET lock:k0 b NX PX 60000
            {more}"
        )
    };
    let stayed = |more: &str| told("RJ017", &text(more)).unwrap().split(". ").last().unwrap().to_string();
    assert_eq!(stayed("at 1900 n0 c1 GET lock:k0"), "The key stayed for another 1.95 s.");
    assert_eq!(stayed("at 1050 n0 c1 DEL lock:k0"), "The key stayed for another 1 s.");
}

#[test]
fn a_client_that_was_paused_before_the_reply_came_looks_at_its_clock_after_the_pause() {
    let text = |faults: &str| {
        format!(
            "op c0 90-2900 ok acquired=2730 releasing=2800 released=2890
            op c1 2600-2950 ok acquired=2710 releasing=2900 released=2940
            {faults}
            at 100 n0 c0 SET lock:k0 a NX PX 1000
            at 2705 n0 c1 SET lock:k0 b NX PX 1000"
        )
    };
    let sentence = "c0 received the lock at 2.730 s, 1.63 s after its key had expired: the acquisition took 2.63 s, and its TTL is 1 s.";
    assert_eq!(told("RJ007", &text("delay n0 c0 600 50-2700 \n fault pause c0 400-2725")).as_deref(), Some(sentence));
    // It may have looked at its clock after the reply, and then been paused.
    for faults in [
        "fault pause c0 400-2725",
        "delay n0 c0 200 50-2700 \n fault pause c0 400-2725",
        "delay n0 c0 600 50-300 \n fault pause c0 400-2725",
        "delay n0 c1 600 50-2700 \n fault pause c0 400-2725",
        "delay n0 c0 600 200-2700 \n fault pause c0 400-2725",
    ] {
        assert_eq!(told("RJ007", &text(faults)), None, "{faults}");
    }
}

#[test]
fn keys_of_an_earlier_try_are_not_those_of_the_lock() {
    // A first try with the value `a` has one vote. The second try, with `b`, has a majority.
    let text = |late: &str| {
        format!(
            "nodes 3
            op c1 1-300 ok acquired=4 releasing=280 released=290
            op c0 5-900 ok acquired=400 releasing=800 released=890
            at 2 n0 c1 SET lock:k0 z NX PX 1000
            at 2 n1 c1 SET lock:k0 z NX PX 1000
            at 10 n0 c0 SET lock:k0 a NX PX 1000
            at 10 n1 c0 SET lock:k0 a NX PX 1000
            at 10 n2 c0 SET lock:k0 a NX PX 1000
            at 285 n0 c1 DEL lock:k0
            at 285 n1 c1 DEL lock:k0
            at 390 n0 c0 SET lock:k0 b NX PX 1000
            at 390 n1 c0 SET lock:k0 b NX PX 1000
            at 500 {late}
            at 805 n0 c0 DEL lock:k0
            at 805 n1 c0 DEL lock:k0"
        )
    };
    let release = |node: &str, value: &str| {
        format!("{node} c0 EVAL text 1 lock:k0 {value}\n at 500 {node} lua GET lock:k0\n at 500 {node} lua DEL lock:k0")
    };
    // The late release of the first try reaches its key.
    assert_eq!(told("RJ035", &text(&release("n2", "a"))), None);
    assert!(told("RJ035", &text(&release("n0", "b"))).is_some());
}

#[test]
fn a_late_request_of_a_long_attempt_leaves_no_key_behind_by_its_library() {
    let text = |fault: &str| {
        format!(
            "nodes 3
            op c0 1-5000 fail
            {fault}
            at 10 n0 c0 SET lock:k0 a NX PX 1000
            at 10 n1 c0 SET lock:k0 a NX PX 1000
            at 4500 n2 c0 SET lock:k0 a NX PX 1000
            at 4600 n0 c0 DEL lock:k0
            at 5300 n2 c1 GET lock:k0
            op c1 5200-5500 fail"
        )
    };
    assert!(told("RJ018", &text("")).is_some());
    // The request had waited for the heal, and the release of its try went over another connection.
    assert_eq!(told("RJ018", &text("fault partition c0 5-1600")), None);
}

#[test]
fn a_validity_within_the_ttl_that_was_asked_for_is_not_counted_by_the_wall_clock() {
    let text = |ttl: u32, validity: u32| {
        format!(
            "op c0 1-900 ok acquired=20~{validity} releasing=800 released=890
            fault clock c0 5-850
            at 10 n0 c0 SET lock:k0 a NX PX {ttl}"
        )
    };
    assert_eq!(told("RJ032", &text(100, 980)), None, "its TTL was cut short");
    assert_eq!(told("RJ032", &text(1000, 980)), None);
}

#[test]
fn a_renewal_goes_on_after_a_release_that_failed() {
    let text = |ended: &str| {
        format!(
            "op c0 1-200 {ended}
            op c1 1-3000 fail
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 900 n0 c0 EVAL text 1 lock:k0 a 1000
            at 900 n0 lua GET lock:k0
            at 900 n0 lua PEXPIRE lock:k0 1000
            at 1800 n0 c1 SET lock:k0 b NX PX 1000"
        )
    };
    assert!(
        told("RJ014", &text("ok acquired=10 releasing=150 lost=190"))
            .is_some_and(|told| told.contains("ended its operation"))
    );
    assert!(told("RJ014", &text("ok acquired=10 releasing=150 released=190")).is_some());
    assert_eq!(told("RJ014", &text("info acquired=10 releasing=150")), None, "it may still be at work");
}

#[test]
fn a_key_of_an_earlier_try_with_the_same_value_is_not_removed_from_the_lock() {
    let text = |second: &str| {
        format!(
            "nodes 3
            op c0 1-900 ok acquired=200 releasing=800 released=890
            op c1 1-100 fail
            at 3 n0 c1 SET lock:k0 b NX PX 1000
            at 3 n1 c1 SET lock:k0 b NX PX 1000
            at 10 n0 c0 SET lock:k0 a NX PX 1000
            at 10 n1 c0 SET lock:k0 a NX PX 1000
            at 10 n2 c0 SET lock:k0 a NX PX 1000
            at 20 n0 c1 DEL lock:k0
            {second}
            at 50 n2 c0 EVAL text 1 lock:k0 a
            at 50 n2 lua GET lock:k0
            at 50 n2 lua DEL lock:k0
            at 150 n0 c0 SET lock:k0 a NX PX 1000
            at 805 n0 c0 DEL lock:k0"
        )
    };
    // A majority is too small here (RJ008), and the first try was released as it should be.
    assert_eq!(told("RJ035", &text("")), None);
    let removed = "
            at 30 n0 c0 SET lock:k0 a NX PX 1000
            at 50 n0 c0 EVAL text 1 lock:k0 a
            at 50 n0 lua GET lock:k0
            at 50 n0 lua DEL lock:k0";
    let both =
        text(removed).replace("at 150 n0 c0 SET lock:k0 a NX PX 1000", "").replace("at 805 n0 c0 DEL lock:k0", "");
    assert!(told("RJ035", &both).is_some(), "it removed the keys of its last try, and handed the lock out");
}

#[test]
fn a_release_right_after_the_lock_came_is_not_a_removal_before_it() {
    let text = |released: u64| {
        format!(
            "nodes 3
            op c0 1-900 fail acquired=200 releasing={released} released=890
            at 10 n0 c0 SET lock:k0 a NX PX 1000
            at 10 n1 c0 SET lock:k0 a NX PX 1000
            at 10 n2 c0 SET lock:k0 a NX PX 1000
            at 20 n0 c0 EVAL text 1 lock:k0 a
            at 20 n0 lua GET lock:k0
            at 20 n0 lua DEL lock:k0
            at 201 n1 c0 EVAL text 1 lock:k0 a
            at 201 n1 lua GET lock:k0
            at 201 n1 lua DEL lock:k0"
        )
    };
    assert_eq!(told("RJ035", &text(200)), None, "it gave up its work at once");
    assert!(told("RJ035", &text(800)).is_some(), "two of three keys were gone when it received the lock");
}

#[test]
fn commands_of_a_process_are_not_told_as_those_of_its_first_thread() {
    let text = "op c0 1-3 fail
        op c1 4-200 ok acquired=10 releasing=150 released=190
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 160 n0 c0 EVAL text 1 lock:k0 a
        at 160 n0 lua GET lock:k0
        at 160 n0 lua DEL lock:k0";
    assert_eq!(
        life(&format!("threads 2\n{text}")),
        [
            "the SET of c0's process created the key, for 1 s",
            "the script of c0's process compared it, and its DEL removed the key of c0's process"
        ]
    );
    assert_eq!(life(text)[0], "c0's SET created the key, for 1 s");
    let shared = "op c0 1-200 ok acquired=10 releasing=150 released=190
        op c2 201-400 ok acquired=210 releasing=350 released=390
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 160 n0 c0 DEL lock:k0
        at 205 n0 c2 SET lock:k0 a NX PX 1000";
    let says = "c2's SET at 0.205 s wrote the value `a`, which c0 had written at 0.005 s.";
    assert_eq!(told("RJ009", shared).as_deref(), Some(says));
    let says = "The SET of c2's process at 0.205 s wrote the value `a`, which c0's process had written at 0.005 s.";
    assert_eq!(told("RJ009", &format!("threads 2\n{shared}")).as_deref(), Some(says));
}

#[test]
fn a_release_is_not_blamed_for_a_key_that_was_created_after_it() {
    let text = "nodes 3
        op c0 1-100 ok acquired=10 releasing=90 released=99
        op c1 2-900 fail
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 5 n1 c0 SET lock:k0 a NX PX 1000
        at 95 n1 c0 DEL lock:k0
        at 500 n0 c1 SET lock:k0 b NX PX 1000
        at 500 n1 c1 SET lock:k0 b NX PX 1000";
    let says = "c0's release ended at 0.100 s, and its key on n0 was still there 400 ms later: no command of c0 had removed it.";
    assert_eq!(told("RJ016", text).as_deref(), Some(says));
    // While the release was in progress, or later.
    for time in ["93", "200"] {
        assert_eq!(told("RJ016", &text.replace("at 5 n0", &format!("at {time} n0"))), None, "{time}");
    }
    // The value is an earlier try's, whose request was late.
    let earlier = "at 3 n2 c0 SET lock:k0 a NX PX 1000\n at 4 n2 c0 DEL lock:k0\n";
    let late = text.replace("at 5 n1 c0 SET lock:k0 a", &format!("{earlier} at 5 n1 c0 SET lock:k0 d"));
    assert_eq!(told("RJ016", &late), None);
    // A release that failed, or an attempt that had ended, does not show it either.
    let failed = "op c0 1-300 info acquired=10 releasing=280
        cancel c0 290
        op c1 2-1500 ok acquired=1410 releasing=1450 released=1490
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 320 n0 c1 SET lock:k0 b NX PX 1000
        at 1405 n0 c1 SET lock:k0 b NX PX 1000";
    assert!(told("RJ040", failed).is_some());
    let reported = failed.replace("cancel c0 290", "");
    assert_eq!(told("RJ040", &reported), None, "the caller can try again");
    assert_eq!(told("RJ040", &failed.replace("at 5 n0", "at 290 n0")), None);
    let attempt = "op c0 1-300 fail
        op c1 2-1500 ok acquired=1410 releasing=1450 released=1490
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 400 n0 c1 SET lock:k0 b NX PX 1000
        at 1405 n0 c1 SET lock:k0 b NX PX 1000";
    assert!(told("RJ017", attempt).is_some());
    assert_eq!(told("RJ017", &attempt.replace("at 5 n0", "at 310 n0")), None);
}

fn codes(text: &str) -> Vec<String> {
    diagnoses(text).into_iter().map(|diagnosis| diagnosis.code).collect()
}

#[test]
fn a_client_that_gives_up_a_lock_that_it_was_granted_was_not_refused() {
    let removes = |first: &str| {
        format!(
            "op c0 1-1300 fail
             op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
             op c2 3-1450 fail
             {first}
             at 1105 n0 c1 SET lock:k0 b NX PX 1000
             at 1205 n0 c0 DEL lock:k0
             at 1400 n0 c2 GET lock:k0"
        )
    };
    let granted = codes(&removes("at 5 n0 c0 SET lock:k0 a NX PX 1000"));
    assert!(granted.contains(&"RJ001".to_string()) && !granted.contains(&"RJ003".to_string()), "{granted:?}");
    let refused = codes(&removes("at 1150 n0 c0 SET lock:k0 a NX PX 1000"));
    assert!(refused.contains(&"RJ003".to_string()) && !refused.contains(&"RJ001".to_string()), "{refused:?}");
}

#[test]
fn a_renewal_in_a_transaction_never_leaves_the_key_without_a_ttl() {
    let renews = |exec: &str| {
        codes(&format!(
            "op c0 1-1900 ok acquired=10 releasing=1850 released=1890
             op c1 2-1800 fail
             at 5 n0 c0 SET lock:k0 a NX PX 1000
             at 500 n0 c0 MULTI
             at 501 n0 c0 SET lock:k0 a XX
             {exec}
             at 502 n0 c0 PEXPIRE lock:k0 1000
             at 503 n0 c0 EXEC
             at 700 n0 c1 SET lock:k0 b NX PX 1000
             at 1855 n0 c0 DEL lock:k0"
        ))
    };
    assert!(!renews("at 501 n0 c0 GET lock:k0").contains(&"RJ025".to_string()));
    assert!(renews("at 501 n0 c0 EXEC").contains(&"RJ025".to_string()));
}

#[test]
fn a_request_that_the_network_held_belongs_to_the_attempt_that_wrote_its_value_first() {
    // n2 gets c0's first SET only during c0's second operation, whose release knows nothing of it.
    let text = |late: &str| {
        format!(
            "nodes 3
             op c0 1-300 fail
             op c0 310-1000 ok acquired=330 releasing=900 released=990
             op c1 320-1900 fail
             at 5 n0 c0 SET lock:k0 a NX PX 1000
             at 6 n1 c0 SET lock:k0 a NX PX 1000
             at 250 n0 c0 EVAL text 1 lock:k0 a
             at 250 n0 lua GET lock:k0
             at 250 n0 lua DEL lock:k0
             at 251 n1 c0 EVAL text 1 lock:k0 a
             at 251 n1 lua GET lock:k0
             at 251 n1 lua DEL lock:k0
             at 320 n0 c0 SET lock:k0 b NX PX 1000
             at 321 n1 c0 SET lock:k0 b NX PX 1000
             at 500 n2 c0 SET lock:k0 {late} NX PX 1000
             at 905 n0 c0 EVAL text 1 lock:k0 b
             at 905 n0 lua GET lock:k0
             at 905 n0 lua DEL lock:k0
             at 906 n1 c0 EVAL text 1 lock:k0 b
             at 906 n1 lua GET lock:k0
             at 906 n1 lua DEL lock:k0
             at 1100 n2 c1 SET lock:k0 c NX PX 1000
             at 1300 n2 c1 SET lock:k0 c NX PX 1000"
        )
    };
    let of_release = |late: &str| {
        let told = codes(&text(late));
        told.iter().any(|code| ["RJ016", "RJ018", "RJ037", "RJ040"].contains(&&**code))
    };
    assert!(!of_release("a"));
    assert!(of_release("b"), "a release that leaves out a node");
}

#[test]
fn a_late_request_of_an_earlier_try_does_not_concern_the_release() {
    let text = |time: u32| {
        format!(
            "op c0 1-900 ok acquired=300 releasing=800 released=890
             op c1 310-1900 fail
             at {time} n1 c0 SET lock:k0 a NX PX 1500
             at 290 n0 c0 SET lock:k0 b NX PX 1000
             at 805 n0 c0 DEL lock:k0
             at 1000 n1 c1 SET lock:k0 c NX PX 1000"
        )
    };
    assert!(!codes(&text(400)).contains(&"RJ016".to_string()));
    assert!(
        codes(&text(400).replace("lock:k0 b", "lock:k0 a").replace("at 400", "at 291")).contains(&"RJ016".to_string())
    );
}

#[test]
fn a_holder_that_dies_leaves_the_key_that_it_had_made_endless() {
    let text = "op c0 1-1500 info acquired=10
        op c1 1510-3000 fail
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 400 n0 c0 SET lock:k0 a XX
        at 1520 n0 c1 SET lock:k0 b NX PX 1000
        at 2900 n0 c1 SET lock:k0 b NX PX 1000";
    let told = diagnoses(text);
    let renewal = told.iter().find(|diagnosis| diagnosis.code == "RJ025").unwrap();
    assert_eq!(renewal.findings[0].harm, Harm::Kept);
}

#[test]
fn the_ttl_of_a_renewal_or_a_release_is_none_of_the_acquisition() {
    let renewal = "op c0 1-1900 ok acquired=10 releasing=1850 released=1890
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 500 n0 c0 SET lock:k0 a XX
        at 502 n0 c0 PEXPIRE lock:k0 1000
        at 1855 n0 c0 DEL lock:k0";
    let release = "op c0 1-900 ok acquired=10 releasing=800 released=890
        at 5 n0 c0 SET lock:k0 a NX
        at 805 n0 c0 PEXPIRE lock:k0 50";
    let acquisition = release.replace("at 805", "at 9");
    for (text, is_told) in [(renewal, false), (release, false), (&acquisition, true)] {
        assert_eq!(codes(text).contains(&"RJ005".to_string()), is_told, "{text}");
    }
}

#[test]
fn an_extension_of_a_key_that_may_be_there_was_carried_out() {
    // The flush makes it unknown whether the key was there; a later SET with IFEQ may have extended it.
    let extends = |by: &str| {
        codes(&format!(
            "op c0 1-1900 ok acquired=10 extended=520 releasing=1850 released=1890
             at 5 n0 c0 SET lock:k0 a NX PX 1000
             fault flush n0 300-310
             {by}
             at 1855 n0 c0 DEL lock:k0"
        ))
    };
    assert!(!extends("at 510 n0 c0 SET lock:k0 a IFEQ a PX 1000").contains(&"RJ045".to_string()));
    // DELIFEQ removed the key in the end, so the next grant does not refute the extension.
    let removed = "op c0 1-900 ok acquired=30 extended=520 releasing=850 released=890
        op c1 2-1900 ok acquired=910 releasing=1850 released=1890
        fault flush n0 3-40
        at 5 n0 c1 SET lock:k0 b NX PX 1000
        at 25 n0 c0 SET lock:k0 a NX PX 1000
        at 510 n0 c0 SET lock:k0 a IFEQ a PX 1000
        at 855 n0 c0 DELIFEQ lock:k0 a
        at 905 n0 c1 SET lock:k0 c NX PX 1000
        at 1855 n0 c1 DELIFEQ lock:k0 c";
    assert!(!codes(removed).contains(&"RJ045".to_string()));
    assert!(codes(&removed.replace("at 510 n0 c0 SET lock:k0 a IFEQ a PX 1000", "")).contains(&"RJ045".to_string()));
    assert!(extends("at 510 n0 c0 GET lock:k0").contains(&"RJ045".to_string()));
}

#[test]
fn a_release_that_was_sent_twice_was_repeated() {
    let releases = |second: &str| {
        codes(&format!(
            "op c0 1-300 fail acquired=10 releasing=200
             cancel c0 290
             op c1 2-1200 fail
             at 5 n0 c0 SET lock:k0 a NX PX 1000
             at 205 n0 c0 EVALSHA x 1 lock:k0 a
             {second}
             at 600 n0 c1 SET lock:k0 b NX PX 1000
             at 700 n0 c0 PING
             at 900 n0 c1 SET lock:k0 b NX PX 1000"
        ))
    };
    assert!(!releases("at 230 n0 c0 EVALSHA x 1 lock:k0 a").contains(&"RJ040".to_string()));
    assert!(releases("at 230 n0 c0 PING").contains(&"RJ040".to_string()));
}

#[test]
fn a_further_try_that_the_node_refused_wrote_no_value() {
    // c0's event loop is blocked while the reply to its first SET waits. Its timer sends a second SET before c0 reads that reply.
    let text = |second: &str| {
        format!(
            "op c0 1-2300 ok acquired=2100 releasing=2200 released=2290
             op c1 2-2400 ok acquired=1920 releasing=2350 released=2390
             at 5 n0 c0 SET lock:k0 a NX PX 1000
             at 1910 n0 c1 SET lock:k0 b NX PX 1000
             {second}
             at 2205 n0 c0 EVAL text 1 lock:k0 a
             at 2205 n0 lua GET lock:k0
             at 2355 n0 c1 EVAL text 1 lock:k0 b
             at 2355 n0 lua GET lock:k0
             at 2355 n0 lua DEL lock:k0"
        )
    };
    let tells = |text: &str| diagnoses(text).iter().any(|diagnosis| diagnosis.code == "RJ007");
    assert!(tells(&text("at 2090 n0 c0 SET lock:k0 c NX PX 1000")));
    // The node may have granted this one, whose key did not expire.
    assert!(!tells(&text("gap 2000 n0\nat 2090 n0 c0 SET lock:k0 c NX PX 1000")));
}

#[test]
fn a_lock_that_had_expired_before_it_was_given_did_not_expire_under_its_holder() {
    let text = "nodes 3
        op c0 1-1900 ok acquired=900 releasing=1800 released=1890
        op c1 2-1850 ok acquired=1120 releasing=1700 released=1840
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 6 n1 c0 SET lock:k0 a NX PX 1000
        at 1110 n0 c1 SET lock:k0 b NX PX 1000
        at 1111 n1 c1 SET lock:k0 b NX PX 1000";
    let says =
        "c0's keys on n0 and n1 had expired by 1.006 s while c0 still relied on them; c1 acquired the lock at 1.120 s.";
    assert_eq!(told("RJ022", text).as_deref(), Some(says));
    let late = text.replace("acquired=900", "acquired=1100");
    assert_eq!(told("RJ022", &late), None);
    assert!(told("RJ007", &late).is_some());
    // One of the keys was gone.
    assert_eq!(told("RJ022", &text.replace("acquired=900", "acquired=1005")), None);
}

#[test]
fn a_key_is_not_lost_before_it_was_there_nor_by_a_flush_that_was_over() {
    let text = "op c0 1-900 ok acquired=30 releasing=800 released=890
        op c1 2-850 ok acquired=320 releasing=700 released=840
        fault flush n0 20-250
        at 25 n0 c0 SET lock:k0 a NX PX 1000
        at 310 n0 c1 SET lock:k0 b NX PX 1000";
    let (mut history, commands) = run(text);
    history.faults[0].injected = Some((30_000_000, true));
    let told = |history: &_| Lives::of(history, &commands).diagnose().into_iter().find(|one| one.code == "RJ021");
    let says = "Some time after 0.025 s, n0 was flushed and lost c0's key before its TTL ended; c1 created its key on n0 at 0.310 s.";
    assert_eq!(told(&history).unwrap().sentence(), says);
    // The flush was over, even if its heal comes later.
    history.faults[0].injected = Some((22_000_000, true));
    assert_eq!(told(&history), None);
}

#[test]
fn threads_that_each_created_a_key_do_not_share_a_lock() {
    let text = "threads 2
        op c0 1-900 ok acquired=10 releasing=800 released=890
        op c1 8-850 ok acquired=12 releasing=700 released=840
        at 5 n0 c0 SET lock:k0 a NX PX 1000";
    assert!(told("RJ034", text).is_some());
    // The first key was lost, and each thread had a key.
    let both = format!("{text}\n fault flush n0 5-7\n at 8 n0 c0 SET lock:k0 b NX PX 1000");
    assert_eq!(told("RJ034", &both), None);
    // A key that another thread had released before is not a key of these operations; a key that another client removed may be.
    let back = text.replace("at 5 n0", "at 3 n0 c0 SET lock:k0 z NX PX 1000\n at 4 n0 c0 DEL lock:k0\n at 5 n0");
    assert!(told("RJ034", &back).is_some());
    assert_eq!(told("RJ034", &back.replace("op c1 8-", "op c1 2-").replace("c0 DEL", "c2 DEL")), None);
}

#[test]
fn a_late_request_of_the_acquisition_is_no_renewal() {
    let text = "op c0 1-1300 ok acquired=10 releasing=1250 released=1290
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 1205 n0 c0 SET lock:k0 a PX 1000";
    let says = "c0's SET at 1.205 s, meant to extend its lock, created the key again, which had expired at 1.005 s.";
    assert_eq!(told("RJ011", text).as_deref(), Some(says));
    let same = text.replace("a PX", "a NX PX");
    assert_eq!(told("RJ011", &same), None);
    // A client that repeats the request has no other renewal.
    assert_eq!(told("RJ011", &format!("{same}\nat 905 n0 c0 SET lock:k0 a NX PX 1000")).as_deref(), Some(says));
}

#[test]
fn a_late_request_of_an_earlier_attempt_removes_no_lock_of_its_library() {
    let text = "op c0 1-90 fail
        op c0 100-900 ok acquired=110 releasing=800 released=890
        at 105 n0 c0 SET lock:k0 a NX PX 1000
        at 300 n0 c0 DEL lock:k0
        at 805 n0 c0 DEL lock:k0";
    let says = "c0's DEL at 0.300 s removed its own key while c0 relied on the lock until 0.800 s.";
    assert_eq!(told("RJ035", text).as_deref(), Some(says));
    assert_eq!(told("RJ035", &format!("{text}\n fault partition c0 50-80")), None);
}

#[test]
fn a_release_goes_to_one_of_the_nodes_that_replicate() {
    let text = "nodes 3
        op c0 1-300 fail
        op c1 2-1200 ok acquired=1110 releasing=1150 released=1190
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 5 n1 c0 SET lock:k0 a NX PX 1000
        at 250 n1 c0 DEL lock:k0
        at 400 n0 c1 SET lock:k0 b NX PX 1000
        at 401 n1 c1 SET lock:k0 b NX PX 1000";
    assert!(told("RJ018", text).is_some());
    // The other attempts of the run ask one node, its primary.
    let one = text.replace("at 401", "at 1102 n0 c1 GET lock:k0\n at 1105").replace("n1 c1", "n0 c1");
    assert_eq!(told("RJ018", &one), None);
}

#[test]
fn what_a_release_read_is_no_comparison_of_a_renewal_that_outlives_it() {
    let text = "op c0 1-120 ok acquired=10 releasing=100 released=115
        op c1 2-900 ok acquired=125 releasing=800 released=890
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 101 n0 c0 GET lock:k0
        at 110 n0 c0 DEL lock:k0
        at 120 n0 c1 SET lock:k0 b NX PX 1000
        at 150 n0 c0 PEXPIRE lock:k0 1000";
    let sentence = "c0's PEXPIRE at 0.150 s extended c1's key: its renewal does not check who holds the key.";
    assert_eq!((told("RJ024", text), told("RJ010", text).as_deref()), (None, Some(sentence)));
    let apart = text.replace("at 110 n0 c0 DEL lock:k0", "").replace("120 n0", "1101 n0").replace("150 n0", "1120 n0");
    let apart = apart.replace(
        "1-120 ok acquired=10 releasing=100 released=115",
        "1-1300 ok acquired=10 releasing=1200 released=1290",
    );
    let apart = apart.replace(
        "2-900 ok acquired=125 releasing=800 released=890",
        "2-1900 ok acquired=1105 releasing=1800 released=1890",
    );
    assert!(told("RJ024", &apart).is_some() && told("RJ010", &apart).is_none());
}

#[test]
fn an_acquisition_that_removes_the_key_first_overwrites_and_a_late_release_does_not() {
    let habit = "op c0 1-900 ok acquired=10 releasing=800 released=890
        op c1 100-700 ok acquired=110 releasing=600 released=690
        3 times every 100: op c1 901-950 ok acquired=910 releasing=940 released=945
        3 times every 100: at 904 n0 c1 DEL lock:k0
        3 times every 100: at 905 n0 c1 SET lock:k0 b{} NX PX 1000
        3 times every 100: at 942 n0 c1 EVAL text 1 lock:k0 b{}
        3 times every 100: at 942 n0 lua GET lock:k0
        3 times every 100: at 942 n0 lua DEL lock:k0
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 103 n0 c1 DEL lock:k0
        at 105 n0 c1 SET lock:k0 b NX PX 1000";
    let says = "c1's DEL at 0.103 s removed c0's key to create its own, which was there since 0.005 s.";
    assert_eq!(told("RJ013", habit).as_deref(), Some(says));
    assert_eq!(told("RJ013", &habit.replace("3 times every 100: at 904 n0 c1 DEL lock:k0", "")), None);
    let looks =
        habit.replace("at 103 n0 c1 DEL", "at 3 n0 c1 GET lock:k0\nat 103 n0 c1 DEL").replace("op c1 100-", "op c1 1-");
    assert!(told("RJ012", &looks).is_some() && told("RJ013", &looks).is_none());
}

#[test]
fn a_time_that_the_server_refuses_changes_no_key() {
    let text = "op c0 1-50 fail acquiring=3
        op c1 60-3000 fail acquiring=62
        at 5 n0 c0 SETNX lock:k0 a
        at 7 n0 c0 EXPIRE lock:k0 1.5
        at 65 n0 c1 SETNX lock:k0 b
        at 2995 n0 c1 SETNX lock:k0 b";
    assert!(told("RJ004", text).is_some());
    assert_eq!(told("RJ004", &text.replace("1.5", "10")), None);
    // Such a command does not create one either.
    assert_eq!(life("op c0 1-50 fail acquiring=3\nat 5 n0 c0 SET lock:k0 a NX PX 1.5"), Vec::<String>::new());
}

#[test]
fn keys_that_are_removed_before_the_grant_leave_no_majority_or_one() {
    let text = "nodes 3
        op c0 1-900 ok acquired=20 releasing=800 released=890
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 5 n1 c0 SET lock:k0 a NX PX 1000
        at 10 n0 c0 EVAL text 1 lock:k0 a
        at 10 n0 lua GET lock:k0
        at 10 n0 lua DEL lock:k0
        at 10 n1 c0 EVAL text 1 lock:k0 a
        at 10 n1 lua GET lock:k0
        at 10 n1 lua DEL lock:k0";
    assert!(told("RJ035", text).is_some());
    // The next try has another value, and its keys exist.
    let again = format!("{text}\nat 15 n1 c0 SET lock:k0 b NX PX 1000\nat 15 n2 c0 SET lock:k0 b NX PX 1000");
    assert_eq!(told("RJ035", &again), None);
    // A minority was not a lock.
    assert_eq!(told("RJ035", &text.replace("at 5 n1 c0 SET lock:k0 a NX PX 1000", "")), None);
}

#[test]
fn a_deletion_by_an_attempt_that_no_node_granted_is_no_release() {
    let text = |attempt: &str| {
        format!(
            "op c0 1-1900 ok acquired=10 releasing=1800 released=1890
            op c1 20-300 fail
            at 5 n0 c0 SET lock:k0 a NX PX 5000
            {attempt}
            at 290 n0 c1 DEL lock:k0"
        )
    };
    let named = |text: &str| -> Vec<String> { diagnoses(text).into_iter().map(|one| one.code).collect() };
    // The network may have kept the request of this attempt.
    let uncertain = named(&text("fault call c1 15-280"));
    assert!(!uncertain.iter().any(|code| matches!(&**code, "RJ001" | "RJ003")), "{uncertain:?}");
    // Here c1's attempt was refused: its DEL is that of a client that gives up.
    assert_eq!(named(&text("at 25 n0 c1 SET lock:k0 b NX PX 5000"))[0], "RJ003");
}

#[test]
fn a_removal_after_a_refused_request_is_the_release_of_a_try_and_no_acquisition() {
    let retries = "3 times every 300: op c0 1-290 ok acquired=10 releasing=250 released=290
        3 times every 300: op c1 20-200 ok acquired=110 releasing=190 released=195
        3 times every 300: at 5 n0 c0 SET lock:k0 a{} NX PX 1000
        3 times every 300: at 100 n0 c1 SET lock:k0 b{} NX PX 1000
        3 times every 300: at 103 n0 c1 DEL lock:k0
        3 times every 300: at 105 n0 c1 SET lock:k0 c{} NX PX 1000
        3 times every 300: at 192 n0 c1 EVAL text 1 lock:k0 c{}
        3 times every 300: at 192 n0 lua GET lock:k0
        3 times every 300: at 192 n0 lua DEL lock:k0";
    assert_eq!(told("RJ013", retries), None);
    let removes = retries.replace("3 times every 300: at 100 n0 c1 SET lock:k0 b{} NX PX 1000", "");
    let says = "c1's DEL at 0.103 s removed c0's key to create its own, which was there since 0.005 s.";
    assert_eq!(told("RJ013", &removes).as_deref(), Some(says));
}

#[test]
fn a_renewal_of_another_clients_key_misleads_its_own_client_if_no_majority_is_left() {
    let harm = |lost: u32| {
        let on = |node: u32| match node < lost {
            true => format!("at {} n{node} c1 SET lock:k0 b NX PX 1000", 1_105 + node),
            false => format!("at {} n{node} c0 PEXPIRE lock:k0 2000", 505 + node),
        };
        let nodes: String = (0..3)
            .map(|node| {
                format!(
                    "at {} n{node} c0 SET lock:k0 a NX PX 1000
                     {}
                     at {} n{node} c0 PEXPIRE lock:k0 1000\n",
                    5 + node,
                    on(node),
                    1_205 + node
                )
            })
            .collect();
        let text = format!(
            "nodes 3
             op c0 1-1300 ok acquired=10 releasing=1250 released=1290
             op c1 1002-1400 ok acquired=1110 releasing=1350 released=1390
             {nodes}"
        );
        let found = diagnoses(&text).into_iter().find(|one| one.code == "RJ010").unwrap();
        found.findings[0].harm
    };
    assert_eq!((harm(1), harm(2)), (Harm::None, Harm::Misled(0)));
}

#[test]
fn a_release_that_is_sent_twice_names_the_first_one() {
    let text = "op c0 1-1300 ok acquired=10 releasing=800 released=1290
        op c1 810-1400 ok acquired=910 releasing=1350 released=1390
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 805 n0 c0 DEL lock:k0
        at 905 n0 c1 SET lock:k0 b NX PX 1000
        at 1205 n0 c0 DEL lock:k0";
    let says = "c0's DEL at 1.205 s removed c1's key: c0 had already released its own key at 0.805 s, and its release does \
                not check who holds the key.";
    assert_eq!(told("RJ001", text).as_deref(), Some(says));
    let once = text.replace("at 805 n0 c0 DEL lock:k0", "").replace("905", "1105").replace("910", "1110");
    let says = "c0's DEL at 1.205 s removed c1's key: its release does not check who holds the key.";
    assert_eq!(told("RJ001", &once).as_deref(), Some(says));
}

#[test]
fn a_key_without_a_ttl_does_no_harm_of_its_own_if_a_release_left_it_behind() {
    let harms = |first: &str| {
        let text = format!(
            "{first}
             op c1 60-3000 fail
             at 5 n0 c0 SETNX lock:k0 a
             at 65 n0 c1 SETNX lock:k0 b
             at 2995 n0 c1 SETNX lock:k0 b"
        );
        let found = diagnoses(&text);
        let harm = |code: &str| found.iter().find(|one| one.code == code).map(|one| one.findings[0].harm);
        (harm("RJ004"), harm("RJ016"))
    };
    let released = harms("op c0 1-50 ok acquired=10 releasing=40 released=49");
    assert_eq!(released, (Some(Harm::None), Some(Harm::Kept)));
    assert_eq!(harms("op c0 1-50 info acquired=10"), (Some(Harm::Kept), None));
}

#[test]
fn tokens_have_the_order_of_the_keys_on_one_node() {
    let text = |first: (u32, u32), second: (u32, u32)| {
        format!(
            "op c0 1-900 ok acquired={}#{} releasing=800 released=890
             op c1 2-1900 ok acquired={}#{} releasing=1800 released=1890
             at 5 n0 c0 SET lock:k0 a NX PX 50
             at 105 n0 c1 SET lock:k0 b NX PX 1000",
            first.0, first.1, second.0, second.1
        )
    };
    // The first client counts its token when the second has its lock already, or the second before the first has it.
    let late = "c1 got token 7 at 0.110 s, but c0, whose key was there before c1's, got token 8 at 0.310 s.";
    assert_eq!(told("RJ030", &text((310, 8), (110, 7))).as_deref(), Some(late));
    let early = "c1 got token 7 at 0.110 s, after c0 had got token 8 at 0.010 s.";
    assert_eq!(told("RJ030", &text((10, 8), (110, 7))).as_deref(), Some(early));
    assert_eq!(told("RJ030", &text((310, 7), (110, 8))), None);
    // On several nodes there is no such order.
    assert_eq!(told("RJ030", &format!("nodes 3\n{}", text((310, 8), (110, 7)))), None);
}

#[test]
fn a_paused_server_stands_still_and_a_killed_one_is_down() {
    let text = |kind: &str| {
        format!(
            "op c0 100-900 ok acquiring=110 acquired=310 releasing=800 released=890
             fault {kind} n0 50-500
             at 5 n0 c0 PING"
        )
    };
    let says = |what: &str| Some(format!("c0 received the lock at 0.310 s, though n0 {what} from 0.050 s to 0.500 s."));
    assert_eq!(told("RJ041", &text("pause")), says("stood still"));
    assert_eq!(told("RJ041", &text("kill")), says("was down"));
}

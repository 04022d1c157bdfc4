//! Uncertain diagnoses are not reported.

use diagnosis::{Harm, Lives};

use super::scene::{diagnoses, run};

/// c0's release removes the key of c1; the lines in the middle may make that doubtful.
fn with(middle: &str) -> Vec<String> {
    let text = format!(
        "op c0 1-1300 ok acquired=10 releasing=1200 released=1290
         op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
         at 5 n0 c0 SET lock:k0 a NX PX 1000
         at 1105 n0 c1 SET lock:k0 b NX PX 1000
         {middle}
         at 1205 n0 c0 DEL lock:k0"
    );
    diagnoses(&text).into_iter().map(|diagnosis| diagnosis.code).collect()
}

#[test]
fn a_key_that_may_have_changed_unseen_is_nobodys() {
    assert_eq!(with(""), ["RJ001", "RJ022"]);
    for middle in ["gap 1150 n0", "fault flush n0 1150-1160", "promoted n0 for n1 at 1150", "at 1150 n0 c2 FLUSHALL"] {
        assert!(!with(middle).contains(&"RJ001".to_string()), "{middle}");
    }
}

#[test]
fn at_the_end_of_a_keys_life_only_what_follows_tells_who_got_it() {
    // It is unknown whose request found the key absent, but the script that compares and deletes shows it.
    let edge = "op c0 1-1900 ok acquired=10 releasing=1800 released=1890
        op c1 2-1850 fail
        op c2 2-1850 fail
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 1004 n0 c1 SET lock:k0 b NX PX 1000
        at 1005 n0 c2 SET lock:k0 c NX PX 1000";
    let (history, commands) = run(edge);
    let told = |commands: &[_]| -> Vec<String> {
        Lives::of(&history, commands).of_key("k0", 0, u64::MAX).into_iter().map(|event| event.text).collect()
    };
    assert!(told(&commands)[1].ends_with("the result is unknown"), "{:?}", told(&commands));
    let (_, commands) = run(&format!(
        "{edge}
        at 1010 n0 c1 EVAL text 1 lock:k0 b
        at 1010 n0 lua GET lock:k0
        at 1010 n0 lua DEL lock:k0"
    ));
    let told = told(&commands);
    assert_eq!(told[1..3], ["the TTL had expired", "c1's SET created the key, for 1 s"], "{told:?}");
    assert_eq!(told.len(), 4, "c2's request did nothing: {told:?}");
}

#[test]
fn a_server_that_restarts_may_have_a_removed_key_again() {
    let of = |fault: &str| -> Vec<String> {
        let (history, commands) = run(&format!(
            "op c0 1-120 ok acquired=10 releasing=95 released=110
            op c1 250-400 info
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 100 n0 c0 EVAL text 1 lock:k0 a
            at 100 n0 lua GET lock:k0
            at 100 n0 lua DEL lock:k0
            {fault}
            at 300 n0 c1 SET lock:k0 b NX PX 1000"
        ));
        Lives::of(&history, &commands).of_key("k0", 0, u64::MAX).into_iter().map(|event| event.text).collect()
    };
    for fault in ["fault power-loss n0 150-200", "fault kill n0 150-200", "fault clock n0 150-200"] {
        assert!(of(fault).last().unwrap().ends_with("the result is unknown"), "{fault}: {:?}", of(fault));
    }
    for fault in ["", "fault flush n0 150-200", "fault power-loss n1 150-200", "fault power-loss n0 20-60"] {
        assert_eq!(of(fault).last().unwrap(), "c1's SET created the key, for 1 s", "{fault}");
    }
}

#[test]
fn a_key_that_expires_at_a_time_of_the_servers_clock_has_an_unknown_end() {
    let codes = |text: &str| -> Vec<String> { diagnoses(text).into_iter().map(|diagnosis| diagnosis.code).collect() };
    // c1's key may have expired before c0's DEL.
    let taken = "op c0 1-1300 ok acquired=10 releasing=1200 released=1290
        op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
        at 5 n0 c0 SET lock:k0 a NX PXAT 1790000000000
        at 1105 n0 c1 SET lock:k0 b NX PXAT 1790000001000
        at 1205 n0 c0 DEL lock:k0";
    assert_eq!(codes(taken), [""; 0]);
    let with_ttl = taken.replace("PXAT 1790000000000", "PX 1000").replace("PXAT 1790000001000", "PX 1000");
    assert_eq!(codes(&with_ttl), ["RJ001", "RJ022"]);
    // Without a TTL it would be RJ004.
    let left = "op c0 1-50 info acquired=10
        op c1 60-3000 fail
        at 5 n0 c0 SET lock:k0 a NX PXAT 1790000000000
        at 65 n0 c1 SET lock:k0 b NX PXAT 1790000000000
        at 2995 n0 c1 SET lock:k0 b NX PXAT 1790000000000";
    assert!(codes(left).is_empty(), "{:?}", codes(left));
    let (history, commands) = run(left);
    let first = Lives::of(&history, &commands).of_key("k0", 0, u64::MAX).into_iter().next().unwrap();
    assert_eq!(first.text, "c0's SET created the key, with a TTL given as a server time");
    let later = "op c0 1-900 ok acquired=10 releasing=800 released=890
        at 5 n0 c0 SETNX lock:k0 a
        at 7 n0 c0 PEXPIREAT lock:k0 1790000001000
        at 805 n0 c0 DEL lock:k0";
    assert_eq!(codes(later), ["RJ005"]);
}

#[test]
fn a_busy_machine_excuses_a_release_only_for_as_long_as_it_was_busy() {
    let codes = |seen_last: u64, more: &str| -> Vec<String> {
        let text = format!(
            "op c0 1-100 ok acquired=10 releasing=90 released=99
             op c1 2-{seen_last} fail
             {more}
             at 5 n0 c0 SET lock:k0 a NX
             at 500 n0 c1 SET lock:k0 b NX
             at {seen_last} n0 c1 SET lock:k0 b NX"
        );
        diagnoses(&text).into_iter().map(|diagnosis| diagnosis.code).collect()
    };
    assert_eq!(codes(900, ""), ["RJ016"]);
    assert_eq!(codes(2900, ""), ["RJ016", "RJ004"]);
    assert_eq!(codes(900, "waited c0 300 200-600"), [""; 0]);
    assert_eq!(codes(2900, "waited c0 300 200-600"), ["RJ016", "RJ004"]);
    assert!(!codes(2900, "fault partition c0 80-200").contains(&"RJ016".to_string()));
}

#[test]
fn locks_of_several_holders_have_no_diagnosis() {
    let text = "op c0 1-1300 ok acquired=10 releasing=1200 released=1290
        op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 1105 n0 c1 SET lock:k0 b NX PX 1000
        at 1205 n0 c0 DEL lock:k0";
    let (mut history, commands) = run(text);
    assert!(!Lives::of(&history, &commands).diagnose().is_empty());
    assert!(Lives::of(&history, &[]).diagnose().is_empty(), "nor has a run without commands");
    history.run.as_mut().unwrap().permits = 2;
    assert!(Lives::of(&history, &commands).diagnose().is_empty());
}

#[test]
fn a_key_beside_a_lock_is_none() {
    let text = "op c0 1-100 ok acquired=10 releasing=80 released=90
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 6 n0 c0 SET lock:k0:token 7
        at 85 n0 c0 DEL lock:k0
        at 500 n0 c1 GET lock:k0:token";
    assert!(diagnoses(text).is_empty(), "{:?}", diagnoses(text));
}

/// c0's release removes the key of c1 after c0 had sent a question about its own key.
fn asked(question: &str, more: &str) -> Vec<String> {
    let text = format!(
        "op c0 1-1300 ok acquired=10 releasing=900 released=1290
         op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
         {more}
         at 5 n0 c0 SET lock:k0 a NX PX 1000
         {question}
         at 1105 n0 c1 SET lock:k0 b NX PX 1000
         at 1205 n0 c0 DEL lock:k0"
    );
    diagnoses(&text).into_iter().map(|diagnosis| diagnosis.code).filter(|code| code != "RJ022").collect()
}

#[test]
fn what_a_release_asked_is_told_only_as_far_as_commands_show_it() {
    assert_eq!(asked("at 905 n0 c0 GET lock:k0", ""), ["RJ002"]);
    assert!(asked("at 905 n0 c0 PTTL lock:k0", "").is_empty(), "how long it lives says nothing of whose it is");
    assert_eq!(asked("at 4 n0 c0 GET lock:k0", ""), ["RJ001"], "what it asked before it had the lock is no comparison");
}

#[test]
fn a_read_that_belongs_to_the_acquisition_is_no_comparison_at_the_release() {
    // The key holds the moment at which it ends, and GETSET replaces it. The read and the acquisition are 2 ms apart.
    let shown = |read: &str| {
        let text = format!(
            "op c1 1-2 fail
             op c0 3-1300 ok acquired=11 releasing=1200 released=1290
             op c1 20-1400 ok acquired=1110 releasing=1350 released=1390
             at 1 n0 c1 SETNX lock:k0 900
             {read}
             at 10 n0 c0 GETSET lock:k0 1100
             at 1105 n0 c1 GETSET lock:k0 2200
             at 1205 n0 c0 DEL lock:k0"
        );
        diagnoses(&text).into_iter().map(|diagnosis| diagnosis.code).collect::<Vec<_>>()
    };
    let codes = shown("at 9 n0 c0 GET lock:k0");
    assert!(codes.contains(&"RJ001".to_string()) && !codes.contains(&"RJ002".to_string()), "{codes:?}");
    let codes = shown("at 900 n0 c0 GET lock:k0");
    assert!(codes.contains(&"RJ002".to_string()) && !codes.contains(&"RJ001".to_string()), "{codes:?}");
}

#[test]
fn a_release_that_may_be_lost_on_its_way_is_not_missed() {
    let of = |fault: &str| {
        let text = format!(
            "op c0 1-300 fail
             op c1 2-1200 ok acquired=1110 releasing=1150 released=1190
             {fault}
             at 5 n0 c0 SET lock:k0 a NX PX 1000
             at 20 n0 c1 SET lock:k0 b NX PX 1000
             at 815 n0 c0 PING
             at 1105 n0 c1 SET lock:k0 b NX PX 1000"
        );
        diagnoses(&text).iter().any(|diagnosis| diagnosis.code == "RJ017")
    };
    assert!(of(""));
    for fault in ["fault partition c0 100-500", "fault loss n0 100-500", "fault pause c0 100-500"] {
        assert!(!of(fault), "{fault}");
    }
}

#[test]
fn a_key_that_another_may_have_removed_was_not_lost_by_its_node() {
    let of = |middle: &str| {
        let text = format!(
            "op c0 1-900 ok acquired=10 releasing=800 released=890
             op c1 2-850 ok acquired=320 releasing=700 released=840
             fault flush n0 200-210
             at 5 n0 c0 SET lock:k0 a NX PX 1000
             {middle}
             at 310 n0 c1 SET lock:k0 b NX PX 1000"
        );
        diagnoses(&text).iter().any(|diagnosis| diagnosis.code == "RJ021")
    };
    assert!(of("") && !of("at 205 n0 c2 DEL lock:k0") && !of("fault evict n0 220-230"));
}

#[test]
fn numbers_that_no_server_takes_are_no_harm() {
    let huge = u64::MAX;
    let text = format!(
        "op c0 1-900 ok acquired=10 releasing=800 released=890
         op c1 2-850 ok acquired=320 releasing=700 released=840
         promoted n1 for n0 at 250
         at 5 n0 c0 SET lock:k0 a NX PX {huge}
         at 6 n0 c0 PEXPIRE lock:k0 {huge}
         at 310 n1 c1 SET lock:k0 b NX EX {huge}"
    );
    let (history, mut commands) = run(&text);
    commands.last_mut().unwrap().time = huge;
    Lives::of(&history, &commands).diagnose();
    Lives::of(&history, &commands).of_key("k0", 0, huge);
}

#[test]
fn one_that_sets_after_it_asked_ends_a_lock_that_its_owner_has_not_reported_yet() {
    let both = "
        op c0 1-900 ok acquired=12 read=400 written=500 releasing=800 released=890
        op c1 2-900 ok acquired=9 read=300 written=600 releasing=700 released=790
        at 5 n0 c0 GET lock:k0
        at 6 n0 c1 GET lock:k0
        at 7 n0 c0 SET lock:k0 a PX 1000
        at 8 n0 c1 SET lock:k0 b PX 1000";
    let codes = |run: &str| diagnoses(run).into_iter().map(|found| found.code).collect::<Vec<_>>();
    assert!(codes(both).contains(&"RJ012".to_string()), "{:?}", codes(both));
    // If an owner sets its key again before it reports the lock, it has the new key.
    let again = both.replace("acquired=12", "acquired=20")
        + "\n at 10 n0 c1 DEL lock:k0\n at 15 n0 c0 SET lock:k0 c NX PX 1000";
    assert!(!codes(&again).contains(&"RJ012".to_string()), "{:?}", codes(&again));
}

#[test]
fn a_key_that_stays_after_its_release_is_told_for_as_long_as_it_was_seen() {
    let run = "
        op c0 1-100 ok acquired=10 releasing=90 released=99
        op c1 2-1200 ok acquired=1110 releasing=1150 released=1190
        op c0 140-1250 fail
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 101 n0 c1 SET lock:k0 b NX PX 1000
        at 150 n0 c0 SET lock:k0 c NX PX 1000
        at 900 n0 c1 SET lock:k0 b NX PX 1000
        at 1105 n0 c1 SET lock:k0 b NX PX 1000";
    let found = diagnoses(run);
    assert_eq!(found[0].code, "RJ016", "c0's next attempt is not its release");
    assert!(found[0].sentence().contains("still there 800 ms later"), "{}", found[0].sentence());
    // A key that an earlier attempt left is not a key that its release left.
    let on_n0 = |run: String| {
        let found = diagnoses(&format!("nodes 2\n{run}"));
        found.into_iter().any(|found| found.code == "RJ016" && found.sentence().contains("on n0"))
    };
    assert!(on_n0(run.to_string()));
    assert!(!on_n0(run.replace("at 101", "at 7 n1 c0 SET lock:k0 d NX PX 1000\n        at 101")));
    let released = run.replace("at 101", "at 95 n0 c0 DEL lock:k0\n        at 101");
    assert!(diagnoses(&released).iter().all(|found| found.code != "RJ016"));
}

#[test]
fn a_count_of_holders_and_a_lock_of_several_keys_have_no_diagnosis() {
    let counts = "
        op c0 1-500 ok acquired=10 releasing=400 released=490
        at 5 n0 c0 SET lock:k0 1 NX PX 1000
        at 405 n0 c0 SET lock:k0 0 PX 1000
        at 550 n0 c1 GET lock:k0";
    assert_eq!(diagnoses(counts), []);
    let stays = counts.replace("SET lock:k0 1", "SET lock:k0 a").replace("at 405 n0 c0 SET lock:k0 0 PX 1000", "");
    assert_eq!(diagnoses(&stays)[0].code, "RJ016", "a value that stays is one");
    let both = stays.replace("at 550", "at 6 n0 c0 SET readers:lock:k0 1 NX PX 1000\n at 550");
    assert_eq!(diagnoses(&both), []);
}

#[test]
fn a_node_that_never_gave_its_key_is_no_loss() {
    // c1 has n1, n2 and n3; its renewal finds another client's key, or none, on the other two nodes.
    let run = "
        nodes 5
        op c1 1-1900 ok acquired=20 before-write=1700 releasing=1800 released=1890
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 5 n4 c0 SET lock:k0 a NX PX 1000
        at 10 n0 c1 SET lock:k0 b NX PX 1000
        at 10 n1 c1 SET lock:k0 b NX PX 1000
        at 10 n2 c1 SET lock:k0 b NX PX 1000
        at 10 n3 c1 SET lock:k0 b NX PX 1000
        at 10 n4 c1 SET lock:k0 b NX PX 1000
        at 30 n0 c0 DEL lock:k0
        at 30 n4 c0 DEL lock:k0
        at 310 n0 c1 PEXPIRE lock:k0 1000
        at 310 n4 c1 PEXPIRE lock:k0 1000
        at 310 n1 c1 PEXPIRE lock:k0 3000
        at 310 n2 c1 PEXPIRE lock:k0 3000
        at 310 n3 c1 PEXPIRE lock:k0 3000";
    assert!(!diagnoses(run).iter().any(|told| told.code == "RJ026"), "{:?}", diagnoses(run));
    // Two of its three keys are gone.
    let lost = run.replace("at 310 n1", "at 300 n1 c2 DEL lock:k0\n at 310 n1");
    assert!(diagnoses(&lost).iter().any(|told| told.code == "RJ026"), "{:?}", diagnoses(&lost));
}

#[test]
fn a_key_that_may_stay_since_its_release_is_on_its_way_is_not_kept() {
    let run = |between: &str| {
        format!(
            "nodes 3
            op c0 4-900 fail
            op c1 1-950 ok acquired=3 releasing=910 released=940
            {between}
            at 2 n1 c1 SET lock:k0 b NX PX 1000
            at 2 n2 c1 SET lock:k0 b NX PX 1000
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            at 305 n0 c0 SET lock:k0 a NX PX 1000"
        )
    };
    let is_told = |text: &str| diagnoses(text).iter().any(|told| told.code == "RJ037");
    assert!(is_told(&run("at 100 n1 c0 PING")));
    assert!(!is_told(&run("fault partition c0 100-200")), "its release may be lost");
    assert!(!is_told(&run("at 100 n1 c0 DEL lock:k0")), "it releases");
    // A lock on one of several nodes has no votes.
    let one = run("at 100 n1 c0 PING").replace("at 5 n1 c0", "at 5 n0 c0").replace(" n2 ", " n1 ");
    assert!(!is_told(&one));
}

#[test]
fn a_request_that_the_network_delivers_after_the_attempt_is_no_kept_key() {
    let run = |time: u64| {
        format!(
            "nodes 3
            op c1 1-9000 ok acquired=3 releasing=8900 released=8990
            op c0 4-8000 fail
            at 2 n1 c1 SET lock:k0 b NX PX 10000
            at 2 n2 c1 SET lock:k0 b NX PX 10000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            at {time} n0 c0 SET lock:k0 a NX PX 1000
            at {} n0 c0 SET lock:k0 c NX PX 1000",
            time + 300
        )
    };
    let is_told = |text: &str| diagnoses(text).iter().any(|told| told.code == "RJ037");
    assert!(is_told(&run(6)));
    assert!(!is_told(&run(3_000)), "it had sent its releases long before");
}

#[test]
fn only_keys_of_one_try_that_stay_are_kept() {
    let says = |token: &str, time: u64| {
        let told = diagnoses(&format!(
            "nodes 5
            op c0 4-900 fail
            op c1 1-950 ok acquired=3 releasing=910 released=940
            at 2 n2 c1 SET lock:k0 z NX PX 1000
            at 2 n3 c1 SET lock:k0 z NX PX 1000
            at 2 n4 c1 SET lock:k0 z NX PX 1000
            at 7 n2 c0 SET lock:k0 a NX PX 1000
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at {time} n1 c0 SET lock:k0 {token} NX PX 1000
            at 305 n0 c0 SET lock:k0 b NX PX 1000
            at 306 n1 c0 SET lock:k0 b NX PX 1000"
        ));
        told.into_iter().find(|told| told.code == "RJ037").unwrap().sentence().to_string()
    };
    let kept = |what: &str, later: &str| {
        format!("c0 held its key on {what}, and still held it {later} later, when it asked again.")
    };
    assert_eq!(says("a", 6), kept("2 of 5 nodes at 0.006 s", "299 ms"));
    assert_eq!(says("b", 300), kept("1 of 5 nodes at 0.005 s", "300 ms"), "n1 is of the next try");
}

#[test]
fn a_lock_over_several_nodes_expires_once() {
    let told = diagnoses(
        "nodes 3
        op c0 1-1900 ok acquired=10 releasing=1800 released=1890
        op c1 2-1850 ok acquired=1120 releasing=1700 released=1840
        at 5 n0 c0 SET lock:k0 a NX PX 1000
        at 6 n1 c0 SET lock:k0 a NX PX 1000
        at 7 n2 c0 SET lock:k0 a NX PX 1000
        at 1110 n0 c1 SET lock:k0 b NX PX 1000
        at 1111 n1 c1 SET lock:k0 b NX PX 1000
        at 1112 n2 c1 SET lock:k0 b NX PX 1000",
    );
    let expired = told.iter().find(|diagnosis| diagnosis.code == "RJ022").unwrap();
    let says = "c0's keys on n0, n1 and n2 had expired by 1.007 s while c0 still relied on them; c1 acquired the lock at 1.120 s.";
    assert_eq!((expired.sentence(), expired.findings.len()), (says, 1));
    assert_eq!(expired.findings[0].harm, Harm::Ended(0));
}

#[test]
fn a_key_of_an_earlier_try_is_no_lock() {
    let with = |given_back: &str| {
        let told = diagnoses(&format!(
            "nodes 3
            op c0 1-2900 ok acquired=10 releasing=2800 released=2890
            op c1 2-2700 ok acquired=2020 releasing=2600 released=2690
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 6 n1 c0 SET lock:k0 a NX PX 1000
            at 1110 n0 c1 SET lock:k0 b NX PX 1000
            {given_back}
            at 2010 n1 c1 SET lock:k0 d NX PX 1000
            at 2011 n2 c1 SET lock:k0 d NX PX 1000"
        ));
        let expired = told.into_iter().find(|diagnosis| diagnosis.code == "RJ022").unwrap();
        expired.sentence().to_string()
    };
    let rest = "while c0 still relied on";
    assert_eq!(
        with(""),
        format!("c0's keys on n0 and n1 had expired by 1.006 s {rest} them; c1 acquired the lock at 2.020 s.")
    );
    let first = with("at 1120 n0 c1 DEL lock:k0");
    assert_eq!(
        first,
        format!("c0's key, created at 0.006 s, expired at 1.006 s {rest} it; c1 acquired the lock at 2.020 s.")
    );
}

#[test]
fn an_attempt_that_can_have_no_majority_need_not_ask_the_rest() {
    let with = |asked: &str| {
        codes(&format!(
            "nodes 3
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 110-130 fail acquiring=112
            fault kill n0 100-500
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 6 n1 c0 SET lock:k0 a NX PX 1000
            at 7 n2 c0 SET lock:k0 a NX PX 1000
            {asked}"
        ))
    };
    assert!(with("").contains(&"RJ042".to_string()));
    assert!(!with("at 115 n1 c1 SET lock:k0 b NX PX 1000").contains(&"RJ042".to_string()), "n1 refused it, n0 is down");
}

#[test]
fn findings_left_out_are_counted() {
    let mut told = diagnoses(
        "op c0 1-900 ok acquired=10 releasing=800 released=890
        at 5 n0 c0 SET lock:k0 a NX EX 1000",
    );
    let finding = told[0].findings[0].clone();
    told[0].findings = vec![finding; 150];
    told[0].shorten();
    assert_eq!((told[0].findings.len(), told[0].left_out, told[0].places()), (100, 50, 150));
}

/// The codes of a run's diagnoses.
fn codes(text: &str) -> Vec<String> {
    diagnoses(text).into_iter().map(|diagnosis| diagnosis.code).collect()
}

#[test]
fn a_key_left_behind_is_told_until_its_own_client_takes_it_over() {
    let run = |later: &str| {
        codes(&format!(
            "op c0 1-300 fail
            op c1 2-600 fail
            op c0 700-900 ok acquired=712 releasing=800 released=890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 320 n0 c1 SET lock:k0 b NX PX 1000
            at 705 n0 c0 EVAL text 1 lock:k0 a
            at 705 n0 lua GET lock:k0
            at 705 n0 lua {later}
            at 805 n0 c0 DEL lock:k0"
        ))
    };
    assert!(run("PEXPIRE lock:k0 1000").contains(&"RJ017".to_string()));
    // Its release came late.
    assert!(!run("DEL lock:k0").contains(&"RJ017".to_string()));
}

#[test]
fn an_extension_over_several_nodes_expires_with_its_majority() {
    let run = |last: &str| {
        codes(&format!(
            "nodes 3
            op c0 1-1900 ok acquired=10 extended=1700 releasing=1800 released=1890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            at 5 n2 c0 SET lock:k0 a NX PX 1000
            at 605 n0 c0 PEXPIRE lock:k0 1000
            at 606 n1 c0 PEXPIRE lock:k0 1000
            {last}"
        ))
    };
    assert!(run("at 607 n2 c0 PEXPIRE lock:k0 1000").contains(&"RJ038".to_string()));
    // Two of three keys exist.
    assert!(
        !run("at 607 n1 c0 PEXPIRE lock:k0 2000\nat 608 n2 c0 PEXPIRE lock:k0 2000").contains(&"RJ038".to_string())
    );
}

#[test]
fn a_renewal_after_the_release_may_have_been_held_on_its_way() {
    let run = |fault: &str| {
        codes(&format!(
            "op c0 1-500 ok acquired=10 releasing=400 released=490
            {fault}
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 405 n0 c0 DEL lock:k0
            at 1200 n0 c0 PEXPIRE lock:k0 1000"
        ))
    };
    assert!(run("fault partition c0 450-600").contains(&"RJ014".to_string()), "it was over before");
    assert!(!run("fault partition c0 450-1190").contains(&"RJ014".to_string()));
    assert!(!run("fault pause c0 450-1190").contains(&"RJ014".to_string()));
}

#[test]
fn an_attempt_that_a_dead_node_ends_is_told_only_of_a_lock_over_several_nodes() {
    // Two of the three nodes are replicas.
    let told = codes(
        "nodes 3
        op c0 1-50 ok acquired=10 releasing=40 released=49
        op c1 110-130 fail acquiring=112
        fault kill n0 100-500
        at 5 n0 c0 SET lock:k0 a NX PX 1000",
    );
    assert!(!told.contains(&"RJ042".to_string()), "{told:?}");
}

#[test]
fn a_ttl_that_each_renewal_removes_again_is_a_renewals_defect_and_not_that_of_the_creation() {
    let run = |first: &str, second: &str| {
        diagnoses(&format!(
            "op c0 1-1300 info acquired=10 before-write=1250
            op c1 2-3000 fail
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 405 n0 c0 SET lock:k0 a IFEQ a{first}
            at 805 n0 c0 SET lock:k0 a IFEQ a{second}
            at 2905 n0 c1 SET lock:k0 b NX PX 1000"
        ))
    };
    let told = run("", "");
    assert_eq!(told.iter().map(|diagnosis| &*diagnosis.code).collect::<Vec<_>>(), ["RJ025"]);
    assert_eq!(told[0].findings[0].harm, Harm::Kept);
    // Only the second does.
    let told = run(" PX 1000", "");
    assert!(told[0].findings[0].sentence.starts_with("c0's SET at 0.805 s"), "{:?}", told[0].findings);
    let told = run(" PX 1000", " PX 1000");
    assert!(told.iter().all(|diagnosis| !["RJ004", "RJ025"].contains(&&*diagnosis.code)), "{told:?}");
}

//! Clients that are threads of one process, and operations that are cancelled.

use std::path::Path;

use checker::Validity;
use model::history::{ClientStep, History, Outcome, Phase};
use model::scenario::Options;
use runner::simulate::simulate;

fn two_to_a_process() -> Options {
    let time_limit = Some("10s".parse().unwrap());
    Options { clients: Some(4), threads: Some(2), time_limit, ..Options::default() }
}

/// The history and the validity of a run.
fn play(workload: &str, nemesis: &str, options: &Options) -> (History, Validity) {
    let scenario = options.scenario(workload, nemesis, 7, Path::new("")).unwrap();
    let checked = simulate(&scenario).unwrap();
    (checked.history, checked.verdict.valid)
}

/// A script that four clients in two processes carry out.
fn script(workload: &str, steps: &str) -> History {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.toml");
    let text = format!("description = \"d\"\nstory = \"s\"\nprogress = \"any\"\nscript = [{steps}]");
    std::fs::write(&file, text).unwrap();
    play(workload, file.to_str().unwrap(), &two_to_a_process()).0
}

fn targets(history: &History) -> Vec<Vec<&str>> {
    history.faults.iter().map(|window| window.targets.iter().map(String::as_str).collect()).collect()
}

#[test]
fn threads_are_clients_of_their_own_and_are_judged_like_them() {
    let (history, valid) = play("single", "shared-lock", &two_to_a_process());
    assert_eq!(valid, Validity::Valid);
    assert_eq!(history.run.as_ref().map(|run| (run.clients, run.threads)), Some((4, 2)));
    assert!(history.contradictions.is_empty(), "no thread got what was for another: {:?}", history.contradictions);
    assert_eq!(play("none", "shared-lock", &two_to_a_process()).1, Validity::Invalid, "there is no lock");
    assert_eq!(
        play("perfect", "shared-lock", &two_to_a_process()).1,
        Validity::Valid,
        "the controller knows them apart"
    );
}

#[test]
fn a_process_that_few_share_has_fewer_threads() {
    let (history, valid) = play("redlock", "none", &Options { clients: Some(3), ..two_to_a_process() });
    assert_eq!((valid, history.clients.len()), (Validity::Valid, 3));
}

#[test]
fn what_hits_a_process_hits_each_client_that_is_a_thread_of_it() {
    let history =
        script("redlock", r#""start client:1 to read", "pause client:1", "wait 0.1ttl", "heal all", "go client:1""#);
    assert_eq!(targets(&history), [["c0", "c1"]]);
    let history = script("redlock", r#""partition client:2 from node:0", "wait 0.1ttl", "heal all""#);
    let links = history.faults[0].links.clone().unwrap();
    for client in ["c2", "c3"] {
        assert!(links.contains(&(client.to_string(), "n0".to_string())), "{links:?}");
        assert!(links.contains(&("n0".to_string(), client.to_string())), "{links:?}");
    }
}

#[test]
fn a_process_that_dies_takes_all_its_threads_along_and_each_goes_on_as_another_process() {
    let steps = r#""start client:0 to read", "start client:2", "kill client:1", "wait 1.1ttl", "heal all""#;
    let history = script("single", steps);
    let of = |step| {
        let of = history.clients.iter().filter(move |(_, event)| event.step == step);
        of.map(|(_, event)| event.process).collect::<Vec<_>>()
    };
    let mut ended = of(ClientStep::Ended);
    ended.sort_unstable();
    assert_eq!(ended, [0, 1]);
    let mut ready = of(ClientStep::Ready);
    ready.sort_unstable();
    assert_eq!(ready, [0, 1, 2, 3, 4, 5], "as the last number plus the number of clients");
    let after = history.operations.iter().filter(|operation| operation.outcome == Outcome::Ok);
    let last: Vec<_> = after.map(|operation| operation.process.number()).collect();
    assert!(last.contains(&4) && last.contains(&5) && last.contains(&2), "all go on: {last:?}");
}

#[test]
fn a_cancelled_acquisition_leaves_nothing_behind_unless_the_lock_is_lazy() {
    for (workload, expected) in [("single", Validity::Valid), ("redlock-lazy-release", Validity::Invalid)] {
        let (history, valid) = play(workload, "cancelled-acquisition", &Options::default());
        assert_eq!(valid, expected, "{workload}");
        let (index, _) = history.cancelled.first_key_value().unwrap();
        let cancelled = &history.operations[history.place_of(*index).unwrap()];
        assert_eq!((cancelled.outcome, cancelled.error()), (Outcome::Fail, Some("cancelled")));
    }
}

#[test]
fn a_cancelled_holder_gives_its_lock_back_and_writes_nothing() {
    let (history, valid) = play("redlock", "cancelled-holder", &Options::default());
    assert_eq!(valid, Validity::Valid);
    let (index, _) = history.cancelled.first_key_value().unwrap();
    let cancelled = &history.operations[history.place_of(*index).unwrap()];
    let reached: Vec<Phase> = cancelled.phases.iter().map(|stamp| stamp.phase).collect();
    use Phase::{Acquired, Acquiring, Read, Released, Releasing};
    assert_eq!(reached, [Acquiring, Acquired, Read, Releasing, Released]);
    assert!(history.contradictions.is_empty(), "it need not wait for `go` any more: {:?}", history.contradictions);
}

#[test]
fn a_release_that_is_cancelled_is_made_once_more() {
    for workload in ["single", "redlock"] {
        let (history, valid) = play(workload, "cancelled-release", &Options::default());
        assert_eq!(valid, Validity::Valid, "{workload}");
        let (index, _) = history.cancelled.first_key_value().unwrap();
        let cancelled = &history.operations[history.place_of(*index).unwrap()];
        assert_eq!((cancelled.outcome, cancelled.error()), (Outcome::Info, Some("cancelled")));
        use Phase::{Released, Releasing, Written};
        assert!([Written, Releasing, Released].iter().all(|phase| cancelled.phases.has(*phase)), "{workload}");
        assert!(history.contradictions.is_empty(), "{:?}", history.contradictions);
    }
    // Its first request comes late, and releases the lock that another client holds by then.
    assert_eq!(play("single-constant", "cancelled-release", &Options::default()).1, Validity::Invalid);
}

#[test]
fn what_a_client_cannot_do_stops_the_run_with_what_is_missing() {
    let scenario = Options::default().scenario("single", "blocked-holder", 7, Path::new("")).unwrap();
    let history = simulate(&scenario).unwrap().history;
    let end = history.end.unwrap();
    assert!(!end.completed);
    assert!(
        end.text.contains("needs the capability `block`, but the client's `ready` does not list it"),
        "{}",
        end.text
    );
}

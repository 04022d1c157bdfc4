//! Locks for readers and writers: a lock that keeps them apart is not accused, a lock that does not is found.

use std::path::Path;

use checker::{AnomalyKind, Validity};
use model::scenario::Options;
use runner::Checked;
use runner::simulate::simulate;

/// The controller's read-write lock, with these lines in its table.
fn granted(more: &str, nemesis: &str) -> Checked {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shared.toml");
    let text = include_str!("../../../workloads/perfect-shared.toml");
    std::fs::write(&file, text.replace("[lock.perfect]", &format!("[lock.perfect]\n{more}"))).unwrap();
    let options = Options { time_limit: Some("10s".parse().unwrap()), ..Options::default() };
    let scenario = options.scenario(file.to_str().unwrap(), nemesis, 7, Path::new("")).unwrap();
    simulate(&scenario).unwrap()
}

/// The number of readers in each pair of simultaneous holders.
fn readers_at_once(run: &Checked) -> Vec<usize> {
    let reads = |index: &u64| run.history.operations[run.history.place_of(*index).unwrap()].f.is_shared();
    let overlaps = run.verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::OverlappingHolders);
    overlaps.map(|anomaly| anomaly.operations.iter().filter(|index| reads(index)).count()).collect()
}

#[test]
fn a_read_write_lock_is_not_accused_of_readers_side_by_side_and_is_of_a_reader_beside_a_writer() {
    for nemesis in ["none", "pause", "reader-beside-writer", "paused-reader"] {
        let kept = granted("", nemesis);
        assert_eq!(kept.verdict.valid, Validity::Valid, "{nemesis}: {:?}", kept.verdict.reasons);
        let evidence = &kept.verdict.claims.iter().find(|claim| claim.text.contains("of holds")).unwrap().text;
        assert_eq!(
            evidence.contains("; readers held the lock side by side"),
            nemesis != "paused-reader",
            "{nemesis}: {evidence}"
        );

        let broken = granted("holders = 2", nemesis);
        assert_eq!(broken.verdict.valid, Validity::Invalid, "{nemesis}");
        let readers = readers_at_once(&broken);
        assert!(!readers.contains(&2), "{nemesis}: two who read may");
        assert!(readers.contains(&1) || nemesis == "paused-reader", "{nemesis}: {readers:?}");
    }
    let broken = granted("holders = 2", "none");
    let stale = broken.verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::StaleRead);
    assert!(stale.count() > 0, "a writer came under readers");
}

#[test]
fn a_client_that_does_not_say_that_it_takes_locks_for_reading_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("single-shared.toml");
    let single = include_str!("../../../workloads/single.toml");
    let text = single.split("[expect]").next().unwrap().to_string() + "[operations]\nrmw = 1\nshared = 1\n";
    std::fs::write(&file, text).unwrap();
    let scenario = Options::default().scenario(file.to_str().unwrap(), "none", 7, Path::new("")).unwrap();
    let end = simulate(&scenario).unwrap().history.end.unwrap();
    assert!(!end.completed);
    assert!(
        end.text.contains("needs the capability `shared`, but the client's `ready` does not list it"),
        "{}",
        end.text
    );
}

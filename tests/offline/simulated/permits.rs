//! Locks that several clients may hold at once: a lock that keeps its limit is not accused. A lock that exceeds it is found and
//! reported.

use std::path::Path;

use checker::{AnomalyKind, Validity, Verdict};
use model::scenario::Options;
use runner::simulate::simulate;

/// The controller's semaphore of two, which is granted to this many holders.
fn granted_to(holders: u32, nemesis: &str) -> Verdict {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("semaphore.toml");
    let text = include_str!("../../../workloads/perfect-semaphore.toml");
    std::fs::write(&file, text.replace("[lock.perfect]", &format!("[lock.perfect]\nholders = {holders}"))).unwrap();
    let options = Options { time_limit: Some("10s".parse().unwrap()), ..Options::default() };
    let scenario = options.scenario(file.to_str().unwrap(), nemesis, 7, Path::new("")).unwrap();
    simulate(&scenario).unwrap().verdict
}

#[test]
fn a_semaphore_that_lets_one_too_many_in_is_found_and_one_that_does_not_is_never_accused() {
    for nemesis in ["none", "pause", "one-too-many"] {
        let kept = granted_to(2, nemesis);
        assert_eq!(
            (kept.valid, kept.mutual_exclusion.violations),
            (Validity::Valid, 0),
            "{nemesis}: {:?}",
            kept.reasons
        );
        let broken = granted_to(3, nemesis);
        assert_eq!(broken.valid, Validity::Invalid, "{nemesis}");
        assert!(broken.reasons[0].starts_with("more than 2 clients held one lock at once: "), "{:?}", broken.reasons);
        let kinds = broken.anomalies.iter().map(|anomaly| (anomaly.kind, anomaly.operations.len()));
        assert!(kinds.eq(broken.anomalies.iter().map(|_| (AnomalyKind::OverlappingHolders, 3))), "never four");
    }
}

#[test]
fn a_semaphore_that_lets_fewer_in_is_not_shown_to_keep_to_its_number() {
    let one = granted_to(1, "none");
    assert_eq!(one.valid, Validity::Unknown, "there never were two who had it");
}

//! Plants bugs between the parts of a simulated cluster. The gates or the checker must find each bug. Without the bug, the same
//! run is valid.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::{IN_MEMORY, history_with};
use checker::{Validity, Verdict};
use model::history;
use model::scenario::Options;
use system::cluster::BugInjector;
use system::faults::MemberAction;

const SEED: u64 = 5;

fn verdict(workload: &str, nemesis: &str, keys: u32, bugs: Option<Arc<dyn BugInjector>>) -> Verdict {
    let options = Options { time_limit: Some("15s".parse().unwrap()), keys: Some(keys), ..Options::default() };
    let scenario = options.scenario(workload, nemesis, SEED, Path::new("")).unwrap();
    let bytes = history_with(&scenario, bugs).unwrap();
    checker::check(&history::load_reader(&bytes[..], IN_MEMORY).unwrap())
}

/// The evidence of a bug: failed gates and anomalies.
fn found(verdict: &Verdict) -> BTreeSet<String> {
    let gates = verdict.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.clone());
    gates.chain(verdict.anomalies.iter().map(|anomaly| anomaly.kind.name().to_string())).collect()
}

/// Asserts that the run is not valid with the bug, with this evidence, and is valid without it.
fn is_found(workload: &str, nemesis: &str, keys: u32, bug: impl BugInjector + 'static, by: &str) {
    let without = verdict(workload, nemesis, keys, None);
    assert_eq!(without.valid, Validity::Valid, "{workload} under {nemesis}: {:?}", without.reasons);
    let with = verdict(workload, nemesis, keys, Some(Arc::new(bug)));
    let found = found(&with);
    assert_ne!(with.valid, Validity::Valid, "{workload} under {nemesis} hides it");
    assert!(found.contains(by), "{workload} under {nemesis}: {:?}, found by {found:?}: {:?}", with.valid, with.reasons);
}

#[test]
fn a_run_in_memory_leaves_no_file() {
    let options =
        Options { time_limit: Some("3s".parse().unwrap()), record_commands: Some(true), ..Options::default() };
    let scenario = options.scenario("single", "none", SEED, Path::new("")).unwrap();
    assert!(!history_with(&scenario, None).unwrap().is_empty());
    assert!(!Path::new(history::RecordedCommand::FILE).exists(), "it is in the working directory");
}

/// Reports an order as done, but leaves this part of it out.
#[derive(Default)]
struct Without {
    action: Option<MemberAction>,
    /// For a network order: true leaves out heals, false leaves out faults.
    heals: Option<bool>,
}

impl Without {
    fn action(action: MemberAction) -> Without {
        Without { action: Some(action), heals: None }
    }
}

impl BugInjector for Without {
    fn acts(&self, _: &str, action: MemberAction) -> bool {
        self.action != Some(action)
    }

    fn changes_network(&self, heals: bool) -> bool {
        self.heals != Some(heals)
    }
}

#[test]
fn a_heal_of_a_pause_that_is_skipped() {
    let never_goes_on = || Without::action(MemberAction::Continue);
    is_found("redlock-guarded", "pause-node", 1, never_goes_on(), "nodes-healthy");
    is_found("perfect", "pause resource", 1, never_goes_on(), "final-reads");
}

#[test]
fn a_heal_of_a_partition_that_is_skipped() {
    let stays_cut = Without { action: None, heals: Some(true) };
    is_found("redlock-guarded", "partition clients from majority", 1, stays_cut, "free lock that no client acquired");
}

#[test]
fn a_fault_that_is_reported_and_does_nothing() {
    let does_nothing = Without { action: Some(MemberAction::Kill), heals: Some(false) };
    is_found("redlock-guarded", "majority-down", 1, does_nothing, "progress-during");
}

#[test]
fn a_pause_that_is_reported_and_does_nothing() {
    let never_stops = || Without::action(MemberAction::Stop);
    is_found("redlock-guarded", "pause", 1, never_stops(), "faults-observed");
    is_found("perfect", "pause resource", 1, never_stops(), "faults-observed");
}

/// Requests for the lock of one key never arrive.
struct StuckKey;

impl BugInjector for StuckKey {
    fn arrives(&self, _: SocketAddrV4, bytes: &mut Vec<u8>) -> bool {
        !has(bytes, b"k1")
    }
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|part| part == word)
}

#[test]
fn a_lock_that_is_stuck_on_one_key() {
    is_found("redlock-guarded", "none", 3, StuckKey, "free lock that no client acquired");
}

/// A write arrives once more, right behind a later one.
#[derive(Default)]
struct Twice(Mutex<Vec<Vec<u8>>>);

impl BugInjector for Twice {
    fn arrives(&self, _: SocketAddrV4, bytes: &mut Vec<u8>) -> bool {
        let mut writes = self.0.lock().unwrap();
        if has(bytes, b"SET\r\n") {
            writes.push(bytes.clone());
            if writes.len() == 20 {
                bytes.extend(&writes[10]);
            }
        }
        true
    }
}

#[test]
fn a_network_that_delivers_twice() {
    is_found("perfect", "none", 1, Twice::default(), "lost update");
}

/// A write goes to another key, and is acknowledged.
#[derive(Default)]
struct LosesOne(AtomicU32);

impl BugInjector for LosesOne {
    fn arrives(&self, _: SocketAddrV4, bytes: &mut Vec<u8>) -> bool {
        const KEY: &[u8] = b"k0\r\n";
        if has(bytes, b"SET\r\n")
            && self.0.fetch_add(1, Ordering::Relaxed) == 20
            && let Some(place) = bytes.windows(KEY.len()).position(|part| part == KEY)
        {
            bytes[place] = b'z';
        }
        true
    }
}

#[test]
fn a_server_that_loses_one_acknowledged_write() {
    is_found("perfect", "none", 1, LosesOne::default(), "lost update");
}

/// The TTL of keys is lost, so that no key ever expires.
struct NeverExpires;

impl BugInjector for NeverExpires {
    fn arrives(&self, _: SocketAddrV4, bytes: &mut Vec<u8>) -> bool {
        const LIMIT: &[u8] = b"PX\r\n$4\r\n1000\r\n";
        while let Some(place) = bytes.windows(LIMIT.len()).position(|part| part == LIMIT) {
            bytes[place + LIMIT.len() - 6] = b'9';
            bytes.splice(place + 4..place + LIMIT.len(), *b"$10\r\n1000000000\r\n");
        }
        true
    }
}

#[test]
fn a_server_that_never_expires_keys() {
    is_found("redlock", "crash-holder", 1, NeverExpires, "lock acquired late");
}

/// Changes c0's reports: after `phase`, it also reports the phases in `also`.
struct Says {
    phase: &'static str,
    also: &'static [&'static str],
    /// Reports of these phases are dropped.
    never: &'static [&'static str],
}

impl BugInjector for Says {
    fn says(&self, client: &str, line: Vec<u8>) -> Vec<Vec<u8>> {
        let text = String::from_utf8_lossy(&line).into_owned();
        let phase = |phase: &str| format!("\"phase\":\"{phase}\"");
        if client != "c0" || !text.contains("\"phase\":") {
            return vec![line];
        }
        if self.never.iter().any(|never| text.contains(&phase(never))) {
            return Vec::new();
        }
        let mut said = vec![line];
        if text.contains(&phase(self.phase)) {
            said.extend(self.also.iter().map(|also| text.replace(&phase(self.phase), &phase(also)).into_bytes()));
        }
        said
    }
}

#[test]
fn a_client_that_says_it_released_the_lock_while_it_works_on() {
    let bug = Says { phase: "acquired", also: &["releasing", "released"], never: &[] };
    is_found("redlock-guarded", "none", 1, bug, "clients-consistent");
}

#[test]
fn a_client_that_says_it_has_the_lock_before_it_does() {
    let bug = Says { phase: "acquiring", also: &["acquired"], never: &["acquired"] };
    is_found("redlock", "none", 1, bug, "two holders at once");
}

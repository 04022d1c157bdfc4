//! Runs every scenario of the catalogue on real servers, with a lock that fails it, or else with a lock that passes it. All run
//! on this machine, one test per scenario. In Docker the same code draws the plan and checks. So each kind of fault runs there
//! once, in one suite with shared clusters. The scenarios' other locks are cells of the nightly suite, which the offline tests
//! run in virtual time. Locks that virtual time can't run are run here.
//!
//! Each scenario runs in a suite. If a run's own clock says that the machine delayed it, and the run is inconclusive, it is rerun
//! once, as in any suite.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use model::fault_kinds::FaultKind;
use model::nemesis::{Expectation, Step};
use model::scenario::{Options, catalogue};
use model::topology::ClusterKind;
use runner::simulate::can_be_simulated;
use suite::file;
use suite::plan::{Source, Suite};

use crate::kit::{NEWER, install_newer_server};
use crate::turns;

/// A lock that fails the scenario. Such a lock shows most: without the fault it would pass. If there is none, a lock that passes.
fn most_telling(expect: &BTreeMap<String, Expectation>) -> Option<&String> {
    let first = |wanted| expect.iter().find(|(_, expectation)| **expectation == wanted).map(|(lock, _)| lock);
    [Expectation::Violation, Expectation::Valid].into_iter().find_map(first)
}

/// This lock, and every lock that can't be simulated.
fn played_here<'a>(scenario: &str, expect: &'a BTreeMap<String, Expectation>) -> Vec<&'a String> {
    let mut locks: Vec<&String> = most_telling(expect).into_iter().collect();
    locks.extend(expect.keys().filter(|lock| !is_simulated(lock, scenario)));
    locks.sort();
    locks.dedup();
    locks
}

/// The server on which this lock is played; none if any server has its commands.
fn server(lock: &str) -> Vec<String> {
    let needs_ifeq = catalogue::workload(lock).unwrap().1.lock.needs_ifeq();
    if needs_ifeq { vec![NEWER.to_string()] } else { Vec::new() }
}

fn is_simulated(lock: &str, scenario: &str) -> bool {
    let options = Options { server: server(lock), ..Options::default() };
    let scenario = options.scenario(lock, scenario, 1, Path::new("")).unwrap();
    can_be_simulated(&scenario).is_ok()
}

fn play_on_this_machine(scenario: &str) {
    let (_, nemesis) = catalogue::nemesis(scenario).unwrap();
    let _turn = turns::local();
    play(&[(scenario, played_here(scenario, &nemesis.expect))], "local");
}

/// Other tests run at the same time, and a deadline that is missed while members wait for a processor proves nothing.
const AT_ONCE: &str = "1";

/// A script's deadline within a share of the TTL proves nothing if a member waited for a processor for a part of that time. With
/// a longer TTL, other tests use up a smaller share.
const LONG_TTL: &str = "3s";

fn expects_in_time(scenario: &str) -> bool {
    let (_, nemesis) = catalogue::nemesis(scenario).unwrap();
    let ttl = Duration::from_secs(1);
    let is_short = |step: &Step| matches!(step, Step::Expect { within, .. } if within.resolve(ttl) < ttl);
    nemesis.ttl.is_none() && nemesis.script.iter().any(is_short)
}

/// Runs each scenario with its locks.
fn play(scenarios: &[(&str, Vec<&String>)], cluster: &str) {
    let is_newer = |(scenario, locks): &(&str, Vec<&String>)| {
        kinds(scenario).contains(&FaultKind::Upgrade) || locks.iter().any(|lock| !server(lock).is_empty())
    };
    if scenarios.iter().any(is_newer) {
        install_newer_server();
    }
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("suite.toml");
    let cells = scenarios.iter().map(|(scenario, locks)| {
        assert!(!locks.is_empty(), "{scenario} expects nothing of any lock");
        let with = if expects_in_time(scenario) { format!("with = {{ ttl = {LONG_TTL:?} }}\n") } else { String::new() };
        let block = |locks: Vec<&&String>| match locks.first().map(|lock| server(lock)) {
            None => String::new(),
            Some(servers) => {
                let on = if servers.is_empty() { String::new() } else { format!("servers = {servers:?}\n") };
                format!("[[cells]]\nworkload = {locks:?}\nnemesis = {scenario:?}\n{with}{on}\n")
            }
        };
        let (on_any, on_some): (Vec<&&String>, Vec<&&String>) = locks.iter().partition(|lock| server(lock).is_empty());
        block(on_any) + &block(on_some)
    });
    std::fs::write(&suite, cells.collect::<String>()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .arg("suite")
        .arg(&suite)
        .args(["--cluster", cluster, "--jobs", AT_ONCE, "--store"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.code() == Some(0), "on {cluster}:\n{text}");
    let runs: usize = scenarios.iter().map(|(_, locks)| locks.len()).sum();
    assert!(text.contains(&format!("[{runs}/{runs}]")), "on {cluster} it made fewer than {runs} runs:\n{text}");
}

/// The kinds of faults in a scenario's script; empty if the scenario has no expectation for reference locks.
fn kinds(scenario: &str) -> BTreeSet<FaultKind> {
    let nemesis = catalogue::nemesis(scenario).unwrap().1;
    let script = if nemesis.expect.is_empty() { Vec::new() } else { nemesis.script };
    script.iter().filter_map(|step| if let Step::Inject(fault) = step { Some(fault.kind) } else { None }).collect()
}

/// The offline tests run the cells of the nightly suite in virtual time.
#[test]
fn what_is_not_played_here_is_in_the_nightly_suite() {
    let (name, file, _) = file::open("nightly").unwrap();
    let simulated = Options { cluster: Some(ClusterKind::SIM), ..Options::default() };
    let file = file.with_overrides(simulated, None, None);
    let source = Source { name: &name, file: &file, folder: Path::new("") };
    let cells = Suite::plan(&source, ClusterKind::SIM).unwrap().cells;
    for (scenario, _) in catalogue::NEMESES {
        let (_, nemesis) = catalogue::nemesis(scenario).unwrap();
        let here = if nemesis.script.is_empty() { Vec::new() } else { played_here(scenario, &nemesis.expect) };
        for lock in nemesis.expect.keys().filter(|lock| !here.contains(lock) && is_simulated(lock, scenario)) {
            assert!(
                cells.iter().any(|cell| cell.workload == *lock && cell.nemesis == *scenario),
                "{lock} under {scenario} is played nowhere"
            );
        }
    }
}

/// The scenarios that run in Docker.
const IN_DOCKER: [&str; 22] = [
    "between-check-and-delete",
    "busy-nodes",
    "cancelled-holder",
    "clock-jump-forward",
    "crash-everysec",
    "crash-holder",
    "delayed-write",
    "eviction",
    "failed-release",
    "failover-on-command",
    "forgotten-scripts",
    "late-extend-request",
    "lost-and-taken-again",
    "lost-release-reply",
    "no-random-delay",
    "pause-before-write",
    "pause-in-acquisition",
    "replica-gone",
    "retry-after-close",
    "rolling-restart",
    "snapshots",
    "three-become-five",
];

#[test]
fn scenarios_in_docker_come_out_as_expected() {
    let expected = IN_DOCKER.map(|name| (name, catalogue::nemesis(name).unwrap().1.expect));
    let played: Vec<(&str, Vec<&String>)> =
        expected.iter().map(|(name, expect)| (*name, most_telling(expect).into_iter().collect())).collect();
    let _turn = turns::docker();
    play(&played, "docker");
}

#[test]
fn every_kind_of_fault_is_played_in_docker() {
    let kinds_of = |names: &mut dyn Iterator<Item = &str>| names.flat_map(kinds).collect::<BTreeSet<_>>();
    let mut all = kinds_of(&mut catalogue::NEMESES.iter().map(|(name, _)| *name));
    // The image of a container fixes its server, so an upgrade in place is refused there.
    assert!(all.remove(&FaultKind::Upgrade));
    assert_eq!(kinds_of(&mut IN_DOCKER.into_iter()), all);
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        mod local {
            $(#[test] fn $name() { super::play_on_this_machine(&stringify!($name).replace('_', "-")); })*
        }

        #[test]
        fn every_scenario_is_played() {
            let played = [$(stringify!($name).replace('_', "-")),*];
            let scripted = catalogue::NEMESES.iter().map(|(name, _)| *name).filter(|name| {
                !catalogue::nemesis(name).unwrap().1.script.is_empty()
            });
            // Scenarios with expectations only for published libraries are in the libraries' suite.
            let (of_ours, of_libraries): (Vec<_>, Vec<_>) =
                scripted.partition(|name| !catalogue::nemesis(name).unwrap().1.expect.is_empty());
            assert_eq!(of_ours, played);
            let libraries = catalogue::WORKLOADS.iter().map(|(name, _)| catalogue::workload(name).unwrap().1);
            let expected: Vec<String> = libraries
                .filter(|workload| workload.library.is_some())
                .flat_map(|workload| workload.expect.into_keys())
                .collect();
            for name in of_libraries {
                assert!(expected.iter().any(|expected| expected == name), "nothing is expected of {name}");
            }
        }
    };
}

scenarios!(
    asked_while_its_nodes_are_down,
    asked_while_its_nodes_refuse,
    between_check_and_delete,
    between_set_and_expire,
    busy_nodes,
    cancelled_acquisition,
    cancelled_beside_a_holding_thread,
    cancelled_beside_a_waiting_thread,
    cancelled_holder,
    cancelled_holder_by_threads,
    cancelled_release,
    cancelled_while_waiting,
    clock_back_while_waiting,
    clock_forward_while_waiting,
    clock_jump_forward,
    clock_jump_in_acquisition,
    contender_in_acquisition,
    crash_at_third_node,
    crash_everysec,
    crash_holder,
    crash_in_acquisition,
    crash_no_persistence,
    crash_synced,
    dead_after_long_work,
    dead_reader,
    delayed_restart,
    delayed_restart_clock_jump,
    delayed_write,
    double_pause,
    drifting_clocks,
    eviction,
    failed_release,
    failed_release_and_reset,
    failed_release_beside_a_thread,
    failover,
    failover_in_sync,
    failover_on_command,
    failover_unreplicated,
    forgotten_scripts,
    forgotten_scripts_while_held,
    given_up_beside_a_holding_thread,
    given_up_beside_a_waiting_thread,
    given_up_while_held,
    given_up_while_waiting,
    handed_over,
    hung_holder,
    late_acquire_reply,
    late_extend_reply,
    late_extend_request,
    late_extension,
    late_release,
    late_release_answer,
    late_release_answer_and_long_work,
    late_release_by_threads,
    late_second_reply,
    late_thief,
    later_reader,
    left_alone,
    long_reading,
    long_work,
    long_work_by_threads,
    long_work_of_many_ttls,
    lost_ack,
    lost_and_taken_again,
    lost_release_reply,
    lost_reply,
    lost_write,
    minority_counts,
    misconf,
    no_random_delay,
    one_becomes_three,
    one_node_down,
    one_node_hung,
    one_too_many,
    oom,
    outlived_and_taken_again,
    outlived_by_threads,
    pause_after_extension,
    pause_at_work,
    pause_before_check,
    pause_before_reply,
    pause_before_write,
    pause_between_extensions,
    pause_in_acquisition,
    pause_in_release,
    paused_reader,
    reader_beside_writer,
    refused_beside_a_thread,
    refused_write,
    release_without_write,
    released_twice,
    repeated_release,
    replica_gone,
    reset_in_extension,
    reset_in_release,
    reset_in_renewal,
    retry_after_applied,
    retry_after_close,
    revived_lock,
    robbed_at_work,
    rolling_restart,
    rolling_restart_synced,
    slow_client_clock,
    slow_clock_before_reply,
    snapshots,
    split_votes,
    stopped_while_three_become_five,
    thief_chain,
    thief_crash,
    three_become_five,
    three_become_four,
    tokens_back_after_failover,
    uneven_tokens,
    upgrade_in_place,
    victim_unreachable,
    wait_refused,
    work_within_ttl,
);

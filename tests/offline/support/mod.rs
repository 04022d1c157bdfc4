//! A run as data, for tests of the report: clients, a lock with a TTL and a register, simulated by their rules.
//!
//! Times, values and losses follow from the simulation, so the drawings show what a real run would. The verdict is
//! computed from the simulation, not by the checker.

mod odd;
mod svg;

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use redjepsen::checker::*;
use redjepsen::history::*;
use redjepsen::locks::{Ask, ClockSource, LockSpec, RedlockOptions, ReleaseOn};
use redjepsen::nemesis::{Expectation, Nemesis};
use redjepsen::report::{Report, RunFacts, Subject};
use redjepsen::scenario::*;
use redjepsen::topology::Persistence;

pub use odd::{bare, oddities, of_a_node};
pub use svg::{malformed, text_boxes};

const MS: u64 = 1_000_000;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Play {
    pub clients: u32,
    pub keys: u32,
    pub seconds: u64,
    pub ttl_ms: u64,
    pub think_ms: u64,
    /// Seconds between pauses of whoever holds the lock then; 0 for never.
    pub pause_every_s: u64,
    pub pause_ms: (u64, u64),
    pub fencing: Fencing,
    pub seed: u64,
}

impl Default for Play {
    fn default() -> Play {
        Play {
            clients: 5,
            keys: 1,
            seconds: 20,
            ttl_ms: 1000,
            think_ms: 60,
            pause_every_s: 4,
            pause_ms: (1040, 1400),
            fencing: Fencing::None,
            seed: 7,
        }
    }
}

/// Everything that a report needs, owned.
pub struct Run {
    pub scenario: Scenario,
    pub history: History,
    pub verdict: Verdict,
    pub facts: RunFacts,
}

impl Run {
    pub fn report(&self) -> Report<'_> {
        let Run { scenario, history, verdict, facts } = self;
        Report::new(Subject { scenario: Some(scenario), history, verdict, facts }, None)
    }
}

struct Attempt {
    process: u32,
    key: usize,
    asked: u64,
    acquired: u64,
    read: u64,
    before: u64,
    written: u64,
    releasing: u64,
    done: u64,
    info: bool,
}

/// Simulates a run.
pub fn play(play: &Play) -> Run {
    let mut random = ChaCha8Rng::seed_from_u64(play.seed);
    let (attempts, refused, faults) = attempts(play, &mut random);
    let mut operations = Vec::new();
    let mut writes: Vec<(u64, bool, usize)> = Vec::new();
    for (number, attempt) in attempts.iter().enumerate() {
        writes.push((attempt.read, false, number));
        writes.push((attempt.written, true, number));
    }
    writes.sort_unstable();
    let mut current: BTreeMap<usize, usize> = BTreeMap::new();
    let mut olds: Vec<Option<usize>> = vec![None; attempts.len()];
    let mut conflicts = vec![false; attempts.len()];
    // Each late writer, with the clients' updates that it overwrote.
    let mut late: Vec<(usize, Vec<usize>)> = Vec::new();
    for (_, is_write, number) in writes {
        let key = attempts[number].key;
        if !is_write {
            olds[number] = current.get(&key).copied();
            continue;
        }
        if current.get(&key).copied() != olds[number] {
            if play.fencing == Fencing::CompareAndSet {
                conflicts[number] = true;
                continue;
            }
            let kept = lineage(olds[number], &olds);
            let wiped = lineage(current.get(&key).copied(), &olds);
            late.push((number, wiped.into_iter().filter(|one| !kept.contains(one)).collect()));
        }
        current.insert(key, number);
    }
    let survived: Vec<usize> = current.values().flat_map(|last| lineage(Some(*last), &olds)).collect();
    let index = |number: usize| number as u64 * 8 + 1;
    let value = |number: usize| format!("c{}:{number}", attempts[number].process);
    for (number, attempt) in attempts.iter().enumerate() {
        let old = olds[number].map_or(Reading::Empty, |old| Reading::Value(value(old)));
        let stamp = |phase, time: u64| PhaseStamp {
            index: index(number) + 1,
            phase,
            received: time + MS / 5,
            stamped: Some(time as i64),
            token: (phase == Phase::Acquired).then_some(number as u64 + 33),
            validity_ms: (phase == Phase::Acquired).then_some(play.ttl_ms - play.ttl_ms / 100 - 4),
        };
        let mut phases = vec![
            stamp(Phase::Acquiring, attempt.asked),
            stamp(Phase::Acquired, attempt.acquired),
            stamp(Phase::Read, attempt.read),
            stamp(Phase::BeforeWrite, attempt.before),
        ];
        let outcome = match (attempt.info, conflicts[number]) {
            (true, _) => Outcome::Info,
            (_, true) => Outcome::Fail,
            _ => Outcome::Ok,
        };
        if outcome == Outcome::Ok {
            phases.push(stamp(Phase::Written, attempt.written));
        }
        if !attempt.info {
            phases.push(stamp(Phase::Releasing, attempt.releasing));
            phases.push(stamp(Phase::Released, attempt.done - MS / 4));
        }
        operations.push(Operation {
            index: index(number),
            completed_index: Some(index(number) + 7),
            process: Process::Client(attempt.process),
            f: Function::Rmw,
            key: format!("k{}", attempt.key),
            invoked: attempt.asked - MS / 4,
            completed: Some(if attempt.info { attempt.before + 2000 * MS } else { attempt.done }),
            outcome,
            old,
            amount: None,
            new: Some(value(number)),
            error: match outcome {
                Outcome::Ok => None,
                Outcome::Fail => Some("conflict".into()),
                Outcome::Info => Some("timeout".into()),
            },
            text: None,
            phases,
        });
    }
    let failed = refused.len() as u64;
    for (number, (process, key, asked, gave_up)) in refused.into_iter().enumerate() {
        operations.push(Operation {
            index: index(attempts.len() + number),
            completed_index: Some(index(attempts.len() + number) + 2),
            process: Process::Client(process),
            f: Function::Rmw,
            key: format!("k{key}"),
            invoked: asked,
            completed: Some(gave_up),
            outcome: Outcome::Fail,
            old: Reading::Unknown,
            amount: None,
            new: Some(format!("c{process}:f{number}")),
            error: Some("not-acquired".into()),
            text: None,
            phases: Vec::new(),
        });
    }
    let last_time = operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(0) + 500 * MS;
    let mut anomalies = Vec::new();
    let mut violations = 0;
    let fault_of = |number: usize| {
        let name = format!("c{}", attempts[number].process);
        let hit = |fault: &&FaultWindow| {
            fault.targets.contains(&name)
                && fault.inject >= attempts[number].acquired
                && fault.inject <= attempts[number].written
        };
        faults.iter().find(hit).map(|fault| fault.fault)
    };
    for (number, attempt) in attempts.iter().enumerate() {
        for (other_number, other) in attempts.iter().enumerate() {
            let earlier = (attempt.acquired, number) < (other.acquired, other_number);
            if earlier && attempt.key == other.key && other.acquired < attempt.releasing && !attempt.info && !other.info
            {
                violations += 1;
                anomalies.push(Anomaly {
                    how: None,
                    kind: AnomalyKind::OverlappingHolders,
                    key: format!("k{}", attempt.key),
                    time: other.acquired,
                    operations: vec![index(number), index(other_number)],
                    fault: fault_of(number),
                    lost: vec![],
                    summary: format!("c{} and c{} held the lock at once.", attempt.process, other.process),
                });
            }
        }
    }
    let mut lost_count = 0;
    let mut counted = vec![false; attempts.len()];
    for (number, mut wiped) in late {
        wiped.retain(|one| !attempts[*one].info && !survived.contains(one) && !counted[*one]);
        wiped.sort_unstable();
        wiped.iter().for_each(|one| counted[*one] = true);
        let lost: Vec<u64> = wiped.iter().map(|wiped| index(*wiped)).collect();
        let Some(first) = lost.first().copied() else { continue };
        lost_count += lost.len() as u64;
        anomalies.push(Anomaly {
            how: None,
            kind: AnomalyKind::LostUpdate,
            key: format!("k{}", attempts[number].key),
            time: attempts[number].written,
            operations: vec![first, index(number)],
            fault: fault_of(number),
            lost,
            summary: "An update was overwritten.".into(),
        });
    }
    anomalies.sort_by_key(|anomaly| anomaly.time);
    let count = |outcome| operations.iter().filter(|operation| operation.outcome == outcome).count() as u64;
    let counts = Counts { ok: count(Outcome::Ok), fail: count(Outcome::Fail), info: count(Outcome::Info) };
    let claimed = play.fencing == Fencing::None;
    let invalid = lost_count > 0 || (claimed && violations > 0);
    let verdict = Verdict {
        lock: Default::default(),
        keys: Vec::new(),
        valid: if invalid { Validity::Invalid } else { Validity::Valid },
        reasons: if invalid {
            vec![format!("{lost_count} acknowledged updates are in no lineage of the final value.")]
        } else {
            vec![]
        },
        lost_updates: LostUpdates {
            count: lost_count,
            acknowledged: counts.ok,
            fraction: if counts.ok == 0 { 0.0 } else { lost_count as f64 / counts.ok as f64 },
        },
        mutual_exclusion: MutualExclusion { violations, comparable_holds: attempts.len() as u64 },
        claims: vec![
            of_claim(Claim::Updates, true, lost_count > 0, attempts.len()),
            of_claim(Claim::MutualExclusion, claimed, violations > 0, attempts.len()),
            of_claim(Claim::Liveness, claimed, false, attempts.len()),
        ],
        gates: gates(&faults, failed),
        anomalies,
        counts,
    };
    let scenario = scenario(play, claimed);
    let history = History {
        acquire_timeouts: Default::default(),
        run: Some(header(&scenario, play)),
        clock: Some(ClockBound { mono_at_start_ns: 0, error_ns: 80_000 }),
        facts: vec![],
        clients: vec![(0, ClientEvent { process: 0, step: ClientStep::Ready, text: "redjepsen 0.1.0".into() })],
        steps: vec![],
        fact_lines: Vec::new(),
        promotions: Vec::new(),
        stalls: vec![],
        contradictions: vec![],
        operations,
        faults,
        end: Some(End { completed: true, text: "time limit".into() }),
        last_time,
        truncated_at_line: None,
    };
    Run { scenario, history, verdict, facts: facts(play) }
}

/// A claim as the checker reports it, with enough evidence.
fn of_claim(claim: Claim, claimed: bool, broken: bool, facts: usize) -> ClaimVerdict {
    let valid = if broken { Validity::Invalid } else { Validity::Valid };
    let text = format!("{facts} facts");
    ClaimVerdict { claim, claimed, valid, evidence: facts as u64, text, missing: None }
}

type Refused = (u32, usize, u64, u64);

/// The values that a value was built on, starting with itself.
fn lineage(last: Option<usize>, olds: &[Option<usize>]) -> Vec<usize> {
    std::iter::successors(last, |number| olds[*number]).collect()
}

/// When each client got the lock and how long it kept it: first come, first served, and free again after the TTL.
fn attempts(play: &Play, random: &mut ChaCha8Rng) -> (Vec<Attempt>, Vec<Refused>, Vec<FaultWindow>) {
    let ttl = play.ttl_ms * MS;
    let mut next: Vec<u64> = (0..play.clients).map(|_| 200 * MS + some(random, 300)).collect();
    let mut free = vec![0u64; play.keys as usize];
    let (mut attempts, mut refused, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    let mut due = play.pause_every_s * 1000 * MS * 3 / 4;
    while let Some((client, start)) = next.iter().copied().enumerate().min_by_key(|(_, time)| *time) {
        if start > play.seconds * 1000 * MS {
            break;
        }
        let key = random.random_range(0..play.keys as usize);
        let asked = start + MS / 2;
        let acquired = asked.max(free[key] + some(random, 30)) + MS + some(random, 2);
        if acquired > asked + 1800 * MS {
            refused.push((client as u32, key, start, asked + 1800 * MS));
            next[client] = asked + 1900 * MS;
            continue;
        }
        let read = acquired + MS / 2 + some(random, 1);
        let mut before = read + play.think_ms * MS / 2 + some(random, play.think_ms);
        if play.pause_every_s > 0 && acquired > due {
            due += play.pause_every_s * 1000 * MS;
            let from = read + 10 * MS;
            let to = from + random.random_range(play.pause_ms.0..=play.pause_ms.1) * MS;
            before = to + MS / 3;
            faults.push(pause(faults.len() as u32, format!("c{client}"), from, to));
        }
        let written = before + MS / 2 + some(random, 2);
        let releasing = written + MS / 10;
        let done = releasing + MS + some(random, 2);
        free[key] = (releasing + MS).min(acquired + ttl);
        let info = attempts.len() % 41 == 17;
        attempts.push(Attempt {
            process: client as u32,
            key,
            asked,
            acquired,
            read,
            before,
            written,
            releasing,
            done,
            info,
        });
        next[client] = (if info { before + 2000 * MS } else { done }) + 20 * MS + some(random, 300);
    }
    (attempts, refused, faults)
}

fn some(random: &mut ChaCha8Rng, up_to_ms: u64) -> u64 {
    random.random_range(0..up_to_ms.max(1) * MS)
}

/// A pause that was observed to begin and to end.
pub fn pause(fault: u32, target: String, from: u64, to: u64) -> FaultWindow {
    FaultWindow {
        what: format!("pause {target}"),
        targets: vec![target],
        inject: from,
        injected: Some((from + MS, true)),
        heal: Some(to - MS),
        healed: Some((to, true)),
        aftermath_ns: Some(0),
        texts: vec!["1 process in state T".into(), "1 process runs again".into()],
        lines: vec![0],
        ..FaultWindow::new(fault, FaultKind::Pause)
    }
}

fn gates(faults: &[FaultWindow], failed: u64) -> Vec<Gate> {
    let gate = |name: &str, text: String| Gate { name: name.into(), passed: true, text, undermines_violations: false };
    vec![
        gate("resource-empty", "the resource held no data before the first operation".into()),
        gate("clients-ready", "all clients were ready before the first operation".into()),
        gate("contention", format!("5 clients acquired the lock; {failed} attempts came too late")),
        gate("faults-observed", format!("{0} of {0} faults were seen to take effect", faults.len())),
        gate("faults-healed", format!("{0} of {0} heals were observed", faults.len())),
        gate("final-reads", "every key was read after the last operation".into()),
    ]
}

fn scenario(play: &Play, claimed: bool) -> Scenario {
    let length = |text: &str| text.parse().expect("a length");
    let range = |text: &str| text.parse().expect("a range");
    let mut claims = vec![Claim::Updates];
    claims.extend(claimed.then_some(Claim::MutualExclusion));
    Scenario {
        workload_name: if claimed { "redlock" } else { "redlock-guarded" }.into(),
        nemesis_name: if play.pause_every_s > 0 { "pause-holder" } else { "none" }.into(),
        seed: play.seed,
        clients: play.clients,
        nodes: 5,
        keys: play.keys,
        ttl: Duration::from_millis(play.ttl_ms),
        time_limit: Duration::from_secs(play.seconds),
        hold: range("30ms..90ms"),
        rate: 15.0,
        acquire_timeout: Duration::from_millis(1800),
        persistence: Persistence::None,
        record_commands: false,
        expect: None,
        cluster: ClusterSettings::default(),
        client: None,
        workload: Workload {
            topology: Default::default(),
            nodes: 5,
            keys: 1,
            description: "Redlock over five nodes guards a register".into(),
            source: "redis.io/docs, antirez; Kleppmann 2016: unsafe where a holder may be paused".into(),
            lock: LockSpec::Redlock(RedlockOptions {
                ask: Ask::Parallel,
                node_timeout: length("50ms"),
                drift_factor: 0.01,
                retry_delay: range("20ms..100ms"),
                check_elapsed: true,
                clock: ClockSource::Monotonic,
                release: ReleaseOn::All,
                recheck: false,
                renew_every: None,
            }),
            resource: ResourceSpec { kind: ResourceKind::Register, fencing: play.fencing },
            library: None,
            client: None,
            longest_gap: None,
            operations: None,
            claims,
            expect: BTreeMap::from([(
                "pause-holder".into(),
                if claimed { Expectation::Violation } else { Expectation::Valid },
            )]),
        },
        nemesis: Nemesis {
            description: "The holder of the lock is stopped for longer than the TTL".into(),
            story: "A garbage collector, a page fault or a laptop lid stops a process between its check and its write"
                .into(),
            progress: Progress::Some,
            outlives: None,
            clients: None,
            ttl: None,
            persistence: None,
            voters: None,
            expect: BTreeMap::new(),
            script: vec![],
            faults: vec![],
        },
    }
}

fn header(scenario: &Scenario, play: &Play) -> Header {
    Header {
        format: FORMAT,
        redjepsen: "0.1.0".into(),
        workload: scenario.workload_name.clone(),
        nemesis: scenario.nemesis_name.clone(),
        seed: play.seed,
        clients: play.clients,
        nodes: 5,
        keys: play.keys,
        ttl_ms: play.ttl_ms,
        expires: true,
        steals: false,
        acquire_timeout_ms: None,
        least_hold_ms: None,
        longest_gap_ms: None,
        time_limit_ms: play.seconds * 1000,
        resource: ResourceKind::Register,
        claims: scenario.workload.claims.clone(),
        faults_expected: play.pause_every_s > 0,
        script_steps: 0,
        progress: Default::default(),
        outlives: None,
        simulated: false,
        started: "2026-11-20T10:12:00Z".into(),
    }
}

fn facts(play: &Play) -> RunFacts {
    let versions = [("docker", "29.0.1"), ("kernel", "6.12.8"), ("redis", "8.4.0"), ("redjepsen", "0.1.0")];
    RunFacts {
        cluster: "docker".into(),
        repeat: format!(
            "redjepsen run redlock pause-holder --seed {} --time-limit {}s --clients {}",
            play.seed, play.seconds, play.clients
        ),
        versions: versions.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect(),
        image: "redis:8.4".into(),
        folder: "store/redlock-pause-holder/20261120T101200Z".into(),
        late_ms: None,
    }
}

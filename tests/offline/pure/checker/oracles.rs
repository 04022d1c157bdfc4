//! Liveness, promises, blame and contradictions of faults, against naive readers written from docs/verdicts.md. On small random
//! runs, both must agree.
//!
//! Time has steps of 100 ms, and the TTL is ten steps, so that a reader can check the state at each step.

use checker::AnomalyKind;
use model::history::{
    Claim, ClientEvent, ClientStep, Fact, FactName, Failure, FaultKind, Function, Operation, Outcome, Phase,
    PhaseStamp, Process,
};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::kit::histories::{Build, MS, operation, reading};

const STEP: u64 = 100 * MS;
const TTL: u64 = 10;
/// Three TTLs.
const STUCK: u64 = 30;
const STEPS: u64 = 150;
const FOREVER: u64 = u64::MAX;

fn stamp(phase: Phase, at: u64) -> PhaseStamp {
    PhaseStamp {
        phase,
        index: 0,
        received: at * STEP,
        stamped: Some((at * STEP) as i64),
        token: None,
        validity_ms: None,
    }
}

/// A run of three clients on one or two keys: their operations, and up to two faults. In some runs, no client acquires a lock any
/// more from some time on.
fn random_run(rng: &mut ChaCha8Rng) -> Build {
    let mut build = Build::new();
    let header = build.header();
    header.clients = 3;
    header.claims = vec![Claim::Updates, Claim::MutualExclusion, Claim::Liveness, Claim::Timeouts];
    header.acquire_timeout_ms = Some(1_000);
    build.history.facts.push(Fact { name: FactName::NodesHealthy, holds: true, text: String::new() });
    build.history.last_time = STEPS * STEP;
    let over = rng.random_range(5..2 * STEPS);
    let (keys, told, renews) = (rng.random_range(1..=2), rng.random_bool(0.7), rng.random_bool(0.1));
    let outcomes = [[Outcome::Ok, Outcome::Info, Outcome::Fail], [Outcome::Fail; 3]];
    let chatty = rng.random_bool(0.8);
    for client in 0..3u32 {
        let (mut at, mut process) = (rng.random_range(0..10), client);
        while at < STEPS - 50 {
            let invoked = at;
            let key = format!("k{}", rng.random_range(0..keys));
            let gets_it = invoked < over && rng.random_bool(0.7);
            let mut phases = Vec::new();
            if chatty || rng.random_bool(0.7) {
                phases.push(stamp(Phase::Acquiring, at));
            }
            let longest = if rng.random_ratio(1, 20) { 25 } else { 4 };
            at += rng.random_range(1..=longest);
            if rng.random_ratio(1, 10) {
                phases.push(stamp(Phase::HalfAcquired, at));
                at += 1;
            }
            let mut outcome = *outcomes[usize::from(!gets_it)].choose(rng).unwrap();
            if gets_it {
                phases.push(stamp(Phase::Acquired, at));
                phases.last_mut().unwrap().validity_ms = told.then(|| 100 * rng.random_range(2..=TTL));
                at += rng.random_range(0..3);
                for phase in [Phase::Extended, Phase::Read, Phase::BeforeWrite, Phase::Written, Phase::Lost] {
                    let often = match phase {
                        Phase::Extended => {
                            if renews {
                                5
                            } else {
                                0
                            }
                        }
                        Phase::Lost => 1,
                        _ => 7,
                    };
                    if rng.random_ratio(often, 10) {
                        phases.push(stamp(phase, at));
                        at += rng.random_range(0..2);
                    }
                }
                for phase in [Phase::Releasing, Phase::Released] {
                    if rng.random_ratio(8, 10) {
                        phases.push(stamp(phase, at));
                        at += rng.random_range(0..2);
                    }
                }
            } else if rng.random_ratio(1, if over % 2 == 0 { 4 } else { 40 }) {
                outcome = Outcome::Info;
            }
            let written = phases.iter().any(|stamp| stamp.phase == Phase::Written);
            if written && outcome == Outcome::Fail {
                outcome = Outcome::Info;
            }
            at += 1;
            let words = ["not-acquired", "unavailable", "lock-lost", "fenced", "unsupported", "conflict"];
            let word = words[if rng.random_ratio(1, 8) { rng.random_range(0..6) } else { rng.random_range(0..2) }];
            let dies = rng.random_ratio(1, 25);
            let number = build.history.operations.len();
            build.history.operations.push(Operation {
                completed: (!dies).then_some(at * STEP),
                outcome: if dies { Outcome::Info } else { outcome },
                new: Some(format!("v{number}").into()),
                failure: (outcome == Outcome::Fail).then(|| Failure { error: Some(word.into()), text: None }.into()),
                phases: phases.into_iter().collect(),
                ..operation(Process::Client(process), Function::Rmw, &key, 0, invoked * STEP)
            });
            if dies {
                let event =
                    ClientEvent { process, step: ClientStep::Ended, text: "it ended".into(), nodes: Vec::new() };
                build.history.clients.push((at * STEP, event));
                process += 3;
            }
            at += rng.random_range(0..=2);
        }
    }
    for fault in 0..rng.random_range(0..=2) {
        let inject = rng.random_range(0..STEPS - 30);
        let healed = inject + rng.random_range(0..12);
        let target = *["n0", "c1", "c2", "resource"].choose(rng).unwrap();
        build.fault(fault, target, inject * 100, healed * 100);
        let window = build.history.faults.last_mut().unwrap();
        let kinds = [FaultKind::Pause, FaultKind::Kill, FaultKind::Delay, FaultKind::PauseBackground];
        window.kind = *kinds.choose(rng).unwrap();
        if rng.random_ratio(1, 12) {
            window.healed = window.healed.map(|(time, _)| (time, false));
        }
    }
    let operations = &mut build.history.operations;
    operations.sort_by_key(|operation| operation.invoked);
    for (operation, index) in operations.iter_mut().zip(0..) {
        operation.index = 2 * index;
        operation.completed_index = operation.completed.map(|_| 2 * index + 1);
    }
    build.history.last_time = STEPS * STEP;
    build
}

fn at(operation: &Operation, phase: Phase) -> Option<u64> {
    operation.phase(phase).map(|stamp| stamp.received / STEP)
}

/// True if the operation's client held the lock, according to its messages.
fn had_it(operation: &Operation) -> bool {
    operation.outcome == Outcome::Ok || operation.phases.iter().any(|stamp| stamp.phase >= Phase::Acquired)
}

/// A reader of a run's liveness. It decides doubts in favour of the lock or, if `accuses`, against it.
struct Reader<'h> {
    build: &'h Build,
    accuses: bool,
}

impl Reader<'_> {
    fn is_in_vain(&self, operation: &Operation) -> bool {
        let of_a_holder = ["lock-lost", "fenced", "conflict"].contains(&operation.error().unwrap_or(""));
        let certain = operation.outcome == Outcome::Fail && !of_a_holder && at(operation, Phase::Acquiring).is_some();
        !had_it(operation) && (certain || self.accuses)
    }

    /// The time from the request for the lock until the client held it or gave up.
    fn asks(&self, operation: &Operation) -> Option<(u64, u64)> {
        let from = operation.invoked / STEP;
        match at(operation, Phase::Acquired) {
            Some(acquired) => Some((from, acquired)),
            None => self.is_in_vain(operation).then(|| (from, self.ended(operation))),
        }
    }

    fn ended(&self, operation: &Operation) -> u64 {
        let died = self.died(operation).unwrap_or(STEPS);
        operation.completed.map_or(died, |completed| completed / STEP)
    }

    fn died(&self, operation: &Operation) -> Option<u64> {
        let mut ends = self.build.history.clients.iter();
        ends.find(|(_, event)| Process::Client(event.process) == operation.process).map(|(time, _)| time / STEP)
    }

    /// The time in which an operation may have kept the lock from other clients.
    fn keeps(&self, operation: &Operation) -> Option<(u64, u64)> {
        let all = || self.build.history.operations.iter().flat_map(|operation| &operation.phases);
        let certainly_not = operation.outcome == Outcome::Fail
            && !had_it(operation)
            && !["lock-lost", "fenced", "conflict"].contains(&operation.error().unwrap_or(""));
        if certainly_not || self.is_in_vain(operation) {
            return None;
        }
        let from = at(operation, Phase::HalfAcquired).or(at(operation, Phase::Acquired));
        let from = from.unwrap_or(operation.invoked / STEP);
        let renewed = all().any(|stamp| stamp.phase == Phase::Extended);
        let valid = |stamp: PhaseStamp| stamp.validity_ms.map(|left| stamp.received / STEP + left / 100);
        let runs_out = operation.phases.iter().filter_map(valid).max().filter(|_| !renewed);
        let over = at(operation, Phase::Lost).into_iter().chain(at(operation, Phase::Released)).min();
        let in_doubt = || match operation.completed {
            None => FOREVER,
            Some(completed) if all().any(|stamp| stamp.validity_ms.is_some()) => {
                runs_out.unwrap_or(completed / STEP + TTL)
            }
            Some(completed) if at(operation, Phase::Releasing).is_some() => completed / STEP,
            Some(_) => FOREVER,
        };
        let until = match operation.outcome {
            _ if over.is_some() => over.unwrap(),
            Outcome::Info => in_doubt(),
            _ => operation.completed.unwrap() / STEP,
        };
        let until = until.min(runs_out.unwrap_or(FOREVER)).min(self.died(operation).unwrap_or(FOREVER));
        Some((from, until.max(from)))
    }

    /// The times in which no operation kept the lock of a key, step by step.
    fn free(&self, key: &str, with_faults: bool) -> Vec<(u64, u64)> {
        let history = &self.build.history;
        let of_key = history.operations.iter().filter(|operation| operation.key == key);
        let mut kept: Vec<(u64, u64)> = of_key.filter_map(|operation| self.keeps(operation)).collect();
        if with_faults {
            kept.extend(history.faults.iter().map(|window| {
                (window.inject / STEP, window.healed.filter(|(_, seen)| *seen).map_or(FOREVER, |(time, _)| time / STEP))
            }));
        }
        let (mut free, mut open) = (Vec::new(), None);
        for step in 0..=STEPS {
            let taken = kept.iter().any(|(from, until)| (*from..*until).contains(&step));
            // A hold of zero length still counts as a hold.
            let touched = taken || step == STEPS || kept.contains(&(step, step));
            if touched && let Some(from) = open.take().filter(|from| *from < step) {
                free.push((from, step));
            }
            if !taken && open.is_none() {
                open = Some(step);
            }
        }
        free
    }

    /// How often a key was stuck.
    fn stuck(&self, key: &str) -> usize {
        let of_key = || self.build.history.operations.iter().filter(|operation| operation.key == key);
        let is_stuck = |&(from, to): &(u64, u64)| {
            let vain = of_key().filter(|operation| self.is_in_vain(operation));
            let meanwhile: Vec<(u64, u64)> = vain
                .filter_map(|operation| self.asks(operation))
                .filter(|(began, ended)| *ended > from && *began < to)
                .collect();
            let last = meanwhile.iter().map(|(_, ended)| (*ended).min(to)).max().unwrap_or(from);
            let asked = (from..to).filter(|step| meanwhile.iter().any(|(began, ended)| (began..ended).contains(&step)));
            to - from > STUCK
                && last - from > STUCK
                && (meanwhile.len() >= 5 || 2 * asked.count() as u64 >= last - from)
        };
        self.free(key, true).iter().filter(|free| is_stuck(free)).count()
    }

    /// The longest time for which a key was free and clients asked for it, with no gap longer than one step.
    fn longest_gap(&self, key: &str) -> u64 {
        let of_key = || self.build.history.operations.iter().filter(|operation| operation.key == key);
        let longest_in = |(from, to): (u64, u64)| {
            let asks: Vec<(u64, u64)> = of_key().filter_map(|operation| self.asks(operation)).collect();
            let asked = |step: u64| asks.iter().any(|(began, ended)| (*began..*ended).contains(&step));
            let (mut longest, mut began) = (0, None);
            for step in from..to {
                if asked(step) {
                    let since = *began.get_or_insert(step);
                    longest = longest.max(step + 1 - since);
                } else if !(step > from && asked(step - 1)) {
                    began = None;
                }
            }
            longest
        };
        self.free(key, false).into_iter().map(longest_in).max().unwrap_or(0)
    }
}

#[test]
fn liveness_is_what_a_naive_reader_finds() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let (mut broken, mut doubted, mut fine) = (0, 0, 0);
    let cases = crate::kit::cases(2_500);
    for _ in 0..cases {
        let build = random_run(&mut rng);
        let verdict = build.check();
        let shown = || format!("{:#?}\n{:#?}\n{:#?}", build.history, verdict.claims, verdict.anomalies);
        let history = &build.history;
        let keys: std::collections::BTreeSet<&str> = history.operations.iter().map(|one| one.key.as_str()).collect();
        let any = history.operations.iter().any(|operation| at(operation, Phase::Acquired).is_some());
        let (fair, harsh) = (Reader { build: &build, accuses: false }, Reader { build: &build, accuses: true });
        let count = |reader: &Reader| keys.iter().map(|key| reader.stuck(key)).sum::<usize>() * usize::from(any);
        let found = verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::NotObtained).count();
        assert_eq!(found, count(&fair), "{}", shown());
        let gap = verdict.lock.longest_gap.as_ref().map_or(0, |gap| (gap.to - gap.from) / STEP);
        assert_eq!(gap, keys.iter().map(|key| fair.longest_gap(key)).max().unwrap_or(0), "{}", shown());

        let healed = history.faults.iter().filter_map(|window| window.healed).map(|(time, _)| time).max().unwrap_or(0);
        fn of_key<'h>(build: &'h Build, key: &str) -> Vec<&'h Operation> {
            build.history.operations.iter().filter(|operation| operation.key == key).collect()
        }
        let of_key = |key: &str| of_key(&build, key).into_iter();
        let got = |key: &str| {
            of_key(key).filter_map(|one| one.phase(Phase::Acquired)).filter(|stamp| stamp.received >= healed).count()
        };
        let not = |key: &str| of_key(key).filter(|one| !had_it(one) && one.invoked >= healed).count();
        let claim = verdict.claims.iter().find(|claim| claim.claim == Claim::Liveness).unwrap();
        let attempts: usize = keys.iter().map(|key| got(key) + not(key)).sum();
        assert_eq!(claim.evidence, attempts as u64, "{}", shown());
        let is_missing = history.faults.iter().any(|window| !window.was_healed())
            || attempts == 0
            || keys.iter().any(|key| not(key) > 0 && got(key) == 0)
            || count(&harsh) > 0;
        assert_eq!(claim.missing.is_some(), found == 0 && is_missing, "{}", shown());
        match (found > 0, count(&harsh) > 0) {
            (true, _) => broken += 1,
            (false, true) => doubted += 1,
            (false, false) => fine += 1,
        }
    }
    // The generator must produce enough of each side.
    assert!([broken, doubted, fine].iter().all(|seen| *seen > cases / 100), "{broken} {doubted} {fine}");
}

#[test]
fn waits_are_what_a_naive_reader_finds() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let (mut long, mut short) = (0, 0);
    let cases = crate::kit::cases(2_500);
    for _ in 0..cases {
        let mut build = random_run(&mut rng);
        for operation in &build.history.operations {
            if rng.random_ratio(1, 10) {
                build.history.acquire_timeouts.insert(operation.index, 100 * rng.random_range(1..20));
            }
        }
        let verdict = build.check();
        let history = &build.history;
        let (mut attempts, mut expected) = (0, Vec::new());
        for operation in &history.operations {
            let got_further = operation.phases.iter().any(|stamp| stamp.phase > Phase::HalfAcquired);
            let gave_up = operation.outcome == Outcome::Fail
                || (operation.outcome == Outcome::Info && at(operation, Phase::Acquiring).is_some() && !got_further);
            let end =
                at(operation, Phase::Acquired).or(operation.completed.filter(|_| gave_up).map(|time| time / STEP));
            let Some(end) = end else { continue };
            attempts += 1;
            let client = format!("c{}", operation.process.number() % 3);
            let heals = |window: &model::history::FaultWindow| {
                window.healed.filter(|(_, seen)| *seen).map_or(FOREVER, |(time, _)| time / STEP)
            };
            let hits = |target: String| history.faults.iter().filter(move |window| window.targets[0] == target);
            // After a node was silent, the wait for its answer may take as long again.
            let silent = hits("n0".to_string()).filter(|window| window.inject / STEP < end);
            let answered =
                silent.map(|window| heals(window).saturating_add(heals(window).saturating_sub(window.inject / STEP)));
            let answered = answered.max().unwrap_or(0);
            let stands_still = |step: u64| {
                let mut stops = hits(client.clone()).filter(|window| window.kind != FaultKind::Delay);
                stops.any(|window| (window.inject / STEP..heals(window)).contains(&step))
            };
            let waited =
                (operation.invoked / STEP..end).filter(|step| *step >= answered && !stands_still(*step)).count() as u64;
            let limit = history.acquire_timeouts.get(&operation.index).map_or(10, |limit| limit / 100);
            if 2 * waited > (3 * limit).max(2 * (limit + 10)) {
                expected.push(operation.index);
            }
        }
        let mut found: Vec<u64> = (verdict.anomalies.iter())
            .filter(|anomaly| anomaly.kind == AnomalyKind::WaitedTooLong)
            .map(|anomaly| anomaly.operations[0])
            .collect();
        found.sort_unstable();
        let shown = || format!("{:#?}\n{:#?}", build.history, verdict.anomalies);
        assert_eq!(found, expected, "{}", shown());
        let claim = verdict.claims.iter().find(|claim| claim.claim == Claim::Timeouts).unwrap();
        assert_eq!(claim.evidence, attempts, "{}", shown());
        if found.is_empty() { short += 1 } else { long += 1 }
    }
    assert!(long > cases / 20 && short > cases / 20, "{long} {short}");
}

/// Every client read the empty key, so at most one update survives. The question is whether the client or the lock is at fault.
#[test]
fn a_loss_is_the_clients_where_it_gave_the_lock_back_with_its_write_in_flight() {
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    let (mut of_client, mut of_lock) = (0, 0);
    let cases = crate::kit::cases(2_500);
    for _ in 0..cases {
        let mut build = random_run(&mut rng);
        build.history.operations.retain(|operation| operation.key == "k0" && had_it(operation));
        build.history.operations.truncate(rng.random_range(2..6));
        for operation in &mut build.history.operations {
            operation.old = reading("-");
        }
        let Some(last) = build.history.operations.choose(&mut rng).and_then(|operation| operation.new.clone()) else {
            continue;
        };
        build.read_on("k0", Process::Controller, 100_000, 100_001, &last);
        let verdict = build.check();
        let shown = || format!("{:#?}\n{:#?}", build.history, verdict.anomalies);
        let mut lost = 0;
        for anomaly in &verdict.anomalies {
            let about_updates = [
                AnomalyKind::LostUpdate,
                AnomalyKind::WriteInFlight,
                AnomalyKind::OrderViolation,
                AnomalyKind::ImpossibleRead,
                AnomalyKind::StaleRead,
            ];
            if !about_updates.contains(&anomaly.kind) {
                continue;
            }
            let of = |index: &u64| build.history.operations.iter().find(|operation| operation.index == *index).unwrap();
            let involved: Vec<&Operation> = anomaly.operations.iter().map(of).collect();
            let holds_at = |operation: &Operation, half_step: u64| {
                let from = at(operation, Phase::Acquired).map_or(FOREVER, |from| 2 * from);
                let to = at(operation, Phase::Releasing).map_or(FOREVER, |to| 2 * to);
                from < half_step && half_step < to
            };
            let careless = |operation: &&&Operation| {
                let has = |phase| at(operation, phase).is_some();
                operation.outcome == Outcome::Info
                    && has(Phase::Acquired)
                    && has(Phase::BeforeWrite)
                    && !has(Phase::Written)
                    && has(Phase::Releasing)
            };
            let alone = |operation: &&Operation| {
                let others = || involved.iter().filter(|other| other.index != operation.index);
                (1..2 * STEPS).all(|half| !holds_at(operation, half) || !others().any(|other| holds_at(other, half)))
            };
            let clients_fault = involved.iter().filter(careless).any(alone);
            // Holds of zero length touch in ways that steps do not show.
            let brief = involved
                .iter()
                .any(|one| at(one, Phase::Acquired).is_some() && at(one, Phase::Acquired) == at(one, Phase::Releasing));
            if brief {
                lost += if anomaly.kind == AnomalyKind::WriteInFlight { 0 } else { anomaly.lost.len() };
                continue;
            }
            assert_eq!(anomaly.kind == AnomalyKind::WriteInFlight, clients_fault, "{}", shown());
            if clients_fault {
                of_client += 1;
            } else {
                of_lock += 1;
                lost += anomaly.lost.len();
            }
        }
        assert_eq!(verdict.lost_updates.count, lost as u64, "{}", shown());
    }
    assert!(of_client > cases / 200 && of_lock > cases / 20, "{of_client} {of_lock}");
}

#[test]
fn a_fault_is_refuted_where_a_naive_reader_finds_an_act_that_it_rules_out() {
    let mut rng = ChaCha8Rng::seed_from_u64(14);
    let (mut refuted, mut stands) = (0, 0);
    let cases = crate::kit::cases(2_500);
    for _ in 0..cases {
        let mut build = random_run(&mut rng);
        build.history.faults.truncate(1);
        let history = &build.history;
        let Some(window) = history.faults.first() else { continue };
        let (since, until) = (window.inject / STEP, window.heal.unwrap() / STEP);
        let within = |from: u64, to: u64| since < from && to < until;
        let stops = [FaultKind::Pause, FaultKind::Kill].contains(&window.kind);
        let answered = |operation: &Operation, from: Phase, to: Phase| {
            let begun = at(operation, from).unwrap_or(operation.invoked / STEP);
            at(operation, to).is_some_and(|over| within(begun, over))
        };
        let whole = |operation: &Operation| {
            let ok = operation.completed.filter(|_| operation.outcome == Outcome::Ok);
            ok.is_some_and(|completed| within(operation.invoked / STEP, completed / STEP))
        };
        let acts = |operation: &&Operation| match window.targets[0].as_str() {
            "n0" => answered(operation, Phase::Acquiring, Phase::Acquired) || whole(operation),
            "resource" => {
                answered(operation, Phase::Acquired, Phase::Read)
                    || answered(operation, Phase::BeforeWrite, Phase::Written)
                    || whole(operation)
            }
            client => {
                let was_there = history
                    .operations
                    .iter()
                    .any(|other| other.process == operation.process && other.invoked / STEP < since);
                let until = if window.kind == FaultKind::Kill { FOREVER } else { until };
                let its = format!("c{}", operation.process.number() % 3) == client;
                let told = operation.completed.filter(|_| operation.outcome != Outcome::Info).map(|time| time / STEP);
                let whole = told.is_some_and(|told| operation.invoked / STEP > since && told < until);
                let mut stamps = operation.phases.iter().map(|stamp| stamp.received / STEP);
                its && (was_there || window.kind == FaultKind::Pause)
                    && (whole || stamps.any(|stamp| since < stamp && stamp < until))
            }
        };
        let expected = stops && history.operations.iter().any(|operation| acts(&operation));
        let verdict = build.check();
        let gate = verdict.gates.iter().find(|gate| gate.name == "faults-observed").unwrap();
        assert_eq!(!gate.passed, expected, "{}\n{:#?}", gate.text, build.history);
        if expected { refuted += 1 } else { stands += 1 }
    }
    assert!(refuted > cases / 20 && stands > cases / 20, "{refuted} {stands}");
}

//! Evidence that is dropped or blurred proves less, but never something else: an invalid history never becomes valid
//! that way, nor a valid one invalid. `REDJEPSEN_CASES` sets the number of mutated histories.

use std::io::Cursor;

use proptest::prelude::*;
use redjepsen::checker::{Validity, Verdict, check};
use redjepsen::history::load_reader;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;
const CLIENTS: u64 = 3;
const KEYS: u64 = 2;
/// The clients' clock at time 0 of the run.
const CLOCK: u64 = 77_000_000_000;

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Nothing,
    /// Two clients hold the lock at once, and the later write erases the other.
    Lost,
    /// Two clients hold the lock at once, and no harm is done.
    Overlap,
    /// A token is not greater than the one before.
    Token,
    /// After the heal, nobody can acquire the lock of one key.
    Stuck,
    /// The count in a counter does not match its updates.
    Amount,
}

/// A small simulated run of a lock: operations one after another on each key, contended, with a fault in the middle.
#[derive(Clone, Debug)]
struct Run {
    flaw: Flaw,
    counter: bool,
    /// The number of the operation with the flaw.
    at: u64,
    /// How long each operation holds, in milliseconds.
    holds: Vec<u64>,
}

/// The lines under construction, with their times.
#[derive(Default)]
struct Lines(Vec<(u64, Value)>);

impl Lines {
    fn add(&mut self, time: u64, value: Value) {
        self.0.push((time, value));
    }

    fn phase(&mut self, time: u64, process: u64, phase: &str, more: Value) {
        let mut line = json!({"type": "phase", "process": process, "phase": phase, "mono_ns": CLOCK + time});
        for (name, value) in more.as_object().into_iter().flatten() {
            line[name] = value.clone();
        }
        self.add(time, line);
    }

    /// The lines in the order of their times, numbered.
    fn text(mut self) -> Vec<Value> {
        self.0.sort_by_key(|(time, _)| *time);
        numbered(self.0.into_iter().map(|(time, mut line)| {
            line["time"] = time.into();
            line
        }))
    }
}

fn numbered(lines: impl Iterator<Item = Value>) -> Vec<Value> {
    lines
        .zip(0u64..)
        .map(|(mut line, index)| {
            line["index"] = index.into();
            line
        })
        .collect()
}

/// The state of one key: its last update, the number of updates, and when its lock is next free.
#[derive(Clone, Default)]
struct Key {
    value: Value,
    count: u64,
    token: u64,
    free: u64,
}

impl Run {
    /// The run's history, line by line.
    fn lines(&self) -> Vec<Value> {
        let claims = ["updates", "mutual-exclusion", "tokens", "liveness"];
        let mut lines = Lines::default();
        let resource = if self.counter { "counter" } else { "register" };
        lines.add(0, json!({"type": "run", "run": {
            "format": 1, "redjepsen": "0.1.0", "workload": "ours", "nemesis": "pause", "seed": 1, "clients": CLIENTS, "nodes": 1,
            "keys": KEYS, "ttl_ms": 500, "time_limit_ms": 5000, "resource": resource, "claims": claims,
            "faults_expected": true, "started": "2026-11-22T12:00:00Z"}}));
        lines.add(1, json!({"type": "clock", "clock": {"mono_at_start_ns": CLOCK, "error_ns": 0}}));
        for (time, name) in (2..).zip(["resource-empty", "nodes-ready", "clients-ready"]) {
            lines.add(time, json!({"type": "fact", "fact": {"name": name, "holds": true}}));
        }
        let mut keys = vec![Key { free: 10 * MS, ..Key::default() }; KEYS as usize];
        let mut busy = [10 * MS; CLIENTS as usize];
        let mut token = 0;
        for (number, hold) in (0u64..).zip(&self.holds) {
            token += 1;
            let flawed = number == self.at;
            self.operation(&mut lines, &mut keys[(number % KEYS) as usize], &mut busy, number, *hold, token, flawed);
        }
        let (from, healed) = (busy[0] / 3 + 1, busy[0] / 2 + 3);
        for (time, step) in [(from, "inject"), (from + 1, "injected"), (healed - 1, "heal"), (healed, "healed")] {
            let mut line =
                json!({"type": "info", "process": "nemesis", "f": "delay", "fault": 0, "step": step, "value": ["n0"]});
            if step.ends_with('d') {
                line["observed"] = true.into();
            }
            lines.add(time, line);
        }
        let mut end = *busy.iter().max().unwrap_or(&0) + MS;
        if self.flaw == Flaw::Stuck {
            for turn in 0..12 {
                let at = end + 300 * MS * turn;
                lines.add(at, json!({"type": "invoke", "process": 0, "f": "rmw", "key": "k1", "value": [null, format!("s{turn}")]}));
                lines.phase(at + MS, 0, "acquiring", json!({}));
                let failed = json!({"type": "fail", "process": 0, "f": "rmw", "key": "k1", "value": [null, format!("s{turn}")],
                    "error": "not-acquired"});
                lines.add(at + 290 * MS, failed);
            }
            end += 300 * MS * 12;
        }
        lines.add(end, json!({"type": "fact", "fact": {"name": "nodes-healthy", "holds": true}}));
        for (number, key) in (0..).zip(&keys) {
            let at = end + MS * (number + 1);
            let name = format!("k{number}");
            lines.add(at, json!({"type": "invoke", "process": "controller", "f": "read", "key": name, "value": null}));
            let mut read = json!({"type": "ok", "process": "controller", "f": "read", "key": name, "value": key.value});
            if self.counter {
                let wrong = u64::from(self.flaw == Flaw::Amount && number == 0);
                read["count"] = (key.count + wrong).into();
            }
            lines.add(at + 1, read);
        }
        end += 10 * MS;
        lines.add(end, json!({"type": "fact", "fact": {"name": "final-reads", "holds": true}}));
        lines.add(end + 1, json!({"type": "end", "completed": true, "text": "planned"}));
        lines.text()
    }

    /// One operation of the next client, which waits for the lock and holds it.
    #[allow(clippy::too_many_arguments)]
    fn operation(
        &self,
        lines: &mut Lines,
        key: &mut Key,
        busy: &mut [u64],
        number: u64,
        hold: u64,
        token: u64,
        flawed: bool,
    ) {
        let (process, name) = (number % CLIENTS, format!("k{}", number % KEYS));
        let new = format!("c{process}:{number}");
        let invoked = busy[process as usize];
        let acquired = key.free.max(invoked) + MS;
        let meets_another = flawed && matches!(self.flaw, Flaw::Lost | Flaw::Overlap);
        // Long enough for the next client to be there already.
        let released = acquired + (hold + if meets_another { 200 } else { 0 }) * MS;
        let token = if flawed && self.flaw == Flaw::Token { key.token } else { token };
        lines
            .add(invoked, json!({"type": "invoke", "process": process, "f": "rmw", "key": name, "value": [null, new]}));
        lines.phase(invoked + 1, process, "acquiring", json!({}));
        let before = Key::clone(key);
        lines.phase(acquired, process, "acquired", json!({"token": token, "validity_ms": 490}));
        let mut read = json!({"value": before.value});
        if self.counter {
            read["count"] = before.count.into();
        }
        lines.phase(acquired + 1, process, "read", read);
        lines.phase(released - 3 * MS, process, "before-write", json!({}));
        lines.phase(released - 3 * MS + 1, process, "written", json!({}));
        lines.phase(released - 3, process, "releasing", json!({}));
        lines.phase(released - 2, process, "released", json!({}));
        let mut answer =
            json!({"type": "ok", "process": process, "f": "rmw", "key": name, "value": [before.value, new]});
        if self.counter {
            answer["count"] = before.count.into();
        }
        lines.add(released, answer);
        busy[process as usize] = released + MS;
        (key.value, key.count, key.token, key.free) = (new.into(), before.count + 1, token, released);
        if meets_another {
            // The next one gets the lock while this one has it; it reads what this one read, or waits for its write.
            key.free = released - 3 * MS;
            if self.flaw == Flaw::Lost {
                (key.value, key.count) = (before.value, before.count);
                key.free = acquired;
            }
        }
    }
}

fn run() -> impl Strategy<Value = Run> {
    let flaw = prop_oneof![
        Just(Flaw::Nothing),
        Just(Flaw::Lost),
        Just(Flaw::Overlap),
        Just(Flaw::Token),
        Just(Flaw::Stuck),
        Just(Flaw::Amount),
    ];
    (flaw, any::<bool>(), 6..20u64, prop::collection::vec(5..40u64, 24..40)).prop_map(|(flaw, counter, at, holds)| {
        let counter = counter || flaw == Flaw::Amount;
        Run { flaw, counter, at, holds }
    })
}

fn verdict(lines: &[Value]) -> Verdict {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    check(&load_reader(Cursor::new(text), "history.jsonl").unwrap())
}

/// Removes something from a line, if possible: fields that a client may omit, or lines that no other line depends on.
fn weaken(lines: &mut Vec<Value>, place: usize, how: u8) {
    let line = &mut lines[place];
    let kind = line["type"].as_str().unwrap_or_default().to_string();
    match (kind.as_str(), how) {
        ("phase", 0 | 1) => _ = lines.remove(place),
        ("phase", 2) => _ = line.as_object_mut().map(|line| line.remove("mono_ns")),
        ("phase", 3) => _ = line.as_object_mut().map(|line| line.remove("token")),
        ("phase", 4) => _ = line.as_object_mut().map(|line| line.remove("value")),
        ("phase" | "ok", 5) => _ = line.as_object_mut().map(|line| line.remove("count")),
        ("phase", 6) => _ = line.as_object_mut().map(|line| line.remove("validity_ms")),
        ("ok", 0) if line["f"] == "rmw" => {
            line["value"][0] = Value::Null;
            line["untold"] = true.into();
        }
        ("fact" | "clock" | "end", _) => _ = lines.remove(place),
        ("info", 0) if line["process"] == "nemesis" => _ = lines.remove(place),
        ("info", _) if line["process"] == "nemesis" => line["observed"] = false.into(),
        // The final read: remove both the question and the answer.
        ("invoke", 0) if line["process"] == "controller" => {
            lines.remove(place);
            lines.remove(place);
        }
        _ => {}
    }
}

#[test]
fn each_flaw_is_found_and_a_run_without_one_is_valid() {
    let holds: Vec<u64> = (0..30).map(|number| 10 + number % 7).collect();
    for (flaw, counter, expected) in [
        (Flaw::Nothing, false, Validity::Valid),
        (Flaw::Nothing, true, Validity::Valid),
        (Flaw::Lost, false, Validity::Invalid),
        (Flaw::Lost, true, Validity::Invalid),
        (Flaw::Overlap, false, Validity::Invalid),
        (Flaw::Token, false, Validity::Invalid),
        (Flaw::Stuck, false, Validity::Invalid),
        (Flaw::Amount, true, Validity::Invalid),
    ] {
        let verdict = verdict(&Run { flaw, counter, at: 9, holds: holds.clone() }.lines());
        assert_eq!(verdict.valid, expected, "{flaw:?}: {:#?}", verdict.reasons);
    }
}

proptest! {
    // If the flaw comes too early to matter, the run is skipped.
    #![proptest_config(ProptestConfig { cases: crate::cases(300), max_global_rejects: u32::MAX, ..ProptestConfig::default() })]

    #[test]
    fn less_evidence_never_turns_a_verdict_round(
        run in run(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..7u8), 1..30),
    ) {
        let mut lines = run.lines();
        let before = verdict(&lines);
        prop_assume!(before.valid != Validity::Unknown);
        for (place, how) in changes {
            // The first line states the claims, which are no evidence.
            let place = 1 + place.index(lines.len() - 1);
            weaken(&mut lines, place, how);
        }
        let after = verdict(&numbered(lines.into_iter()));
        prop_assert!(
            after.valid == before.valid || after.valid == Validity::Unknown,
            "{:?} became {:?}: {:?} {:?}", before.valid, after.valid, before.reasons, after.reasons
        );
    }
}

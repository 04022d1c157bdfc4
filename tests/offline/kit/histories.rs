//! Histories written by hand, in few words. Times are in milliseconds. The time of its invocation names an operation and is also
//! its index. So no two events of a test may share a millisecond.

use checker::{Anomaly, AnomalyKind, Verdict, check};
use model::history::{
    Claim, ClockBound, End, Fact, FactName, FaultKind, FaultWindow, Function, Header, History, Operation, Outcome,
    Phase, PhaseStamp, Phases, Process, Reading,
};

pub const MS: u64 = 1_000_000;

/// The value that an operation read: `?` means unknown, `-` the empty register.
pub fn reading(text: &str) -> Reading {
    match text {
        "?" => Reading::Unknown,
        "-" => Reading::Empty,
        value => Reading::Value(value.into()),
    }
}

/// An operation that began at this index and time, without any further data.
pub fn operation(process: Process, f: Function, key: &str, index: u64, invoked: u64) -> Operation {
    Operation {
        index,
        completed_index: None,
        process,
        f,
        key: key.into(),
        invoked,
        completed: None,
        outcome: Outcome::Info,
        old: Reading::Unknown,
        amount: None,
        new: None,
        failure: None,
        phases: Phases::default(),
    }
}

#[derive(Clone, Default)]
pub struct Build {
    pub history: History,
}

impl Build {
    /// Five clients, all properties claimed, an empty resource so that violations count; nothing else.
    pub fn new() -> Build {
        let header = Header {
            format: 1,
            redjepsen: "0.1.0".into(),
            workload: "single".into(),
            nemesis: "none".into(),
            seed: 1,
            clients: 5,
            threads: 1,
            nodes: 1,
            keys: 1,
            ttl_ms: 1000,
            expires: true,
            steals: false,
            acquire_timeout_ms: None,
            least_hold_ms: None,
            permits: 1,
            longest_gap_ms: None,
            longest_overrun_ms: None,
            waits_by_wall_clock: false,
            lost_within_ms: None,
            time_limit_ms: 1000,
            resource: Default::default(),
            claims: vec![Claim::Updates, Claim::MutualExclusion],
            faults_expected: false,
            script_steps: 0,
            progress: Default::default(),
            outlives: None,
            simulated: false,
            started: "2026-11-20T12:00:00Z".into(),
        };
        let clock = Some(ClockBound { mono_at_start_ns: 0, error_ns: 0 });
        let empty = Fact { name: FactName::ResourceEmpty, holds: true, text: String::new() };
        Build { history: History { run: Some(header), clock, facts: vec![empty], ..History::default() } }
    }

    /// A run that passes every gate: three clients take turns on `base`, and a client always waits while another works.
    pub fn sound() -> Build {
        let mut build = Build::new();
        build.header().clients = 3;
        for name in [FactName::ClientsReady, FactName::NodesReady, FactName::NodesHealthy, FactName::FinalReads] {
            build.history.facts.push(Fact { name, holds: true, text: String::new() });
        }
        let mut old = "-".to_string();
        for turn in 0..30 {
            let new = format!("base:{turn}");
            let at = 100 * turn;
            build.ok_on("base", turn as u32 % 3, at + 1, at + 150 + 3, &old, &new);
            build.phase(at + 1, Phase::Acquired, at + 60).phase(at + 1, Phase::Releasing, at + 140);
            old = new;
        }
        build.read_on("base", Process::Controller, 9_990, 9_991, &old);
        build.history.end = Some(End { completed: true, text: "planned".into() });
        build
    }

    fn add(&mut self, operation: Operation) -> &mut Build {
        let operations = &mut self.history.operations;
        self.history.last_time = self.history.last_time.max(operation.completed.unwrap_or(operation.invoked));
        let place = operations.partition_point(|other| other.index < operation.index);
        assert!(operations.get(place).is_none_or(|other| other.index != operation.index), "two events at one moment");
        operations.insert(place, operation);
        self
    }

    #[allow(clippy::too_many_arguments)]
    pub fn rmw(
        &mut self,
        key: &str,
        outcome: Outcome,
        client: u32,
        invoked: u64,
        completed: Option<u64>,
        old: &str,
        new: &str,
    ) -> &mut Build {
        self.add(Operation {
            completed_index: completed,
            completed: completed.map(|time| time * MS),
            outcome,
            old: reading(old),
            new: Some(new.into()),
            ..operation(Process::Client(client), Function::Rmw, key, invoked, invoked * MS)
        })
    }

    /// A write or a compare-and-set of `k0`, without a lock.
    pub fn unlocked(
        &mut self,
        f: Function,
        outcome: Outcome,
        client: u32,
        times: (u64, u64),
        old: &str,
        new: &str,
    ) -> &mut Build {
        self.rmw("k0", outcome, client, times.0, Some(times.1), old, new);
        self.operation(times.0).f = f;
        self
    }

    pub fn write(&mut self, client: u32, invoked: u64, completed: u64, new: &str) -> &mut Build {
        self.unlocked(Function::Write, Outcome::Ok, client, (invoked, completed), "?", new)
    }

    pub fn cas(&mut self, client: u32, invoked: u64, completed: u64, old: &str, new: &str) -> &mut Build {
        self.unlocked(Function::Cas, Outcome::Ok, client, (invoked, completed), old, new)
    }

    pub fn ok_on(&mut self, key: &str, client: u32, invoked: u64, completed: u64, old: &str, new: &str) -> &mut Build {
        self.rmw(key, Outcome::Ok, client, invoked, Some(completed), old, new)
    }

    pub fn ok(&mut self, client: u32, invoked: u64, completed: u64, old: &str, new: &str) -> &mut Build {
        self.ok_on("k0", client, invoked, completed, old, new)
    }

    /// An indeterminate operation whose completion was read at `completed`.
    pub fn info(&mut self, client: u32, invoked: u64, completed: u64, old: &str, new: &str) -> &mut Build {
        self.rmw("k0", Outcome::Info, client, invoked, Some(completed), old, new)
    }

    pub fn fail(&mut self, client: u32, invoked: u64, completed: u64, old: &str, new: &str) -> &mut Build {
        self.rmw("k0", Outcome::Fail, client, invoked, Some(completed), old, new)
    }

    /// An attempt at a key's lock that failed.
    pub fn fail_on(&mut self, key: &str, client: u32, invoked: u64, completed: u64) -> &mut Build {
        self.rmw(key, Outcome::Fail, client, invoked, Some(completed), "?", &format!("failed:{invoked}"));
        self.phase(invoked, Phase::Acquiring, invoked + 1)
    }

    pub fn read_on(&mut self, key: &str, process: Process, invoked: u64, completed: u64, old: &str) -> &mut Build {
        self.add(Operation {
            completed_index: Some(completed),
            completed: Some(completed * MS),
            outcome: Outcome::Ok,
            old: reading(old),
            ..operation(process, Function::Read, key, invoked, invoked * MS)
        })
    }

    pub fn read(&mut self, client: u32, invoked: u64, completed: u64, old: &str) -> &mut Build {
        self.read_on("k0", Process::Client(client), invoked, completed, old)
    }

    /// The controller's read of `k0` after everything else.
    pub fn final_read(&mut self, old: &str) -> &mut Build {
        self.read_on("k0", Process::Controller, 10_000, 10_001, old)
    }

    pub fn operation(&mut self, invoked: u64) -> &mut Operation {
        self.history.operations.iter_mut().find(|operation| operation.index == invoked).expect("an operation")
    }

    /// A phase of the operation invoked at `invoked`, stamped at `at` and received in the same millisecond.
    pub fn phase(&mut self, invoked: u64, phase: Phase, at: u64) -> &mut Build {
        let stamped = Some(i64::try_from(at * MS).unwrap());
        let stamp = PhaseStamp { index: at, phase, received: at * MS, stamped, token: None, validity_ms: None };
        self.operation(invoked).phases.edit(|stamps| stamps.push(stamp));
        self
    }

    /// An operation that certainly held the lock of `k0` from `acquired` to `releasing`.
    pub fn hold(&mut self, client: u32, acquired: u64, releasing: u64) -> &mut Build {
        let new = format!("hold:{acquired}");
        self.rmw("k0", Outcome::Info, client, acquired - 1, Some(releasing + 1), "?", &new);
        self.phase(acquired - 1, Phase::Acquired, acquired).phase(acquired - 1, Phase::Releasing, releasing)
    }

    /// An operation that certainly held the lock of `k0` for reading from `acquired` to `releasing`, and read this value at once.
    pub fn shared(&mut self, client: u32, acquired: u64, releasing: u64, old: &str) -> &mut Build {
        self.read(client, acquired - 1, releasing + 1, old);
        self.operation(acquired - 1).f = Function::Shared;
        self.phase(acquired - 1, Phase::Acquired, acquired).phase(acquired - 1, Phase::Releasing, releasing)
    }

    /// An update that replaced `old` and certainly held the lock of `k0` from `acquired` to `releasing`.
    pub fn update(&mut self, client: u32, acquired: u64, releasing: u64, old: &str, new: &str) -> &mut Build {
        self.ok(client, acquired - 1, releasing + 1, old, new);
        self.phase(acquired - 1, Phase::Acquired, acquired).phase(acquired - 1, Phase::Releasing, releasing)
    }

    /// A pause that was observed and healed.
    pub fn fault(&mut self, fault: u32, target: &str, inject: u64, healed: u64) -> &mut Build {
        self.history.faults.push(FaultWindow {
            targets: vec![target.into()],
            inject: inject * MS,
            injected: Some((inject * MS, true)),
            heal: Some(healed * MS),
            healed: Some((healed * MS, true)),
            aftermath_ns: Some(0),
            lines: vec![inject],
            ..FaultWindow::new(fault, FaultKind::Pause)
        });
        self
    }

    pub fn header(&mut self) -> &mut Header {
        self.history.run.as_mut().expect("a header")
    }

    pub fn check(&self) -> Verdict {
        check(&self.history)
    }

    /// The anomalies on `k0`: kind, operations, lost updates.
    pub fn found(&self) -> Vec<(AnomalyKind, Vec<u64>, Vec<u64>)> {
        let anomalies: Vec<Anomaly> = self.check().anomalies;
        anomalies.into_iter().map(|anomaly| (anomaly.kind, anomaly.operations, anomaly.lost)).collect()
    }

    pub fn accepted(&self) {
        assert_eq!(self.found(), [], "a legal history");
        assert_eq!(self.check().lost_updates.count, 0);
    }
}

/// A value that one operation wrote and a later operation read, with the end of the first and the beginning of the second, in
/// nanoseconds.
pub fn read_later(history: &History) -> (String, u64, u64) {
    let operations = &history.operations;
    let acknowledged = |one: &&Operation| one.outcome == Outcome::Ok;
    let pairs = operations.iter().filter(acknowledged).flat_map(|one| {
        let reads = operations.iter().filter(acknowledged).filter(move |other| match (&one.new, &other.old) {
            (Some(new), Reading::Value(old)) => new == old && one.key == other.key,
            _ => false,
        });
        reads.filter_map(move |other| Some((one.new.as_deref()?.to_string(), one.completed?, other.invoked)))
    });
    pairs.into_iter().find(|(_, before, after)| before + 2 < *after).expect("a read of what was written before")
}

//! The number of lanes of a series: fixed by the user, or adapted to the machine.
//!
//! If the machine is overloaded, timers in the runs fire late. An adaptive series begins with one lane per processor. It adds a
//! lane after a time in which all lanes were busy and timers were late by less than half of the limit. It removes a lane if the
//! timing of several runs was not kept. After each removal, it waits longer before it adds one again. It adds no lane while
//! processors are busy most of the time. Work at a low priority does not count, because it gives way.

use std::collections::VecDeque;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;

use suite::outcome::Timing;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    Fixed(NonZeroUsize),
    /// As many as the machine can take.
    Auto,
}

impl Jobs {
    pub const ALONE: Jobs = Jobs::Fixed(NonZeroUsize::MIN);
}

/// The largest number of parallel runs. A larger number is taken for a typo.
pub const MOST_JOBS: usize = 256;
/// With `auto`, at most this many lanes per processor.
const LANES_PER_PROCESSOR: usize = 4;
/// The memory of a lane: servers, clients, and the process that checks and reports. At most 62 MB with five Redis servers, 138
/// MB with etcd and 230 MB with ZooKeeper (measured locally, shared pages counted once).
const LANE_MEMORY: u64 = 300_000_000;
/// Per lane, this many runs must have been well in time before a lane is added.
const CALM_RUNS: usize = 2;
/// The upper limit of that number, after lanes were removed.
const MOST_CALM_RUNS: usize = 8;
/// If this many of the last runs were late, a lane is removed. A single late run may have any reason.
const LATE_RUNS: usize = 2;
const LAST_RUNS: usize = 8;
/// The share of processor time in use above which no lane is added.
const BUSY: f64 = 0.85;

impl FromStr for Jobs {
    type Err = String;

    fn from_str(text: &str) -> Result<Jobs, String> {
        match (text, text.parse::<NonZeroUsize>()) {
            ("auto", _) => Ok(Jobs::Auto),
            (_, Ok(jobs)) if jobs.get() <= MOST_JOBS => Ok(Jobs::Fixed(jobs)),
            _ => Err(format!("`{text}` is not a number of jobs; expected a number from 1 to {MOST_JOBS}, or `auto`")),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Resources {
    pub processors: usize,
    /// In bytes; None if unknown.
    pub memory: Option<u64>,
}

impl Resources {
    pub fn here() -> Resources {
        Resources { processors: std::thread::available_parallelism().map_or(1, NonZeroUsize::get), memory: memory() }
    }

    /// The largest number of lanes on this machine.
    fn most_lanes(&self) -> usize {
        let by_memory = self.memory.map_or(usize::MAX, |memory| (memory / LANE_MEMORY) as usize);
        by_memory.min(self.processors * LANES_PER_PROCESSOR).clamp(1, MOST_JOBS)
    }
}

/// Adapts the number of lanes to the timing of the runs.
pub(super) struct Concurrency {
    lanes: usize,
    most: usize,
    chosen_by_user: bool,
    /// Counts the changes of the number. A run that began before the last change says nothing about the current number.
    epoch: u32,
    /// The number of runs since the last change that were well in time. A late run halves it.
    calm: usize,
    /// For each of the last runs since the last change, true if it was late.
    last: VecDeque<bool>,
    /// The number of calm runs per lane before a lane is added.
    patience: usize,
}

impl Concurrency {
    pub fn new(jobs: Jobs, machine: Resources) -> Concurrency {
        let most = machine.most_lanes();
        let (lanes, most, chosen_by_user) = match jobs {
            Jobs::Fixed(jobs) => (jobs.get(), jobs.get(), true),
            Jobs::Auto => (machine.processors.clamp(1, most), most, false),
        };
        Concurrency { lanes, most, chosen_by_user, epoch: 0, calm: 0, last: VecDeque::new(), patience: CALM_RUNS }
    }

    pub fn lanes(&self) -> usize {
        self.lanes
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Records the timing of a run that began in this epoch. `all_busy` is true if each lane was making a run. `in_use` is the
    /// share of processor time in use. Returns why the number of lanes has changed, or None.
    pub fn ended(&mut self, epoch: u32, timing: Timing, all_busy: bool, in_use: f64) -> Option<String> {
        let late_ms = timing.late_ms.filter(|_| !self.chosen_by_user && epoch == self.epoch)?;
        let limit_ms = timing.limit_ms;
        self.last.push_back(late_ms > limit_ms);
        if self.last.len() > LAST_RUNS {
            self.last.pop_front();
        }
        if late_ms > limit_ms {
            self.calm /= 2;
            let late = self.last.iter().filter(|late| **late).count();
            if late < LATE_RUNS || self.lanes == 1 {
                return None;
            }
            self.patience = (self.patience * 2).min(MOST_CALM_RUNS);
            self.change_to(self.lanes - 1);
            return Some(format!("{late} runs were late, the last by {late_ms} ms"));
        }
        if late_ms * 2 <= limit_ms && all_busy {
            self.calm += 1;
        }
        if self.calm < self.patience * self.lanes || self.lanes >= self.most || in_use > BUSY {
            return None;
        }
        let calm = self.calm;
        self.change_to(self.lanes + 1);
        Some(format!("{calm} runs were on time"))
    }

    fn change_to(&mut self, lanes: usize) {
        (self.lanes, self.calm, self.epoch) = (lanes, 0, self.epoch + 1);
        self.last.clear();
    }
}

/// Measures how busy the processors are.
#[derive(Default)]
pub(super) struct Processors {
    /// The times at the last call, in the kernel's units.
    last: Times,
    in_use: f64,
}

/// Processor time since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    /// Without work at a low priority.
    used: u64,
    all: u64,
}

/// A share over less time than this is not precise. In hundredths of a second of one processor.
const SHORTEST: u64 = 100;

impl Processors {
    /// The share of processor time in use since the last call, without work at a low priority. 0 if unknown.
    pub fn in_use(&mut self) -> f64 {
        self.since(fs::read_to_string("/proc/stat").ok().and_then(|text| times(&text)).unwrap_or_default())
    }

    fn since(&mut self, now: Times) -> f64 {
        let all = now.all.saturating_sub(self.last.all);
        if all >= SHORTEST {
            self.in_use = now.used.saturating_sub(self.last.used) as f64 / all as f64;
            self.last = now;
        }
        self.in_use
    }
}

/// Parses the kernel's `cpu  user nice system idle iowait irq softirq steal`.
fn times(text: &str) -> Option<Times> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let numbers: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = numbers[..] else { return None };
    let used = user + system + irq + softirq + steal;
    Some(Times { used, all: used + nice + idle + iowait })
}

/// The available memory in bytes: that of the machine, or less if this process has a limit.
fn memory() -> Option<u64> {
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    // A container sees its own control group at the top. Version 2 first, then version 1.
    let of_group = left("/sys/fs/cgroup", ["memory.max", "memory.current", "inactive_file"]).or_else(|| {
        let names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
        left("/sys/fs/cgroup/memory", names)
    });
    match (of_machine, of_group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (one, other) => one.or(other),
    }
}

/// The memory that a control group has left. The names are those of its files for limit and use, and of its statistic for files
/// that the kernel would drop first. None if it has no limit.
fn left(group: &str, [limit, used, files]: [&str; 3]) -> Option<u64> {
    let text = |name: &str| fs::read_to_string(Path::new(group).join(name)).ok();
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let limit = number(&text(limit)?)?;
    let files = text("memory.stat").and_then(|text| text.lines().find_map(|line| number(line.strip_prefix(files)?)));
    Some((limit.saturating_sub(number(&text(used)?)?)).saturating_add(files.unwrap_or(0)).min(limit))
}

/// Parses the kernel's `MemAvailable:    1234 kB`, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Resources = Resources { processors: 2, memory: Some(8 << 30) };

    fn timing(late_ms: u64) -> Timing {
        Timing { late_ms: Some(late_ms), limit_ms: 50, beside_others: true, asks_for_quiet: false }
    }

    /// The number of lanes after runs with timers this late, each made with the current number of lanes.
    fn lanes_after(pace: &mut Concurrency, late_ms: u64, runs: usize) -> usize {
        for _ in 0..runs {
            pace.ended(pace.epoch(), timing(late_ms), true, 0.1);
        }
        pace.lanes()
    }

    #[test]
    fn lanes_are_added_while_runs_are_in_time_up_to_what_the_machine_has() {
        let mut pace = Concurrency::new(Jobs::Auto, MACHINE);
        assert_eq!(pace.lanes(), 2);
        assert_eq!(lanes_after(&mut pace, 10, 3), 2);
        assert_eq!(lanes_after(&mut pace, 10, 1), 3);
        assert_eq!(lanes_after(&mut pace, 10, 5), 3);
        assert_eq!(lanes_after(&mut pace, 10, 1), 4);
        assert_eq!(lanes_after(&mut pace, 10, 1000), 8, "four for each processor");
        let small = Resources { memory: Some(700_000_000), ..MACHINE };
        assert_eq!(lanes_after(&mut Concurrency::new(Jobs::Auto, small), 0, 1000), 2, "300 MB for each");
        assert_eq!(Concurrency::new(Jobs::Auto, Resources { memory: Some(0), ..MACHINE }).lanes(), 1);
        assert_eq!(Concurrency::new(Jobs::Auto, Resources { memory: None, processors: 64 }).lanes(), 64);
    }

    #[test]
    fn no_lane_is_added_where_runs_were_nearly_late_or_lanes_idle_or_processors_busy() {
        let mut pace = Concurrency::new(Jobs::Auto, MACHINE);
        assert_eq!(lanes_after(&mut pace, 26, 100), 2);
        let mut pace = Concurrency::new(Jobs::Auto, MACHINE);
        for _ in 0..100 {
            assert_eq!(pace.ended(0, timing(0), false, 0.0), None);
            assert_eq!(pace.ended(0, Timing { late_ms: None, ..timing(0) }, true, 0.0), None);
        }
        for _ in 0..100 {
            assert_eq!(pace.ended(0, timing(0), true, 0.9), None);
        }
        assert!(pace.ended(0, timing(0), true, 0.8).is_some_and(|why| why.contains("101 runs were on time")));
    }

    #[test]
    fn runs_that_are_late_cost_a_lane_and_the_next_one_is_added_more_slowly() {
        let mut pace = Concurrency::new(Jobs::Auto, MACHINE);
        assert_eq!(lanes_after(&mut pace, 10, 4), 3);
        let epoch = pace.epoch();
        assert_eq!(pace.ended(epoch, timing(51), true, 0.1), None, "one may be due to anything");
        assert_eq!(lanes_after(&mut pace, 30, 6), 3);
        assert!(
            pace.ended(epoch, timing(52), true, 0.1).is_some_and(|why| why.contains("2 runs") && why.contains("52 ms"))
        );
        for late_ms in [300, 300] {
            assert_eq!(pace.ended(epoch, timing(late_ms), true, 0.1), None, "made beside more than there are now");
        }
        assert_eq!(pace.lanes(), 2);
        assert_eq!(lanes_after(&mut pace, 10, 7), 2);
        assert_eq!(lanes_after(&mut pace, 10, 1), 3);
        assert_eq!(lanes_after(&mut pace, 51, 10), 1, "one always stays");
    }

    #[test]
    fn a_late_run_now_and_then_takes_no_lane_away_and_does_not_keep_one_from_being_added_for_ever() {
        let mut pace = Concurrency::new(Jobs::Auto, MACHINE);
        for round in 0..40 {
            assert!(lanes_after(&mut pace, 51, 1) >= 2, "{round}");
            lanes_after(&mut pace, 10, LAST_RUNS);
        }
        assert!(pace.lanes() > 2, "{}", pace.lanes());
    }

    #[test]
    fn what_the_user_said_stays() {
        let mut pace = Concurrency::new("3".parse().unwrap(), Resources { memory: Some(0), processors: 1 });
        assert_eq!(lanes_after(&mut pace, 500, 10), 3);
        assert_eq!(lanes_after(&mut pace, 0, 1000), 3);
        assert_eq!("auto".parse(), Ok(Jobs::Auto));
        for text in ["0", "-1", "257", "", "many", "1.5"] {
            assert!(text.parse::<Jobs>().is_err_and(|error| error.contains("from 1 to 256, or `auto`")), "{text}");
        }
    }

    #[test]
    fn a_group_has_left_what_it_does_not_use_and_what_the_kernel_would_drop() {
        let group = tempfile::tempdir().unwrap();
        let of_group = || left(group.path().to_str().unwrap(), ["max", "current", "inactive_file"]);
        assert_eq!(of_group(), None);
        for (name, text) in [("max", "max\n"), ("current", "700\n"), ("memory.stat", "anon 5\ninactive_file 300\n")] {
            fs::write(group.path().join(name), text).unwrap();
        }
        assert_eq!(of_group(), None, "it has no limit");
        fs::write(group.path().join("max"), "1000\n").unwrap();
        assert_eq!(of_group(), Some(600));
    }

    #[test]
    fn the_kernel_is_understood_and_anything_else_is_no_answer() {
        let stat = "cpu  10 20 3 40 5 1 2 4 7 7\ncpu0 1 2 3 4 5 6 7 8\n";
        assert_eq!(times(stat), Some(Times { used: 20, all: 85 }));
        assert_eq!(available("MemTotal:  9 kB\nMemAvailable:   23368724 kB\n"), Some(23_368_724 * 1024));
        for text in ["", "cpu", "cpu 1 2 3", "cpu  1 2 3 4 5 6 7 x", "intr 1 2 3 4 5 6 7 8"] {
            assert_eq!(times(text), None, "{text}");
        }
        let mut processors = Processors::default();
        for (used, all, in_use) in [(50, 100, 0.5), (140, 199, 0.5), (240, 300, 0.95), (240, 500, 0.0), (0, 0, 0.0)] {
            assert_eq!(processors.since(Times { used, all }), in_use, "{used} of {all}");
        }
        for text in ["", "MemAvailable: many kB", "MemAvailable: 1 GB"] {
            assert_eq!(available(text), None, "{text}");
        }
    }
}

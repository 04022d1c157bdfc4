//! How long searches take, from start to answer, on one thread and on one per core.

use std::num::NonZeroUsize;

use divan::{Bencher, Divan};
use redlock_model::{Bounds, Claim, Clocks, Crash, Fencing, Holding, Limits, Memory, Model, Restart, Settings, search};

fn main() {
    Divan::default().sample_count(10).config_with_args().main();
}

fn careful() -> Settings {
    Settings { clocks: Clocks::Perfect, holding: Holding::WhileValid, ..Settings::default() }
}

const ALONE: NonZeroUsize = NonZeroUsize::MIN;

fn measure(bencher: Bencher, settings: Settings, threads: Option<NonZeroUsize>) {
    let model = Model::new(settings).expect("bounds in range");
    let limits = || Limits { threads: threads.unwrap_or(Limits::default().threads), ..Limits::default() };
    bencher.bench(|| search(&model, &limits()));
}

/// The violation in the default settings: 313,895 states.
#[divan::bench(args = [Some(ALONE), None])]
fn violated(bencher: Bencher, threads: Option<NonZeroUsize>) {
    measure(bencher, Settings::default(), threads);
}

/// Right clocks, holds within the validity: all 1,244,199 states.
#[divan::bench(args = [Some(ALONE), None])]
fn holds(bencher: Bencher, threads: Option<NonZeroUsize>) {
    measure(bencher, careful(), threads);
}

/// The same, but one node crashes, forgets, and restarts after a TTL; time ends at tick 6.
#[divan::bench(args = [None])]
fn delayed_restart(bencher: Bencher, threads: Option<NonZeroUsize>) {
    let crash = Some(Crash { memory: Memory::Lost, restart: Restart::AfterTtl, times: 1 });
    let bounds = Bounds { time: 6, ..careful().bounds };
    measure(bencher, Settings { bounds, crash, ..careful() }, threads);
}

/// A resource that compares and sets.
#[divan::bench(args = [None])]
fn updates(bencher: Bencher, threads: Option<NonZeroUsize>) {
    let claim = Claim::Updates(Fencing::CompareAndSet);
    measure(bencher, Settings { claim, clocks: Clocks::Perfect, ..Settings::default() }, threads);
}

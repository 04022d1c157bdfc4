//! Known outcomes from the debate about Redlock, each beside an outcome with a single different setting.

use redlock_model::{
    Bounds, Claim, Clocks, Counterexample, Crash, Fencing, Holding, Limits, Memory, Model, Outcome, Restart, Settings,
    Step, Verdict, search,
};

fn outcome(settings: Settings) -> Outcome {
    search(&Model::new(settings).unwrap(), &Limits::default())
}

fn violated(settings: Settings) -> Counterexample {
    match outcome(settings).verdict {
        Verdict::Violated(counterexample) => counterexample,
        other => panic!("{other:?} for {settings:?}"),
    }
}

fn holds(settings: Settings) {
    let outcome = outcome(settings);
    assert_eq!(outcome.verdict, Verdict::Holds, "{settings:?}");
    assert!(outcome.states > 50_000, "all of {} states: nothing can have happened", outcome.states);
}

/// Clients with right clocks that hold the lock only while it is valid.
fn careful() -> Settings {
    Settings { clocks: Clocks::Perfect, holding: Holding::WhileValid, ..Settings::default() }
}

/// Twice the TTL is long enough for a node to crash, stay down and restart; more time takes much longer.
fn crashing(memory: Memory, restart: Restart) -> Settings {
    let bounds = Bounds { time: 6, ..careful().bounds };
    Settings { bounds, crash: Some(Crash { memory, restart, times: 1 }), ..careful() }
}

/// Clients with right clocks that continue until they release.
fn updating(fencing: Fencing) -> Settings {
    Settings { clocks: Clocks::Perfect, claim: Claim::Updates(fencing), ..Settings::default() }
}

#[test]
fn the_default_is_violated_in_fifteen_states() {
    let counterexample = violated(Settings::default());
    assert_eq!(counterexample.moves.len() + 1, 15);
    let words: Vec<String> = counterexample.moves.iter().map(|made| format!("{} {}", made.time, made.step)).collect();
    assert_eq!(
        words,
        [
            "0 c0 begins to ask the nodes; its clock shows 0",
            "0 c0 sets its key on n0; the key expires at tick 3",
            "0 c1 begins to ask the nodes; its clock shows 0",
            "0 n0 refuses c1, because c0's key is there",
            "0 c1 sets its key on n1; the key expires at tick 3",
            "0 c1 sets its key on n2; the key expires at tick 3",
            "0 c1 has 2 nodes, a majority, and its clock shows 0: it holds the lock",
            "1 time advances to tick 1",
            "2 time advances to tick 2",
            "3 time advances to tick 3",
            "3 c1's key on n1 expires",
            "3 c0 sets its key on n1; the key expires at tick 6",
            "3 n2 refuses c0, because c1's key is there",
            "3 c0 has 2 nodes, a majority, and its clock shows 0: it holds the lock",
        ]
    );
    assert_eq!(counterexample.turns().count(), 4, "as few changes between actors as there can be");
}

#[test]
fn right_clocks_alone_do_not_help_a_holder_that_goes_on_after_its_lock_is_over() {
    let counterexample = violated(Settings { clocks: Clocks::Perfect, ..Settings::default() });
    assert_eq!(counterexample.moves.len() + 1, 16, "the pause must now come after the acquisition");
    assert_eq!(counterexample.turns().count(), 3);
}

#[test]
fn right_clocks_and_holds_within_the_validity_are_safe_and_neither_alone_is() {
    holds(careful());
    violated(Settings { clocks: Clocks::Lagging, ..careful() });
    violated(Settings { holding: Holding::UntilRelease, ..careful() });
}

#[test]
fn a_crash_is_harmless_if_the_node_remembers_or_stays_away() {
    let counterexample = violated(crashing(Memory::Lost, Restart::AtOnce));
    assert_eq!(counterexample.moves.len() + 1, 13);
    assert!(counterexample.moves.iter().any(|made| matches!(made.step, Step::Crash { loses: Some(1), .. })));
    assert!(counterexample.moves.iter().all(|made| made.time == 0), "no key needs to expire for it");
    holds(crashing(Memory::Kept, Restart::AtOnce));
    holds(crashing(Memory::Lost, Restart::AfterTtl));
}

#[test]
fn fencing_saves_the_updates_if_it_also_counts_reads_or_compares() {
    let unfenced = violated(updating(Fencing::None));
    let ends = |counterexample: &Counterexample| counterexample.moves.last().map(|made| made.step.to_string());
    assert_eq!(ends(&unfenced).unwrap(), "c0 writes over c1's value, though it had read the first value");
    // Both have read when the client with the smaller token writes first.
    let by_token = violated(updating(Fencing::Token));
    assert_eq!(ends(&by_token).unwrap(), "c1 writes over c0's value, though it had read the first value");
    holds(updating(Fencing::TokenReads));
    holds(updating(Fencing::CompareAndSet));
}

#[test]
fn whatever_goes_wrong_a_resource_that_compares_loses_nothing() {
    let worst = Some(Crash { memory: Memory::Lost, restart: Restart::AtOnce, times: 1 });
    let small = Bounds { nodes: 2, clients: 2, ttl: 1, time: 2 };
    let settings = Settings { bounds: small, crash: worst, clocks: Clocks::Lagging, ..updating(Fencing::None) };
    violated(settings);
    holds(Settings { claim: Claim::Updates(Fencing::CompareAndSet), ..settings });
}

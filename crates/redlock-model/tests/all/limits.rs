//! Limits and bounds: a search that gives up does not decide, and bounds that cannot be searched are refused.

use std::num::NonZeroUsize;

use redlock_model::search::GaveUp;
use redlock_model::{Bounds, Clocks, Crash, Holding, Limits, Memory, Model, Restart, Settings, Verdict, search};

fn small() -> Settings {
    let bounds = Bounds { nodes: 2, clients: 2, ttl: 2, time: 4 };
    Settings { bounds, clocks: Clocks::Perfect, holding: Holding::WhileValid, ..Settings::default() }
}

#[test]
fn a_search_past_its_limits_decides_nothing() {
    let model = Model::new(small()).unwrap();
    assert_eq!(search(&model, &Limits::default()).verdict, Verdict::Holds);
    let no_time = Limits { give_up: &|| true, ..Limits::default() };
    assert_eq!(search(&model, &no_time).verdict, Verdict::Undecided(GaveUp::Time));
    let no_memory = Limits { memory_bytes: 0, ..Limits::default() };
    assert_eq!(search(&model, &no_memory).verdict, Verdict::Undecided(GaveUp::Memory));
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let crash = Some(Crash { memory: Memory::Lost, restart: Restart::AtOnce, times: 1 });
    for settings in [small(), Settings { crash, ..small() }, Settings::default()] {
        let model = Model::new(settings).unwrap();
        let with =
            |threads| search(&model, &Limits { threads: NonZeroUsize::new(threads).unwrap(), ..Limits::default() });
        let alone = with(1);
        for threads in [2, 3, 5] {
            assert_eq!(with(threads), alone, "{threads} threads, {settings:?}");
        }
    }
}

#[test]
fn bounds_out_of_range_are_refused_with_what_would_be_in_range() {
    let refused = |change: &dyn Fn(&mut Settings), words: &str| {
        let mut settings = Settings::default();
        change(&mut settings);
        assert_eq!(Model::new(settings).map(|_| ()).map_err(|error| error.to_string()), Err(words.to_string()));
    };
    refused(&|it| it.bounds.nodes = 0, "nodes 0 is out of range; it must be between 1 and 7");
    refused(&|it| it.bounds.nodes = 8, "nodes 8 is out of range; it must be between 1 and 7");
    refused(&|it| it.bounds.clients = 1, "clients 1 is out of range; it must be between 2 and 4");
    refused(&|it| it.bounds.clients = u32::MAX, "clients 4294967295 is out of range; it must be between 2 and 4");
    refused(&|it| it.bounds.ttl = 0, "ttl 0 is out of range; it must be between 1 and 12");
    refused(&|it| it.bounds.time = 31, "time 31 is out of range; it must be between 1 and 30");
    let crash = Some(Crash { memory: Memory::Lost, restart: Restart::AtOnce, times: 4 });
    refused(&|it| it.crash = crash, "crashes 4 is out of range; it must be between 1 and 3");
    let large = Bounds { nodes: 7, clients: 4, ttl: 12, time: 30 };
    refused(
        &|it| it.bounds = large,
        "a state would need 156 bits, but the limit is 127; use fewer nodes or clients, or less time",
    );
    assert!(Model::new(Settings { bounds: Bounds { nodes: 5, clients: 3, ..large }, ..Settings::default() }).is_ok());
}

//! Scenarios of those who wait for a lock, whichever commands they send: they stay for as long as they were told to, leave nothing
//! behind, and get it when it can be had again.
//!
//! The script keeps nobody for longer than its lock lives.

use super::sent::Upkeep;
use super::steps::{Steps, others};
use super::strikes::{Scripted, Setting};

/// The name, what it is, and the steps.
const ALL: [(&str, &str, &[&str]); 6] = [
    (
        "clock-back-while-waiting",
        "The wall clock of one who waits is set back: it waits no longer for that",
        &[
            "start client:1 to before-write",
            "start client:0 giving up after 0.4ttl",
            "wait 0.1ttl",
            "clock client:0 -3ttl",
            "await client:0 end within 0.45ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:0 end",
            "heal clock client:0 -3ttl",
        ],
    ),
    (
        "clock-forward-while-waiting",
        "The wall clock of one who waits is set forward: it does not leave sooner for that",
        &[
            "start client:1 to before-write",
            "start client:0 giving up after 2ttl",
            "wait 0.1ttl",
            "clock client:0 +3ttl",
            "wait 0.2ttl",
            "go client:1",
            "await client:1 end",
            "expect client:0 acquired within 0.7ttl",
            "await client:0 end",
            "heal clock client:0 +3ttl",
        ],
    ),
    (
        "cancelled-while-waiting",
        "One who waits is cancelled: it has no lock, when that is given back the next one has it at once, and nobody takes it for the one that left",
        &[
            "start client:1 to before-write",
            "start client:0 to acquiring giving up after 2ttl",
            "go client:0",
            "wait 0.2ttl",
            "cancel client:0",
            "await client:0 end within 0.2ttl or go on",
            "start client:2 giving up after 4ttl",
            "go client:1",
            "await client:1 end",
            "expect client:2 acquired within 1ttl",
            "await client:2 end",
            "await client:0 end",
            "wait 0.3ttl",
            "start client:1 giving up after 0.3ttl",
            "expect client:1 acquired within 0.35ttl",
            "await client:1 end",
        ],
    ),
    (
        "asked-while-its-nodes-are-down",
        "The nodes are down, and whoever asks for the lock fails again and again; when they are back it has the lock",
        &asked_while("kill nodes"),
    ),
    (
        "asked-while-its-nodes-refuse",
        "The nodes refuse to write, and whoever asks for the lock fails again and again; when they write it has the lock",
        &asked_while("refuse-writes nodes"),
    ),
    (
        "given-up-while-waiting",
        "One waits and gives up, again and again: when the lock is given back others have it at once, and nobody takes it for the one that left",
        &[
            "start client:1 to before-write",
            "start client:0 giving up after 0.05ttl",
            "await client:0 end within 0.4ttl",
            "start client:0 giving up after 0.05ttl",
            "await client:0 end within 0.4ttl",
            "go client:1",
            "await client:1 end",
            "start client:2 giving up after 4ttl",
            "expect client:2 acquired within 1ttl",
            "await client:2 end",
            "wait 0.3ttl",
            "start client:1 giving up after 0.3ttl",
            "expect client:1 acquired within 0.35ttl",
            "await client:1 end",
        ],
    ),
];

/// A client asks six times while its nodes can't answer it as it wishes, each time longer than it is ready to wait, and then twice more: the
/// first of these attempts may find that its connection is gone, and it has time to make another one.
const fn asked_while(fault: &'static str) -> [&'static str; 21] {
    const ASKS: &str = "start client:0 giving up after 0.2ttl";
    const FAILS: &str = "await client:0 end within 1ttl or go on";
    const ASKS_FOR_LONG: &str = "start client:0 giving up after 8ttl";
    [
        fault,
        ASKS,
        FAILS,
        ASKS,
        FAILS,
        ASKS,
        FAILS,
        ASKS,
        FAILS,
        ASKS,
        FAILS,
        ASKS,
        FAILS,
        "heal all",
        "await client:0 end",
        ASKS_FOR_LONG,
        "await client:0 end within 8ttl or go on",
        "wait 4ttl",
        ASKS_FOR_LONG,
        "expect client:0 acquired within 8ttl",
        "await client:0 end",
    ]
}

/// Those that such clients can take part in.
pub fn scenarios(setting: &Setting) -> Vec<Scripted> {
    let Some(others) = others(setting.permits) else { return Vec::new() };
    let of = |(name, what, of_one): &(&str, &str, &[&str])| {
        let mut steps = Steps::new(Upkeep::None);
        steps.steps.extend(of_one.iter().map(|step| step.to_string()));
        steps.beside(others);
        let story = "What becomes of those who wait.";
        Scripted::of(name.to_string(), what, story, None, others, &steps.steps)
    };
    let fits = |steps: &[&str]| setting.cancels || !steps.iter().any(|step| step.starts_with("cancel "));
    ALL.iter().filter(|(.., steps)| fits(steps)).map(of).collect()
}

//! Scenarios of those who wait for a lock, whichever commands they send: they stay for as long as they were told to, and leave nothing
//! behind.
//!
//! The script keeps nobody for longer than its lock lives.

use super::sent::Upkeep;
use super::steps::{Steps, others};
use super::strikes::Scripted;

/// The name, what it is, and the steps.
const ALL: [(&str, &str, &[&str]); 3] = [
    (
        "clock-back-while-waiting",
        "The wall clock of one who waits is set back: it waits no longer for that",
        &[
            "start client:1 to before-write",
            "start client:0 giving up after 0.5ttl",
            "wait 0.1ttl",
            "clock client:0 -3ttl",
            "await client:0 end within 0.6ttl or go on",
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
        "given-up-while-waiting",
        "One waits and gives up, again and again: when the lock is given back, another one has it at once",
        &[
            "start client:1 to before-write",
            "start client:0 giving up after 0.05ttl",
            "await client:0 end within 0.2ttl",
            "start client:0 giving up after 0.05ttl",
            "await client:0 end within 0.2ttl",
            "start client:0 giving up after 0.05ttl",
            "await client:0 end within 0.2ttl",
            "go client:1",
            "await client:1 end",
            "start client:2 giving up after 4ttl",
            "expect client:2 acquired within 1ttl",
            "await client:2 end",
        ],
    ),
];

/// `permits`: how many may have the lock at once.
pub fn scenarios(permits: u32) -> Vec<Scripted> {
    let Some(others) = others(permits) else { return Vec::new() };
    let of = |(name, what, of_one): &(&str, &str, &[&str])| {
        let mut steps = Steps::new(Upkeep::None);
        steps.steps.extend(of_one.iter().map(|step| step.to_string()));
        steps.beside(others);
        let story = "What becomes of those who wait.";
        Scripted::of(name.to_string(), what, story, None, others, &steps.steps)
    };
    ALL.iter().map(of).collect()
}

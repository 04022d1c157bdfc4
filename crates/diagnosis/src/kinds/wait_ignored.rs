//! A lock that the library hands out although too few replicas had acknowledged it.

use super::*;
use super::failover_lost_lock::{LostLock, ignored, lost_locks};

pub static KIND: Kind = Kind {
    code: "RJ031",
    name: "wait-ignored",
    title: "The lock is handed out although WAIT ended without the requested number of replicas.",
    rule: "WAIT returns how many replicas have the write, even after its time limit. With fewer replicas than requested, a \
        failover can lose the lock.",
    source: ("Redis, WAIT", "https://redis.io/docs/latest/commands/wait/"),
    fix: "If WAIT's reply is smaller than the requested number, release the lock and report that it was not acquired.",
    commands: &["WAIT REPLICAS MILLISECONDS"],
    right: None,
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    lost_locks(case)
        .iter()
        .filter_map(|lock| {
            let LostLock { seen, lost, took, holder, .. } = lock;
            let wait = ignored(case, lock)?;
            let command = &case.commands[wait];
            let asked = command.words.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(" ");
            let asked = base::words::sanitize(&asked, 30);
            let sentence = format!(
                "{}'s WAIT {asked} {} timed out, but {} received the lock; {} had become the primary by {} without its key, and {} created its key \
                 there at {}.",
                lost.client,
                at(command.time),
                lost.client,
                seen.promotion.node,
                moment(seen.time),
                took.client,
                moment(took.time)
            );
            let of = [lost.operation, took.operation];
            Some(case.finding(took, &[lost.place, wait, took.place], &of, Harm::Ended(holder.index), sentence))
        })
        .collect()
}

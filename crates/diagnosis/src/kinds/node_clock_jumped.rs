//! A key that expired too early because its node's clock was wrong.

use super::*;
use super::node_lost_lock::found;

pub static KIND: Kind = Kind {
    code: "RJ023",
    name: "node-clock-jumped",
    title: "A node's clock was wrong, and the key expired too early.",
    rule: "Redis measures a key's TTL by its wall clock. If the clock jumps ahead, the lock ends while its holder relies on it.",
    source: KLEPPMANN,
    fix: "Configure time synchronization to slew the nodes' clocks and never step them. Let the resource refuse late writes.",
    commands: &[],
    right: Some(("redlock-guarded", "clock-jump-forward")),
    breaks: TWO_HOLDERS,
    inherent: true,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    found(
        case,
        |window| window.kind.does.wall_clock,
        |took, lost, fault| {
            format!(
                "{}'s clock was wrong from {} on, and {}'s key, created at {}, expired too early; {} created its key on this node at {}.",
                took.node,
                // The fault began before its answer, which may come after the key had expired.
                moment(fault.injected.map_or(took.time, |(time, _)| time.min(took.time))),
                lost.client,
                moment(lost.time),
                took.client,
                moment(took.time)
            )
        },
    )
}

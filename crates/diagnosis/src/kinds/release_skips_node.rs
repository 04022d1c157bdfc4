//! A release that skips a node whose reply never came.

use super::*;
use super::attempt_left_lock::{finding, left_behind};
use super::quorum_too_small::attempts_ask_a_majority;

pub static KIND: Kind = Kind {
    code: "RJ018",
    name: "release-skips-node",
    title: "The release skips a node that has the key.",
    rule: "A node whose reply was lost may have created the key. So a release must go to every node, even to a node that seemed \
    to refuse.",
    source: REDIS_LOCKS,
    fix: "Send the release to all nodes, whatever they answered.",
    commands: super::COMPARE_AND_DELETE,
    right: Some(("redlock", "lost-reply")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    // If nodes replicate, or share the keys, they do not vote, and a release goes to one of them.
    if !attempts_ask_a_majority(case) {
        return Vec::new();
    }
    left_behind(case)
        .filter(|left| left.elsewhere)
        .map(|left| finding(case, &left, &format!("its release reached other nodes, but not {}", left.act.node)))
        .collect()
}

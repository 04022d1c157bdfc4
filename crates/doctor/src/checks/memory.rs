//! Checks of locks on a server whose memory is full.

use super::{Check, Weight};
use crate::Server;

/// A server with less than this fraction of its memory left is almost full.
const LITTLE: f64 = 0.1;

/// The fraction of the memory that is left. None without a limit.
fn left(server: &Server) -> Option<f64> {
    let (used, max) = (*server.used_memory.known()?, *server.max_memory.known()?);
    (max > 0).then(|| (max.saturating_sub(used)) as f64 / max as f64)
}

/// A fraction in whole percent.
fn percent(part: f64) -> u64 {
    (part * 100.0).floor() as u64
}

pub static EVICTION: Check = Check {
    id: "eviction",
    title: "A full server evicts locks",
    reads: "INFO memory; CONFIG GET maxmemory-policy",
    remedy: "Keep locks on a server with maxmemory-policy noeviction.",
    check: |case| {
        let of = |server: &Server| {
            let policy = server.policy.known().filter(|policy| *policy != "noeviction")?;
            // Without a limit, the policy never acts.
            Some((policy.clone(), percent(left(server)?)))
        };
        case.alike(case.granting(), of, |servers, (policy, left)| {
            let any = servers.any();
            (
                Weight::Loses,
                format!(
                    "{any} evicts locks when its memory is full: maxmemory-policy is {policy}, and {left}% is left."
                ),
            )
        })
    },
};

pub static FULL: Check = Check {
    id: "memory-full",
    title: "Little memory is left",
    reads: "INFO memory",
    remedy: "Raise maxmemory, or remove other data.",
    check: |case| {
        let of = |server: &Server| {
            let refuses = server.policy.known().is_some_and(|policy| policy == "noeviction");
            left(server).filter(|left| refuses && *left < LITTLE).map(percent)
        };
        case.alike(case.granting(), of, |servers, left| {
            let any = servers.any();
            (Weight::Blocks, format!("{any} refuses new locks when its memory is full, and {left}% is left."))
        })
    },
};

//! Checks of the data that a restart loses.

use super::{Case, Check, Weight};

const REMEDY: &str = "Set appendonly yes and appendfsync always. Or let clients wait for one TTL after a restart before they \
                      acquire a lock.";

pub static NO_PERSISTENCE: Check = Check {
    id: "no-persistence",
    title: "A restart forgets locks",
    reads: "INFO persistence; CONFIG GET appendonly, save",
    remedy: REMEDY,
    check: |case| {
        let of = |server: &crate::Server| match (server.append_only.known()?, server.snapshots.known()) {
            (true, _) => None,
            (false, saves) => Some(saves.copied()),
        };
        case.alike(case.granting(), of, |servers, saves| {
            let any = servers.any();
            let text = match saves {
                Some(false) => format!("a restart of {any} forgets every lock: the server writes no data to disk."),
                _ => format!("a restart of {any} forgets locks: the server writes no append-only file."),
            };
            (Weight::Loses, text)
        })
    },
};

pub static LATE_SYNC: Check = Check {
    id: "late-sync",
    title: "A power loss forgets the last locks",
    reads: "CONFIG GET appendonly, appendfsync",
    remedy: "Set appendfsync always. Or let clients wait for one TTL after a restart before they acquire a lock.",
    check: |case: &Case| {
        let of = |server: &crate::Server| {
            let syncs = server.fsync.known().filter(|_| server.append_only.known() == Some(&true))?;
            (syncs != "always").then(|| syncs.clone())
        };
        case.alike(case.granting(), of, |servers, syncs| {
            let since = match syncs.as_str() {
                "everysec" => "about the last second",
                _ => "up to half a minute",
            };
            let any = servers.any();
            (Weight::Loses, format!("a power loss at {any} forgets the locks of {since}: appendfsync is {syncs}."))
        })
    },
};

//! A pair of runs for each diagnosis.

use diagnosis::{Harm, KINDS};

use super::scene::diagnoses;

/// A diagnosis, a run that shows it, the reported text, and the most similar run that does not show it.
struct Pair {
    code: &'static str,
    shows: &'static str,
    says: &'static str,
    harm: Harm,
    /// That run, or its differences: lines to remove (`-`) and lines to add (`+`).
    spares: &'static str,
}

impl Pair {
    fn spared(&self) -> String {
        let mut lines: Vec<&str> = self.shows.lines().map(str::trim).collect();
        let mut place = lines.len();
        for line in self.spares.lines().map(str::trim) {
            if let Some(gone) = line.strip_prefix("- ") {
                place = lines.iter().position(|line| *line == gone).unwrap();
                lines.remove(place);
            } else if let Some(new) = line.strip_prefix("+ ") {
                lines.insert(place, new);
                place += 1;
            }
        }
        if self.spares.trim_start().starts_with(['-', '+']) { lines.join("\n") } else { self.spares.to_string() }
    }
}

const PAIRS: &[Pair] = &[
    Pair {
        code: "RJ001",
        shows: "
            op c0 1-1300 ok acquired=10 releasing=1200 released=1290
            op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1105 n0 c1 SET lock:k0 b NX PX 1000
            at 1205 n0 c0 DEL lock:k0",
        says: "c0's DEL at 1.205 s removed c1's key: its release does not check who holds the key.",
        harm: Harm::Ended(1),
        // Its own key.
        spares: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 805 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ002",
        shows: "
            op c0 1-1300 ok acquired=10 releasing=900 released=1290
            op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 905 n0 c0 GET lock:k0
            at 1105 n0 c1 SET lock:k0 b NX PX 1000
            at 1205 n0 c0 DEL lock:k0",
        says: "c0's DEL at 1.205 s removed c1's key: c0 had read the value 300 ms before, in a separate command (GET).",
        harm: Harm::Ended(1),
        // In one script.
        spares: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 805 n0 c0 EVAL text 1 lock:k0 a
            at 805 n0 lua get lock:k0
            at 805 n0 lua del lock:k0",
    },
    Pair {
        code: "RJ003",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-500 fail
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 15 n0 c1 SET lock:k0 b NX PX 1000
            at 480 n0 c1 DEL lock:k0",
        says: "c1's DEL at 0.480 s removed c0's key, though this attempt of c1 had not acquired the lock.",
        harm: Harm::Ended(0),
        // It compares.
        spares: "
            - at 480 n0 c1 DEL lock:k0
            + at 480 n0 c1 EVAL text 1 lock:k0 b
            + at 480 n0 lua GET lock:k0
            + at 805 n0 c0 EVAL text 1 lock:k0 a
            + at 805 n0 lua GET lock:k0
            + at 805 n0 lua DEL lock:k0",
    },
    Pair {
        code: "RJ004",
        shows: "
            op c0 1-50 info acquired=10
            op c1 60-3000 fail
            at 5 n0 c0 SETNX lock:k0 a
            at 65 n0 c1 SETNX lock:k0 b
            at 2995 n0 c1 SETNX lock:k0 b",
        says: "c0's SETNX at 0.005 s created the key without a TTL, and no command gave it a TTL: the key was still there 2.94 s after c0's \
               operation had ended.",
        harm: Harm::Kept,
        // Its holder releases it.
        spares: "
            op c0 1-1500 ok acquired=10 releasing=1400 released=1490
            op c1 60-3000 fail
            at 5 n0 c0 SETNX lock:k0 a
            at 65 n0 c1 SETNX lock:k0 b
            at 1405 n0 c0 DEL lock:k0
            at 1500 n0 c1 GET lock:k0",
    },
    Pair {
        code: "RJ005",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            at 5 n0 c0 SETNX lock:k0 a
            at 7 n0 c0 PEXPIRE lock:k0 1000
            at 805 n0 c0 DEL lock:k0",
        says: "c0's SETNX at 0.005 s created the key without a TTL; its PEXPIRE set the TTL 2 ms later.",
        harm: Harm::None,
        // In one script.
        spares: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            at 5 n0 c0 EVAL text 1 lock:k0 a
            at 5 n0 lua SETNX lock:k0 a
            at 5 n0 lua PEXPIRE lock:k0 1000
            at 805 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ006",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            at 5 n0 c0 SET lock:k0 a NX EX 1000
            at 805 n0 c0 DEL lock:k0",
        says: "c0's SET at 0.005 s created the key with a TTL of 16 min 40 s; the TTL that was asked for is 1 s.",
        harm: Harm::None,
        // With a margin.
        spares: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            at 5 n0 c0 SET lock:k0 a NX PX 1500
            at 805 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ007",
        shows: "
            op c0 1-1300 ok acquired=1100 releasing=1200 released=1290
            op c1 2-1400 ok acquired=1350 releasing=1370 released=1390
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1310 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0 received the lock at 1.100 s, 95 ms after its key had expired: the acquisition took 1.09 s, and its TTL is 1 s.",
        harm: Harm::Ended(0),
        // It stood still after it had read its clock.
        spares: "
            + fault pause c0 20-1095",
    },
    Pair {
        code: "RJ008",
        shows: "
            nodes 3
            op c0 1-900 ok acquired=20 releasing=800 released=890
            op c1 1-500 fail
            at 3 n1 c1 SET lock:k0 b NX PX 1000
            at 3 n2 c1 SET lock:k0 b NX PX 1000
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            at 5 n2 c0 SET lock:k0 a NX PX 1000
            at 805 n0 c0 DEL lock:k0",
        says: "c0 received the lock at 0.020 s, though only 1 of 3 nodes had created its key.",
        harm: Harm::Ended(0),
        spares: "
            nodes 3
            op c0 1-900 ok acquired=20 releasing=800 released=890
            op c1 1-500 fail
            at 3 n2 c1 SET lock:k0 b NX PX 1000
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            at 5 n2 c0 SET lock:k0 a NX PX 1000
            at 805 n0 c0 DEL lock:k0
            at 805 n1 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ009",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-1400 ok acquired=910 releasing=1350 released=1390
            at 5 n0 c0 SET lock:k0 locked NX PX 1000
            at 805 n0 c0 DEL lock:k0
            at 905 n0 c1 SET lock:k0 locked NX PX 1000",
        says: "c1's SET at 0.905 s wrote the value `locked`, which c0 had written at 0.005 s.",
        harm: Harm::None,
        // The same client, twice.
        spares: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c0 902-1400 ok acquired=910 releasing=1350 released=1390
            at 5 n0 c0 SET lock:k0 c0 NX PX 1000
            at 805 n0 c0 DEL lock:k0
            at 905 n0 c0 SET lock:k0 c0 NX PX 1000",
    },
    Pair {
        code: "RJ010",
        shows: "
            op c0 1-1300 ok acquired=10 releasing=1250 released=1290
            op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1105 n0 c1 SET lock:k0 b NX PX 1000
            at 1205 n0 c0 PEXPIRE lock:k0 1000",
        says: "c0's PEXPIRE at 1.205 s extended c1's key: its renewal does not check who holds the key.",
        harm: Harm::Misled(0),
        spares: "
            op c0 1-1300 ok acquired=10 releasing=1250 released=1290
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 605 n0 c0 PEXPIRE lock:k0 1000
            at 1205 n0 c0 PEXPIRE lock:k0 1000
            at 1260 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ011",
        shows: "
            op c0 1-1300 ok acquired=10 releasing=1250 released=1290
            op c1 2-1400 ok acquired=1110 releasing=1350 released=1390
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1105 n0 c1 SET lock:k0 b NX PX 1000
            at 1205 n0 c0 SET lock:k0 a PX 1000",
        says: "c0's SET at 1.205 s, meant to extend its lock, overwrote c1's key.",
        harm: Harm::Ended(1),
        // While its key exists.
        spares: "
            op c0 1-1300 ok acquired=10 releasing=1250 released=1290
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 605 n0 c0 SET lock:k0 a PX 1000
            at 1260 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ012",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-950 ok acquired=30 releasing=800 released=940
            at 4 n0 c1 GET lock:k0
            at 5 n0 c0 SET lock:k0 a PX 1000
            at 25 n0 c1 SET lock:k0 b PX 1000",
        says: "c1's SET at 0.025 s overwrote c0's key: it had asked for the key 21 ms before, in a separate command (GET).",
        harm: Harm::Ended(0),
        // In a transaction that watches the key.
        spares: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-950 ok acquired=30 releasing=800 released=940
            at 3 n0 c1 WATCH lock:k0
            at 4 n0 c1 GET lock:k0
            at 5 n0 c1 MULTI
            at 5 n0 c1 SET lock:k0 b PX 1000
            at 5 n0 c1 EXEC",
    },
    Pair {
        code: "RJ013",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-950 ok acquired=30 releasing=800 released=940
            at 5 n0 c0 SET lock:k0 a PX 1000
            at 25 n0 c1 SET lock:k0 b PX 1000",
        says: "c1's SET at 0.025 s overwrote c0's key, which was there since 0.005 s.",
        harm: Harm::Ended(0),
        // After its holder had released it.
        spares: "
            - op c0 1-900 ok acquired=10 releasing=800 released=890
            + op c0 1-20 ok acquired=10 releasing=15 released=19",
    },
    Pair {
        code: "RJ014",
        shows: "
            op c0 1-500 ok acquired=10 releasing=400 released=490
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 405 n0 c0 DEL lock:k0
            at 1200 n0 c0 PEXPIRE lock:k0 1000",
        says: "c0's PEXPIRE at 1.200 s was meant to extend the key 700 ms after c0 had released the lock.",
        harm: Harm::None,
        // The command was on its way.
        spares: "
            - at 1200 n0 c0 PEXPIRE lock:k0 1000
            + at 600 n0 c0 PEXPIRE lock:k0 1000",
    },
    Pair {
        code: "RJ015",
        shows: "
            op c0 1-3000 ok acquired=10 releasing=2900 released=2990
            op c1 2-2500 ok acquired=2010 releasing=2400 released=2490
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 505 n0 c0 PEXPIRE lock:k0 1000
            at 905 n0 c0 PEXPIRE lock:k0 1000
            at 2005 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0 extended its key 2 times, the last time at 0.905 s, and sent no more renewals: it expired at 1.905 s while c0 still relied on it.",
        harm: Harm::Ended(0),
        // The client could not renew.
        spares: "
            + fault pause c0 1000-2800",
    },
    Pair {
        code: "RJ016",
        shows: "
            op c0 1-100 ok acquired=10 releasing=90 released=99
            op c1 2-1200 ok acquired=1110 releasing=1150 released=1190
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 500 n0 c1 SET lock:k0 b NX PX 1000
            at 1105 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0's release ended at 0.100 s, and its key was still there 400 ms later: no command of c0 had removed it.",
        harm: Harm::Kept,
        spares: "
            op c0 1-100 ok acquired=10 releasing=90 released=99
            op c1 2-1200 ok acquired=510 releasing=1150 released=1190
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 95 n0 c0 DEL lock:k0
            at 500 n0 c1 SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ017",
        shows: "
            op c0 1-300 fail
            op c1 2-1200 ok acquired=1110 releasing=1150 released=1190
            op c0 310-400 fail
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 400 n0 c1 SET lock:k0 b NX PX 1000
            at 315 n0 c0 PING
            at 1105 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0's SET at 0.005 s created the key. c0 ended its attempt at 0.300 s, and no release with its value followed. The key \
               stayed for another 705 ms.",
        harm: Harm::Kept,
        // Its release may be lost on its way.
        spares: "
            op c0 1-300 fail
            fault partition c0 250-1100
            op c1 2-1200 ok acquired=1110 releasing=1150 released=1190
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 20 n0 c1 SET lock:k0 b NX PX 1000
            at 1105 n0 c1 SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ018",
        shows: "
            nodes 3
            op c0 1-300 fail
            op c1 2-1200 ok acquired=1110 releasing=1150 released=1190
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            at 400 n0 c1 SET lock:k0 b NX PX 1000
            at 401 n1 c1 SET lock:k0 b NX PX 1000
            at 250 n1 c0 DEL lock:k0
            at 315 n0 c0 PING
            at 1105 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0's SET at 0.005 s created the key on n0. c0 ended its attempt at 0.300 s, and its release reached other nodes, but not n0. \
               The key stayed for another 705 ms.",
        harm: Harm::Kept,
        spares: "
            - at 400 n0 c1 SET lock:k0 b NX PX 1000
            + at 20 n0 c1 SET lock:k0 b NX PX 1000
            - at 315 n0 c0 PING
            + at 315 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ019",
        shows: "
            op c0 1-100 info acquired=10 releasing=90
            failed c0 NOSCRIPT No matching script
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 95 n0 c0 EVALSHA abc 1 lock:k0 a",
        says: "c0's EVALSHA at 0.095 s was answered with NOSCRIPT, and its release failed: the client did not send the script's text.",
        harm: Harm::Kept,
        spares: "
            op c0 1-100 ok acquired=10 releasing=90 released=99
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 95 n0 c0 EVALSHA abc 1 lock:k0 a
            at 96 n0 c0 EVAL text 1 lock:k0 a
            at 96 n0 lua GET lock:k0
            at 96 n0 lua DEL lock:k0",
    },
    Pair {
        code: "RJ020",
        shows: "
            nodes 3
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-850 ok acquired=320 releasing=700 released=840
            promoted n1 for n0 at 250
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 200 n1 s0 EXEC
            at 310 n1 c1 SET lock:k0 b NX PX 1000",
        says: "n1 had become the primary by 0.250 s without c0's key, which n0 had created at 0.005 s; c1 created its key on n1 at 0.310 s.",
        harm: Harm::Ended(0),
        // The lock was released before.
        spares: "
            - op c0 1-900 ok acquired=10 releasing=800 released=890
            + op c0 1-100 ok acquired=10 releasing=80 released=90
            + at 85 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ021",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-850 ok acquired=320 releasing=700 released=840
            fault flush n0 200-210
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 310 n0 c1 SET lock:k0 b NX PX 1000",
        says: "Some time after 0.200 s, n0 was flushed and lost c0's key before its TTL ended; c1 created its key on n0 at 0.310 s.",
        harm: Harm::Ended(0),
        // The lock's time was over.
        spares: "
            op c0 1-1900 ok acquired=10 releasing=1800 released=1890
            op c1 2-1850 ok acquired=1320 releasing=1700 released=1840
            fault flush n0 200-210
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1310 n0 c1 SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ022",
        shows: "
            op c0 1-1900 ok acquired=10 releasing=1800 released=1890
            op c1 2-1850 ok acquired=1120 releasing=1700 released=1840
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1110 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0's key, created at 0.005 s, expired at 1.005 s while c0 still relied on it; c1 acquired the lock at 1.120 s.",
        harm: Harm::Ended(0),
        // The library reported the loss in time.
        spares: "
            - op c0 1-1900 ok acquired=10 releasing=1800 released=1890
            + op c0 1-1900 fail acquired=10 lost=1000",
    },
    Pair {
        code: "RJ023",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-850 ok acquired=320 releasing=700 released=840
            fault clock n0 200-600
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 310 n0 c1 SET lock:k0 b NX PX 1000",
        says: "n0's clock was wrong from 0.200 s on, and c0's key, created at 0.005 s, expired too early; c1 created its key on this node \
               at 0.310 s.",
        harm: Harm::Ended(0),
        // Its holder had released it.
        spares: "
            - op c0 1-900 ok acquired=10 releasing=800 released=890
            + op c0 1-100 ok acquired=10 releasing=80 released=90
            + at 85 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ024",
        shows: "
            op c0 1-1900 ok acquired=10 releasing=1800 released=1890
            op c1 2-1850 ok acquired=1110 releasing=1700 released=1840
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 905 n0 c0 GET lock:k0
            at 1105 n0 c1 SET lock:k0 b NX PX 1000
            at 1205 n0 c0 PEXPIRE lock:k0 1000",
        says: "c0's PEXPIRE at 1.205 s extended c1's key: c0 had read the value 300 ms before, in a separate command (GET).",
        harm: Harm::Ended(1),
        // In one script.
        spares: "
            op c0 1-1900 ok acquired=10 releasing=1800 released=1890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 905 n0 c0 EVAL text 1 lock:k0 a
            at 905 n0 lua GET lock:k0
            at 905 n0 lua PEXPIRE lock:k0 1000",
    },
    Pair {
        code: "RJ025",
        shows: "
            op c0 1-900 info acquired=10 extended=410
            op c1 2-3000 fail
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 405 n0 c0 SET lock:k0 a IFEQ a
            at 2905 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0's SET at 0.405 s, meant to extend its lock, removed the TTL of the key: the key would have expired at 1.005 s.",
        harm: Harm::Kept,
        // With a TTL.
        spares: "
            - at 405 n0 c0 SET lock:k0 a IFEQ a
            + at 405 n0 c0 SET lock:k0 a IFEQ a PX 3000",
    },
    Pair {
        code: "RJ026",
        shows: "
            op c0 1-1900 ok acquired=10 before-write=1600 releasing=1800 released=1890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1105 n0 c0 PEXPIRE lock:k0 1000",
        says: "c0's renewal at 1.105 s found no key: it had expired at 1.005 s; c0 did not learn of it, and still worked at 1.600 s.",
        harm: Harm::Misled(0),
        // The library reported the loss.
        spares: "
            op c0 1-1900 fail acquired=10 lost=1120
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1105 n0 c0 PEXPIRE lock:k0 1000",
    },
    Pair {
        code: "RJ027",
        shows: "
            op c0 1-900 fail
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 405 n0 c0 SET lock:k0 b NX PX 1000",
        says: "c0's SET at 0.005 s created the key; that key refused its SET at 0.405 s, and c0 gave up.",
        harm: Harm::Waited,
        // It released before it tried again.
        spares: "
            + at 205 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ028",
        shows: "
            nodes 3
            op c0 1-900 ok acquired=710 releasing=800 released=890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 705 n2 c0 SET lock:k0 a NX PX 1000",
        says: "c0's SET reached n0 at 0.005 s, and the last of its requests reached n2 700 ms later. The TTL is 1 s.",
        harm: Harm::None,
        // All at once.
        spares: "
            - at 705 n2 c0 SET lock:k0 a NX PX 1000
            + at 6 n2 c0 SET lock:k0 a NX PX 1000",
    },
    Pair {
        code: "RJ029",
        shows: "
            claims releases
            op c0 1-1300 ok acquired=10 releasing=1200 released=1290
            op c1 2-1850 ok acquired=1110 releasing=1700 released=1840
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1105 n0 c1 SET lock:k0 b NX PX 1000
            at 1205 n0 c0 EVAL text 1 lock:k0 a
            at 1205 n0 lua GET lock:k0",
        says: "c0's release at 1.205 s found c1's key, and told c0 at 1.290 s that the lock was released.",
        harm: Harm::Misled(0),
        // The release reported that the lock was lost.
        spares: "
            - op c0 1-1300 ok acquired=10 releasing=1200 released=1290
            + op c0 1-1300 ok acquired=10 releasing=1200 lost=1290",
    },
    Pair {
        code: "RJ030",
        shows: "
            op c0 1-900 ok acquired=10#7 releasing=800 released=890
            op c1 1000-1900 ok acquired=1010#7 releasing=1800 released=1890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1005 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0 and c1 both got token 7: c0 at 0.010 s, c1 at 1.010 s.",
        harm: Harm::Outwritten(1),
        // Both asked at the same time, and keys on several nodes have no order.
        spares: "
            nodes 3
            op c0 1-900 ok acquired=10#8 releasing=800 released=890
            op c1 2-1900 ok acquired=1010#7 releasing=1800 released=1890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1005 n0 c1 SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ031",
        shows: "
            op c0 1-900 ok acquired=120 releasing=800 released=890
            op c1 2-850 ok acquired=520 releasing=700 released=840
            promoted n1 for n0 at 500
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 6 n0 c0 WAIT 1 100
            at 400 n1 s0 EXEC
            at 510 n1 c1 SET lock:k0 b NX PX 1000",
        says: "c0's WAIT 1 100 at 0.006 s timed out, but c0 received the lock; n1 had become the primary by 0.500 s without its key, \
               and c1 created its key there at 0.510 s.",
        harm: Harm::Ended(0),
        // The WAIT ended at once: a replica had the key.
        spares: "
            - op c0 1-900 ok acquired=120 releasing=800 released=890
            + op c0 1-900 ok acquired=10 releasing=800 released=890",
    },
    Pair {
        code: "RJ032",
        shows: "
            op c0 1-900 ok acquired=10~1500 releasing=800 released=890
            fault clock c0 6-700
            at 5 n0 c0 SET lock:k0 a NX PX 1000",
        says: "c0 received the lock at 0.010 s with a validity of 1.5 s, and its keys have a TTL of 1 s: c0's clock was set at 0.006 s.",
        harm: Harm::Misled(0),
        // The validity is not longer than the TTL.
        spares: "
            op c0 1-900 ok acquired=10~990 releasing=800 released=890
            fault clock c0 6-700
            at 5 n0 c0 SET lock:k0 a NX PX 1000",
    },
    Pair {
        code: "RJ033",
        shows: "
            op c0 1-300 info acquired=10
            op c1 2-4000 ok acquired=3510 releasing=3700 released=3840
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 15 n0 c1 SET lock:k0 b NX PX 1000
            at 3505 n0 c1 SET lock:k0 b NX PX 1000",
        says: "The key expired at 1.005 s; c1, waiting since 0.002 s, sent no request for it in the next 2.5 s.",
        harm: Harm::Waited,
        // The waiter began later.
        spares: "
            op c0 1-300 info acquired=10
            op c1 3500-4000 ok acquired=3510 releasing=3700 released=3840
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 3505 n0 c1 SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ034",
        shows: "
            threads 5
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-850 ok acquired=320 releasing=700 released=840
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 15 n0 c0 SET lock:k0 a NX PX 1000",
        says: "c1 received the lock at 0.320 s. c0, a thread of the same process, had held it since 0.010 s, and no command created a key \
               for c1.",
        harm: Harm::Misled(1),
        // The key was removed, and created for it.
        spares: "
            - at 15 n0 c0 SET lock:k0 a NX PX 1000
            + at 300 n0 c0 DEL lock:k0
            + at 310 n0 c0 SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ035",
        shows: "
            op c0 1-900 ok acquired=10 before-write=700 releasing=800 released=890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 405 n0 c0 DEL lock:k0",
        says: "c0's DEL at 0.405 s removed its own key while c0 relied on the lock until 0.800 s.",
        harm: Harm::Ended(0),
        // The library reported the loss before.
        spares: "
            op c0 1-900 fail acquired=10 lost=400
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 405 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ036",
        shows: "
            op c0 1-300 info
            op c1 2-1900 fail
            at 5 n0 c0 SET lock:k0 a NX PX 6000
            at 1805 n0 c1 SET lock:k0 b NX PX 6000",
        says: "c0's SET at 0.005 s created the key with a TTL of 6 s; the TTL that was asked for is 1 s.",
        harm: Harm::Kept,
        // With a margin.
        spares: "
            op c0 1-300 info
            op c1 2-1900 fail
            at 5 n0 c0 SET lock:k0 a NX PX 1200
            at 1105 n0 c1 SET lock:k0 b NX PX 1200",
    },
    Pair {
        code: "RJ037",
        shows: "
            nodes 3
            op c0 4-900 fail
            op c1 1-950 ok acquired=3 releasing=910 released=940
            at 2 n1 c1 SET lock:k0 b NX PX 1000
            at 2 n2 c1 SET lock:k0 b NX PX 1000
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            at 5 n2 c0 SET lock:k0 a NX PX 1000
            at 305 n0 c0 SET lock:k0 a NX PX 1000",
        says: "c0 held its key on 1 of 3 nodes at 0.005 s, and still held it 300 ms later, when it asked again.",
        harm: Harm::Waited,
        // It released between its tries.
        spares: "
            + at 105 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ038",
        shows: "
            op c0 1-1900 ok acquired=10 extended=1700 releasing=1800 released=1890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 605 n0 c0 PEXPIRE lock:k0 1000",
        says: "c0's library reported at 1.700 s that the lock was extended, 95 ms after the key had expired: the reply came 1.09 s after the key was \
               extended.",
        harm: Harm::Misled(0),
        // In time.
        spares: "
            op c0 1-1900 ok acquired=10 extended=1500 releasing=1550 released=1890
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 605 n0 c0 PEXPIRE lock:k0 1000",
    },
    Pair {
        code: "RJ039",
        shows: "
            op c0 1-1900 ok acquired=10 owned=1300 releasing=1800 released=1890
            op c1 2-1850 ok acquired=1110 releasing=1700 released=1840
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 1105 n0 c1 SET lock:k0 b NX PX 1000
            at 1705 n0 c1 DEL lock:k0",
        says: "c0 asked at 1.300 s whether it held the lock, and the library said yes; c1 had held the key since 1.105 s.",
        harm: Harm::Misled(0),
        // The client asked before.
        spares: "
            - op c0 1-1900 ok acquired=10 owned=1300 releasing=1800 released=1890
            + op c0 1-1900 ok acquired=10 owned=900 releasing=1800 released=1890",
    },
    Pair {
        code: "RJ040",
        shows: "
            op c0 1-300 info acquired=10 releasing=280
            cancel c0 290
            op c1 2-1200 ok acquired=1110 releasing=1150 released=1190
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 320 n0 c1 SET lock:k0 b NX PX 1000
            at 1105 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0's SET at 0.005 s created the key. The release ended at 0.300 s without removing the key, and no further release followed. The key \
               stayed for another 705 ms.",
        harm: Harm::Kept,
        // The waiter asked again.
        spares: "
            - at 1105 n0 c1 SET lock:k0 b NX PX 1000
            + at 330 n0 c0 DEL lock:k0",
    },
    Pair {
        code: "RJ041",
        shows: "
            op c0 100-900 ok acquiring=110 acquired=310 releasing=800 released=890
            fault kill n0 50-500
            at 5 n0 c0 PING",
        says: "c0 received the lock at 0.310 s, though n0 was down from 0.050 s to 0.500 s.",
        harm: Harm::Misled(0),
        // The waiter asked before.
        spares: "
            op c0 10-900 ok acquiring=20 acquired=310 releasing=800 released=890
            fault kill n0 50-500
            at 25 n0 c0 SET lock:k0 a NX PX 1000",
    },
    Pair {
        code: "RJ042",
        shows: "
            nodes 3
            op c0 1-50 ok acquired=10 releasing=40 released=49
            op c1 110-130 fail acquiring=112
            fault kill n0 100-500
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 6 n1 c0 SET lock:k0 a NX PX 1000
            at 7 n2 c0 SET lock:k0 a NX PX 1000",
        says: "c1's attempt ended without the lock at 0.130 s, while n0 was down; it had sent nothing to n1 and n2, which were up.",
        harm: Harm::Waited,
        // The client asked the other nodes.
        spares: "
            + at 115 n1 c1 SET lock:k0 b NX PX 1000
            + at 116 n2 c1 SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ043",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 2-500 fail acquiring=3
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            301 times every 1: at 20 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c1 asked for the key 301 times between 0.020 s and 0.320 s, 1,000 times per second, while another client had it.",
        harm: Harm::None,
        // The waiter rests.
        spares: "
            - 301 times every 1: at 20 n0 c1 SET lock:k0 b NX PX 1000
            + 31 times every 10: at 20 n0 c1 SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ044",
        shows: "
            op c1 2-1990 fail acquiring=3
            op c2 2-1990 fail acquiring=3
            op c3 2-1990 fail acquiring=3
            6 times every 300: op c0 10-160 ok acquiring=11 acquired=14 releasing=150 released=159
            6 times every 300: at 13 n0 c0 SET lock:k0 a{} NX PX 1000
            6 times every 300: at 15 n0 c1 GET lock:k0
            6 times every 300: at 16 n0 c2 GET lock:k0
            6 times every 300: at 17 n0 c3 GET lock:k0
            6 times every 300: at 155 n0 c0 DEL lock:k0
            6 times every 300: at 157 n0 c1 GET lock:k0
            6 times every 300: at 158 n0 c2 GET lock:k0
            6 times every 300: at 159 n0 c3 GET lock:k0",
        says: "After 6 of 6 releases, all waiters asked within 10 ms: 3 of them after c0's release at 1.655 s.",
        harm: Harm::None,
        // The waiters ask one after the other.
        spares: "
            - 6 times every 300: at 158 n0 c2 GET lock:k0
            - 6 times every 300: at 159 n0 c3 GET lock:k0
            + 6 times every 300: at 177 n0 c2 GET lock:k0
            + 6 times every 300: at 197 n0 c3 GET lock:k0",
    },
    Pair {
        code: "RJ045",
        shows: "
            op c0 1-2500 ok acquired=10 extended=510 releasing=2000 released=2490
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 2005 n0 c0 DEL lock:k0",
        says: "c0's library reported at 0.510 s that the lock was extended; the server had not extended its key at that time.",
        harm: Harm::Misled(0),
        // The client sent a request that may have extended the lock.
        spares: "
            + at 505 n0 c0 GETEX lock:k0 PX 1000",
    },
    Pair {
        code: "RJ046",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 100-700 ok acquired=110 releasing=600 released=690
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 105 n0 c1 SET lock:k0 b NX PX 1000
            at 805 n0 c0 EVAL text 1 lock:k0 a
            at 805 n0 lua GET lock:k0
            at 805 n0 lua DEL lock:k0",
        says: "c1's SET at 0.105 s found c0's key, and c1 received the lock at 0.110 s anyway.",
        harm: Harm::Misled(1),
        // c0 hands its lock over and no longer relies on it.
        spares: "
            - op c0 1-900 ok acquired=10 releasing=800 released=890
            + op c0 1-900 ok acquired=10 releasing=90 released=890",
    },
    Pair {
        code: "RJ047",
        shows: "
            op c0 1-900 ok acquired=10 releasing=800 released=890
            op c1 100-700 ok acquired=110 releasing=600 released=690
            at 5 n0 c0 SET lock:k0:c0 a NX PX 1000
            at 105 n0 c1 SET lock:k0:c1 b NX PX 1000
            at 605 n0 c1 DEL lock:k0:c1
            at 805 n0 c0 DEL lock:k0:c0",
        says: "c0 held the lock from 0.010 s by the key `lock:k0:c0`, and c1 acquired it at 0.110 s by `lock:k0:c1`: neither client asked for the other key.",
        harm: Harm::Misled(1),
        // These keys exist beside the key that both clients ask for.
        spares: "
            + at 4 n0 c0 EVAL text 1 lock:k0 a
            + at 4 n0 lua SET lock:k0 a NX PX 50
            + at 104 n0 c1 EVAL text 1 lock:k0 b
            + at 104 n0 lua SET lock:k0 b NX PX 1000",
    },
    Pair {
        code: "RJ048",
        shows: "
            op c0 1-950 ok acquired=10 releasing=900 released=940
            op c1 2-2000 ok acquired=710 releasing=1500 released=1590
            at 5 n0 c0 SET lock:k0 a NX PX 500
            at 705 n0 c1 SET lock:k0 b NX PX 500",
        says: "c0's SET at 0.005 s created the key with a TTL of 500 ms; the TTL that was asked for is 1 s.",
        harm: Harm::Ended(0),
        // The library renews, so each TTL is its own choice.
        spares: "
            + at 305 n0 c0 PEXPIRE lock:k0 500",
    },
    Pair {
        code: "RJ049",
        shows: "
            op c0 1-950 ok acquired=10 releasing=900 released=940
            op c1 2-2000 ok acquired=710 releasing=1500 released=1590
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 305 n0 c0 PEXPIRE lock:k0 250
            at 705 n0 c1 SET lock:k0 b NX PX 1000",
        says: "c0's PEXPIRE at 0.305 s, a renewal, left the key 250 ms: the key would have lived until 1.005 s, but expired at 0.555 s while \
               c0 still relied on it.",
        harm: Harm::Ended(0),
        // It is a release that lets the key expire.
        spares: "
            - op c0 1-950 ok acquired=10 releasing=900 released=940
            + op c0 1-950 ok acquired=10 releasing=300 released=940",
    },
    Pair {
        code: "RJ050",
        shows: "
            nodes 5
            list c0 n0 n1 n2
            op c0 1-900 ok acquired=20 releasing=800 released=890
            op c1 30-990 ok acquired=60 releasing=950 released=980
            at 2 n2 c3 GET lock:k0
            at 5 n0 c0 SET lock:k0 a NX PX 1000
            at 5 n1 c0 SET lock:k0 a NX PX 1000
            at 40 n0 c1 SET lock:k0 b NX PX 1000
            at 40 n1 c1 SET lock:k0 b NX PX 1000
            at 40 n2 c1 SET lock:k0 b NX PX 1000
            at 40 n3 c1 SET lock:k0 b NX PX 1000
            at 40 n4 c1 SET lock:k0 b NX PX 1000
            at 805 n0 c0 DEL lock:k0
            at 805 n1 c0 DEL lock:k0
            at 955 n2 c1 DEL lock:k0
            at 955 n3 c1 DEL lock:k0
            at 955 n4 c1 DEL lock:k0",
        says: "c0 held the lock on n0 and n1, 2 of the 3 nodes on its list. At 0.060 s c1 acquired the lock on n2, n3 and n4, 3 of the 5 \
               nodes on its list.",
        harm: Harm::Ended(0),
        // The first client is about to release its lock.
        spares: "
            - op c0 1-900 ok acquired=20 releasing=800 released=890
            + op c0 1-900 ok acquired=20 releasing=50 released=890",
    },
];

#[test]
fn every_diagnosis_is_told_of_a_run_that_shows_it_and_of_no_other() {
    let codes: Vec<&str> = PAIRS.iter().map(|pair| pair.code).collect();
    assert_eq!(codes, KINDS.iter().map(|kind| kind.code).collect::<Vec<_>>(), "each has a pair");
    let mut wrong = Vec::new();
    for pair in PAIRS {
        let told = diagnoses(pair.shows);
        match told.iter().find(|diagnosis| diagnosis.code == pair.code) {
            None => wrong.push(format!("{} is not told, but {told:?}", pair.code)),
            Some(diagnosis) => {
                let (says, harm) = (diagnosis.sentence(), diagnosis.findings[0].harm);
                if says != pair.says || harm != pair.harm {
                    wrong.push(format!("{}: {harm:?} {says}", pair.code));
                }
            }
        }
        let spared = diagnoses(&pair.spared());
        if let Some(diagnosis) = spared.iter().find(|diagnosis| diagnosis.code == pair.code) {
            wrong.push(format!("{} is told of the run that it spares: {}", pair.code, diagnosis.sentence()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

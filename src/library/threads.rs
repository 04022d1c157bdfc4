//! Scenarios of the catalogue, played by threads of one process: what a library keeps of a holder there (a token, a count, a timer)
//! it may keep for all of them.

use super::sent::Upkeep;
use super::strikes::{Scripted, Setting};
use crate::nemesis::Nemesis;
use crate::scenario::catalogue;

/// Two processes of two threads each.
const CLIENTS: u32 = 4;
const THREADS: u32 = 2;
/// A crowd in two processes: more than the eight or ten connections that many pools have.
const CROWD: u32 = 24;
const LOCKS: u32 = 5;

/// A holder may take its time only where something renews its lock meanwhile, and is cancelled only where a client can be.
pub fn scenarios(setting: &Setting) -> Vec<Scripted> {
    let is_renewed = setting.upkeep == Upkeep::InTheBackground;
    let names =
        [("late-release", !is_renewed), ("long-work", is_renewed), ("cancelled-holder", setting.cancels_threads)];
    let of_processes = names.into_iter().filter(|(_, fits)| *fits).filter_map(|(name, _)| by_threads(name));
    let leaving = LEAVING.iter().filter(|one| (one.fits)(setting)).filter_map(Leaving::scripted);
    of_processes.chain(late_answer(is_renewed)).chain(leaving).chain(crowds()).collect()
}

/// A thread is done with the lock, in a way that is not the usual one: what its process keeps for all of its threads must not stay that
/// thread's, nor go with it.
struct Leaving {
    name: &'static str,
    what: &'static str,
    fits: fn(&Setting) -> bool,
    steps: &'static [&'static str],
}

const LEAVING: [Leaving; 7] = [
    Leaving {
        name: "outlived-by-threads",
        what: "A lock runs out under its holder and another process has it; when both are done, another thread of the first one has it",
        fits: |setting| setting.expires && setting.upkeep != Upkeep::InTheBackground,
        steps: &[
            "start client:0 to releasing",
            "wait 1.2ttl",
            "start client:2 to before-write or end giving up after 1ttl within 1.2ttl",
            "go client:0",
            "await client:0 end",
            "go client:2",
            "await client:2 end",
            "start client:1 giving up after 2ttl",
            "expect client:1 acquired within 1.5ttl",
            "await client:1 end",
            "start client:0 giving up after 1ttl",
            "expect client:0 acquired within 0.9ttl",
            "await client:0 end",
        ],
    },
    Leaving {
        name: "refused-beside-a-thread",
        what: "The nodes refuse a thread's attempt; when they write again another thread of its process has the lock",
        fits: |_| true,
        steps: &[
            "refuse-writes nodes",
            "start client:0 giving up after 0.3ttl",
            "await client:0 end within 1ttl or go on",
            "heal refuse-writes nodes",
            "await client:0 end",
            "start client:1 giving up after 2ttl",
            "expect client:1 acquired within 1.5ttl",
            "await client:1 end",
            "start client:0 giving up after 1ttl",
            "expect client:0 acquired within 0.9ttl",
            "await client:0 end",
        ],
    },
    Leaving {
        name: "failed-release-beside-a-thread",
        what: "The nodes refuse a thread's release; when its lock has run out another thread of its process has it",
        fits: |setting| setting.expires,
        steps: &[
            "start client:0 to releasing",
            "refuse-writes nodes",
            "go client:0",
            "await client:0 end within 0.5ttl or go on",
            "heal refuse-writes nodes",
            "await client:0 end",
            "start client:1 giving up after 3ttl",
            "expect client:1 acquired within 2.5ttl",
            "await client:1 end",
            "start client:0 giving up after 1ttl",
            "expect client:0 acquired within 0.9ttl",
            "await client:0 end",
        ],
    },
    Leaving {
        name: "given-up-beside-a-waiting-thread",
        what: "One of two threads of a process that wait gives up; when the lock is given back the other one has it",
        fits: |_| true,
        steps: &[
            "start client:2 to before-write",
            "start client:1 giving up after 4ttl",
            "start client:0 giving up after 0.1ttl",
            "await client:0 end within 0.3ttl or go on",
            "go client:2",
            "await client:2 end",
            "expect client:1 acquired within 1ttl",
            "await client:1 end",
            "await client:0 end",
            "start client:0 giving up after 0.3ttl",
            "expect client:0 acquired within 0.35ttl",
            "await client:0 end",
        ],
    },
    Leaving {
        name: "given-up-beside-a-holding-thread",
        what: "A thread waits for the lock that another one of its process has, and gives up; others have it when it is given back",
        fits: |_| true,
        steps: &[
            "start client:0 to before-write",
            "start client:1 giving up after 0.1ttl",
            "await client:1 end within 0.3ttl or go on",
            "start client:2 giving up after 4ttl",
            "go client:0",
            "await client:0 end",
            "expect client:2 acquired within 1ttl",
            "await client:2 end",
            "await client:1 end",
            "start client:1 giving up after 0.3ttl",
            "expect client:1 acquired within 0.35ttl",
            "await client:1 end",
        ],
    },
    Leaving {
        name: "cancelled-beside-a-waiting-thread",
        what: "One of two threads of a process that wait is cancelled; when the lock is given back the other one has it",
        fits: |setting| setting.cancels_threads,
        steps: &[
            "start client:2 to before-write",
            "start client:0 to acquiring giving up after 2ttl",
            "go client:0",
            "start client:1 giving up after 4ttl",
            "wait 0.1ttl",
            "cancel client:0",
            "await client:0 end within 0.2ttl or go on",
            "go client:2",
            "await client:2 end",
            "expect client:1 acquired within 1ttl",
            "await client:1 end",
            "await client:0 end",
            "start client:0 giving up after 0.3ttl",
            "expect client:0 acquired within 0.35ttl",
            "await client:0 end",
        ],
    },
    Leaving {
        name: "cancelled-beside-a-holding-thread",
        what: "A thread waits for the lock that another one of its process has, and is cancelled; others have it when it is given back",
        fits: |setting| setting.cancels_threads,
        steps: &[
            "start client:0 to before-write",
            "start client:1 to acquiring giving up after 2ttl",
            "go client:1",
            "wait 0.1ttl",
            "cancel client:1",
            "await client:1 end within 0.2ttl or go on",
            "start client:2 giving up after 4ttl",
            "go client:0",
            "await client:0 end",
            "expect client:2 acquired within 1ttl",
            "await client:2 end",
            "await client:1 end",
            "start client:1 giving up after 0.3ttl",
            "expect client:1 acquired within 0.35ttl",
            "await client:1 end",
        ],
    },
];

impl Leaving {
    fn scripted(&self) -> Option<Scripted> {
        let (_, like) = catalogue::nemesis("late-release").ok()?;
        let like = Nemesis { story: "What a process keeps for all of its threads.".to_string(), ..like };
        played(like, self.name, self.what.to_string(), self.steps)
    }
}

/// A release is answered when another thread has the lock by then: what the library forgets of it then is that one's. In between, a
/// renewal may come that was due for the first one.
const LATE_ANSWER: [&str; 6] = [
    "start client:0 to releasing",
    "hold reply to write client:0 from nodes",
    "go client:0",
    "await hold reply to write client:0 from nodes within 1ttl",
    "start client:1 to read or end giving up after 0.3ttl within 0.4ttl",
    "wait 0.4ttl",
];

/// The other thread's lock is renewed as ever: nobody gets it beside it.
const AND_IT_IS_RENEWED: [&str; 7] = [
    "heal hold reply to write client:0 from nodes",
    "await client:0 end within 0.3ttl or go on",
    "wait 1ttl",
    "start client:2 giving up after 0.2ttl",
    "await client:2 end within 0.35ttl or go on",
    "go client:1",
    "await client:1 end",
];

/// The other thread gives its lock back, so that others have it before it would run out.
const AND_IT_IS_GIVEN_BACK: [&str; 6] = [
    "heal hold reply to write client:0 from nodes",
    "await client:0 end within 0.1ttl or go on",
    "go client:1",
    "start client:2 giving up after 0.25ttl",
    "expect client:2 acquired within 0.3ttl",
    "await client:1 end",
];

/// The scenario of as many processes, without which a crowd of threads does not tell what threads have to do with it.
pub const CROWD_OF_PROCESSES: &str = "crowd-of-processes";

/// No faults, and as many clients as in a crowd of threads, each a process of its own.
pub fn crowd_of_processes() -> Option<Scripted> {
    let (_, none) = catalogue::nemesis("none").ok()?;
    let description = "No faults: as many processes as there are threads in a crowd contend for one lock".to_string();
    scripted(CROWD_OF_PROCESSES, Nemesis { description, clients: Some(CROWD), expect: Default::default(), ..none })
}

/// No faults, and more threads than a pool has connections; and several locks, so that what is kept of one may be taken for another's.
fn crowds() -> Vec<Scripted> {
    let one = |name: &str, what: &str, keys: Option<u32>| {
        let (_, shared) = catalogue::nemesis("shared-lock").ok()?;
        let description = format!("No faults: clients are threads of two processes, {what}");
        let clients = Some(CROWD);
        let nemesis = Nemesis { clients, threads: clients.map(|all| all / 2), keys, ..shared };
        scripted(name, Nemesis { description, expect: Default::default(), ..nemesis })
    };
    let crowd = one("crowd-of-threads", "and many contend for one lock", None);
    crowd.into_iter().chain(one("several-locks-by-threads", "and contend for several locks", Some(LOCKS))).collect()
}

fn scripted(name: &str, nemesis: Nemesis) -> Option<Scripted> {
    let toml = toml::to_string_pretty(&nemesis).ok()?;
    Some(Scripted { name: name.to_string(), description: nemesis.description, toml, aims: Vec::new() })
}

/// One has to be free to ask while the other's answer is on its way: programs with one connection for all are not, and it shows nothing
/// of them.
fn late_answer(is_renewed: bool) -> Vec<Scripted> {
    let one = |name: &str, what: &str, after: &[&str]| {
        let steps = [&LATE_ANSWER[..], after, &["await client:2 end", "await client:0 end"]].concat();
        let description = format!("A release is answered when another thread of its program has the lock, {what}");
        played(catalogue::nemesis("late-release").ok()?.1, name, description, &steps)
    };
    let given_back = one("late-answer-to-release-by-threads", "and gives it back", &AND_IT_IS_GIVEN_BACK);
    let what = "and works for longer than a TTL";
    let renewed = one("late-answer-to-release-and-long-work-by-threads", what, &AND_IT_IS_RENEWED);
    given_back.into_iter().chain(renewed.filter(|_| is_renewed)).collect()
}

/// As `late-release`, whose pause would stop all threads of the process.
const LATE_RELEASE: [&str; 11] = [
    "start client:0 to releasing",
    "wait 1.1ttl",
    "start client:1 to before-write giving up after 1ttl",
    "go client:0",
    "await client:0 end within 0.3ttl or go on",
    "start client:2 giving up after 0.2ttl",
    "await client:2 end within 0.35ttl or go on",
    "go client:1",
    "await client:1 end",
    "await client:2 end",
    "await client:0 end",
];

/// As `cancelled-holder`, whose release is late as well: if that is over for the program before it is for the node, another thread has the
/// lock by then.
const CANCELLED_HOLDER: [&str; 13] = [
    "start client:0 to read",
    "hold request write client:0 to nodes",
    "cancel client:0",
    "await hold request write client:0 to nodes within 0.5ttl or go on",
    "await client:0 end within 0.1ttl or go on",
    "start client:1 to before-write or end giving up after 0.3ttl within 0.5ttl",
    "heal hold request write client:0 to nodes",
    "await client:0 end within 0.3ttl or go on",
    "start client:2 giving up after 0.2ttl",
    "await client:2 end within 0.35ttl or go on",
    "go client:1",
    "await client:1 end",
    "await client:2 end",
];

fn by_threads(name: &str) -> Option<Scripted> {
    let (_, of_processes) = catalogue::nemesis(name).ok()?;
    let description = format!("{} (clients are threads of two processes)", of_processes.description);
    let own: &[&str] = match name {
        "late-release" => &LATE_RELEASE,
        "cancelled-holder" => &CANCELLED_HOLDER,
        _ => &[],
    };
    let steps: Vec<String> = of_processes.script.iter().map(|step| step.to_string()).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let steps = if own.is_empty() { &steps } else { own };
    played(of_processes, &format!("{name}-by-threads"), description, steps)
}

/// A scenario like this one, of these steps, by threads.
fn played(of_processes: Nemesis, name: &str, description: String, steps: &[&str]) -> Option<Scripted> {
    let nemesis = Nemesis {
        description,
        clients: Some(CLIENTS),
        threads: Some(THREADS),
        expect: Default::default(),
        script: steps.iter().map(|step| step.parse()).collect::<Result<_, _>>().ok()?,
        ..of_processes
    };
    scripted(name, nemesis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(upkeep: Upkeep, cancels: bool) -> Setting {
        Setting {
            nodes: 1,
            expires: true,
            upkeep,
            permits: 1,
            threads: true,
            cancels,
            cancels_threads: cancels,
            blocks: false,
            releases_again: false,
            knows_the_catalogue: true,
        }
    }

    #[test]
    fn scenarios_of_processes_are_played_by_threads_where_locks_are_renewed_and_holders_can_be_cancelled() {
        let names =
            |setting: &Setting| scenarios(setting).into_iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        assert_eq!(
            names(&setting(Upkeep::None, false)),
            "late-release-by-threads, late-answer-to-release-by-threads, outlived-by-threads, refused-beside-a-thread, \
             failed-release-beside-a-thread, given-up-beside-a-waiting-thread, \
             given-up-beside-a-holding-thread, crowd-of-threads, several-locks-by-threads"
        );
        assert_eq!(
            names(&setting(Upkeep::InTheBackground, true)),
            "long-work-by-threads, cancelled-holder-by-threads, late-answer-to-release-by-threads, \
             late-answer-to-release-and-long-work-by-threads, refused-beside-a-thread, failed-release-beside-a-thread, \
             given-up-beside-a-waiting-thread, given-up-beside-a-holding-thread, \
             cancelled-beside-a-waiting-thread, cancelled-beside-a-holding-thread, crowd-of-threads, several-locks-by-threads"
        );
        for scripted in scenarios(&setting(Upkeep::InTheBackground, true)) {
            let nemesis: Nemesis = toml::from_str(&scripted.toml).unwrap();
            if nemesis.clients == Some(CROWD) {
                assert!(nemesis.threads == Some(CROWD / 2) && nemesis.script.is_empty() && !nemesis.injects());
                continue;
            }
            assert_eq!((nemesis.clients, nemesis.threads), (Some(CLIENTS), Some(THREADS)));
            assert!(!nemesis.script.is_empty() && nemesis.expect.is_empty());
            // What is held is what one thread sends, since no other one has begun.
            assert!(
                nemesis.all_faults().all(|fault| fault.kind.is_at_command() || fault.to_string().ends_with(" nodes")),
                "others strike all threads"
            );
        }
    }
}

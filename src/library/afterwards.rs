//! Scenarios of what a library keeps of a hold that is over, or that was not to be: its renewals, its token, its connection.

use super::sent::Upkeep;
use super::strikes::{Scripted, Setting};

/// A scenario, and which clients can take part in it.
struct Afterwards {
    name: &'static str,
    what: &'static str,
    fits: fn(&Setting) -> bool,
    steps: &'static [&'static str],
}

const ALL: [Afterwards; 9] = [
    Afterwards {
        name: "dead-after-long-work",
        what: "A holder works for longer than three TTLs, and dies: its lock is over a TTL after its last renewal",
        fits: is_renewed,
        steps: &[
            "start client:0 to read",
            "wait 3.3ttl",
            "kill client:0",
            "heal kill client:0",
            "start client:1 giving up after 3ttl",
            "expect client:1 acquired within 1.5ttl",
            "await client:1 end",
        ],
    },
    Afterwards {
        name: "long-work-of-many-ttls",
        what: "No faults: a holder works for longer than ten TTLs, and has the lock all the while",
        fits: is_renewed,
        steps: &[
            "start client:0 to read",
            "wait 10.3ttl",
            "start client:1 giving up after 0.4ttl",
            "await client:1 end within 0.7ttl or go on",
            "go client:0",
            "await client:0 end",
            "await client:1 end",
        ],
    },
    Afterwards {
        name: "left-alone",
        what: "No faults: one waits and gives up, the holder gives the lock back, and nobody asks for it any more",
        fits: |setting| setting.permits == 1,
        steps: &[
            "start client:0 to before-write",
            "start client:1 giving up after 0.3ttl",
            "await client:1 end within 0.5ttl or go on",
            "go client:0",
            "await client:0 end",
            "await client:1 end",
            "wait 1.8ttl",
            "start client:2 giving up after 0.4ttl",
            "expect client:2 acquired within 0.45ttl",
            "await client:2 end",
        ],
    },
    Afterwards {
        name: "outlived-and-taken-again",
        what: "No faults: a holder keeps its lock until that has run out and another one has had it; then it gives it back, and takes it again",
        fits: |setting| setting.permits == 1 && setting.expires && setting.upkeep != Upkeep::InTheBackground,
        steps: &[
            "start client:0 to releasing",
            "wait 1.2ttl",
            "start client:1 to releasing or end giving up after 1ttl within 1.2ttl",
            "go client:1",
            "await client:1 end",
            "go client:0",
            "await client:0 end",
            "start client:0 giving up after 1ttl",
            "expect client:0 acquired within 0.9ttl",
            "await client:0 end",
            "start client:1 giving up after 0.4ttl",
            "expect client:1 acquired within 0.45ttl",
            "await client:1 end",
        ],
    },
    Afterwards {
        name: "handed-over",
        what: "No faults: who has had the lock gives it back, and the next one has it before it would have run out",
        fits: |setting| setting.permits == 1,
        steps: &[
            "start client:0",
            "await client:0 end",
            "start client:1 giving up after 0.4ttl",
            "expect client:1 acquired within 0.45ttl",
            "await client:1 end",
            "start client:0 giving up after 0.4ttl",
            "expect client:0 acquired within 0.45ttl",
            "await client:0 end",
        ],
    },
    Afterwards {
        name: "forgotten-scripts",
        what: "The nodes forget the scripts that were loaded into them; locks can be given back and taken all the same",
        fits: |setting| setting.permits == 1,
        steps: &[
            "start client:0",
            "await client:0 end",
            "start client:0 to before-write",
            "forget-scripts nodes",
            "go client:0",
            "await client:0 end within 0.5ttl or go on",
            "start client:1 giving up after 0.4ttl",
            "expect client:1 acquired within 0.45ttl",
            "await client:1 end",
            "await client:0 end",
            "heal forget-scripts nodes",
            "forget-scripts nodes",
            "start client:1 giving up after 1ttl",
            "expect client:1 acquired within 1ttl",
            "await client:1 end",
            "heal forget-scripts nodes",
        ],
    },
    Afterwards {
        name: "lost-and-taken-again",
        what: "The lock of a holder is gone, which its renewals find; it takes the lock again, and works for longer than a TTL",
        fits: is_renewed,
        steps: &[
            "start client:0 to read",
            "flush nodes",
            "wait 1.1ttl",
            "go client:0",
            "await client:0 end",
            "start client:0 to before-write or end giving up after 1ttl within 1.2ttl",
            "wait 1.3ttl",
            "start client:1 giving up after 0.2ttl",
            "await client:1 end within 0.4ttl or go on",
            "go client:0",
            "await client:0 end",
            "await client:1 end",
        ],
    },
    Afterwards {
        name: "forgotten-scripts-while-held",
        what: "The nodes forget the scripts that were loaded into them, while a holder works for longer than a TTL",
        fits: is_renewed,
        steps: &[
            "start client:0",
            "await client:0 end",
            "start client:0 to read",
            "wait 0.5ttl",
            "forget-scripts nodes",
            "wait 1.1ttl",
            "start client:1 giving up after 0.2ttl",
            "await client:1 end within 0.4ttl or go on",
            "go client:0",
            "await client:0 end",
            "await client:1 end",
            "heal forget-scripts nodes",
        ],
    },
    Afterwards {
        name: "failed-release-on-a-broken-connection",
        what: "The connections break before the lock is given back, and its client tries once more: the lock is free",
        fits: |setting| setting.releases_again && setting.permits == 1,
        steps: &[
            "start client:0 to releasing releasing again after 0.3ttl",
            "reset client:0 and nodes",
            "heal reset client:0 and nodes",
            "go client:0",
            "start client:1 giving up after 0.5ttl",
            "expect client:1 acquired within 0.55ttl",
            "await client:1 end",
            "await client:0 end",
        ],
    },
];

/// The holder is dead and its lock is over. At each command that takes it over, of which there are these, one client waits for the answer
/// while another one takes it over.
pub fn takeovers(commands: &[String], setting: &Setting) -> Vec<Scripted> {
    let of = |command: &String| {
        let strike = format!("hold reply to {command} client:0 from nodes");
        let steps = [
            "start client:2 to before-write",
            "kill client:2",
            "wait 1.1ttl",
            "start client:0 to acquiring giving up after 2ttl",
            &strike,
            "go client:0",
            &format!("await {strike} within 1ttl"),
            "start client:1 to before-write or end giving up after 0.6ttl within 0.8ttl",
            &format!("heal {strike}"),
            "await client:0 end within 0.35ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:0 end",
            "heal kill client:2",
            "start client:1 giving up after 2ttl",
            "expect client:1 acquired within 1.5ttl",
            "await client:1 end",
        ];
        let what =
            format!("The lock of a dead holder is taken over: at {command}, the reply comes when another one has it");
        let story = "What is sent only to take over the lock of a dead holder.";
        let name = format!("taking-over-{}-late-reply", command.to_ascii_lowercase());
        Scripted::of(name, &what, story, None, 0, &steps.map(str::to_string))
    };
    commands.iter().filter(|_| setting.permits == 1).map(of).collect()
}

fn is_renewed(setting: &Setting) -> bool {
    setting.upkeep == Upkeep::InTheBackground && setting.permits == 1
}

/// Those that such clients can take part in.
pub fn scenarios(setting: &Setting) -> Vec<Scripted> {
    let story = "What a library keeps of a hold that is over.";
    let of = |one: &Afterwards| {
        let steps: Vec<String> = one.steps.iter().map(|step| step.to_string()).collect();
        Scripted::of(one.name.to_string(), one.what, story, None, 0, &steps)
    };
    ALL.iter().filter(|one| (one.fits)(setting)).map(of).collect()
}

//! Scenarios at the commands that only take over a crashed holder's lock.

use super::strikes::{Scripted, Setting};

/// The holder has crashed and its lock has expired. There is a scenario for each of these commands. One client waits for the
/// reply to the command while another client takes over the lock.
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
        let what = format!(
            "A client takes over the lock of a dead holder: the reply to its {command} comes when another client holds \
                the lock"
        );
        let story = "A fault at a command that only a takeover of a dead holder's lock sends.";
        let name = format!("taking-over-{}-late-reply", command.to_ascii_lowercase());
        Scripted::of(name, &what, story, None, 0, &steps.map(str::to_string))
    };
    commands.iter().filter(|_| setting.permits == 1).map(of).collect()
}

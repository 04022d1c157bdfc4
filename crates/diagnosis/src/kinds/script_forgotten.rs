//! A client that calls a script by its digest, and fails when the server does not know the script.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ019",
    name: "script-forgotten",
    title: "The client gives up when the server has forgotten its script.",
    rule: "A server forgets its scripts at a restart and at SCRIPT FLUSH. EVALSHA then fails with NOSCRIPT, and the client \
        must send the script's text.",
    source: ("Redis, Scripting with Lua", "https://redis.io/docs/latest/develop/programmability/eval-intro/"),
    fix: "On NOSCRIPT, send the same call with EVAL, which loads the script again.",
    commands: &["EVAL SCRIPT 1 KEY ARGUMENTS"],
    right: Some(("redis-py", "forgotten-scripts")),
    breaks: WAITS,
    inherent: false,
    check,
};

/// The words of Redis and its clients for an unknown script.
const SAYINGS: [&str; 3] = ["NOSCRIPT", "NoScriptError", "No matching script"];

/// True if an operation ended because the server did not know a script.
pub(super) fn met_no_script(operation: &Operation) -> bool {
    let told = [operation.error(), operation.text()];
    told.iter().flatten().any(|text| SAYINGS.iter().any(|saying| text.contains(saying)))
}

fn check(case: &Case) -> Vec<Finding> {
    case.history
        .operations
        .iter()
        .filter(|operation| met_no_script(operation))
        .filter_map(|operation| {
            let client = case.run.client_name(operation.process);
            let over = operation.completed?;
            let mut calls = case.commands.iter().enumerate().filter(|(_, command)| {
                command.from.as_deref() == Some(&*client)
                    && command.name() == "EVALSHA"
                    && command.time.saturating_add(EDGE) >= operation.invoked
                    && command.time <= over.saturating_add(EDGE)
            });
            let (call, command) = calls.next_back()?;
            let again = case.commands[call + 1..].iter().any(|other| {
                other.from.as_deref() == Some(&*client) && other.node == command.node && other.name() == "EVAL" && other.time <= over
            });
            if again {
                return None;
            }
            let did = if operation.phase(Phase::Releasing).is_some() { "release" } else { "acquisition" };
            let sentence = format!(
                "{client}'s EVALSHA at {} was answered with NOSCRIPT, and its {did} failed: the client did not send the script's text.",
                moment(command.time)
            );
            Some(Finding {
                time: command.time,
                key: operation.key.to_string(),
                sentence,
                operations: vec![operation.index],
                commands: vec![call as u64 + 1],
                harm: Harm::Kept,
                fault: None,
            })
        })
        .collect()
}

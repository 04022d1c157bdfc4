//! A lock that one thread holds, and that the library also grants to another thread of the same process.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ034",
    name: "lock-shared-by-threads",
    title: "The library hands the lock that one thread holds to another thread of its process.",
    rule: "Each acquisition needs a value of its own at the server. A value that belongs to a process, a connection or a lock object does \
           not keep its threads or tasks apart.",
    source: REDIS_LOCKS,
    fix: "Generate a new random value for each acquisition, and keep it where only its holder can read it: in the object that acquire returns.",
    commands: &[],
    right: Some(("single", "shared-lock")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let threads = case.run.threads;
    if threads < 2 {
        return Vec::new();
    }
    let process = |operation: &Operation| match operation.process {
        Process::Client(number) => Some(number % case.run.clients.max(1) / threads),
        Process::Controller => None,
    };
    let held = case.history.operations.iter().filter_map(|operation| {
        let (from, to) = case.history.certain_hold(operation)?;
        Some((operation, process(operation)?, u64::try_from(from).ok()?, u64::try_from(to).ok()?))
    });
    let held: Vec<(&Operation, u32, u64, u64)> = held.collect();
    let mut found = Vec::new();
    for (second, group, acquired, _) in held.iter().copied() {
        let first = held.iter().copied().find(|(first, process, from, to)| {
            *process == group && *from < acquired && acquired < *to && first.key == second.key
        });
        let Some((first, _, from, _)) = first else { continue };
        let sender = case.run.client_name(Process::Client(group * threads));
        // The key that the first thread created, if no other command may have created one for the second.
        let created =
            case.acts.all.iter().filter(|act| {
                act.client == sender && act.create().is_some() && key_behind(act.key) == Some(&*second.key)
            });
        let Some(own) = created.clone().rfind(|act| act.is_done() && act.time <= from) else { continue };
        let may_be_its = |act: &Act| {
            act.place != own.place
                && act.done != Some(false)
                && act.time.saturating_add(EDGE) > second.invoked
                && act.time <= acquired
        };
        if created.clone().any(may_be_its) || !is_alone(case, own, acquired) {
            continue;
        }
        let (thread, other) = (case.run.client_name(second.process), case.run.client_name(first.process));
        let sentence = format!(
            "{thread} received the lock at {}. {other}, a thread of the same process, had held it since {}, and no command created a key \
             for {thread}.",
            moment(acquired),
            moment(from),
        );
        let mut finding = case.finding(own, &[own.place], &[], Harm::Misled(second.index), sentence);
        finding.time = acquired;
        finding.operations = vec![first.index, second.index];
        found.push(finding);
    }
    found
}

/// True if the key's node was watched since its creation, and the lock has no other node.
fn is_alone(case: &Case, own: &Act, until: u64) -> bool {
    case.run.nodes == 1 && case.acts.was_watched(own.node, own.time, until)
}

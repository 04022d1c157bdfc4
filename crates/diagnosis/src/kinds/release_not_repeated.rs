//! A release that fails or is cancelled, and leaves the key behind.

use super::script_forgotten::met_no_script;
use super::*;
use base::redis_commands::{may_write, runs_a_script};
use super::attempt_left_lock::{seen_until, takes_over};

pub static KIND: Kind = Kind {
    code: "RJ040",
    name: "release-not-repeated",
    title: "A release that fails or is cancelled leaves the key behind.",
    rule: "Until the server has answered, the key may still be there. So the client must keep its value, and send the release \
        again.",
    source: REDIS_LOCKS,
    fix: "After an error or a cancellation, send the release again, or let the caller do so. Forget the value only after the server has \
          answered.",
    commands: super::COMPARE_AND_DELETE,
    right: Some(("single", "failed-release")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let created = case.acts.all.iter().filter(|act| act.is_done() && act.create().is_some());
    created.filter_map(|act| finding(case, act)).collect()
}

fn finding(case: &Case, act: &Act) -> Option<Finding> {
    let operation = case.of(act)?;
    let over = operation.completed?;
    let releasing = operation.phase(Phase::Releasing)?.time();
    // A request on its way may create the key after the release. A late request of an earlier attempt has another value.
    let granted = operation.phase(Phase::Acquired).map_or(releasing, PhaseStamp::time);
    let is_of_lock = || Some(case.last_value(act.operation?, granted)? == act.create()?.token);
    // A cancelled operation may report a second release that did nothing.
    let released = operation.outcome == Outcome::Ok && operation.phase(Phase::Released).is_some();
    if released || act.time >= releasing || is_of_lock() != Some(true) {
        return None;
    }
    // A library that reports the error leaves it to its caller to try again. Here the caller did, or could not.
    if !(case.history.cancelled.contains_key(&operation.index) || asks_again(case, act.client)) {
        return None;
    }
    if met_no_script(operation) || has_repeated(case, act, releasing, over) {
        return None;
    }
    // The state of the key when a later command accessed it.
    let told = case.acts.after(act).find(|other| other.time > over && other.owner().is_some())?;
    let owned = told.owner().filter(|owned| owned.created == act.place)?;
    let end = match owned.end {
        KeyEnd::At(end) => end,
        KeyEnd::Never => told.time,
        KeyEnd::Unknown => return None,
    };
    let own = || case.acts.after(act).filter(|other| other.client == act.client && other.time > over);
    // The next attempt of this client may find the key by its value, and continue with it.
    let next = own().find(|other| other.time <= end && other.operation != act.operation);
    let until = next.filter(|next| takes_over(case, next)).map_or(end, |next| next.time).min(seen_until(case, act));
    let removes = |other: &Act| matches!(other.what, Change::Remove | Change::Other);
    let again = own().take_while(|other| other.time < until).any(removes);
    // A late renewal may extend the key beyond that.
    let is_late =
        |other: &Act| other.time > over && other.operation == act.operation && matches!(other.what, Change::Renew(_));
    let is_extended = case.acts.after(act).any(is_late);
    let is_whole = case.acts.was_watched(act.node, act.time, told.time);
    // The client had the time to send it again. Also, its requests could pass, or a held request shows that it sent nothing else.
    let could = case.ran_for(act.client, over, until) >= case.ttl / 4
        && (case.could_send(act.client, act.node, over, until) || is_held(case, act, over, end));
    if again || is_extended || !is_whole || !could {
        return None;
    }
    let sentence = format!(
        "{} created the key{}. The release ended at {} without removing the key, and no further release followed. The key stayed \
         for another {}.",
        case.did(act),
        on(case, act.node),
        moment(over),
        length(until.saturating_sub(over))
    );
    Some(case.finding(act, &[act.place, told.place], &[act.operation], Harm::Kept, sentence))
}

/// True if the script made this client release twice.
fn asks_again(case: &Case, client: &str) -> bool {
    let number = client.trim_start_matches('c');
    let mut steps = case.history.steps.iter().map(|(_, step)| &*step.step);
    steps.any(|step| step.starts_with(&format!("start client:{number} ")) && step.contains("releasing again"))
}

/// True if the client sent more than one command that may remove the key during its release.
fn has_repeated(case: &Case, act: &Act, releasing: u64, over: u64) -> bool {
    let meanwhile = releasing.saturating_sub(EDGE)..=over.saturating_add(EDGE);
    let is_try = |command: &&RecordedCommand| {
        let name = command.name();
        command.from.as_deref() == Some(act.client)
            && command.node == act.node
            && meanwhile.contains(&command.time)
            && (may_write(&name) || runs_a_script(&name))
            && command.words.iter().any(|word| word == act.key)
    };
    case.commands.iter().filter(is_try).nth(1).is_some()
}

/// True if a fault held one request of the client from before `over` until the key had expired, and no other request followed. So
/// the client sent nothing else.
fn is_held(case: &Case, act: &Act, over: u64, end: u64) -> bool {
    let Some(heal) = case.held_until(act.client, act.node, over).filter(|heal| *heal > end) else { return false };
    let after = case.commands.iter().enumerate().filter(|(_, command)| {
        command.from.as_deref() == Some(act.client) && command.node == act.node && command.time > over
    });
    let next = case.history.operations.iter().filter(|one| case.run.client_name(one.process) == act.client);
    let next = next.map(|one| one.invoked).filter(|invoked| *invoked > over).min().unwrap_or(u64::MAX);
    let mut own = after.filter(|(_, command)| command.time < next && command.words.iter().any(|word| word == act.key));
    let is_it = own.next().is_some_and(|(_, command)| command.time > heal);
    is_it && own.next().is_none()
}

//! Tries the abilities that locks use, on keys of doctor's own. The keys expire by themselves and are removed at the end.
//!
//! No trial leaves a script: EVAL gets a text that does not compile. This shows that the server accepts scripts, and leaves
//! nothing.

use redis::Value;

use crate::connection::{Question, Session};
use crate::observations::{Ability, NOT_REPLICATED, Name, Role, Seen, Server};
use crate::values::{Answer, list, number, text};

/// The TTL of doctor's keys, in milliseconds. A trial takes less.
const KEY_TTL: &str = "3000";

/// The time limit for WAIT and WAITAOF, in milliseconds.
const WAIT: &str = "60";

/// At most this many keys are tried to find one that this cluster node serves.
const TRIED_KEYS: usize = 64;

/// No server has a script with this digest, or a function of this name.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";
const NO_FUNCTION: &str = "redjepsen_doctor_none";

type Judge = fn(&Answer) -> Seen<String>;

pub async fn make(server: &mut Server, session: &mut Session<'_>, other: Option<&mut Session<'_>>, own: &str) {
    let keys: Vec<String> = (0..TRIED_KEYS).map(|number| format!("{own}{{{number}}}")).collect();
    let one = [question(&["GET", &keys[0]])];
    let first = session.ask(&one).await;
    let mut key = &keys[0];
    if moved(&first[0]) {
        let questions: Vec<Question> = keys.iter().map(|key| question(&["GET", key])).collect();
        let answers = session.ask(&questions).await;
        match keys.iter().zip(&answers).find(|(_, answer)| !moved(answer)) {
            Some((found, _)) => key = found,
            // A node that serves no slot cannot hold a lock.
            None => return,
        }
    }
    let trials = trials(key);
    let mut questions: Vec<Question> = trials.iter().map(|(_, question, _)| question.clone()).collect();
    let latch = format!("redisson_unlock_latch:{{{key}}}");
    questions.push(question(&["PTTL", &latch]));
    questions.push(question(&["DEL", key]));
    let answers = session.ask(&questions).await;
    for ((ability, _, judge), answer) in trials.iter().zip(&answers) {
        // If an ability has several trials, the first failure counts.
        let set = server.abilities.get(&Ability::SetNxPx).is_none_or(Seen::is_known);
        let judged = match ability {
            // Without the key, only the execution of the command can be observed.
            Ability::Get | Ability::Pttl | Ability::Pexpire if !set => reached(answer),
            _ => judge(answer),
        };
        let seen = note(server, answer, judged, ability.rule(), own);
        let kept = server.abilities.entry(*ability).or_insert_with(|| seen.clone());
        if kept.is_known() {
            *kept = seen;
        }
    }
    if let Some(answer) = answers.get(trials.len()) {
        if answer.error().is_some_and(|error| error.starts_with("NOPERM") && error.contains("key")) {
            server.missing_rules.insert(Name::RedissonLatch.rule().to_string());
        }
        server.names.insert(Name::RedissonLatch, reached(answer));
    }
    let removed = answers.last().unwrap_or(&Answer::Late);
    let seen =
        note(server, removed, removed.seen(|value| number(value).map(|_| String::new())), Ability::Del.rule(), own);
    let set = server.abilities.get(&Ability::SetNxPx).is_some_and(Seen::is_known);
    if set && !seen.is_known() {
        server.left_keys += 1;
    }
    server.abilities.insert(Ability::Del, seen);
    if answers[0].error().is_some_and(|error| error.starts_with("READONLY")) {
        server.role = Role::Replica;
    }
    events(server);
    if let Some(other) = other {
        subscribe(server, other, key, own).await;
    }
}

fn question(words: &[&str]) -> Question {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn moved(answer: &Answer) -> bool {
    answer.error().is_some_and(|error| error.starts_with("MOVED"))
}

/// The trials in order, on one key: the ability, the command, and the judge of its answer.
fn trials(key: &str) -> Vec<(Ability, Question, Judge)> {
    use Ability::*;
    let of = |ability, words: &[&str], judge: Judge| (ability, question(words), judge);
    vec![
        of(SetNxPx, &["SET", key, "a", "NX", "PX", KEY_TTL], okay),
        of(SetNxPx, &["SET", key, "b", "NX", "PX", KEY_TTL], |answer| {
            answer.seen(|value| (*value == Value::Nil).then(String::new))
        }),
        of(Get, &["GET", key], |answer| answer.seen(|value| (text(value)? == "a").then(String::new))),
        of(Pttl, &["PTTL", key], |answer| answer.seen(|value| (number(value)? > 0).then(String::new))),
        of(Pexpire, &["PEXPIRE", key, KEY_TTL], one),
        of(SetIfeq, &["SET", key, "a", "IFEQ", "a", "PX", KEY_TTL], okay),
        of(Delex, &["DELEX", key, "IFEQ", "b"], zero),
        of(Delifeq, &["DELIFEQ", key, "b"], zero),
        of(Eval, &["EVAL", "this does not compile", "1", key], |answer| expected(answer, "compil")),
        of(Evalsha, &["EVALSHA", NO_SCRIPT, "1", key], |answer| expected(answer, "NOSCRIPT")),
        of(Functions, &["FCALL", NO_FUNCTION, "1", key], |answer| match expected(answer, "not found") {
            Seen::Known(_) => Seen::Known("FUNCTION LOAD was not tried".to_string()),
            other => other,
        }),
        of(Publish, &["PUBLISH", key, "a"], |answer| answer.seen(|value| number(value).map(|_| String::new()))),
        of(Wait, &["WAIT", "1", WAIT], |answer| {
            answer.seen(|value| {
                number(value).map(|count| match count {
                    0 => NOT_REPLICATED.to_string(),
                    1 => "1 replica has the write".to_string(),
                    _ => format!("{count} replicas have the write"),
                })
            })
        }),
        of(Waitaof, &["WAITAOF", "1", "0", WAIT], |answer| {
            answer.seen(|value| {
                let synced = number(list(value)?.first()?)?;
                Some(if synced > 0 { "the write is on disk".to_string() } else { "not on disk in time".to_string() })
            })
        }),
    ]
}

fn okay(answer: &Answer) -> Seen<String> {
    answer.seen(|value| (*value == Value::Okay).then(String::new))
}

fn one(answer: &Answer) -> Seen<String> {
    answer.seen(|value| (number(value)? == 1).then(String::new))
}

fn zero(answer: &Answer) -> Seen<String> {
    answer.seen(|value| (number(value)? == 0).then(String::new))
}

/// Expects an error that only a server that executes the command can send.
fn expected(answer: &Answer, part: &str) -> Seen<String> {
    match answer {
        Answer::Error(error) if error.contains(part) && !error.starts_with("NOPERM") => Seen::Known(String::new()),
        Answer::Said(_) => Seen::Unknown,
        other => other.seen(|_| None),
    }
}

/// Accepts any answer that passed the access rules, such as a redirection.
fn reached(answer: &Answer) -> Seen<String> {
    match answer {
        Answer::Error(error) if error.starts_with("MOVED") => Seen::Known(String::new()),
        other => other.seen(|_| Some(String::new())),
    }
}

/// Records the missing rule if the access rules rejected the command.
fn note(server: &mut Server, answer: &Answer, seen: Seen<String>, rule: &str, own: &str) -> Seen<String> {
    if let Answer::Error(error) = answer
        && error.starts_with("NOPERM")
    {
        server.missing_rules.insert(missing(error, rule, own));
    }
    seen
}

/// The ACL rule that would allow it: for the command, a key or a channel.
fn missing(error: &str, rule: &str, own: &str) -> String {
    // Leave out the random part, which differs each time.
    let prefix = own.trim_end_matches(':').rsplit_once(':').map_or(own, |(prefix, _)| prefix);
    if error.contains("channel") {
        format!("&{prefix}:*")
    } else if error.contains("key") {
        format!("~{prefix}:*")
    } else {
        rule.to_string()
    }
}

/// Records if subscribers are notified of expired keys.
fn events(server: &mut Server) {
    let seen = match &server.notifications {
        Seen::Known(flags) => {
            let told = flags.contains(['K', 'E']) && flags.contains(['A', 'x']);
            if told {
                Seen::Known(format!("notify-keyspace-events {flags}"))
            } else {
                Seen::Refused("notify-keyspace-events is off for expired keys".to_string())
            }
        }
        Seen::Forbidden => Seen::Forbidden,
        Seen::Refused(text) => Seen::Refused(text.clone()),
        Seen::Unknown => Seen::Unknown,
    };
    server.abilities.insert(Ability::KeyspaceEvents, seen);
}

/// Subscribes on a separate connection, because it accepts no other commands afterwards.
async fn subscribe(server: &mut Server, other: &mut Session<'_>, key: &str, own: &str) {
    let channel = format!("redisson_lock__channel:{{{key}}}");
    let answers = other.ask(&[question(&["SUBSCRIBE", key]), question(&["SUBSCRIBE", &channel])]).await;
    let subscribed = |answer: &Answer| answer.seen(|value| push(value).then(String::new));
    let seen = note(server, &answers[0], subscribed(&answers[0]), Ability::Subscribe.rule(), own);
    server.abilities.insert(Ability::Subscribe, seen);
    let seen = subscribed(&answers[1]);
    if let Some(error) = answers[1].error().filter(|error| error.starts_with("NOPERM")) {
        let rule = if error.contains("channel") { Name::RedissonChannel.rule() } else { Ability::Subscribe.rule() };
        server.missing_rules.insert(rule.to_string());
    }
    server.names.insert(Name::RedissonChannel, seen);
}

fn push(value: &Value) -> bool {
    match value {
        Value::Push { .. } => true,
        value => list(value).and_then(<[Value]>::first).and_then(text).is_some_and(|word| word == "subscribe"),
    }
}

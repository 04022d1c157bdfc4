//! Observes one server: its kind, its settings, and the abilities that it offers to a lock.

use std::time::UNIX_EPOCH;

use redis::Value;

use super::{info, sentinel, slots, trial};
use crate::connection::{Dialer, Session, words};
use crate::observations::{Clock, Group, Kind, Mode, Role, Seen, Server};
use crate::values::{Answer, fields, list, long_text, map, number, text};
use remote::Address;

/// An address to observe.
pub struct Task {
    pub address: Address,
    pub announced_by: Option<String>,
}

/// The questions for every server, each with the ACL rule that allows it.
const QUESTIONS: [(&str, &str); 11] = [
    ("HELLO 2", "+hello"),
    ("INFO", "+info"),
    ("ROLE", "+role"),
    ("CLIENT INFO", "+client|info"),
    ("PUBSUB NUMSUB __sentinel__:hello", "+pubsub|numsub"),
    ("CONFIG GET appendonly", "+config|get"),
    ("CONFIG GET appendfsync", "+config|get"),
    ("CONFIG GET save", "+config|get"),
    ("CONFIG GET min-replicas-to-write", "+config|get"),
    ("CONFIG GET maxmemory-policy", "+config|get"),
    ("CONFIG GET notify-keyspace-events", "+config|get"),
];

/// The number of clock samples. The fastest answer counts.
const CLOCK_SAMPLES: usize = 3;

pub async fn look_at(dialer: Dialer<'_>, task: &Task, own: &str) -> Server {
    let mut server =
        Server { address: task.address.to_string(), announced_by: task.announced_by.clone(), ..Server::default() };
    let named_sentinel = dialer.request.sentinel.is_some() && task.announced_by.is_none();
    let (first, second) = tokio::join!(
        Session::open(dialer, &task.address, named_sentinel),
        Session::open(dialer, &task.address, named_sentinel)
    );
    let mut session = match first {
        Ok(session) => session,
        Err(why) => {
            server.unreached = Some(why);
            return server;
        }
    };
    let answers = session.ask(&QUESTIONS.map(|(question, _)| words(question))).await;
    describe(&mut server, &answers, &session);
    let mut other = second.ok();
    if let Some(other) = &mut other {
        server.varies = varies(&server, other).await;
    }
    if server.mode == Mode::Sentinel || named_sentinel {
        server.groups = sentinel::ask(&mut session, dialer.request.sentinel.as_deref()).await;
        if server.groups.is_known() {
            (server.mode, server.role) = (Mode::Sentinel, Role::Sentinel);
        }
        server.unreached = no_group(&server.groups, dialer.request.sentinel.as_deref());
        if server.groups == Seen::Forbidden {
            server.missing_rules.insert("+sentinel|masters".to_string());
        }
    } else {
        for ((_, rule), answer) in QUESTIONS.iter().zip(&answers) {
            if answer.seen(|_| Some(())) == Seen::Forbidden {
                server.missing_rules.insert((*rule).to_string());
            }
        }
        server.clock = clock(&mut session, &mut server).await;
        if server.mode != Mode::Standalone {
            let (view, forbidden) = slots::ask(&mut session, &task.address.host).await;
            if view.is_known() {
                server.mode = Mode::Cluster;
            }
            if server.mode == Mode::Cluster {
                server.cluster = view;
                let rules = forbidden.iter().filter(|(_, is)| *is).map(|(rule, _)| (*rule).to_string());
                server.missing_rules.extend(rules);
            }
        }
        if server.role != Role::Replica {
            trial::make(&mut server, &mut session, other.as_mut(), own).await;
        }
    }
    server
}

/// Why a Sentinel leads to no primary, as a sentence with a remedy. None if it leads to one.
fn no_group(groups: &Seen<Vec<Group>>, name: Option<&str>) -> Option<String> {
    match (groups, name) {
        (Seen::Known(groups), Some(name)) if groups.is_empty() => {
            Some(format!("This Sentinel watches no group called {name}. Leave --sentinel out to see all groups."))
        }
        (Seen::Known(groups), None) if groups.is_empty() => Some("This Sentinel watches no primary.".to_string()),
        (Seen::Known(_), _) => None,
        (Seen::Refused(_), _) => Some(
            "This server is not a Sentinel. Leave --sentinel out, or give the addresses of the Sentinels.".to_string(),
        ),
        (Seen::Forbidden, _) => {
            Some("This user may not run SENTINEL. Add +sentinel|masters and +sentinel|replicas.".to_string())
        }
        (Seen::Unknown, _) => Some("This Sentinel does not answer SENTINEL MASTERS in time.".to_string()),
    }
}

/// Copies the answers to [`QUESTIONS`] into the server.
fn describe(server: &mut Server, answers: &[Answer], session: &Session<'_>) {
    let [hello, info, role, client, watchers, settings @ ..] = answers else { return };
    if let Some(said) = hello.value().and_then(map) {
        let get = |name: &str| said.get(name).and_then(text);
        match get("server").as_deref() {
            Some("redis") => server.kind = Kind::Redis,
            Some("valkey") => server.kind = Kind::Valkey,
            _ => {}
        }
        server.version = get("version").filter(|_| server.kind != Kind::Unknown);
        match get("mode").as_deref() {
            Some("standalone") => server.mode = Mode::Standalone,
            Some("cluster") => server.mode = Mode::Cluster,
            Some("sentinel") => server.mode = Mode::Sentinel,
            _ => {}
        }
        take_role(server, get("role").as_deref());
    }
    let said = role.value().and_then(list).and_then(<[Value]>::first).and_then(text);
    take_role(server, said.as_deref());
    let seen = info.seen(|value| Some(fields(&long_text(value)?)));
    match &seen {
        Seen::Known(fields) => info::take(server, fields),
        Seen::Forbidden => {
            server.append_only = Seen::Forbidden;
            server.replicas = Seen::Forbidden;
            server.used_memory = Seen::Forbidden;
            server.max_memory = Seen::Forbidden;
            server.policy = Seen::Forbidden;
            server.min_replicas = Seen::Forbidden;
        }
        Seen::Refused(_) | Seen::Unknown => {}
    }
    server.translated = client.seen(|value| {
        let said = text(value)?;
        let address = said.split(' ').find_map(|part| part.strip_prefix("addr="))?;
        let here = session.local()?;
        Some(address.rsplit_once(':')?.1 != here.port().to_string())
    });
    server.watched = watchers.seen(|value| Some(number(list(value)?.get(1)?)? > 0));
    take_settings(server, settings);
}

fn take_role(server: &mut Server, said: Option<&str>) {
    match said {
        Some("master") => server.role = Role::Primary,
        Some("slave" | "replica") => server.role = Role::Replica,
        Some("sentinel") => server.role = Role::Sentinel,
        _ => {}
    }
}

fn take_settings(server: &mut Server, answers: &[Answer]) {
    let setting = |index: usize, name: &str| {
        let answer = answers.get(index).unwrap_or(&Answer::Late);
        answer.seen(|value| map(value)?.get(name).and_then(text))
    };
    let append_only = setting(0, "appendonly");
    if let Seen::Known(text) = &append_only
        && matches!(&**text, "yes" | "no")
    {
        server.append_only = Seen::Known(text == "yes");
    }
    server.fsync = setting(1, "appendfsync");
    server.snapshots = match setting(2, "save") {
        Seen::Known(text) => Seen::Known(!text.trim().is_empty()),
        Seen::Forbidden => Seen::Forbidden,
        Seen::Refused(text) => Seen::Refused(text),
        Seen::Unknown => Seen::Unknown,
    };
    if let Seen::Known(text) = setting(3, "min-replicas-to-write")
        && let Ok(number) = text.parse()
    {
        server.min_replicas = Seen::Known(number);
    }
    if let Seen::Known(text) = setting(4, "maxmemory-policy") {
        server.policy = Seen::Known(text);
    }
    server.notifications = setting(5, "notify-keyspace-events");
}

/// True if another connection reaches another server.
async fn varies(server: &Server, other: &mut Session<'_>) -> Seen<bool> {
    let Some(first) = &server.run_id else { return Seen::Unknown };
    let answers = other.ask(&[words("INFO server")]).await;
    answers[0].seen(|value| Some(fields(&long_text(value)?).get("run_id")? != first))
}

/// The offset of the server's clock, from the fastest of a few answers.
async fn clock(session: &mut Session<'_>, server: &mut Server) -> Option<Clock> {
    let mut best: Option<Clock> = None;
    for _ in 0..CLOCK_SAMPLES {
        let (answer, began, took) = session.timed(&words("TIME")).await;
        if answer.seen(|_| Some(())) == Seen::Forbidden {
            server.missing_rules.insert("+time".to_string());
        }
        let parts = answer.value().and_then(list)?;
        let part = |index: usize| parts.get(index).and_then(number);
        let there = part(0)?.checked_mul(1_000_000)?.checked_add(part(1)?)?;
        let here = began.duration_since(UNIX_EPOCH).ok()? + took / 2;
        let sample = Clock {
            ahead_us: there.checked_sub(i64::try_from(here.as_micros()).ok()?)?,
            within_us: u64::try_from(took.as_micros()).ok()?.div_ceil(2),
        };
        if best.is_none_or(|best| sample.within_us < best.within_us) {
            best = Some(sample);
        }
    }
    best
}

//! Asks a Sentinel about the primaries that it watches.

use std::collections::BTreeMap;

use redis::Value;

use super::joined;
use crate::connection::{Session, words};
use crate::observations::{Group, Seen};
use crate::values::{list, map, number, text};

/// Asks for all groups, or for the group of this name.
pub async fn ask(session: &mut Session<'_>, name: Option<&str>) -> Seen<Vec<Group>> {
    let answer = session.ask(&[words("SENTINEL MASTERS")]).await;
    let seen = answer[0].seen(|value| Some(list(value)?.iter().filter_map(group).collect::<Vec<Group>>()));
    let Seen::Known(mut groups) = seen else { return seen };
    groups.retain(|group| name.is_none_or(|name| group.name == name));
    let questions = groups
        .iter()
        .map(|group| ["SENTINEL", "REPLICAS", &group.name].iter().map(|word| word.as_bytes().to_vec()).collect());
    let questions: Vec<_> = questions.collect();
    let answers = session.ask(&questions).await;
    for (group, answer) in groups.iter_mut().zip(answers) {
        let replicas = answer.value().and_then(list).unwrap_or_default();
        group.replicas = replicas.iter().filter_map(|value| place(&map(value)?)).collect();
    }
    Seen::Known(groups)
}

fn place(fields: &BTreeMap<String, Value>) -> Option<String> {
    Some(joined(&text(fields.get("ip")?)?, &text(fields.get("port")?)?))
}

fn group(value: &Value) -> Option<Group> {
    let fields = map(value)?;
    let get = |name: &str| fields.get(name).and_then(number).and_then(|number| number.try_into().ok());
    let flags = fields.get("flags").and_then(text).unwrap_or_default();
    Some(Group {
        name: fields.get("name").and_then(text)?,
        primary: place(&fields)?,
        replicas: Vec::new(),
        number_of_replicas: get("num-slaves"),
        down_after_ms: get("down-after-milliseconds"),
        failover_timeout_ms: get("failover-timeout"),
        quorum: get("quorum"),
        others: get("num-other-sentinels"),
        down: flags.split(',').any(|flag| ["s_down", "o_down"].contains(&flag)),
    })
}

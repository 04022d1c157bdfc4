//! What has to be true before the first operation and after the last one, and the final reads.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Run, RunError};
use crate::cluster::Roles;
use crate::faults::{AgentError, RedisCommand, RedisReply};
use crate::history::{Amount, Body, Completion, Fact, FactName, Function, Invocation, Outcome, Process, Reading};
use crate::scenario::ResourceKind;
use crate::stored::Stored;

/// How long a server may take to give its first answer.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to answer after the last heal.
const HEALTHY_LIMIT: Duration = Duration::from_secs(5);
/// How long nodes may take after the last heal to agree on who is what. Sentinels tell a primary that was deposed so only
/// once it has called itself one for eight seconds.
const ROLES_LIMIT: Duration = Duration::from_secs(40);
/// One request of ours to a server.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
/// Of a list that takes more bytes only the length is recorded, so that its line stays one that can be loaded.
const LONGEST_LIST: usize = 1 << 20;

impl Run<'_> {
    /// Waits until every server answers and makes sure that the resource is empty.
    pub(super) async fn establish_facts(&self) -> Result<(), RunError> {
        let silent = self.silent_servers(START_LIMIT).await;
        if !silent.is_empty() {
            return Err(RunError::NotReady(format!(
                "{} did not answer within {} s; look at the logs in the run folder, or try another --image",
                silent.join(", "),
                START_LIMIT.as_secs()
            )));
        }
        match self.cluster.settle_roles(START_LIMIT).await {
            Ok(roles) => {
                let text = format!("{} nodes and the resource answer{}", self.scenario.nodes, in_words(roles));
                self.fact(FactName::NodesReady, true, text)?;
            }
            Err(reason) => return Err(RunError::NotReady(format!("the nodes' roles are not settled: {reason}"))),
        }
        let (empty, text) = match self.ask(&self.cluster.store_url(), RedisCommand::Dbsize).await {
            Ok(RedisReply::Count(keys)) => (keys == 0, format!("{keys} keys")),
            other => (false, format!("{other:?}")),
        };
        self.fact(FactName::ResourceEmpty, empty, text)
    }

    /// After the last heal: do all servers answer again, and does every node know its place again?
    pub(super) async fn check_health(&self) -> Result<(), RunError> {
        let silent = self.silent_servers(HEALTHY_LIMIT).await;
        if !silent.is_empty() {
            let text = format!("{} did not answer within {} s", silent.join(", "), HEALTHY_LIMIT.as_secs());
            return self.fact(FactName::NodesHealthy, false, text);
        }
        let (settled, text) = match self.cluster.settle_roles(ROLES_LIMIT).await {
            Ok(roles) => (true, format!("every node and the resource answer{}", in_words(roles))),
            Err(reason) => (false, format!("the nodes' roles did not settle in {} s: {reason}", ROLES_LIMIT.as_secs())),
        };
        self.fact(FactName::NodesHealthy, settled, text)
    }

    /// Reads every key, after the last client is gone and what it had sent has been carried out.
    pub(super) async fn final_reads(&self) -> Result<(), RunError> {
        if let Err(text) = self.nobody_writes_any_more().await {
            return self.fact(FactName::FinalReads, false, text);
        }
        let mut failed = None;
        for number in 0..self.scenario.keys {
            let key = format!("k{number}");
            let process = Process::Controller;
            self.recorder.append(Body::Invoke(Invocation {
                process,
                f: Function::Read,
                key: key.clone(),
                new: None,
            }))?;
            let reply = self.ask(&self.cluster.store_url(), RedisCommand::Get(key.clone())).await;
            let read = match reply {
                Ok(RedisReply::Value(text)) => final_value(self.scenario.workload.resource.kind, text),
                Ok(other) => Err(format!("{other:?}")),
                Err(error) => Err(error.to_string()),
            };
            let (outcome, (old, amount), text) = match read {
                Ok(read) => (Outcome::Ok, read, None),
                Err(text) => (Outcome::Fail, (Reading::Unknown, None), Some(text)),
            };
            if let Some(text) = &text {
                failed = Some(format!("{key}: {text}"));
            }
            self.recorder.append(Body::Complete(Completion {
                process,
                f: Function::Read,
                key,
                outcome,
                old,
                amount,
                new: None,
                error: text.as_ref().map(|_| "unavailable".to_string()),
                text,
            }))?;
        }
        let text = failed.clone().unwrap_or_else(|| format!("{} keys read", self.scenario.keys));
        self.fact(FactName::FinalReads, failed.is_none(), text)
    }

    /// A server answers what it has received on a connection before it notices that the connection is closed, so once
    /// ours is the only one left, nothing that a client sent can still be carried out.
    async fn nobody_writes_any_more(&self) -> Result<(), String> {
        let deadline = Instant::now() + HEALTHY_LIMIT;
        loop {
            let seen = match self.ask(&self.cluster.store_url(), RedisCommand::Connections).await {
                Ok(RedisReply::Count(0..=1)) => return Ok(()),
                Ok(RedisReply::Count(connections)) => {
                    format!("{} connections to the resource are still open", connections - 1)
                }
                Ok(other) => format!("{other:?}"),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= deadline {
                return Err(seen);
            }
            sleep(BETWEEN_TRIES).await;
        }
    }

    /// The servers that do not answer before the time is over.
    async fn silent_servers(&self, limit: Duration) -> Vec<String> {
        let deadline = Instant::now() + limit;
        let answers = self.cluster.members().filter(|member| member.role.is_server()).map(|server| async move {
            loop {
                if self.cluster.is_ready(server).await.is_ok() {
                    return None;
                }
                if Instant::now() >= deadline {
                    return Some(server.name.clone());
                }
                sleep(BETWEEN_TRIES).await;
            }
        });
        futures_util::future::join_all(answers).await.into_iter().flatten().collect()
    }

    async fn ask(&self, url: &str, command: RedisCommand) -> Result<RedisReply, AgentError> {
        self.cluster.agent.redis(url, command, REQUEST_LIMIT).await
    }

    pub(super) fn fact(&self, name: FactName, holds: bool, text: String) -> Result<(), RunError> {
        self.recorder.append(Body::Fact(Fact { name, holds, text }))?;
        Ok(())
    }
}

/// What a key was found to hold at the end, as a history says it.
fn final_value(kind: ResourceKind, text: Option<String>) -> Result<(Reading, Option<Amount>), String> {
    let bytes = text.as_ref().map_or(0, String::len);
    let stored = Stored::read(kind, text).map_err(|error| error.to_string())?;
    let amount = match stored.amount {
        Some(Amount::Elements(elements)) if bytes > LONGEST_LIST => Some(Amount::Count(elements.len() as u64)),
        amount => amount,
    };
    Ok((stored.value.map_or(Reading::Empty, Reading::Value), amount))
}

fn in_words(roles: Option<Roles>) -> String {
    roles.map_or(String::new(), |roles| format!("; {roles}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_final_read_holds_the_whole_list_unless_no_line_could() {
        let text = |value: &str, times: usize| Some(serde_json::to_string(&vec![value; times]).unwrap());
        let (old, amount) = final_value(ResourceKind::List, text("c1:0", 3)).unwrap();
        assert_eq!((old, amount), (Reading::Value("c1:0".into()), Some(Amount::Elements(vec!["c1:0".into(); 3]))));
        let (_, amount) = final_value(ResourceKind::List, text("c1:0", LONGEST_LIST / 7)).unwrap();
        assert!(matches!(amount, Some(Amount::Elements(_))));
        let (_, amount) = final_value(ResourceKind::List, text("c1:0", LONGEST_LIST / 6)).unwrap();
        assert_eq!(amount, Some(Amount::Count(LONGEST_LIST as u64 / 6)));
        assert_eq!(final_value(ResourceKind::Counter, None).unwrap(), (Reading::Empty, Some(Amount::Count(0))));
        assert!(final_value(ResourceKind::Counter, Some("c1:0".into())).unwrap_err().contains("no counter"));
    }
}

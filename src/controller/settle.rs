//! What has to be true before the first operation and after the last one, and the final reads.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Run, RunError};
use crate::faults::{AgentError, RedisCommand, RedisReply};
use crate::history::{Body, Completion, Fact, FactName, Function, Invocation, Outcome, Process, Reading};

/// How long a server may take to answer its first PING.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to answer after the last heal.
const HEALTHY_LIMIT: Duration = Duration::from_secs(5);
/// One request of ours to a server.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

impl Run<'_> {
    /// Waits until every server answers and makes sure that the resource is empty.
    pub(super) async fn establish_facts(&self) -> Result<(), RunError> {
        let silent = self.silent_servers(START_LIMIT).await;
        if !silent.is_empty() {
            return Err(RunError::NotReady(format!(
                "{} did not answer PING within {} s; look at the logs in the run folder, or try another --image",
                silent.join(", "),
                START_LIMIT.as_secs()
            )));
        }
        self.fact(FactName::NodesReady, true, format!("{} nodes and the resource answer PING", self.scenario.nodes))?;
        let (empty, text) = match self.ask(&self.cluster.store_url(), RedisCommand::Dbsize).await {
            Ok(RedisReply::Count(keys)) => (keys == 0, format!("{keys} keys")),
            other => (false, format!("{other:?}")),
        };
        self.fact(FactName::ResourceEmpty, empty, text)
    }

    /// After the last heal: do all servers answer again?
    pub(super) async fn check_health(&self) -> Result<(), RunError> {
        let silent = self.silent_servers(HEALTHY_LIMIT).await;
        let text = if silent.is_empty() {
            "every node and the resource answer PING".to_string()
        } else {
            format!("{} did not answer within {} s", silent.join(", "), HEALTHY_LIMIT.as_secs())
        };
        self.fact(FactName::NodesHealthy, silent.is_empty(), text)
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
            let (outcome, old, text) = match reply {
                Ok(RedisReply::Value(Some(value))) => (Outcome::Ok, Reading::Value(value), None),
                Ok(RedisReply::Value(None)) => (Outcome::Ok, Reading::Empty, None),
                Ok(other) => (Outcome::Fail, Reading::Unknown, Some(format!("{other:?}"))),
                Err(error) => (Outcome::Fail, Reading::Unknown, Some(error.to_string())),
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

    /// The servers that do not answer PING before the time is over.
    async fn silent_servers(&self, limit: Duration) -> Vec<String> {
        let deadline = Instant::now() + limit;
        let servers =
            (0..).zip(self.cluster.node_urls()).map(|(number, url): (u32, String)| (format!("n{number}"), url));
        let servers: Vec<_> = servers.chain([("the resource".to_string(), self.cluster.store_url())]).collect();
        let answers = servers.into_iter().map(|(name, url)| async move {
            loop {
                if matches!(self.ask(&url, RedisCommand::Ping).await, Ok(RedisReply::Pong)) {
                    return None;
                }
                if Instant::now() >= deadline {
                    return Some(name);
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

//! Conditions that must be true before the first operation and after the last, and the final reads.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Run, RunError};
use crate::cluster::{Member, Roles};
use crate::faults::{AgentError, RedisCommand, RedisReply};
use base::members::Role;
use base::words;
use model::history::{
    Amount, Body, Completion, Fact, FactName, Function, Invocation, Orders, Outcome, Process, Reading, ResourceKind,
};
use model::resource::ResourceValue;

/// How long a server may take to give its first answer.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to answer after the last fault was healed.
pub(super) const HEALTHY_LIMIT: Duration = Duration::from_secs(5);
/// How long nodes may take after the last heal to agree on their roles. Sentinels demote a former primary only after it has
/// called itself a primary for eight seconds.
const ROLES_LIMIT: Duration = Duration::from_secs(40);
/// The time limit of one request from the controller to a server.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);
pub(super) const BETWEEN_TRIES: Duration = Duration::from_millis(10);
/// For a list with more bytes than this, only its length is recorded, so that the history's line can still be loaded.
const LONGEST_LIST: usize = 1 << 20;

impl Run<'_> {
    /// Waits until every server answers, and checks that the resource is empty.
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
                let text = match self.scenario.nodes {
                    0 => "the resource answers".to_string(),
                    nodes => {
                        let nodes = words::plural(u64::from(nodes), "node");
                        format!("{nodes} and the resource answer{}", in_words(roles))
                    }
                };
                self.fact(FactName::NodesReady, true, text)?;
            }
            Err(reason) => return Err(RunError::NotReady(format!("the nodes' roles have not settled: {reason}"))),
        }
        let (empty, text) = match self.keys_in_resource().await {
            Ok(keys) => (keys == 0, format!("{keys} keys")),
            Err(text) => (false, text),
        };
        self.fact(FactName::ResourceEmpty, empty, text)
    }

    /// The servers that store the resource.
    fn keepers(&self) -> Vec<&Member> {
        match self.scenario.workload.resource.kind {
            ResourceKind::Replicated => self.cluster.members().filter(|member| member.role == Role::Node).collect(),
            _ => self.cluster.resource().into_iter().collect(),
        }
    }

    /// How many keys all servers that store the resource have.
    async fn keys_in_resource(&self) -> Result<u64, String> {
        let mut keys = 0;
        for keeper in self.keepers() {
            match self.ask(&keeper.url().unwrap_or_default(), RedisCommand::Dbsize).await {
                Ok(RedisReply::Count(here)) => keys += here,
                other => return Err(format!("{}: {other:?}", keeper.name)),
            }
        }
        Ok(keys)
    }

    /// The server with the authoritative value of a key: the current primary if the resource is replicated.
    async fn keeper_of(&self, key: &str) -> Result<String, String> {
        match self.scenario.workload.resource.kind {
            ResourceKind::Replicated => {
                let primary = self.cluster.primary_of(key).await.ok_or("the nodes do not agree on its primary")?;
                let member = self.cluster.members().find(|member| member.name == primary).and_then(Member::url);
                member.ok_or_else(|| format!("{primary} has no address"))
            }
            _ => Ok(self.cluster.resource_url()),
        }
    }

    /// Records whether, after the last heal, all servers answer again and every node knows its role again.
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

    /// Reads every key, after the last client has ended and the servers have carried out everything it sent.
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
                key: key.as_str().into(),
                new: None,
                orders: Orders::default(),
            }))?;
            let reply = match self.keeper_of(&key).await {
                Ok(url) => {
                    let get = RedisCommand::Get(self.cluster.named_for_clients(&key));
                    self.ask(&url, get).await.map_err(|error| error.to_string())
                }
                Err(text) => Err(text),
            };
            let read = match reply {
                Ok(RedisReply::Value(text)) => final_value(self.scenario.workload.resource.kind, text),
                Ok(other) => Err(format!("{other:?}")),
                Err(text) => Err(text),
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
                key: key.into(),
                outcome,
                old,
                amount,
                new: None,
                error: text.as_ref().map(|_| "unavailable".into()),
                text: text.map(Into::into),
            }))?;
        }
        let text =
            failed.clone().unwrap_or_else(|| format!("{} read", words::plural(u64::from(self.scenario.keys), "key")));
        self.fact(FactName::FinalReads, failed.is_none(), text)
    }

    /// Waits until no client's request can still be carried out. A server carries out everything it has received on a connection
    /// before it notices that the connection is closed. So this is certain once only the controller's connection is left.
    async fn nobody_writes_any_more(&self) -> Result<(), String> {
        let deadline = Instant::now() + HEALTHY_LIMIT;
        loop {
            let seen = match self.connections_of_clients().await {
                Ok(0) => return Ok(()),
                Ok(connections) => {
                    format!("{} to the resource are still open", words::plural(connections, "connection"))
                }
                Err(text) => text,
            };
            if Instant::now() >= deadline {
                return Err(seen);
            }
            sleep(BETWEEN_TRIES).await;
        }
    }

    /// How many connections clients have to the resource. Nodes that replicate it also have connections to each other and to
    /// Sentinels. There, only connections from the clients' addresses count.
    async fn connections_of_clients(&self) -> Result<u64, String> {
        if self.scenario.workload.resource.kind != ResourceKind::Replicated {
            return match self.ask(&self.cluster.resource_url(), RedisCommand::Connections).await {
                Ok(RedisReply::Count(connections)) => Ok(connections.saturating_sub(1)),
                Ok(other) => Err(format!("{other:?}")),
                Err(error) => Err(error.to_string()),
            };
        }
        let clients = self.cluster.members().filter(|member| member.role == Role::Client);
        let addresses: Vec<Ipv4Addr> = clients.filter_map(|client| client.address).collect();
        let mut connections = 0;
        for keeper in self.keepers() {
            let list = RedisCommand::Words(vec!["CLIENT".to_string(), "LIST".to_string()]);
            match self.ask(&keeper.url().unwrap_or_default(), list).await {
                Ok(RedisReply::Text(list)) => connections += connections_from(&list, &addresses).len() as u64,
                other => return Err(format!("{}: {other:?}", keeper.name)),
            }
        }
        Ok(connections)
    }

    /// The servers that have not answered within `limit`.
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

    pub(super) async fn ask(&self, url: &str, command: RedisCommand) -> Result<RedisReply, AgentError> {
        self.cluster.agent.redis(url, command, REQUEST_LIMIT).await
    }

    pub(super) fn fact(&self, name: FactName, holds: bool, text: String) -> Result<(), RunError> {
        self.recorder.append(Body::Fact(Fact { name, holds, text }))?;
        Ok(())
    }
}

/// The final value of a key, in the form for the history.
fn final_value(kind: ResourceKind, text: Option<String>) -> Result<(Reading, Option<Amount>), String> {
    let bytes = text.as_ref().map_or(0, String::len);
    let stored = ResourceValue::read(kind, text).map_err(|error| error.to_string())?;
    let amount = match stored.amount {
        Some(Amount::Elements(elements)) if bytes > LONGEST_LIST => Some(Amount::Count(elements.len() as u64)),
        amount => amount,
    };
    Ok((stored.value.map_or(Reading::Empty, |value| Reading::Value(value.into())), amount))
}

/// The ids of the connections from these addresses, in an answer to CLIENT LIST.
pub(super) fn connections_from<'a>(list: &'a str, addresses: &[Ipv4Addr]) -> Vec<&'a str> {
    let number = |line: &'a str| -> Option<&'a str> {
        let field = |name: &str| line.split_whitespace().find_map(|field| field.strip_prefix(name));
        let address = field("addr=")?.rsplit_once(':')?.0.parse().ok()?;
        addresses.contains(&address).then(|| field("id=").unwrap_or_default())
    };
    list.lines().filter_map(number).collect()
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
        assert!(final_value(ResourceKind::Counter, Some("c1:0".into())).unwrap_err().contains("not a counter"));
    }

    #[test]
    fn only_connections_from_the_clients_addresses_count() {
        let list = "id=3 addr=10.0.0.11:40000 laddr=10.0.0.2:6379 fd=8 name= cmd=set\n\
                    id=4 addr=10.0.0.3:40001 laddr=10.0.0.2:6379 fd=9 name= flags=S cmd=replconf\n\
                    id=5 addr=10.0.0.12:40002 laddr=10.0.0.11:6379 fd=10 name=addr=10.0.0.11:1 cmd=get\n\
                    id=6 addr=/tmp/redis.sock:0 cmd=ping\n\nnonsense\n";
        let addresses = ["10.0.0.11", "10.0.0.12"].map(|address| address.parse().unwrap());
        assert_eq!(connections_from(list, &addresses), ["3", "5"]);
        assert_eq!(connections_from(list, &addresses[..1]), ["3"]);
        assert!(connections_from(list, &[]).is_empty());
        assert!(connections_from("", &addresses).is_empty());
    }
}

//! Sends requests to the node of a Redis Cluster that serves the key's slot.
//!
//! To find this node, it asks one node after another before the first request and after a failed request. A node that answers
//! MOVED or ASK has not carried the request out and names the right node. So following the redirection repeats nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Arg, Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value};
use tokio::sync::Mutex;

use super::Primary;
use crate::client::connection::Connection;
use base::machine::Machine;
use base::slots::{self, ClusterNode, SLOTS};
use model::locks::RequestError;

/// At most this many redirections are followed for one request: nodes that redirect in circles do not know the owner.
const MOST_REDIRECTIONS: u32 = 5;

pub struct BySlot {
    /// Index of the server that is asked for the slots first.
    first: usize,
    limit: Duration,
    machine: Arc<dyn Machine>,
    known: Mutex<SlotMap>,
}

/// The known nodes and slots of the cluster.
struct SlotMap {
    /// Connections by `host:port`; at first to the configured nodes.
    servers: BTreeMap<String, Arc<Connection>>,
    /// The nodes as one node reported them; empty if no node has been asked yet or its report turned out wrong.
    nodes: Vec<ClusterNode>,
    /// Slots that have moved since that report, each with its new `host:port`.
    moved: BTreeMap<u16, String>,
    /// The server that answered the last request.
    last: Option<Arc<Connection>>,
}

#[async_trait]
impl Primary for BySlot {
    async fn request(&self, command: &Cmd) -> Result<Value, RequestError> {
        self.request(command).await
    }

    async fn last_asked(&self) -> Option<Arc<Connection>> {
        self.known.lock().await.last.clone()
    }
}

impl BySlot {
    /// Fails only if a URL is invalid.
    pub fn new(urls: &[String], first: usize, limit: Duration, machine: &Arc<dyn Machine>) -> Result<BySlot, String> {
        let server = |url: &String| {
            let address = url.strip_prefix("redis://").ok_or_else(|| format!("{url} does not begin with redis://"))?;
            Ok::<_, String>((address.to_string(), Arc::new(Connection::new(url, limit, machine)?)))
        };
        let servers = urls.iter().map(server).collect::<Result<_, _>>()?;
        let known = SlotMap { servers, nodes: Vec::new(), moved: BTreeMap::new(), last: None };
        Ok(BySlot { first, limit, machine: Arc::clone(machine), known: Mutex::new(known) })
    }

    pub async fn request<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RequestError> {
        let mut known = self.known.lock().await;
        let answer = self.follow(command, &mut known).await;
        if answer.is_err() {
            known.nodes.clear();
            known.moved.clear();
        }
        answer
    }

    async fn follow<T: FromRedisValue>(&self, command: &Cmd, known: &mut SlotMap) -> Result<T, RequestError> {
        known.last = None;
        let slot = slots::slot(key_of(command));
        let mut address = self.owner(slot, known).await?;
        let mut only_asked = false;
        for _ in 0..=MOST_REDIRECTIONS {
            let server = self.server(&address, known)?;
            if only_asked {
                server.request::<()>(&redis::cmd("ASKING")).await?;
            }
            match server.ask(command).await? {
                Ok(value) => {
                    known.last = Some(server);
                    return Ok(value);
                }
                Err(refusal) => {
                    let (there, moved) = redirection(&refusal)?;
                    if moved {
                        known.moved.insert(slot, there.clone());
                    }
                    (address, only_asked) = (there, !moved);
                }
            }
        }
        Err(RequestError::NotDone(format!("redirected more than {MOST_REDIRECTIONS} times")))
    }

    /// The `host:port` of the node that is known to serve a slot. If none is known, asks the nodes.
    async fn owner(&self, slot: u16, known: &mut SlotMap) -> Result<String, RequestError> {
        if known.nodes.is_empty() {
            known.nodes = self.ask_around(known).await?;
        }
        let serves = |node: &&ClusterNode| node.serves(slot);
        let owner = known.moved.get(&slot).cloned();
        let owner = owner.or_else(|| known.nodes.iter().find(serves).map(|node| node.address.clone()));
        owner.ok_or_else(|| RequestError::NotDone(format!("no node serves slot {slot} of {SLOTS}")))
    }

    /// All nodes, as the first node that answers knows them. Has not yet sent the caller's request.
    async fn ask_around(&self, known: &SlotMap) -> Result<Vec<ClusterNode>, RequestError> {
        let mut last = "there are no nodes".to_string();
        let first = self.first.checked_rem(known.servers.len()).unwrap_or(0);
        let (earlier, later) = (known.servers.iter().take(first), known.servers.iter().skip(first));
        for (address, server) in later.chain(earlier) {
            let mut command = redis::cmd("CLUSTER");
            command.arg("NODES");
            match server.request::<String>(&command).await {
                Ok(answer) => return Ok(slots::parse(&answer)),
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        Err(RequestError::NotDone(format!("no node reports which node serves which slots: {last}")))
    }

    fn server(&self, address: &str, known: &mut SlotMap) -> Result<Arc<Connection>, RequestError> {
        if let Some(server) = known.servers.get(address) {
            return Ok(Arc::clone(server));
        }
        let server =
            Connection::new(&format!("redis://{address}"), self.limit, &self.machine).map_err(RequestError::NotDone)?;
        Ok(Arc::clone(known.servers.entry(address.to_string()).or_insert(Arc::new(server))))
    }
}

/// The node to which a refusal redirects the request, and whether the slot has moved there for good. The refusal itself if it is
/// not a redirection.
fn redirection(refusal: &RedisError) -> Result<(String, bool), RequestError> {
    let moved = refusal.kind() == ErrorKind::Server(ServerErrorKind::Moved);
    match refusal.redirect_node() {
        Some((address, _)) => Ok((address.to_string(), moved)),
        None => Err(RequestError::NotDone(refusal.to_string())),
    }
}

/// The command's key: its first argument, or a script's first key.
fn key_of(command: &Cmd) -> &[u8] {
    let word = |place| match command.args_iter().nth(place) {
        Some(Arg::Simple(word)) => word,
        _ => &[][..],
    };
    if word(0).eq_ignore_ascii_case(b"EVAL") { word(3) } else { word(1) }
}

#[cfg(test)]
mod tests {

    use super::*;
    use base::machine::Stream;

    /// A machine that can't reach any address; remembers the addresses tried.
    #[derive(Default)]
    struct Alone(std::sync::Mutex<Vec<String>>);

    #[async_trait]
    impl Machine for Alone {
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }

        fn wall(&self) -> Duration {
            Duration::ZERO
        }

        async fn connect(&self, host: &str, _: u16) -> std::io::Result<Box<dyn Stream>> {
            self.0.lock().unwrap().push(host.to_string());
            Err(std::io::ErrorKind::ConnectionRefused.into())
        }
    }

    #[tokio::test]
    async fn all_nodes_are_asked_and_not_by_everybody_the_same_one_first() {
        let urls = ["redis://a:1", "redis://b:1", "redis://c:1"].map(str::to_string);
        for (first, order) in [(0, ["a", "b", "c"]), (1, ["b", "c", "a"]), (5, ["c", "a", "b"])] {
            let alone = Arc::new(Alone::default());
            let machine: Arc<dyn Machine> = alone.clone();
            let nodes = BySlot::new(&urls, first, Duration::from_secs(1), &machine).unwrap();
            let mut get = redis::cmd("GET");
            get.arg("k");
            let error = nodes.request::<String>(&get).await.unwrap_err();
            assert!(error.to_string().contains("no node reports which node serves which slots"), "{error}");
            assert_eq!(*alone.0.lock().unwrap(), order);
        }
    }

    #[test]
    fn a_command_goes_by_its_first_key() {
        let mut set = redis::cmd("SET");
        set.arg("lock:k0").arg("mark").arg("NX");
        assert_eq!(key_of(&set), b"lock:k0");
        let mut script = redis::cmd("EVAL");
        script.arg("return 1").arg(1).arg("lock:k0").arg("mark");
        assert_eq!(key_of(&script), b"lock:k0");
        assert_eq!(key_of(&redis::cmd("PING")), b"");
    }
}

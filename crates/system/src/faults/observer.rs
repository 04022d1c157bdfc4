//! Records the contents of the lock's nodes, as an observer outside the run sees them. It has its own connection to each node,
//! which no fault between members affects.
//!
//! Many times per second, it asks for the keys that are named after locks, their values and their remaining TTLs. Less often, it
//! asks for the server's role and clock. Keyspace notifications are not enough. They name a key without its value or its end, a
//! restart resets their setting, and events during a lost connection are missed. MONITOR reports every command, but costs the
//! server time for each. A key that lives for less than the interval between two looks is not seen. Every sighting names the two
//! looks between which it came about.
//!
//! Its load on a server: about fifty times four small questions per second. As at any client's question, the server removes an
//! expired key when it is asked for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::try_join;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd, pipe};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::probe::connect;
use base::machine::Machine;
use base::sync::lock;
use base::units::{micros, millis, nanos};
use model::history::{Held, NodeState, Sighting, Sightings};

/// The common part of locks' names, whatever prefix or suffix a library adds.
pub const LOCKS: &str = "lock:k";
/// Interval between two looks at a server.
const EVERY: Duration = Duration::from_millis(20);
/// Every so many looks, the server is also asked for its role and its clock.
const ROLE_EVERY: u32 = 5;
/// An answer that takes longer than this counts as missing until it comes.
const SILENT_AFTER: Duration = Duration::from_millis(250);
/// After this time without an answer, a new connection is tried.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(2);
/// Locks are few: at most this many keys are asked for.
const MOST_KEYS: usize = 64;
/// How far two answers about one key's end may differ, in nanoseconds, besides the time that the answers took. Servers count
/// milliseconds, and compute the remaining time when they build the answer.
const ROUNDING: u64 = 5_000_000;

/// At most this many sightings fit into one answer.
const TOLD_AT_ONCE: usize = 1000;

/// Watches servers until `tell` or `forget` is called.
#[derive(Default)]
pub(super) struct Observers {
    running: Mutex<Option<WatchTasks>>,
    /// Sightings that were not returned yet.
    rest: Mutex<VecDeque<Sighting>>,
}

struct WatchTasks {
    sightings: Arc<Mutex<Sightings>>,
    /// Dropping them ends the tasks.
    _tasks: JoinSet<()>,
}

impl Observers {
    /// Watches these servers, by name and URL, from now on.
    pub fn begin(&self, machine: &Arc<dyn Machine>, nodes: Vec<(String, String)>) {
        let sightings = Arc::new(Mutex::new(Sightings::default()));
        let mut tasks = JoinSet::new();
        for (node, url) in nodes {
            let (now, wall) = (nanos(machine.monotonic()), Some(micros(machine.wall())));
            lock(&sightings).begin(&node, now, millis(EVERY), wall);
            let to = NodeWatcher { machine: Arc::clone(machine), node, url, sightings: Arc::clone(&sightings) };
            tasks.spawn(to.watch());
        }
        *lock(&self.running) = Some(WatchTasks { sightings, _tasks: tasks });
    }

    /// Ends the watch and returns the sightings, with times of the machine's monotonic clock. Each call returns the next part, in
    /// order; an empty part is the end.
    pub fn tell(&self) -> Vec<Sighting> {
        let mut rest = lock(&self.rest);
        if let Some(running) = lock(&self.running).take() {
            *rest = lock(&running.sightings).take().into();
        }
        let some = rest.len().min(TOLD_AT_ONCE);
        rest.drain(..some).collect()
    }

    /// Ends the watch and discards the sightings.
    pub fn forget(&self) {
        drop(lock(&self.running).take());
        lock(&self.rest).clear();
    }
}

/// Watches one server.
struct NodeWatcher {
    machine: Arc<dyn Machine>,
    node: String,
    url: String,
    sightings: Arc<Mutex<Sightings>>,
}

impl NodeWatcher {
    /// Never returns.
    async fn watch(self) {
        let mut due = Instant::now();
        loop {
            let why = match connected(&self.machine, &self.url).await {
                Ok(connection) => self.look_while_it_answers(connection, &mut due).await,
                Err(why) => why,
            };
            self.unseen(&why);
            due = due.max(Instant::now()) + EVERY;
            sleep_until(due).await;
        }
    }

    /// Returns the reason why this connection can't be used any more.
    async fn look_while_it_answers(&self, mut connection: MultiplexedConnection, due: &mut Instant) -> String {
        let mut known = ServerKeys::default();
        for number in 0_u32.. {
            let asked = self.now();
            let look = known.look(&mut connection, &self.machine, number.is_multiple_of(ROLE_EVERY));
            tokio::pin!(look);
            // A late answer still counts; until it comes, the server's contents are unknown.
            let answer = match timeout(SILENT_AFTER, &mut look).await {
                Ok(answer) => answer,
                Err(_) => {
                    self.unseen(&format!("no answer within {} ms", SILENT_AFTER.as_millis()));
                    match timeout(GIVEN_UP_AFTER, look).await {
                        Ok(answer) => answer,
                        Err(_) => return format!("no answer within {} s", GIVEN_UP_AFTER.as_secs()),
                    }
                }
            };
            match answer {
                Ok(look) => {
                    let now = self.now();
                    lock(&self.sightings).look(&self.node, (asked, now), look, ROUNDING + now.saturating_sub(asked));
                }
                Err(error) => return error.to_string(),
            }
            *due = (*due + EVERY).max(Instant::now());
            sleep_until(*due).await;
        }
        String::new()
    }

    fn unseen(&self, why: &str) {
        lock(&self.sightings).unseen(&self.node, self.now(), why);
    }

    fn now(&self) -> u64 {
        nanos(self.machine.monotonic())
    }
}

async fn connected(machine: &Arc<dyn Machine>, url: &str) -> Result<MultiplexedConnection, String> {
    let opened = async {
        let mut connection = connect(machine, url, GIVEN_UP_AFTER).await?;
        // A node of a Redis Cluster answers for the keys that it replicates only after READONLY; other servers refuse it.
        let _: Result<Value, RedisError> = cmd("READONLY").query_async(&mut connection).await;
        Ok::<_, RedisError>(connection)
    };
    match timeout(GIVEN_UP_AFTER, opened).await {
        Ok(opened) => opened.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no connection within {} s", GIVEN_UP_AFTER.as_secs())),
    }
}

/// The known keys of one server.
#[derive(Default)]
struct ServerKeys {
    /// The keys of the last look.
    names: BTreeSet<String>,
    /// The keys that are not strings.
    others: BTreeSet<String>,
}

impl ServerKeys {
    async fn look(
        &mut self,
        connection: &mut MultiplexedConnection,
        machine: &Arc<dyn Machine>,
        with_role: bool,
    ) -> Result<NodeState, RedisError> {
        let mut look = NodeState::default();
        let mut of_names = connection.clone();
        let listed =
            async move { cmd("KEYS").arg(format!("*{LOCKS}*")).query_async::<Vec<String>>(&mut of_names).await };
        let (names, asked) = (self.names.clone(), self.all(connection, machine, &self.names));
        let (listed, held) = try_join(listed, asked).await?;
        look.keys = held;
        // New keys are asked for at once.
        let listed: BTreeSet<String> = listed.into_iter().take(MOST_KEYS).collect();
        let new: BTreeSet<String> = listed.difference(&names).cloned().collect();
        look.keys.extend(self.all(connection, machine, &new).await?);
        self.names = look.keys.keys().cloned().collect();
        let strange: Vec<String> =
            look.keys.iter().filter(|(_, held)| held.value == STRANGE).map(|(key, _)| key.clone()).collect();
        for key in strange {
            self.others.insert(key.clone());
            look.keys.extend(self.all(connection, machine, &BTreeSet::from([key])).await?);
        }
        if with_role {
            let role: Result<Vec<Value>, RedisError> = cmd("ROLE").query_async(connection).await;
            look.primary = role.ok().and_then(|role| is_primary(role.first()?));
            let before = machine.wall();
            let (seconds, micros): (u64, u64) = cmd("TIME").query_async(connection).await?;
            let theirs = i128::from(seconds) * 1_000_000 + i128::from(micros);
            let ours = i128::try_from((before + machine.wall()).as_micros() / 2).unwrap_or(0);
            look.ahead_us = i64::try_from(theirs - ours).ok();
        }
        Ok(look)
    }

    /// The existing keys among these names.
    async fn all(
        &self,
        connection: &MultiplexedConnection,
        machine: &Arc<dyn Machine>,
        names: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Held>, RedisError> {
        let mut found = BTreeMap::new();
        for key in names {
            let mut connection = connection.clone();
            // In one transaction, so that the value and its end belong together.
            let mut both = pipe();
            match self.others.contains(key) {
                false => both.atomic().cmd("GET").arg(key),
                true => both.atomic().cmd("HKEYS").arg(key),
            };
            let answer: Result<(Value, i64), RedisError> = both.cmd("PTTL").arg(key).query_async(&mut connection).await;
            let (value, left) = match answer {
                Ok((value, left)) => (text(value), left),
                Err(error) if error.to_string().contains("WRONGTYPE") && !self.others.contains(key) => {
                    (Some(STRANGE.to_string()), -1)
                }
                Err(error) if error.to_string().contains("WRONGTYPE") => (Some(NEITHER.to_string()), -1),
                // Another node has the key.
                Err(error) if error.to_string().contains("MOVED") => (None, -2),
                Err(error) => return Err(error),
            };
            let ends = u64::try_from(left)
                .ok()
                .map(|left| nanos(machine.monotonic()).saturating_add(left.saturating_mul(1_000_000)));
            if let Some(value) = value.filter(|_| left != -2) {
                found.insert(key.clone(), Held { value, ends });
            }
        }
        Ok(found)
    }
}

/// Stands for a value that is not a string, until the next look finds out whether it is a hash.
const STRANGE: &str = "(no string)";
const NEITHER: &str = "(neither a string nor a hash)";

/// A string, or the first field of a hash.
fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) => Some(text),
        Value::Int(number) => Some(number.to_string()),
        Value::Array(fields) => fields.into_iter().next().and_then(text),
        _ => None,
    }
}

fn is_primary(role: &Value) -> Option<bool> {
    match text(role.clone())?.as_str() {
        "master" => Some(true),
        "slave" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_strings_or_the_first_field_of_a_hash() {
        let bytes = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert_eq!(text(bytes("a")).as_deref(), Some("a"));
        assert_eq!(text(Value::Array(vec![bytes("a:1"), bytes("b")])).as_deref(), Some("a:1"));
        assert_eq!((text(Value::Nil), text(Value::Array(Vec::new()))), (None, None));
        assert_eq!((is_primary(&bytes("master")), is_primary(&bytes("slave"))), (Some(true), Some(false)));
        assert_eq!(is_primary(&bytes("sentinel")), None);
    }
}

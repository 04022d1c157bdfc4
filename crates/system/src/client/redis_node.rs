//! A Redis as a lock's client sees it: one server, or the server of a group that is the primary for the key.
//!
//! Either way, every request has a time limit, and none is retried. A connection on which a request got no answer is never used
//! again ([`Connection`]). Only later requests follow a failover.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};

use super::connection::Connection;
use super::groups::{self, Primary};
use base::machine::Machine;
use base::units::millis;
use model::locks::{CompareAndDelete, LockSettings, Node, RequestError};
use model::topology::LockGroup;

/// Deletes the key if it holds the mark; from the Redis documentation of the lock pattern.
const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Extends the key's TTL if it holds the mark.
const COMPARE_AND_EXPIRE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

/// Sets the key if it is absent, then increments the counter; 0 if the key is present.
const SET_AND_COUNT: &str = "
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('incr', KEYS[2])";

/// Sets the key if it is absent or its value begins with a lower number.
const SET_IF_OUTRANKS: &str = "
local before = redis.call('get', KEYS[1])
if before and (tonumber(string.match(before, '^%d+')) or 0) >= tonumber(ARGV[2]) then return {0, before} end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[3])
return {1, before}";

/// Sets the key to a number unless it holds a greater one.
const RAISE: &str = "
if tonumber(redis.call('get', KEYS[1]) or '0') < tonumber(ARGV[1]) then redis.call('set', KEYS[1], ARGV[1]) end
return 1";

/// The destination of requests: one server, or a group.
pub enum RedisNode {
    Server(Box<Connection>),
    Group(Box<dyn Primary>),
}

impl RedisNode {
    /// Creates a node at a `redis://` URL; connects at the first request. Fails only if the URL is invalid.
    pub fn new(url: &str, limit: Duration, machine: &Arc<dyn Machine>) -> Result<RedisNode, String> {
        Connection::new(url, limit, machine).map(|server| RedisNode::Server(Box::new(server)))
    }

    /// Creates a node whose connections can be cut off.
    pub fn of_resource(url: &str, limit: Duration, machine: &Arc<dyn Machine>) -> Result<RedisNode, String> {
        Connection::new(url, limit, machine).map(|server| RedisNode::Server(Box::new(server.numbered())))
    }

    /// The nodes of a lock: each named node, or one node for the whole group. If any node of the group can be asked first, the
    /// node at index `first` is.
    pub fn of_lock(
        settings: &LockSettings,
        first: usize,
        machine: &Arc<dyn Machine>,
    ) -> Result<Vec<RedisNode>, String> {
        let limit = settings.node_timeout();
        match &settings.group {
            None => settings.nodes.iter().map(|url| RedisNode::new(url, limit, machine)).collect(),
            Some(group) => Ok(vec![RedisNode::of_group(group, &settings.nodes, first, limit, machine)?]),
        }
    }

    /// Creates a node that stands for the primary of a group.
    pub fn of_group(
        group: &LockGroup,
        nodes: &[String],
        first: usize,
        limit: Duration,
        machine: &Arc<dyn Machine>,
    ) -> Result<RedisNode, String> {
        groups::primary(group, nodes, first, limit, machine).map(RedisNode::Group)
    }

    /// Connects now if this is a single server without a connection. An error means that nothing was sent.
    pub async fn connect(&self) -> Result<(), RequestError> {
        match self {
            RedisNode::Server(server) => server.connect().await,
            RedisNode::Group(_) => Ok(()),
        }
    }

    /// Sends one request and returns its answer.
    pub async fn request<T: FromRedisValue>(&self, command: Cmd) -> Result<T, RequestError> {
        match self {
            RedisNode::Server(server) => server.request(&command).await,
            RedisNode::Group(group) => {
                let answer = redis::from_redis_value(group.request(&command).await?);
                // As with a single server, an answer of a wrong type leaves open whether the request was carried out.
                answer.map_err(|error| RequestError::InDoubt(error.to_string()))
            }
        }
    }
}

impl Node for RedisNode {
    async fn set_if_absent(&self, key: &str, value: &str, ttl: Duration) -> Result<bool, RequestError> {
        let mut command = redis::cmd("SET");
        command.arg(key).arg(value).arg("NX").arg("PX").arg(millis(ttl));
        let answer: Option<String> = self.request(command).await?;
        Ok(answer.is_some())
    }

    async fn set_for_ever_if_absent(&self, key: &str, value: &str) -> Result<bool, RequestError> {
        let mut command = redis::cmd("SETNX");
        command.arg(key).arg(value);
        self.request(command).await
    }

    async fn set_if_absent_and_count(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
        counter: &str,
    ) -> Result<Option<u64>, RequestError> {
        let mut command = redis::cmd("EVAL");
        command.arg(SET_AND_COUNT).arg(2).arg(key).arg(counter).arg(value).arg(millis(ttl));
        let number: u64 = self.request(command).await?;
        Ok((number > 0).then_some(number))
    }

    async fn set_if_outranks(
        &self,
        key: &str,
        value: &str,
        rank: u32,
        ttl: Duration,
    ) -> Result<(bool, Option<String>), RequestError> {
        let mut command = redis::cmd("EVAL");
        command.arg(SET_IF_OUTRANKS).arg(1).arg(key).arg(value).arg(rank).arg(millis(ttl));
        let (set, before): (u64, Option<String>) = self.request(command).await?;
        Ok((set == 1, before))
    }

    async fn expire(&self, key: &str, ttl: Duration) -> Result<bool, RequestError> {
        let mut command = redis::cmd("PEXPIRE");
        command.arg(key).arg(millis(ttl));
        self.request(command).await
    }

    async fn expire_if_equals(&self, key: &str, value: &str, ttl: Duration) -> Result<bool, RequestError> {
        let mut command = redis::cmd("EVAL");
        command.arg(COMPARE_AND_EXPIRE).arg(1).arg(key).arg(value).arg(millis(ttl));
        self.request(command).await
    }

    async fn get(&self, key: &str) -> Result<Option<String>, RequestError> {
        let mut command = redis::cmd("GET");
        command.arg(key);
        self.request(command).await
    }

    async fn increment(&self, key: &str) -> Result<u64, RequestError> {
        let mut command = redis::cmd("INCR");
        command.arg(key);
        self.request(command).await
    }

    async fn raise(&self, key: &str, number: u64) -> Result<(), RequestError> {
        let mut command = redis::cmd("EVAL");
        command.arg(RAISE).arg(1).arg(key).arg(number);
        self.request::<u64>(command).await.map(|_| ())
    }

    async fn delete(&self, key: &str) -> Result<bool, RequestError> {
        let mut command = redis::cmd("DEL");
        command.arg(key);
        self.request(command).await
    }

    async fn delete_if_equals(&self, key: &str, value: &str) -> Result<bool, RequestError> {
        let mut command = redis::cmd("EVAL");
        command.arg(COMPARE_AND_DELETE).arg(1).arg(key).arg(value);
        let deleted: u64 = self.request(command).await?;
        Ok(deleted > 0)
    }

    async fn set_if_equals(&self, key: &str, value: &str, ttl: Option<Duration>) -> Result<bool, RequestError> {
        let mut command = redis::cmd("SET");
        command.arg(key).arg(value).arg("IFEQ").arg(value);
        if let Some(ttl) = ttl {
            command.arg("PX").arg(millis(ttl));
        }
        let answer: Option<String> = self.request(command).await?;
        Ok(answer.is_some())
    }

    async fn delete_by(&self, command: CompareAndDelete, key: &str, value: &str) -> Result<Option<bool>, RequestError> {
        let request = match command {
            CompareAndDelete::Delifeq => redis::cmd("DELIFEQ").arg(key).arg(value).to_owned(),
            CompareAndDelete::Delex => redis::cmd("DELEX").arg(key).arg("IFEQ").arg(value).to_owned(),
        };
        match self.request(request).await {
            Err(RequestError::NotDone(refusal)) if refusal.contains("unknown command") => Ok(None),
            answer => answer.map(Some),
        }
    }

    async fn wait_for(&self, replicas: u32) -> Result<u32, RequestError> {
        let server = match self {
            RedisNode::Server(server) => return acknowledged(server, replicas).await,
            RedisNode::Group(group) => group.last_asked().await,
        };
        let gone = || RequestError::NotDone("no server has been asked yet".to_string());
        acknowledged(&*server.ok_or_else(gone)?, replicas).await
    }
}

/// Asks with WAIT on the same connection as the write: WAIT counts only the writes of its own connection. On another connection
/// it would return at once and mean nothing.
async fn acknowledged(server: &Connection, replicas: u32) -> Result<u32, RequestError> {
    let mut command = redis::cmd("WAIT");
    command.arg(replicas).arg(server.limit.as_millis() as u64);
    server.follow_up(&command, server.limit * 2).await
}

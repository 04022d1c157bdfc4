//! The resource as a register with one value per key. It is in its own Redis or on the nodes of a group.

use std::time::Duration;

use super::redis_node::RedisNode;
use base::mutants::planted;
use model::locks::{RequestError, Token};
use model::scenario::Fencing;

/// Sets the key if it still holds the value that the writer read (`absent` stands for an empty key). Returns 1 if it did.
const COMPARE_AND_SET: &str = "
local current = redis.call('get', KEYS[1])
local matches
if ARGV[1] == 'absent' then matches = current == false else matches = current == ARGV[2] end
if not matches then return 0 end
redis.call('set', KEYS[1], ARGV[3])
return 1";

/// Sets the key unless a token of ARGV[2] or higher was seen, other than the writer's own token ARGV[1]. Then ARGV[1] is the
/// highest token.
const SET_WITH_TOKEN: &str = "
local highest = tonumber(redis.call('get', KEYS[2]) or '0')
if highest >= tonumber(ARGV[2]) and highest ~= tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[2], ARGV[1])
redis.call('set', KEYS[1], ARGV[3])
return 1";

/// Sets the key if no token from ARGV[2] on has been seen, the writer's own among them. That is then the highest.
const SET_WITH_GREATER_TOKEN: &str = "
if tonumber(redis.call('get', KEYS[2]) or '0') >= tonumber(ARGV[2]) then return 0 end
redis.call('set', KEYS[2], ARGV[1])
redis.call('set', KEYS[1], ARGV[3])
return 1";

/// Gets the key under the same condition as SET_WITH_TOKEN, and records the token.
const GET_WITH_TOKEN: &str = "
local highest = tonumber(redis.call('get', KEYS[2]) or '0')
if highest >= tonumber(ARGV[2]) and highest ~= tonumber(ARGV[1]) then return {0, false} end
redis.call('set', KEYS[2], ARGV[1])
return {1, redis.call('get', KEYS[1])}";

pub struct Register {
    node: RedisNode,
    fencing: Fencing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Done,
    /// The resource refused the write: the value that the writer had read is no longer current.
    Conflict,
    /// The resource refused the write: it has seen a later holder's token.
    Fenced,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The value of the key; `None` if it is empty.
    Value(Option<String>),
    /// The resource refused the read: it has seen a later holder's token.
    Fenced,
}

impl Register {
    pub fn new(node: RedisNode, fencing: Fencing) -> Register {
        let fencing = match fencing {
            Fencing::TokenReads if planted("resource.reads-unchecked") => Fencing::Token,
            _ if planted("resource.checks-nothing") => Fencing::None,
            fencing => fencing,
        };
        Register { node, fencing }
    }

    pub async fn connect(&self) -> Result<(), RequestError> {
        self.node.connect().await
    }

    /// Waits until an unanswered write can't arrive any more. False if this is still unknown after `within`.
    pub async fn settle(&self, within: Duration) -> bool {
        match &self.node {
            RedisNode::Server(server) => server.cut_off(within).await,
            // Groups are used without a lock, so the client has no lock to keep.
            RedisNode::Group(_) => false,
        }
    }

    /// Reads a key. The token matters only if the resource also checks tokens of reads.
    pub async fn read(&self, key: &str, token: Option<Token>) -> Result<Read, RequestError> {
        if let (Fencing::TokenReads, Some(token)) = (self.fencing, token) {
            let (taken, value): (u64, Option<String>) =
                self.node.request(with_token(GET_WITH_TOKEN, key, token)).await?;
            return Ok(if taken == 1 { Read::Value(value) } else { Read::Fenced });
        }
        let mut command = redis::cmd("GET");
        command.arg(key);
        self.node.request(command).await.map(Read::Value)
    }

    /// Writes `new` in place of `old`. The server compares `old` only if the resource is fenced by old values. The token matters
    /// only if the resource is fenced by tokens, and is then required.
    pub async fn write(
        &self,
        key: &str,
        old: Option<&str>,
        new: &str,
        token: Option<Token>,
    ) -> Result<Write, RequestError> {
        match self.fencing {
            Fencing::None => {
                let mut command = redis::cmd("SET");
                command.arg(key).arg(new);
                self.node.request::<()>(command).await?;
                Ok(Write::Done)
            }
            Fencing::CompareAndSet => self.compare_and_set(key, old, new).await,
            Fencing::Token | Fencing::TokenGreater | Fencing::TokenReads => {
                let token = token.ok_or_else(|| RequestError::NotDone("the lock gave no token".to_string()))?;
                let mut command = match self.fencing {
                    Fencing::TokenGreater => {
                        let minor = Some(token.minor.unwrap_or(token.number));
                        with_token(SET_WITH_GREATER_TOKEN, key, Token { minor, ..token })
                    }
                    _ => with_token(SET_WITH_TOKEN, key, token),
                };
                command.arg(new);
                let done: u64 = self.node.request(command).await?;
                Ok(if done == 1 { Write::Done } else { Write::Fenced })
            }
        }
    }

    /// Writes `new` if the key holds `old`.
    pub async fn compare_and_set(&self, key: &str, old: Option<&str>, new: &str) -> Result<Write, RequestError> {
        let mut command = redis::cmd("EVAL");
        command.arg(COMPARE_AND_SET).arg(1).arg(key);
        command.arg(if old.is_some() { "present" } else { "absent" }).arg(old.unwrap_or("")).arg(new);
        let done: u64 = self.node.request(command).await?;
        Ok(if done == 1 { Write::Done } else { Write::Conflict })
    }
}

/// Builds a script call with the key, the key of its highest token, the caller's token, and the lowest token that bars the
/// caller. A later token bars the caller. For a paired token, any token from its minor number on does.
fn with_token(script: &str, key: &str, token: Token) -> redis::Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(2).arg(key).arg(format!("{key}:highest-token"));
    let later = if planted("resource.one-later-passes") { 2 } else { 1 };
    command.arg(token.number).arg(token.minor.unwrap_or(token.number.saturating_add(later)));
    command
}

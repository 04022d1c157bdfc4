//! The protected resource as a register: one value a key, in a Redis of its own.

use super::redis_node::RedisNode;
use crate::locks::RequestError;
use crate::scenario::Fencing;

/// Sets the key if it holds what the writer read (`absent` stands for an empty key). Returns whether it did.
const COMPARE_AND_SET: &str = "
local current = redis.call('get', KEYS[1])
local matches
if ARGV[1] == 'absent' then matches = current == false else matches = current == ARGV[2] end
if not matches then return 0 end
redis.call('set', KEYS[1], ARGV[3])
return 1";

pub struct Register {
    node: RedisNode,
    fencing: Fencing,
}

/// How a write ended, if it brought an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Done,
    /// The resource refused: what the writer had read is not current.
    Conflict,
}

impl Register {
    pub fn new(node: RedisNode, fencing: Fencing) -> Register {
        Register { node, fencing }
    }

    pub async fn connect(&self) -> Result<(), RequestError> {
        self.node.connect().await
    }

    /// The value of a key, none where it is empty.
    pub async fn read(&self, key: &str) -> Result<Option<String>, RequestError> {
        let mut command = redis::cmd("GET");
        command.arg(key);
        self.node.request(command).await
    }

    /// Writes `new` in place of `old`, which is compared only where the resource is fenced by old values.
    pub async fn write(&self, key: &str, old: Option<&str>, new: &str) -> Result<Write, RequestError> {
        match self.fencing {
            Fencing::None => {
                let mut command = redis::cmd("SET");
                command.arg(key).arg(new);
                self.node.request::<()>(command).await?;
                Ok(Write::Done)
            }
            Fencing::OldValue => {
                let mut command = redis::cmd("EVAL");
                command.arg(COMPARE_AND_SET).arg(1).arg(key);
                command.arg(if old.is_some() { "present" } else { "absent" }).arg(old.unwrap_or("")).arg(new);
                let done: u64 = self.node.request(command).await?;
                Ok(if done == 1 { Write::Done } else { Write::Conflict })
            }
        }
    }
}

//! Which servers are asked.

use std::time::Duration;

use remote::{Access, Address};

/// What doctor is asked to do.
#[derive(Clone, Debug)]
pub struct Request {
    /// At least one.
    pub addresses: Vec<Address>,
    /// The name under which Sentinels watch the primary; the addresses are then Sentinels.
    pub sentinel: Option<String>,
    pub access: Access,
    /// Beginning of the names of doctor's own keys.
    pub prefix: String,
    /// Time for everything together.
    pub limit: Duration,
}

/// Beginning of the names of doctor's own keys, unless the user names another.
pub const PREFIX: &str = "redjepsen:doctor:";

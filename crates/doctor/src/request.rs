//! The servers to ask.

use std::time::Duration;

use remote::{Access, Address};

/// The request to doctor.
#[derive(Clone, Debug)]
pub struct Request {
    /// At least one.
    pub addresses: Vec<Address>,
    /// The name of the primary's Sentinel group. If present, the addresses are Sentinels.
    pub sentinel: Option<String>,
    pub access: Access,
    /// The prefix of doctor's own keys.
    pub prefix: String,
    /// The time limit for all questions together.
    pub limit: Duration,
}

/// The default prefix of doctor's own keys.
pub const PREFIX: &str = "redjepsen:doctor:";

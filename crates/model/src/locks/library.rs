//! A lock in the workload's own client: the facts and options that redjepsen needs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::about::{asking, is_default, is_yes, yes};
use super::{About, LockOptions, LockTable};
use crate::topology::Program;
use base::units::{Length, LengthRange};

/// The client finds the primary by itself, or reports that it can't.
pub(super) const ABOUT: About = About {
    name: "library",
    called: "The lock",
    called_on_primary: Some("The lock on the primary"),
    on_one_key: true,
    ..About::OF_ITS_OWN
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryOptions {
    /// How long one request to one node may take, for libraries with such an option.
    pub node_timeout: Length,
    /// How long to wait before the next attempt, for libraries with such an option.
    pub retry_delay: LengthRange,
    #[serde(default, skip_serializing_if = "is_default")]
    pub program: Program,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub expires: bool,
    /// True if each acquisition comes with a fencing token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tokens: bool,
}

impl LockTable for LibraryOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        asking(self.node_timeout, self.retry_delay, ttl)
    }

    fn describe(&self) -> String {
        let ends = if self.expires { "" } else { ", no TTL" };
        format!(", from the library's client: node timeout {}{ends}", self.node_timeout)
    }

    fn refine(&self, about: About) -> About {
        About { program: self.program, expires: self.expires, tokens: self.tokens, ..about }
    }
}

//! Faults at the commands of a library: the kind of fault, the command, the node, and the scenario's name.

use std::fmt::{self, Write};

use super::commands::{ObservedCommand, When};
use model::fault_kinds::ordinal;

/// The kind of fault at a command; see [`what`](Strike::what).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    LateReply,
    LateRequest,
    Pause,
    Reset,
    Close,
    Idle,
    LostReply,
    Kill,
    Refused,
    Overtaken,
    Block,
    Cancel,
    GivenUp,
    ClockBack,
    ClockForward,
    NodePause,
    NodeRestart,
    NodeRestartSynced,
    NodeClock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    All,
    Node(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPoint {
    pub strike: Strike,
    pub sent: ObservedCommand,
    pub at: Place,
}

impl Strike {
    fn word(self) -> &'static str {
        match self {
            Strike::LateReply => "late-reply",
            Strike::LateRequest => "late-request",
            Strike::Pause => "pause-before-reply",
            Strike::Reset => "reset-after",
            Strike::Close => "close-after",
            Strike::Idle => "connection-reset-later",
            Strike::LostReply => "lost-reply",
            Strike::Kill => "kill-before-reply",
            Strike::Refused => "refused",
            Strike::Overtaken => "overtaken-by-release",
            Strike::Block => "block-before-reply",
            Strike::Cancel => "cancel-before-reply",
            Strike::GivenUp => "given-up-before-reply",
            Strike::ClockBack => "clock-back-before-reply",
            Strike::ClockForward => "clock-forward-before-reply",
            Strike::NodePause => "node-pause-after",
            Strike::NodeRestart => "node-restart-before-reply",
            Strike::NodeRestartSynced => "node-restart-synced-before-reply",
            Strike::NodeClock => "node-clock-forward-after",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Strike::LateReply => "the reply comes after the lock has expired",
            Strike::LateRequest => "the request comes after the lock has expired",
            Strike::Pause => "the client stops before it reads the reply, until the lock has expired",
            Strike::Reset => "the connection breaks after the server has executed it",
            Strike::Close => "the server executes it and closes the connection instead of replying",
            Strike::Idle => "its connection breaks some time after the command",
            Strike::LostReply => "the reply never arrives",
            Strike::Kill => "the client dies before it reads the reply",
            Strike::Refused => "the server answers with an error",
            Strike::Overtaken => "the reply arrives after the release",
            Strike::Block => "the client's event loop is blocked before it reads the reply, until the lock has expired",
            Strike::Cancel => "the operation is cancelled before the reply comes",
            Strike::GivenUp => "the client's time limit ends before the reply comes",
            Strike::ClockBack => "the client's wall clock is set back before it reads the reply",
            Strike::ClockForward => "the client's wall clock is set forward before it reads the reply",
            Strike::NodePause => "the node stops after it has executed the command, until the lock has expired",
            Strike::NodeRestart => "the node is killed before it answers, and restarts empty",
            Strike::NodeRestartSynced => {
                "the node is killed before it answers, and restarts with the data that it had synced"
            }
            Strike::NodeClock => {
                "after the node has executed the command, its wall clock jumps past the expiry of the lock"
            }
        }
    }

    /// The persistence that the nodes need. None if it does not matter.
    pub(super) fn persistence(self) -> Option<&'static str> {
        match self {
            Strike::NodeRestart => Some("none"),
            Strike::NodeRestartSynced => Some("always"),
            _ => None,
        }
    }
}

impl FaultPoint {
    /// `2nd SET on lock:k*`: matches the keys of every run.
    pub(super) fn command(&self) -> String {
        let key = self.sent.on().map_or_else(String::new, |pattern| format!(" on {pattern}"));
        format!("{}{}{key}", self.nth(), self.sent.name)
    }

    fn nth(&self) -> String {
        if self.sent.nth == 1 { String::new() } else { format!("{} ", ordinal(self.sent.nth)) }
    }

    /// A name such as `taking-set-late-reply-2nd-at-n1`.
    pub(super) fn name(&self) -> String {
        let mut name =
            format!("{}-{}-{}", doing(self.sent.when), self.sent.name.to_ascii_lowercase(), self.strike.word());
        if self.sent.nth > 1 {
            let _ = write!(name, "-{}", ordinal(self.sent.nth));
        }
        if self.sent.nth_key > 1 {
            let _ = write!(name, "-on-{}-key", ordinal(self.sent.nth_key));
        }
        if let Place::Node(node) = self.at {
            let _ = write!(name, "-at-n{node}");
        }
        name
    }

    /// A text such as `while it takes the lock: at its 2nd SET at n1, the reply never comes`.
    pub(super) fn text(&self) -> String {
        let at = match self.at {
            Place::All => String::new(),
            Place::Node(node) => format!(" at n{node}"),
        };
        let on = match self.sent.on() {
            Some(pattern) if self.sent.nth_key > 1 => format!(" on {pattern}"),
            _ => String::new(),
        };
        format!("{}: at its {}{}{on}{at}, {}", self.sent.when, self.nth(), self.sent.name, self.strike.what())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::All => f.write_str("nodes"),
            Place::Node(node) => write!(f, "node:{node}"),
        }
    }
}

fn doing(when: When) -> &'static str {
    match when {
        When::Taking => "taking",
        When::Waiting => "waiting",
        When::Holding => "holding",
        When::Releasing => "releasing",
    }
}

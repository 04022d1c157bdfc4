//! An endless script, which blocks the server.
//!
//! Only one text of such a script is recognized; Lua never runs it. Events wait as they would in the server's kernel. After
//! a threshold, the server handles events of clients: it runs a few commands, and answers the others with BUSY. Redis then also
//! handles its links to other servers; here these links wait for the end of the script.

use std::time::Duration;

use crate::commands::{self, Command};
use crate::data::CommandWords;
use crate::process::{Connection, ProcessEvent};
use crate::reply::Reply;
use crate::server::Server;

pub(crate) const ENDLESS: &[u8] = b"while true do end";
/// The commands that a busy server still runs. Of SCRIPT, only SCRIPT KILL.
const ALLOWED: [&str; 3] = ["multi", "replconf", "script"];

pub(crate) struct Busy {
    /// The client that sent the script.
    author: Connection,
    /// The monotonic time until which the server reads nothing.
    silent_until: Duration,
}

/// A waiting event.
pub(crate) enum DelayedEvent {
    Received(Connection, Vec<u8>),
    Other(ProcessEvent<'static>),
}

impl DelayedEvent {
    fn of(event: ProcessEvent<'_>) -> DelayedEvent {
        DelayedEvent::Other(match event {
            ProcessEvent::Received { connection, bytes } => return DelayedEvent::Received(connection, bytes.to_vec()),
            ProcessEvent::Accepted { connection, peer, local } => ProcessEvent::Accepted { connection, peer, local },
            ProcessEvent::Connected { connection } => ProcessEvent::Connected { connection },
            ProcessEvent::Refused { connection } => ProcessEvent::Refused { connection },
            ProcessEvent::Closed { connection } => ProcessEvent::Closed { connection },
            ProcessEvent::Wake => ProcessEvent::Wake,
        })
    }

    fn event(&self) -> ProcessEvent<'_> {
        match self {
            DelayedEvent::Received(connection, bytes) => ProcessEvent::Received { connection: *connection, bytes },
            DelayedEvent::Other(event) => *event,
        }
    }
}

impl Server {
    /// Begins the script of a client.
    pub(crate) fn begin_endless(&mut self, author: Connection) -> Result<Reply, Reply> {
        if self.in_transaction {
            return Err(Reply::error("ERR an endless script in a transaction is not simulated"));
        }
        let threshold = Duration::from_millis(self.data.settings.busy_reply_threshold);
        self.busy = Some(Busy { author, silent_until: self.data.clocks.monotonic + threshold });
        Ok(Reply::Nothing)
    }

    pub(crate) fn kill_script(&mut self) -> Result<Reply, Reply> {
        let Some(busy) = self.busy.take() else {
            return Err(Reply::error("NOTBUSY No scripts in execution right now."));
        };
        self.reply(busy.author, &Reply::error("ERR Error running script: Script killed by user with SCRIPT KILL..."));
        self.read(busy.author, &[]);
        Ok(Reply::OK)
    }

    /// Keeps an event until the script ends, and handles the kept events that a busy server reads.
    pub(crate) fn keep(&mut self, event: ProcessEvent<'_>) {
        if event != ProcessEvent::Wake {
            self.kept.push(DelayedEvent::of(event));
        }
        let mut later = Vec::new();
        for kept in std::mem::take(&mut self.kept) {
            match self.busy.is_some() && !self.is_read_while_busy(kept.event()) {
                true => later.push(kept),
                false => self.take(kept.event()),
            }
        }
        if self.busy.is_none() {
            self.run_cron();
        }
        for kept in later {
            match self.busy {
                Some(_) => self.kept.push(kept),
                None => self.take(kept.event()),
            }
        }
    }

    /// True if the event concerns a client other than the script's, and the threshold has passed.
    fn is_read_while_busy(&self, event: ProcessEvent<'_>) -> bool {
        let Some(busy) = self.busy.as_ref().filter(|busy| busy.silent_until <= self.data.clocks.monotonic) else {
            return false;
        };
        match event {
            ProcessEvent::Accepted { local, .. } => !self.is_bus(local),
            ProcessEvent::Received { connection, .. } | ProcessEvent::Closed { connection } => {
                connection != busy.author && self.clients.contains_key(&connection)
            }
            ProcessEvent::Connected { .. } | ProcessEvent::Refused { .. } | ProcessEvent::Wake => false,
        }
    }

    /// Returns the time at which a busy server needs a wake-up: when it reads again.
    pub(crate) fn when_to_read(&self, busy: &Busy) -> Option<Duration> {
        (self.data.clocks.monotonic < busy.silent_until).then_some(busy.silent_until)
    }

    /// True if this client's script is still running.
    pub(crate) fn runs_script_of(&self, connection: Connection) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.author == connection)
    }

    pub(crate) fn refuse_if_busy(&self, command: &Command, words: CommandWords<'_>) -> Result<(), Reply> {
        let kills = || commands::subcommand(words) == "kill";
        let allowed = || ALLOWED.contains(&command.name) && (command.name != "script" || kills());
        if self.busy.is_none() || allowed() {
            return Ok(());
        }
        Err(self.data.version.says(
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        ))
    }
}

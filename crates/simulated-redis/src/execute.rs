//! From the words of a command to its answer: which commands are refused, queued or run, and what others are told.

use crate::commands::{self, AT_ONCE, Command, GROWS, Run, WHILE_SUBSCRIBED, WRITE};
use crate::config::Eviction;
use crate::data::{Data, Words};
use crate::process::Connection;
use crate::reply::{Protocol, Reply};
use crate::server::Server;

use rand::RngExt;

pub(crate) const OUT_OF_MEMORY: Reply = Reply::error("OOM command not allowed when used memory > 'maxmemory'.");
pub(crate) const READ_ONLY: Reply = Reply::error("READONLY You can't write against a read only replica.");

const NO_DEBUG: Reply = Reply::error(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
     local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);

/// What a server uses without any keys, in bytes: about what Redis does.
pub(crate) const MEMORY_AT_START: u64 = 900_000;

impl Server {
    /// Runs a command of a client, or refuses or queues it, and answers.
    pub(crate) fn execute(&mut self, connection: Connection, words: Words<'_>) {
        let Some(name) = words.first() else { return };
        let now = self.data.clocks.monotonic;
        let Some(client) = self.clients.get_mut(&connection) else { return };
        client.active = now;
        let command = match commands::find(name) {
            None => Err(commands::unknown(words)),
            Some(command) if !command.accepts(words.len()) => Err(commands::wrong_arity(command.name)),
            Some(command) => commands::check_subcommand(command, words)
                .and_then(|()| self.admit(connection, command, words))
                .map(|()| command),
        };
        let command = match command {
            Ok(command) => command,
            Err(refusal) => {
                let refusal = self.refuse(connection, words, refusal);
                return self.reply(connection, &refusal);
            }
        };
        let Some(client) = self.clients.get_mut(&connection) else { return };
        client.last_command = command.name;
        if let Some(queue) = client.transaction.as_mut().filter(|_| !command.is(AT_ONCE)) {
            queue.commands.push(words.iter().map(|word| word.to_vec()).collect());
            return self.reply(connection, &Reply::Status("QUEUED".into()));
        }
        let reply = self.call(connection, command, words);
        self.tell(Some(connection));
        self.reply(connection, &reply);
    }

    /// A refused command fails the transaction that it was for; a refused EXEC ends it.
    fn refuse(&mut self, connection: Connection, words: Words<'_>, refusal: Reply) -> Reply {
        let client = self.clients.get_mut(&connection);
        if let (true, Reply::Error(text)) = (words[0].eq_ignore_ascii_case(b"exec"), &refusal) {
            if let Some(client) = client {
                client.transaction = None;
            }
            self.data.unwatch(connection);
            let reason = text.strip_prefix("ERR ").unwrap_or(text);
            return Reply::failed(format!("EXECABORT Transaction discarded because of: {reason}"));
        }
        if let Some(queue) = client.and_then(|client| client.transaction.as_mut()) {
            queue.failed = true;
        }
        refusal
    }

    /// Refuses what may not run now.
    fn admit(&mut self, connection: Connection, command: &Command, words: Words<'_>) -> Result<(), Reply> {
        if command.name == "debug" {
            return Err(NO_DEBUG);
        }
        self.redirect(connection, command, words)?;
        let memory_left = self.evict();
        self.data.out_of_memory = !memory_left;
        let Some(client) = self.clients.get(&connection) else { return Ok(()) };
        let queued = client.transaction.is_some() && !command.is(AT_ONCE);
        if !memory_left && (command.is(GROWS) || queued) {
            return Err(OUT_OF_MEMORY);
        }
        if self.data.replica && command.is(WRITE) {
            return Err(READ_ONLY);
        }
        if client.subscriptions() > 0 && client.protocol == Protocol::Resp2 && !command.is(WHILE_SUBSCRIBED) {
            return Err(Reply::failed(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                 this context",
                command.name
            )));
        }
        Ok(())
    }

    /// Runs a command and returns its answer.
    pub(crate) fn call(&mut self, connection: Connection, command: &'static Command, words: Words<'_>) -> Reply {
        self.data.stats.commands += 1;
        match command.run {
            Run::Data(run) => {
                let database = self.clients.get(&connection).map_or(0, |client| client.database);
                let reply = self.data.call(run, database, words);
                self.publish();
                reply
            }
            Run::Server(run) => run(self, connection, words).unwrap_or_else(|error| error),
        }
    }

    /// Tells the file and replicas what has changed, as one unit.
    pub(crate) fn tell(&mut self, author: Option<Connection>) {
        if self.data.propagation.is_empty() {
            return;
        }
        let mut stream = std::mem::take(&mut self.replication.scratch);
        self.data.propagation.drain(&mut stream);
        self.append_to_file(&stream);
        self.feed_followers(&stream);
        stream.clear();
        self.replication.scratch = stream;
        let offset = self.replication.offset;
        if let Some(client) = author.and_then(|author| self.clients.get_mut(&author)) {
            client.written = offset;
        }
    }

    /// Removes keys while there are more than the memory allows; false if it can't.
    pub(crate) fn evict(&mut self) -> bool {
        let limit = self.data.settings.maxmemory;
        if limit == 0 || self.data.replica {
            return true;
        }
        let used = |data: &Data| MEMORY_AT_START + data.databases.iter().map(|keys| keys.size() as u64).sum::<u64>();
        let mut used = used(&self.data);
        while used > limit {
            match self.data.evict_one() {
                Some(freed) => used = used.saturating_sub(freed as u64),
                None => return false,
            }
        }
        self.tell(None);
        true
    }
}

impl Data {
    /// Runs a command on this database, and notes what it changed.
    pub fn call(
        &mut self,
        run: fn(&mut Data, usize, Words<'_>) -> commands::Answer,
        database: usize,
        words: Words<'_>,
    ) -> Reply {
        let before = self.dirty;
        let reply = run(self, database, words).unwrap_or_else(|error| error);
        self.propagation.finish(self.dirty != before, database, words);
        reply
    }

    /// Removes some key that the policy allows to go; how many bytes that frees.
    fn evict_one(&mut self) -> Option<usize> {
        let expiring_only = match self.settings.eviction {
            Eviction::Refuse => return None,
            Eviction::AnyKey => false,
            Eviction::VolatileKey => true,
        };
        let count = |data: &Data, database: usize| {
            let keys = &data.databases[database];
            if expiring_only { keys.volatile() } else { keys.len() }
        };
        let total: usize = (0..self.databases.len()).map(|database| count(self, database)).sum();
        if total == 0 {
            return None;
        }
        let mut place = self.random.random_range(0..total as u64) as usize;
        let database = (0..self.databases.len()).find(|database| {
            let here = count(self, *database);
            let found = place < here;
            place -= if found { 0 } else { here };
            found
        })?;
        let keys = &self.databases[database];
        let candidate = |entry: &crate::keyspace::Entry| !expiring_only || entry.expires.is_some();
        let key = keys.iter().filter(|(_, entry)| candidate(entry)).nth(place).map(|(key, _)| key.to_vec())?;
        let freed = self.evict_key(database, &key);
        Some(freed)
    }
}

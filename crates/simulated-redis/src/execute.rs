//! From the words of a command to its answer: refuses, queues or runs commands, and propagates changes.

use crate::commands::{self, AT_ONCE, Command, GROWS, Handler, RECORDED, WHILE_SUBSCRIBED, WRITE};
use crate::data::{CommandWords, Data};
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

use rand::RngExt;

pub(crate) const OUT_OF_MEMORY: Reply = Reply::error("OOM command not allowed when used memory > 'maxmemory'.");
const READ_ONLY: Reply = Reply::error("READONLY You can't write against a read only replica.");
const NO_REPLICAS: Reply = Reply::error("NOREPLICAS Not enough good replicas to write.");

/// Memory of an empty server in bytes, about as in Redis.
const MEMORY_AT_START: u64 = 900_000;

impl Server {
    /// Runs, queues or refuses a command of a client, and answers.
    pub(crate) fn execute(&mut self, connection: Connection, words: CommandWords<'_>) {
        let Some(name) = words.first() else { return };
        let now = self.data.clocks.monotonic;
        let Some(client) = self.clients.get_mut(&connection) else { return };
        client.active = now;
        let command = match commands::find(self.data.version, name) {
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

    /// A refused command fails its transaction; a refused EXEC ends it.
    fn refuse(&mut self, connection: Connection, words: CommandWords<'_>, refusal: Reply) -> Reply {
        let client = self.clients.get_mut(&connection);
        if let (true, Reply::Error(text)) = (words[0].eq_ignore_ascii_case(b"exec"), &refusal) {
            if let Some(client) = client {
                client.transaction = None;
            }
            let reason = text.strip_prefix("ERR ").unwrap_or(text);
            return Reply::failed(format!("EXECABORT Transaction discarded because of: {reason}"));
        }
        if let Some(queue) = client.and_then(|client| client.transaction.as_mut()) {
            queue.failed = true;
        }
        refusal
    }

    /// Refuses a command that may not run now.
    fn admit(&mut self, connection: Connection, command: &Command, words: CommandWords<'_>) -> Result<(), Reply> {
        self.refuse_if_busy(command, words)?;
        self.redirect(connection, command, words)?;
        let memory_left = self.evict();
        self.data.out_of_memory = !memory_left;
        let wanted = self.data.settings.min_replicas_to_write;
        self.data.lacks_replicas = wanted > 0 && !self.data.replica && (self.online() as u64) < wanted;
        let Some(client) = self.clients.get(&connection) else { return Ok(()) };
        let version = self.data.version;
        let queues = client.transaction.as_ref();
        let needs_memory = match command.is(AT_ONCE) {
            false => command.is(GROWS) || queues.is_some() && version.queues_only_with_memory(),
            true => queues.is_some_and(|queue| {
                let mut queued = queue.commands.iter().filter_map(|words| commands::find(version, &words[0]));
                command.name == "exec" && !version.queues_only_with_memory() && queued.any(|other| other.is(GROWS))
            }),
        };
        if !memory_left && needs_memory {
            return Err(OUT_OF_MEMORY);
        }
        if let Some(refusal) = self.data.refuses(command) {
            return Err(refusal);
        }
        if client.channels > 0 && !command.is(WHILE_SUBSCRIBED) {
            return Err(Reply::failed(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                 this context",
                command.name
            )));
        }
        Ok(())
    }

    /// Runs a command and returns its answer.
    pub(crate) fn call(&mut self, connection: Connection, command: &'static Command, words: CommandWords<'_>) -> Reply {
        if self.data.executed.is_some()
            && (command.is(RECORDED) || matches!(command.run, Handler::Data(_)))
            && let Some(client) = self.clients.get(&connection)
        {
            self.data.record(Some(client.peer), words);
        }
        match command.run {
            Handler::Data(run) => {
                let reply = self.data.call(run, words);
                self.publish();
                reply
            }
            Handler::Server(run) => run(self, connection, words).unwrap_or_else(|error| error),
        }
    }

    /// Propagates the changes to the file and the replicas, as one unit.
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

    /// Removes keys until the memory limit is met. Returns false if that fails.
    pub(crate) fn evict(&mut self) -> bool {
        let limit = self.data.settings.maxmemory;
        if limit == 0 || self.data.replica {
            return true;
        }
        let used = |data: &Data| MEMORY_AT_START + data.keys.size() as u64;
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
    /// Returns the error for a write that the server refuses now, if any.
    pub fn refuses(&self, command: &Command) -> Option<Reply> {
        match command.is(WRITE) {
            true if self.replica => Some(READ_ONLY),
            true if self.lacks_replicas => Some(NO_REPLICAS),
            _ => None,
        }
    }

    /// Runs a command, and propagates it if it changed a key.
    pub fn call(
        &mut self,
        run: fn(&mut Data, CommandWords<'_>) -> commands::CommandResult,
        words: CommandWords<'_>,
    ) -> Reply {
        let before = self.dirty;
        let reply = run(self, words).unwrap_or_else(|error| error);
        self.propagation.finish(self.dirty != before, words);
        reply
    }

    /// Removes a random key, if the policy allows it. Returns the freed bytes.
    fn evict_one(&mut self) -> Option<usize> {
        let total = self.keys.len() as u64;
        if total == 0 || !self.settings.evicts {
            return None;
        }
        let place = self.random.random_range(0..total) as usize;
        let key = self.keys.iter().nth(place).map(|(key, _)| key.to_vec())?;
        let freed = self.evict_key(&key);
        Some(freed)
    }
}

//! Changes on their way to the append-only file and to replicas: what one command did is told as one unit.

use crate::reply::write_command;

/// Changes that have not been told yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Propagation {
    /// Whether anybody listens.
    pub wanted: bool,
    /// Commands, one after the other.
    bytes: Vec<u8>,
    /// The database of each command, and where it ends.
    ends: Vec<(usize, usize)>,
    /// Set by a command that has been told in another form than its own.
    rewritten: bool,
    /// The database that the listeners have been told to use.
    selected: Option<usize>,
}

impl Propagation {
    /// Adds a command on this database.
    pub fn push(&mut self, database: usize, words: &[&[u8]]) {
        if self.wanted {
            write_command(&mut self.bytes, words);
            self.ends.push((database, self.bytes.len()));
        }
    }

    /// The same, in place of the command that is running.
    pub fn instead(&mut self, database: usize, words: &[&[u8]]) {
        self.push(database, words);
        self.rewritten = true;
    }

    /// Ends a command: it is told as it came, if it changed something and was not told otherwise.
    pub fn finish(&mut self, changed: bool, database: usize, words: &[&[u8]]) {
        if changed && !self.rewritten {
            self.push(database, words);
        }
        self.rewritten = false;
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A new listener knows nothing of the database in use.
    pub fn forget_selected(&mut self) {
        self.selected = None;
    }

    /// Moves all changes to the end of `stream` as one unit: more than one command is a transaction.
    pub fn drain(&mut self, stream: &mut Vec<u8>) {
        let transaction = self.ends.len() > 1;
        if let Some((first, _)) = self.ends.first() {
            select(&mut self.selected, *first, stream);
        }
        if transaction {
            write_command(stream, &[b"MULTI"]);
        }
        let mut from = 0;
        for (database, end) in self.ends.drain(..) {
            select(&mut self.selected, database, stream);
            stream.extend_from_slice(&self.bytes[from..end]);
            from = end;
        }
        if transaction {
            write_command(stream, &[b"EXEC"]);
        }
        self.bytes.clear();
    }
}

fn select(selected: &mut Option<usize>, database: usize, stream: &mut Vec<u8>) {
    if *selected != Some(database) {
        write_command(stream, &[b"SELECT", database.to_string().as_bytes()]);
        *selected = Some(database);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(propagation: &mut Propagation) -> String {
        let mut stream = Vec::new();
        propagation.drain(&mut stream);
        let words = String::from_utf8(stream).unwrap();
        words.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_changed_something_is_told_once() {
        let mut propagation = Propagation { wanted: true, ..Propagation::default() };
        propagation.finish(true, 0, &[b"INCR", b"a"]);
        assert_eq!(told(&mut propagation), "SELECT 0 INCR a ");
        propagation.finish(false, 0, &[b"GET", b"a"]);
        assert_eq!(told(&mut propagation), "");
        propagation.instead(0, &[b"DEL", b"a"]);
        propagation.finish(true, 0, &[b"PEXPIRE", b"a", b"-1"]);
        propagation.finish(true, 3, &[b"INCR", b"b"]);
        assert_eq!(told(&mut propagation), "MULTI DEL a SELECT 3 INCR b EXEC ");
    }
}

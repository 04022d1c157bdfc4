//! Changes on their way to the append-only file and to replicas: what one command did is told as one unit.

use crate::reply::write_command;

/// Changes that have not been told yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Propagation {
    /// Whether anybody listens.
    pub wanted: bool,
    /// Commands, one after the other.
    bytes: Vec<u8>,
    /// How many they are.
    count: usize,
    /// Set by a command that has been told in another form than its own.
    rewritten: bool,
    /// The listeners have been told which database to use, as Redis tells them, though there is only one.
    selected: bool,
}

impl Propagation {
    pub fn push(&mut self, words: &[&[u8]]) {
        if self.wanted {
            write_command(&mut self.bytes, words);
            self.count += 1;
        }
    }

    /// The same, in place of the command that is running.
    pub fn instead(&mut self, words: &[&[u8]]) {
        self.push(words);
        self.rewritten = true;
    }

    /// Ends a command: it is told as it came, if it changed something and was not told otherwise.
    pub fn finish(&mut self, changed: bool, words: &[&[u8]]) {
        if changed && !self.rewritten {
            self.push(words);
        }
        self.rewritten = false;
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A new listener knows nothing of the database in use.
    pub fn forget_selected(&mut self) {
        self.selected = false;
    }

    /// Moves all changes to the end of `stream` as one unit: more than one command is a transaction.
    pub fn drain(&mut self, stream: &mut Vec<u8>) {
        let transaction = self.count > 1;
        if self.count > 0 && !std::mem::replace(&mut self.selected, true) {
            write_command(stream, &[b"SELECT", b"0"]);
        }
        if transaction {
            write_command(stream, &[b"MULTI"]);
        }
        stream.extend_from_slice(&self.bytes);
        if transaction {
            write_command(stream, &[b"EXEC"]);
        }
        self.bytes.clear();
        self.count = 0;
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
        propagation.finish(true, &[b"INCR", b"a"]);
        assert_eq!(told(&mut propagation), "SELECT 0 INCR a ");
        propagation.finish(false, &[b"GET", b"a"]);
        assert_eq!(told(&mut propagation), "");
        propagation.instead(&[b"DEL", b"a"]);
        propagation.finish(true, &[b"PEXPIRE", b"a", b"-1"]);
        propagation.finish(true, &[b"INCR", b"b"]);
        assert_eq!(told(&mut propagation), "MULTI DEL a INCR b EXEC ");
    }
}

//! Changes on their way to the append-only file and to replicas: the changes of one command are propagated as one unit.

use crate::reply::write_command;

/// Changes not yet propagated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Propagation {
    /// True if a file or a replica receives changes.
    pub wanted: bool,
    /// Commands, one after the other.
    bytes: Vec<u8>,
    /// The number of commands in `bytes`.
    count: usize,
    /// True if the running command is propagated in another form.
    rewritten: bool,
    /// True once SELECT has been propagated, as in Redis; there is only one database.
    selected: bool,
}

impl Propagation {
    pub fn push(&mut self, words: &[&[u8]]) {
        if self.wanted {
            write_command(&mut self.bytes, words);
            self.count += 1;
        }
    }

    /// Propagates these words instead of the running command.
    pub fn instead(&mut self, words: &[&[u8]]) {
        self.push(words);
        self.rewritten = true;
    }

    /// Ends a command: propagates it unchanged if it changed a key and no rewrite was pushed.
    pub fn finish(&mut self, changed: bool, words: &[&[u8]]) {
        if changed && !self.rewritten {
            self.push(words);
        }
        self.rewritten = false;
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Makes the next changes begin with SELECT, for a new listener.
    pub fn forget_selected(&mut self) {
        self.selected = false;
    }

    /// Appends all changes to `stream`; wraps two or more commands in a transaction.
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

//! The checker's words for people: client names, values and times, the same in every sentence.

use base::members::client_name;
use base::words;
pub(super) use base::words::{count as number, length, moment as seconds, plural as count};
use model::history::{Header, History, Operation, Process, Reading};

/// A longer list is cut, so that a sentence stays short.
const LONGEST_LIST: usize = 6;

/// Turns the contents of a history into words.
#[derive(Clone, Copy)]
pub(super) struct Words<'h> {
    header: Option<&'h Header>,
    operations: &'h [Operation],
}

impl<'h> Words<'h> {
    pub fn new(history: &'h History) -> Words<'h> {
        Words { header: history.run.as_ref(), operations: &history.operations }
    }

    /// The client that performed the operation with this index in the history, such as `c3`.
    pub fn client(&self, place: usize) -> String {
        self.process(self.operations[place].process)
    }

    /// The name of the client behind a process; without a header every process counts as its own client.
    pub fn process(&self, process: Process) -> String {
        match (self.header, process) {
            (Some(header), process) => header.client_name(process),
            (None, Process::Client(number)) => client_name(number),
            (None, Process::Controller) => "the controller".to_string(),
        }
    }

    /// The value that the operation with this index wrote or tried to write.
    pub fn new_value(&self, place: usize) -> &'h str {
        self.operations[place].new.as_deref().unwrap_or("nothing")
    }

    /// The clients of several operations, without duplicates: `c3, c1 and c2`.
    pub fn clients(&self, places: impl IntoIterator<Item = usize>) -> String {
        list(&self.names(places).0)
    }

    /// A statement that several operations read the same: `c1 and c2 both read k0 = c4:2`, or `c1 read k0 = c4:2 twice`.
    pub fn readers(&self, places: impl IntoIterator<Item = usize>, what: &str) -> String {
        let (names, operations) = self.names(places);
        match (names.len(), operations) {
            (1, 2) => format!("{} read {what} twice", names[0]),
            (1, many) => format!("{} read {what} {many} times", names[0]),
            (2, _) => format!("{} both read {what}", list(&names)),
            (_, _) => format!("{} all read {what}", list(&names)),
        }
    }

    /// The clients of several operations, without duplicates, and the number of operations.
    fn names(&self, places: impl IntoIterator<Item = usize>) -> (Vec<String>, usize) {
        let (mut names, mut operations): (Vec<String>, usize) = (Vec::new(), 0);
        for place in places {
            operations += 1;
            let name = self.client(place);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (names, operations)
    }

    /// The new values of several operations: `c3:1, c1:7 and 12 more`.
    pub fn new_values(&self, places: &[usize]) -> String {
        list(&places.iter().map(|&place| self.new_value(place).to_string()).collect::<Vec<_>>())
    }
}

/// A list as prose, cut if it gets long.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => "nobody".to_string(),
        items if items.len() > LONGEST_LIST => {
            let shown = LONGEST_LIST - 1;
            format!("{} and {} more", items[..shown].join(", "), items.len() - shown)
        }
        items => words::list(items),
    }
}

/// `k0 = c3:1`, or that the key was empty.
pub(super) fn reading(key: &str, reading: &Reading) -> String {
    match reading {
        Reading::Unknown => format!("an unknown value of {key}"),
        Reading::Empty => format!("{key} = empty"),
        Reading::Value(value) => format!("{key} = {value}"),
    }
}

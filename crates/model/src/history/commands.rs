//! Commands that servers were sent, beside a history and no part of it: no verdict rests on them.

use serde::{Deserialize, Serialize};

use crate::fault_kinds::names_a_key_of_the_run;
use base::words::sanitize;

/// A command that a lock's node has carried out, or a time of which nothing is known. Those of one node are in the order in which it
/// carried them out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCommand {
    /// Nanoseconds since the run's start.
    pub time: u64,
    pub node: String,
    /// The member that sent it; none if a script called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The port of its connection, at the member that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether a script called it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_script: bool,
    /// Its name and what it was given, as far as the recorder keeps that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// Why nothing is known of what the node carried out around this time; then there is no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
}

impl RecordedCommand {
    /// The file's name in a run's folder: one JSON object a line.
    pub const FILE: &str = "commands.jsonl";

    /// Reads the text of such a file. The error says in which line what is wrong.
    pub fn read(text: &str) -> Result<Vec<RecordedCommand>, String> {
        let parsed = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))
        };
        text.lines().enumerate().map(parsed).collect()
    }

    /// Its name in capitals.
    pub fn name(&self) -> String {
        self.words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default()
    }

    /// The key of an operation that it names.
    pub fn key(&self) -> Option<&String> {
        self.words.iter().skip(1).find(|word| names_a_key_of_the_run(word))
    }

    /// `SET lock:k0 … NX PX 1000`: values are of no interest, and a script's text is long.
    pub fn example(&self) -> String {
        const LONGEST: usize = 24;
        let shown = self.words.iter().take(8).map(|word| {
            let is_short = word.len() <= LONGEST && !word.contains(char::is_control);
            if is_short || names_a_key_of_the_run(word) { sanitize(word, 60) } else { "…".to_string() }
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    /// The commands of a script that one of this node has run, if these follow it.
    pub fn called<'c>(
        following: &'c [RecordedCommand],
        node: &str,
    ) -> impl Iterator<Item = &'c RecordedCommand> + use<'c> {
        let node = node.to_string();
        following.iter().filter(move |command| command.node == node).take_while(|command| command.in_script)
    }
}

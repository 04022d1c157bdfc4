//! Commands that servers received, stored beside a history. They are not part of it, and no verdict depends on them.

use serde::{Deserialize, Serialize};

use crate::fault_kinds::names_a_key_of_the_run;
use base::words::sanitize;

/// A command that a lock's node executed, or a time with missing records. The commands of one node are in the order of execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCommand {
    /// Nanoseconds since the run's start.
    pub time: u64,
    pub node: String,
    /// The member that sent it; None if a script called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The port of its connection, at the member that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_script: bool,
    /// Its name and arguments, as far as the recorder keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// Why the commands of the node around this time are not known; then `words` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
}

impl RecordedCommand {
    /// The file's name in a run's folder. Each line is one JSON object.
    pub const FILE: &str = "commands.jsonl";

    /// Reads the text of such a file. The error has the line number and the reason.
    pub fn read(text: &str) -> Result<Vec<RecordedCommand>, String> {
        let parsed = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))
        };
        text.lines().enumerate().map(parsed).collect()
    }

    /// The command's name in capitals.
    pub fn name(&self) -> String {
        self.words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default()
    }

    /// The first argument that names the key of an operation.
    pub fn key(&self) -> Option<&String> {
        self.words.iter().skip(1).find(|word| names_a_key_of_the_run(word))
    }

    /// `SET lock:k0 … NX PX 1000`, without values, which do not matter, and scripts, which are long.
    pub fn example(&self) -> String {
        const LONGEST: usize = 24;
        let shown = self.words.iter().take(8).map(|word| {
            let is_short = word.len() <= LONGEST && !word.contains(char::is_control);
            if is_short || names_a_key_of_the_run(word) { sanitize(word, 60) } else { "…".to_string() }
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    /// Iterates over the commands of a script that this node has run; `following` are the commands after it.
    pub fn called<'c>(
        following: &'c [RecordedCommand],
        node: &str,
    ) -> impl Iterator<Item = &'c RecordedCommand> + use<'c> {
        let node = node.to_string();
        following.iter().filter(move |command| command.node == node).take_while(|command| command.in_script)
    }
}

//! Commands that servers were sent, beside a history and no part of it: no verdict rests on them.

use serde::{Deserialize, Serialize};

/// A command that a lock's node has carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCommand {
    /// Nanoseconds since the run's start, by the node's own clock.
    pub time: u64,
    pub node: String,
    /// The member that sent it; none if it was the tester, or a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether a script called it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_script: bool,
    /// Its name and what it was given, as far as the recorder keeps that.
    pub words: Vec<String>,
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
}

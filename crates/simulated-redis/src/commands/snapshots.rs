//! BGSAVE. The child takes no time: the server writes the snapshot before it answers.

use super::*;
use crate::disk::snapshot;

pub(super) fn bgsave(server: &mut Server, _: Connection, words: CommandWords<'_>) -> CommandResult {
    if !(words.len() == 1 || words.len() == 2 && is(words[1], "schedule")) {
        return Err(SYNTAX);
    }
    server.disk.snapshot = Some(snapshot(&server.data));
    server.snapshots += 1;
    Ok(Reply::Status("Background saving started".into()))
}

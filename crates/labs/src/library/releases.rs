//! Whether clients can give their locks back a second time.

use model::history::{History, Phase, PhaseStamp, RecordedCommand};

/// Longer than what is left to send of a release that has come to its end, in nanoseconds.
const MOMENT: u64 = 20_000_000;

/// How a client begins what it says of a second release that was refused.
const SAID_AGAIN: &str = "released again: ";

/// Whether a client's second release reached its library, in a run that asked for one: the library refused it, or sent something. What
/// ends a routine that the library runs can be called again, and does nothing.
pub fn reach_again(history: &History, commands: &[RecordedCommand]) -> bool {
    let Some(run) = history.run.as_ref() else { return false };
    history.operations.iter().any(|operation| {
        let said = operation.failure.as_ref().and_then(|failure| failure.text.as_ref());
        if said.is_some_and(|text| text.to_string().starts_with(SAID_AGAIN)) {
            return true;
        }
        let released = operation.phase(Phase::Released).map(PhaseStamp::time);
        let (Some(released), Some(over)) = (released, operation.completed) else { return false };
        let client = run.client_name(operation.process);
        let is_its = |command: &&RecordedCommand| command.from.as_ref() == Some(&client) && !command.in_script;
        // An operation that is over once its lock is given back lasts no longer than that.
        commands.iter().filter(is_its).any(|command| (released + MOMENT..over).contains(&command.time))
    })
}

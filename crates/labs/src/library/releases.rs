//! Checks if clients can release their locks a second time.

use model::history::{History, Phase, PhaseStamp, RecordedCommand};

/// Longer than a client takes to send the rest of a completed release, in nanoseconds.
const MOMENT: u64 = 20_000_000;

/// The beginning of a client's text if a second release was refused.
const SAID_AGAIN: &str = "released again: ";

/// True if a client's second release reached its library, in a run that asked for one. Either the library refused it, or the
/// client sent a command. If neither happened, the release only ended a routine that can be ended again without effect.
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
        // An operation that ends with its release lasts no longer than that.
        commands.iter().filter(is_its).any(|command| (released + MOMENT..over).contains(&command.time))
    })
}

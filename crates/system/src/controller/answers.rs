//! Translates a client's messages into outcomes for the history.

use super::excerpt::shorten;
use super::messages::{ClientFailure, shown};
use crate::client::protocol::{CANCELLED, CERTAIN_ERRORS, FromClient, PhaseMessage, Problem};
use model::history::{Amount, Completion, Function, Outcome, PhaseReport, Reading};

/// How an operation ended on the client's side.
pub(super) enum ClientAnswer {
    Message(FromClient),
    /// The run ended before the client answered.
    CutOff,
}

/// The outcome of an operation according to the client's answer; `cancelled` says whether the operation was cancelled. When in
/// doubt, the operation is indeterminate. If the answer contradicts earlier messages of the client, the history shows it.
pub(super) fn judge(
    answer: Result<ClientAnswer, ClientFailure>,
    cancelled: bool,
    completion: &mut Completion,
) -> Result<(), ClientFailure> {
    let is_certain = |word: &str| CERTAIN_ERRORS.contains(&word) || cancelled && word == CANCELLED;
    let mut indeterminate = |error: &str, text: String| {
        completion.error = Some(error.into());
        completion.text = Some(text.into());
    };
    match answer {
        Ok(ClientAnswer::Message(FromClient::Ok { old, count, text, .. })) => {
            completion.outcome = Outcome::Ok;
            completion.text = text.map(|text| shorten(&text).into());
            completion.amount = count.map(Amount::Count);
            completion.old =
                if matches!(completion.f, Function::Hold | Function::Write) { Reading::Unknown } else { reading(old) };
        }
        Ok(ClientAnswer::Message(FromClient::Fail(problem))) if is_certain(&problem.error) => {
            completion.outcome = Outcome::Fail;
            completion.error = Some(problem.error.into());
            completion.text = Some(shorten(&problem.text).into());
        }
        // An unknown error word leaves the outcome unknown, whatever type the message has.
        Ok(ClientAnswer::Message(
            FromClient::Fail(Problem { error, text, .. }) | FromClient::Info(Problem { error, text, .. }),
        )) => {
            indeterminate(&shorten(&error), shorten(&text));
        }
        Ok(ClientAnswer::CutOff) => indeterminate("timeout", "still in progress when the run ended".into()),
        Ok(ClientAnswer::Message(other)) => {
            let text = format!("it sent {} in the middle of an operation", shown(&other));
            indeterminate("crash", text.clone());
            return Err(ClientFailure::new(text));
        }
        Err(broken) => {
            indeterminate("crash", broken.text.clone());
            return Err(broken);
        }
    }
    Ok(())
}

pub(super) fn report(process: u32, message: PhaseMessage) -> PhaseReport {
    PhaseReport {
        process,
        phase: message.phase,
        mono_ns: message.mono_ns,
        token: message.token,
        validity_ms: message.validity_ms,
        value: reading(message.value),
        amount: message.count.map(Amount::Count),
        text: message.text.map(|text| shorten(&text).into()),
    }
}

/// The value that a client says it read: not reported, an empty key, or a value.
fn reading(value: Option<Option<String>>) -> Reading {
    value.map_or(Reading::Unknown, |value| value.map_or(Reading::Empty, |value| Reading::Value(value.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::history::Process;

    fn judged(message: FromClient) -> (Outcome, Option<String>) {
        judged_if(false, message)
    }

    fn judged_if(cancelled: bool, message: FromClient) -> (Outcome, Option<String>) {
        let mut completion = Completion {
            process: Process::Client(0),
            f: Function::Rmw,
            key: "k0".into(),
            outcome: Outcome::Info,
            old: Reading::Unknown,
            amount: None,
            new: Some("c0:1".into()),
            error: None,
            text: None,
        };
        let _ = judge(Ok(ClientAnswer::Message(message)), cancelled, &mut completion);
        (completion.outcome, completion.error.map(|error| error.to_string()))
    }

    fn problem(error: &str) -> Problem {
        Problem { id: 1, error: error.into(), text: String::new() }
    }

    #[test]
    fn only_known_words_make_a_failure_certain() {
        for word in CERTAIN_ERRORS {
            assert_eq!(judged(FromClient::Fail(problem(word))), (Outcome::Fail, Some(word.to_string())));
        }
        let cancelled = |was| judged_if(was, FromClient::Fail(problem(CANCELLED))).0;
        assert_eq!((cancelled(true), cancelled(false)), (Outcome::Fail, Outcome::Info), "only if it was");
        assert_eq!(judged(FromClient::Fail(problem("oops"))).0, Outcome::Info, "an unknown word is indefinite");
        assert_eq!(judged(FromClient::Info(problem("conflict"))).0, Outcome::Info, "info stays info");
    }

    #[test]
    fn an_ok_happened_and_anything_else_in_its_place_is_a_crash() {
        let ok = FromClient::Ok { id: 1, old: None, new: None, count: None, text: None };
        assert_eq!(judged(ok), (Outcome::Ok, None));
        let asks_where_nothing_is_granted = FromClient::Acquire { id: 1 };
        for nonsense in [FromClient::Failed { text: "too late".into() }, asks_where_nothing_is_granted] {
            assert_eq!(judged(nonsense), (Outcome::Info, Some("crash".into())));
        }
    }
}

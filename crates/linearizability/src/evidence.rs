//! Could a violation have shown on an object at all? If not, a legal order proves nothing.

use super::{FailedCas, ModelSpec, Options};
use crate::history::{Op, OpFunction, Outcome, Value};

/// True if an operation returned a result that another operation could have contradicted.
///
/// A read shows the previous value, and so does a successful compare-and-set or read-modify-write. A successful acquire proves
/// something only beside others that it could have excluded, and a token only beside another token.
pub fn is_there(spec: ModelSpec, operations: &[Op], options: &Options) -> bool {
    let mut acquired = operations.iter().filter(|op| op.f == OpFunction::Acquire && op.outcome == Outcome::Ok);
    match spec {
        ModelSpec::Mutex | ModelSpec::OwnerMutex => acquired.nth(1).is_some(),
        ModelSpec::ReentrantMutex => {
            acquired.next().is_some_and(|first| acquired.any(|other| other.process != first.process))
        }
        ModelSpec::FencedMutex => acquired.filter(|op| op.a != Value::NIL).nth(1).is_some(),
        ModelSpec::Semaphore(places) => acquired.nth(places as usize).is_some(),
        _ => operations.iter().any(|op| match op.f {
            OpFunction::Read => op.outcome == Outcome::Ok && op.a != Value::UNKNOWN,
            OpFunction::Rmw => op.outcome == Outcome::Ok,
            OpFunction::Cas => {
                op.outcome == Outcome::Ok || op.outcome == Outcome::Fail && options.failed_cas == FailedCas::Check
            }
            _ => false,
        }),
    }
}

/// The missing operations if there is no evidence.
pub fn what_is_missing(spec: ModelSpec) -> String {
    match spec {
        ModelSpec::Mutex | ModelSpec::OwnerMutex => "fewer than two acquires succeeded".into(),
        ModelSpec::ReentrantMutex => "fewer than two processes acquired the lock".into(),
        ModelSpec::FencedMutex => "fewer than two acquires returned a token (owner-mutex needs none)".into(),
        ModelSpec::Semaphore(places) => format!("at most {places} acquires succeeded"),
        _ => "none of the operations says what it found".into(),
    }
}

//! The times at which an operation held the lock, wrote and ended, from its phases.
//!
//! Uses the client's own stamps if they could be converted to run time, otherwise the time at which the controller read the
//! report. The report draws the clients' beliefs. The checker decides if these are certain enough to accuse a lock.

use model::history::{History, Operation, Outcome, Phase, PhaseStamp};

/// The time in which a client believed that it held the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hold {
    pub start: u64,
    pub end: u64,
    /// False if the client last reported at `end` and still held the lock.
    pub ended: bool,
}

/// A write from the request to the acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Write {
    pub sent: u64,
    pub acknowledged: Option<u64>,
}

/// When the operation first reached `phase`.
pub fn at(operation: &Operation, phase: Phase) -> Option<u64> {
    operation.phase(phase).map(PhaseStamp::time)
}

/// The hold of an operation that acquired the lock. It ends when the client began the release or learned of the loss, otherwise
/// at its last report as holder.
pub fn hold(operation: &Operation) -> Option<Hold> {
    let mut stamps = operation.phases.iter();
    let start = stamps.find(|stamp| stamp.phase == Phase::Acquired)?.time();
    let mut end = start;
    for stamp in stamps {
        match stamp.phase {
            Phase::Read | Phase::BeforeWrite | Phase::Written | Phase::Extended => end = end.max(stamp.time()),
            Phase::Releasing | Phase::Lost => {
                return Some(Hold { start, end: stamp.time().max(start), ended: true });
            }
            Phase::Released => return Some(Hold { start, end, ended: true }),
            _ => {}
        }
    }
    Some(Hold { start, end, ended: operation.outcome != Outcome::Info })
}

/// The operation's write. None if it did not get that far.
pub fn write(operation: &Operation) -> Option<Write> {
    let (last, written) = write_stamps(operation);
    let acknowledged = written.map(PhaseStamp::time);
    let sent = last.map(PhaseStamp::time).or(acknowledged)?;
    Some(Write { sent, acknowledged: acknowledged.map(|time| time.max(sent)) })
}

/// The times between which a write certainly took effect: sent and acknowledged. None without such stamps.
pub fn certain_write(operation: &Operation) -> Option<(u64, u64)> {
    let (sent, written) = write_stamps(operation);
    Some((sent.filter(|stamp| stamp.stamped.is_some())?.time(), written?.time()))
}

/// The last stamp before a write, and the first after it. A client that waits at a breakpoint reports again when it goes on.
fn write_stamps(operation: &Operation) -> (Option<PhaseStamp>, Option<PhaseStamp>) {
    let (mut sent, mut written) = (None, None);
    for stamp in &operation.phases {
        match stamp.phase {
            Phase::BeforeWrite => sent = Some(stamp),
            Phase::Written => written = written.or(Some(stamp)),
            _ => {}
        }
    }
    (sent, written)
}

/// True if an operation without a certain answer may have sent a write. Clients with a lock report before they write.
pub fn may_have_sent(operation: &Operation) -> bool {
    operation.outcome == Outcome::Ok
        || !operation.f.is_locked()
        || operation.phases.is_empty()
        || write(operation).is_some()
}

/// When the write took effect, apart from the way to the resource. None if it is not known to have taken effect.
pub fn effect(operation: &Operation) -> Option<u64> {
    let write = write(operation)?;
    let answered =
        write.acknowledged.or((operation.outcome == Outcome::Ok).then_some(operation.completed).flatten())?;
    // A slow write probably took effect late, so its acknowledgement is the better guess.
    let slow = is_slow(operation, write.sent, answered);
    Some(if slow { answered } else { write.sent })
}

/// True if a reply took long enough to mention, compared with the duration of the hold.
pub fn is_slow(operation: &Operation, sent: u64, answered: u64) -> bool {
    let took = answered.saturating_sub(sent);
    took > 10_000_000 && hold(operation).is_none_or(|hold| took > (hold.end - hold.start) / 10)
}

/// Until when the client counts its lock as valid, given its reports up to `moment`, and the stamp with that time. None if it
/// counts on no end, as for a lock that does not expire.
pub fn expiry_at(history: &History, operation: &Operation, moment: u64) -> Option<(u64, PhaseStamp)> {
    let told = history.grants(operation).filter(|stamp| stamp.time() <= moment);
    let until = |stamp: PhaseStamp| Some(stamp.time().saturating_add(stamp.validity_ms?.saturating_mul(1_000_000)));
    told.filter_map(|stamp| Some((until(stamp)?, stamp))).max_by_key(|(until, _)| *until)
}

/// The time in which all of these operations believed that they held the lock.
pub fn overlap(operations: &[&Operation]) -> Option<(u64, u64)> {
    let holds = operations.iter().map(|operation| hold(operation)).collect::<Option<Vec<_>>>()?;
    let from = holds.iter().map(|hold| hold.start).max()?;
    let to = holds.iter().map(|hold| hold.end).min()?;
    (from < to).then_some((from, to))
}

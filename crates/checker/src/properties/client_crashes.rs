//! Programs of clients that ended by themselves. No lock claims that they keep running, but users of the library want to know.

use super::super::liveness::STUCK_AFTER_TTLS;
use super::*;
use model::history::ClientStep;

pub static DEF: Advisory = Advisory {
    id: "client-crashes",
    title: "No client exits on its own",
    applies: "every run",
    check: |run| crash(run.history, run.verdict),
};

/// Signals that other processes send. Their sender is not known, so the program may not be to blame.
const FROM_OTHERS: [&str; 4] = ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"];

/// How the first client program ended by itself: its exit code and its last words. None if none did, or if the machine had stood
/// still before or a member just had.
fn crash(history: &History, verdict: &Verdict) -> Option<Remark> {
    let ended = verdict.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::EndedByItself)?;
    let time = ended.time;
    let stood_still = history.stalls.iter().any(|(from, _)| *from <= time);
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    let just = (time.saturating_sub(ttl_ns.saturating_mul(STUCK_AFTER_TTLS)), time);
    let stood_still = stood_still || !everyone_ran(history, just, ttl_ns);
    let is_it = |at: u64, step| at == time && step == ClientStep::Ended;
    let (_, event) = history.clients.iter().find(|(at, event)| is_it(*at, event.step))?;
    if stood_still || FROM_OTHERS.iter().any(|signal| event.text.contains(&format!("({signal})"))) {
        return None;
    }
    let how = sanitize(without_log(&event.text), 400);
    let how = if had_no_lock(history, event.process, time) { format!("{how}; it held no lock then") } else { how };
    let count = verdict.count_of(AnomalyKind::EndedByItself);
    let programs = history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ready).count() as u64;
    let remark = Remark::new(count, programs, how)?;
    Some(Remark { disturbed: was_disturbed(history, time), ..remark })
}

/// True if the history makes certain that a client's process had no lock when it ended. Either it had begun no operation, or each
/// operation was answered before and left it without a lock. The end of a process ends its operation, which may have had the lock
/// until then. The reported phases do not matter: a program that dies may leave some unreported.
fn had_no_lock(history: &History, process: u32, time: u64) -> bool {
    let Some(header) = history.run.as_ref().filter(|header| header.threads == 1) else { return false };
    let client = header.client_name(Process::Client(process));
    let began =
        history.operations.iter().filter(|one| one.invoked <= time && header.client_name(one.process) == client);
    began.filter(|one| one.f.is_locked()).all(|one| {
        let said = |phase| one.phase(phase).is_some_and(|stamp| stamp.time() <= time);
        let answered = one.completed.is_some_and(|end| end < time);
        match one.outcome {
            Outcome::Ok => answered,
            Outcome::Fail => answered && (said(Phase::Released) || one.phase(Phase::Acquired).is_none()),
            Outcome::Info => said(Phase::Released),
        }
    })
}

/// The text about an end, without the log's path in the run's folder.
fn without_log(text: &str) -> &str {
    let before = text.split_once("/client.log)").and_then(|(before, _)| before.rsplit_once(" ("));
    before.map_or(text, |(said, _)| said)
}

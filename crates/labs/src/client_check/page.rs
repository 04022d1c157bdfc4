//! The result of a client check as a page of text: the verdict, the client's reports, and advice. It lists the claims and
//! scenarios that the reports suffice for.

use crate::client_check::{ClientCheck, ENOUGH, PhaseUse, Refused, Stopped, is_conditional};
use base::words::{count, length, line, list, plural, wrap};
use checker::Validity;
use model::history::Phase;
use report::Look;

/// At most this many characters of a client's text are shown.
const LONGEST: usize = 300;
const LABEL: usize = 18;

/// The whole page. `then` is the command to run next. `kept` is true if the folder with the client's log still exists.
pub fn terminal(check: &ClientCheck, then: &str, kept: bool, look: Look) -> String {
    let (word, class) = match (check.is_right(), check.is_complete()) {
        (true, true) => ("READY", "valid"),
        (true, false) => ("INCOMPLETE", "unknown"),
        (false, _) => ("WRONG", "invalid"),
    };
    let mut out = Page { look, lines: Vec::new() };
    out.headline(&look.verdict(word, class), &headline(check));
    let [ok, fail, info] = check.answers;
    out.section("Protocol");
    out.told("answers", &format!("{} ok, {} fail, {} info", count(ok), count(fail), count(info)));
    out.told("a lock in use", &refused(check.refused));
    match &check.mistakes[..] {
        [] => out.told("mistakes", "none"),
        mistakes => mistakes.iter().for_each(|mistake| out.told("mistake", mistake)),
    }
    let extras: Vec<String> = check.extras.iter().map(|(what, number)| format!("{what} {}", count(*number))).collect();
    out.told("also reported", &extras.join(", "));
    out.section("Phases        reported  stamped  breakpoint");
    check.phases.iter().for_each(|used| out.phase(used));
    out.section("Claims");
    for claim in &check.claims {
        let broken = if claim.valid == Validity::Invalid { "; violated in a run without faults" } else { "" };
        let claimed = if claim.claimed { "" } else { " (not claimed by this workload)" };
        out.told(
            claim.claim.name(),
            &match &claim.missing {
                None => format!("can be checked: {}{broken}{claimed}", claim.text),
                Some(_) if is_conditional(claim) => {
                    format!("only a fault can show a violation, so this check without faults cannot test it{claimed}")
                }
                Some(missing) => format!("CAN'T be checked: {missing}{claimed}"),
            },
        );
    }
    let all = check.serves.len() + check.lacks.values().map(Vec::len).sum::<usize>();
    let others = plural(check.not_about, "other");
    out.section(&format!("Scenarios and nemeses: {} of {all} (and {others} about other locks)", check.serves.len()));
    for (what, names) in &check.lacks {
        out.told("without", &format!("{what}: {}", names.join(", ")));
    }
    let mut advice = advice(check);
    if !check.is_right() {
        let where_it_is = if kept { "" } else { ", which `--store FOLDER` keeps" };
        advice.push(format!("The client's standard error is in client.log of each run's folder{where_it_is}."));
    }
    if !advice.is_empty() {
        out.section("What to do");
        advice.iter().for_each(|text| out.told("", text));
    }
    out.section("Next");
    out.lines.push(format!("  {then}"));
    out.lines.join("\n") + "\n"
}

struct Page {
    look: Look,
    lines: Vec<String>,
}

impl Page {
    fn headline(&mut self, word: &str, text: &str) {
        let width = self.look.width.map_or(usize::MAX, |width| width.saturating_sub(LABEL).max(2 * LABEL));
        let text = wrap(text, width).join("\n  ");
        self.lines.push(format!("{word}  {text}"));
    }

    fn section(&mut self, title: &str) {
        self.lines.extend([String::new(), self.look.paint("1", title)]);
    }

    /// Adds a label and a text. Further lines of the text are aligned with its first line.
    fn told(&mut self, label: &str, text: &str) {
        let room = self.look.width.map_or(usize::MAX, |width| width.saturating_sub(LABEL + 2).max(2 * LABEL));
        for (number, part) in wrap(&line(text, LONGEST), room).into_iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            self.lines.push(format!("  {label:<LABEL$}{part}").trim_end().to_string());
        }
    }

    fn phase(&mut self, used: &PhaseUse) {
        let of = |number: u64| match (number, used.of) {
            (0, _) => "no".to_string(),
            (number, of) if number == of => "yes".to_string(),
            (number, of) => format!("{} of {}", count(number), count(of)),
        };
        let stopped = match &used.stopped {
            _ if used.phase == Phase::Released => "-",
            Stopped::Waited => "yes",
            Stopped::NotReported => "phase not seen",
            Stopped::WentOn(_) => "NO, the client goes on",
            Stopped::NotTried => "not tried",
        };
        let (reported, stamped) = (of(used.reported), of(used.stamped));
        self.lines.push(format!("  {:<14}{reported:<10}{stamped:<9}{stopped}", used.phase.word()));
    }
}

fn headline(check: &ClientCheck) -> String {
    let name = match line(&check.name, LONGEST) {
        name if name.is_empty() => "the client".to_string(),
        name => name,
    };
    let claimed = || check.claims.iter().filter(|claim| claim.claimed);
    let judged = claimed().filter(|claim| claim.missing.is_none()).count();
    let can = format!(
        "{judged} of {} can be checked and {} of {} can be run",
        plural(claimed().count() as u64, "claim"),
        check.serves.len(),
        plural((check.serves.len() + check.lacks.values().map(Vec::len).sum::<usize>()) as u64, "scenario"),
    );
    let all = |word: &str| !check.mistakes.is_empty() && check.mistakes.iter().all(|mistake| mistake.contains(word));
    match (check.is_right(), check.is_complete()) {
        (true, true) => format!("{name} speaks the protocol; {can}."),
        (true, false) => format!("{name} speaks the protocol, but does not report everything; {can}."),
        (false, _) if check.unwritten => {
            format!(
                "{name} answers `ok` to writes that never reach the resource, so every run with this client would report \
                lost updates."
            )
        }
        (false, _) if all(": it ended") => format!("{name} exits on its own, so every run with it would be unknown."),
        (false, _) if all(": it hangs") => {
            format!("{name} does not answer each `invoke`, so every run with it would be unknown.")
        }
        (false, _) if check.answers[0] == 0 && check.mistakes.is_empty() => {
            format!("{name} never said `ok`, so no run with it can prove anything.")
        }
        (false, _) if check.answers[0] == 0 => {
            format!("{name} does something that the protocol forbids, and none of its operations counts as `ok`.")
        }
        (false, _) => {
            format!("{name} does something that the protocol forbids, so every run with it would be unknown.")
        }
    }
}

fn refused(refused: Option<Refused>) -> String {
    match refused {
        None => "this workload has no lock".to_string(),
        Some(Refused::After(after)) => format!("another client gives up after {}", length(after)),
        Some(Refused::NotAtAll(after)) => {
            format!("NO EXCLUSION: another client acquired the lock, too, after {}", length(after))
        }
        Some(Refused::Unsure) => "another client reported an unknown result".to_string(),
        Some(Refused::Late) => "another client was still waiting at three times its `acquire_timeout_ms`".to_string(),
        Some(Refused::NotTried) => "not tried, since no client stopped while it held the lock".to_string(),
    }
}

/// One sentence for each thing to change, the most important first.
fn advice(check: &ClientCheck) -> Vec<String> {
    let mut advice = Vec::new();
    let quoted = |wanted: &dyn Fn(&PhaseUse) -> bool| {
        let phases = check.phases.iter().filter(|used| wanted(used));
        phases.map(|used| format!("`{}`", used.phase.word())).collect::<Vec<String>>()
    };
    let [ok, ..] = check.answers;
    if check.unwritten {
        advice.push(
            "Write the `value` of `invoke` to the server at `url` of `resource`, under the `key` of `invoke`, and answer `ok` once \
             that server has acknowledged it."
                .into(),
        );
    }
    match &check.never_ok {
        Some((_, answer)) if answer.contains("it hangs") => advice.push(
            "Answer each `invoke` with `ok`, `fail` or `info`; client.log shows what the client waits for.".into(),
        ),
        // The mistakes explain this answer.
        Some(_) if !check.mistakes.is_empty() => {
            advice.push("Fix the mistakes first: they void the client's answers.".into())
        }
        Some((times, answer)) => advice.push(format!(
            "Find out why no operation succeeds. The most frequent answer ({}) is {answer}.",
            plural(*times, "time")
        )),
        None if ok == 0 => advice.push("Answer `ok` once the write has been acknowledged.".into()),
        None => {}
    }
    let goes_on = quoted(&|used| matches!(used.stopped, Stopped::WentOn(_)));
    if !goes_on.is_empty() {
        advice.push(format!(
            "At a phase that `breakpoints` names ({}): report it, wait for `go`, and report it again, with a new stamp, before \
             going on.",
            list(&goes_on)
        ));
    }
    let optional = |used: &PhaseUse| matches!(used.phase, Phase::HalfAcquired | Phase::HalfReleased);
    let silent = quoted(&|used| used.reported == 0 && used.of > 0 && !optional(used));
    if !silent.is_empty() {
        advice.push(format!("Report the phases {}.", list(&silent)));
    }
    if !check.unfit.is_empty() {
        let phases: Vec<String> = check.unfit.iter().map(|phase| format!("`{}`", phase.word())).collect();
        advice.push(format!(
            "Take each `mono_ns` from CLOCK_MONOTONIC of this machine's kernel, in nanoseconds, at that moment: the first wrong \
             stamp, at {}, comes from another clock.",
            list(&phases)
        ));
    }
    let unstamped = quoted(&|used| {
        let needed = matches!(used.phase, Phase::Acquired | Phase::Releasing) && check.unfit.is_empty();
        needed && used.reported > 0 && used.stamped < used.reported
    });
    if !unstamped.is_empty() {
        advice.push(format!(
            "Put `mono_ns` on {}: CLOCK_MONOTONIC in nanoseconds, of this machine's kernel.",
            list(&unstamped)
        ));
    }
    if let Some(Refused::NotAtAll(_)) = check.refused {
        advice.push(
            "Check that the client really acquires the lock, and does not say `acquired` when its library gave up. Until then \
             every scenario only shows this defect."
                .into(),
        );
    }
    if check.overstays() {
        advice.push("Give up after `acquire_timeout_ms`, and answer `fail` with `not-acquired`.".into());
    }
    if matches!(check.refused, Some(Refused::Unsure)) {
        advice.push("A lock that was refused is a `fail` with `not-acquired`, not an `info`.".into());
    }
    let cannot_be_judged =
        check.claims.iter().any(|claim| claim.claimed && claim.missing.is_some() && !is_conditional(claim));
    if let Some(took) = check.slow.filter(|_| cannot_be_judged) {
        let enough = took.saturating_mul(2 * ENOUGH).div_ceil(1_000_000_000);
        advice.push(format!(
            "Give the client more time: an operation takes {}, so `--time-limit {enough}s` shows more.",
            length(took)
        ));
    }
    if let Some(step) = check.broke_off.as_ref().filter(|_| !check.is_complete()) {
        advice.push(format!(
            "Find out why the client stops here: the steps after {step} were not tried. If the client is only slow, give it a \
             longer `--ttl`."
        ));
    }
    let halves = quoted(&|used| used.reported == 0 && optional(used));
    if check.is_complete() && !halves.is_empty() && !check.lacks.is_empty() {
        advice.push(format!(
            "Nothing to do. {} are only for locks that need two requests to acquire or to release.",
            list(&halves)
        ));
    }
    advice
}

//! Shows the progress of a run: one live line on a terminal, otherwise a plain line now and then.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{is_live, tell};
use crate::controller::Status;
use crate::words;

/// How often a plain line is written.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
const LIVE_EVERY: Duration = Duration::from_millis(100);
/// The names of many faults make a long line.
const LONGEST_LINE: usize = 1000;

/// Shows the status of a run until its sender is dropped, while other work goes on.
pub fn start(status: watch::Receiver<Status>, time_limit: Duration) -> JoinHandle<()> {
    tokio::spawn(show(status, time_limit))
}

async fn show(mut status: watch::Receiver<Status>, time_limit: Duration) {
    let live = is_live();
    let bar = ProgressBar::hidden();
    if live {
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
    }
    let mut last_stage = String::new();
    let mut notes_shown = 0;
    let mut last_line = Instant::now();
    loop {
        let now = status.borrow_and_update().clone();
        for note in now.notes.iter().skip(notes_shown) {
            bar.suspend(|| tell(note));
        }
        notes_shown = now.notes.len();
        let line = line(&now, time_limit);
        if live {
            bar.set_message(words::line(&line, LONGEST_LINE));
            bar.tick();
        } else if now.stage != last_stage || last_line.elapsed() >= PLAIN_EVERY {
            tell(&line);
            last_line = Instant::now();
        }
        last_stage = now.stage;
        // Not at every change: there may be thousands in a second.
        let over = async { while status.changed().await.is_ok() {} };
        if tokio::time::timeout(LIVE_EVERY, over).await.is_ok() {
            break;
        }
    }
    bar.finish_and_clear();
    for note in status.borrow().notes.iter().skip(notes_shown) {
        tell(note);
    }
}

fn line(status: &Status, time_limit: Duration) -> String {
    let Some(began) = status.began else { return status.stage.clone() };
    let seconds = began.elapsed().as_secs_f64().min(time_limit.as_secs_f64());
    let mut line = format!(
        "{} · {seconds:.0} of {:.0} s · {}, {} failed, {} unknown",
        status.stage,
        time_limit.as_secs_f64(),
        words::plural(status.ok, "update"),
        words::count(status.fail),
        words::count(status.info)
    );
    if !status.faults.is_empty() {
        line.push_str(" · ");
        let faults: Vec<&str> = status.faults.iter().map(|(_, what)| what.as_str()).collect();
        line.push_str(&faults.join(", "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_has_come() {
        let mut status = Status { stage: "starting the clients".into(), ..Status::default() };
        assert_eq!(line(&status, Duration::from_secs(30)), "starting the clients");
        status.stage = "running".into();
        status.began = Some(tokio::time::Instant::now());
        (status.ok, status.fail, status.info) = (7, 2, 1);
        status.faults.push((0, "pause client:3".into()));
        assert_eq!(
            line(&status, Duration::from_secs(30)),
            "running · 0 of 30 s · 7 updates, 2 failed, 1 unknown · pause client:3"
        );
    }
}

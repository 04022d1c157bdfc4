//! Shows progress: on a terminal a bar and a few lines that are overwritten, elsewhere a plain line now and then. The same for
//! runs, suites, hunts, replays and risks.

use std::io;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::console::{is_live, leave, tell, tell_progress};
use base::units::nanos;
use base::words::{self, count, length, plural};
use runner::Console;
use system::controller::Status;

/// Where runs report their progress: standard error.
pub(super) const CONSOLE: Console = Console { say: tell, progress: tell_progress, show: start, leave };

/// The interval between plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
pub(super) const LIVE_EVERY: Duration = Duration::from_millis(100);
/// Long, because a line may name many faults.
const LONGEST_LINE: usize = 1000;
pub(super) const STEPS: u64 = 1000;
/// The width if the terminal does not report its own.
const USUAL_WIDTH: usize = 80;
/// The width of the spinner, the bar and the spaces beside them.
pub(super) const BESIDE: usize = 22;

pub struct Bar {
    bar: ProgressBar,
    live: bool,
    plain: Instant,
    began: Instant,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Far {
    /// The share that is done, up to 1. None if unknown.
    pub done: Option<f64>,
    pub left: Option<Duration>,
    pub text: String,
    /// Further lines, shown if there is room.
    pub more: Vec<String>,
}

impl Far {
    /// Progress by number. The rest is assumed to take as long per item.
    pub fn of(done: u64, all: u64, took: Duration, text: String) -> Far {
        let share = (done as f64 / all.max(1) as f64).clamp(0.0, 1.0);
        Far { done: Some(share), left: at_this_pace(share, took), text, more: Vec::new() }
    }
}

/// The remaining time if this share is done. None at the start.
fn at_this_pace(share: f64, took: Duration) -> Option<Duration> {
    (share > 0.0).then(|| took.mul_f64(((1.0 - share) / share).min(1e6)))
}

/// `18 s left`.
pub(super) fn left(left: Duration) -> String {
    format!("{} left", length(nanos(Duration::from_secs(left.as_secs().max(1)))))
}

impl Bar {
    pub fn new() -> Bar {
        let (bar, live) = (ProgressBar::hidden(), is_live());
        if live {
            // Set the style before the target. Otherwise the bar would appear in the default style.
            bar.set_style(style(false));
            bar.set_length(STEPS);
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Bar { bar, live, plain: Instant::now(), began: Instant::now() }
    }

    /// The time since it was first shown.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Shows the progress. If `changed`, writes a plain line at once.
    pub fn show(&mut self, far: &Far, changed: bool) {
        let left = far.left.map_or(String::new(), |time| format!(" · {}", left(time)));
        let line = words::line(&format!("{}{left}", far.text), LONGEST_LINE);
        if self.live {
            self.bar.set_style(style(far.done.is_some()));
            self.bar.set_position((far.done.unwrap_or(0.0) * STEPS as f64) as u64);
            let width = width().saturating_sub(BESIDE).max(20);
            let first = words::line(&line, width);
            let more = far.more.iter().map(|line| format!("\n  {}", words::line(line, width + BESIDE - 4)));
            self.bar.set_message(format!("{first}{}", more.collect::<String>()));
            self.bar.tick();
        } else if changed || self.plain.elapsed() >= PLAIN_EVERY {
            self.plain = Instant::now();
            tell_progress(&line);
        }
    }

    pub fn say(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    /// Hides the bar until it is shown again.
    pub fn clear(&self) {
        if self.live {
            self.bar.set_style(style(false));
            self.bar.set_message("");
            self.bar.suspend(|| {});
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The style of all live displays.
pub(super) fn style(has_bar: bool) -> ProgressStyle {
    let template = if has_bar { "{spinner} {bar:16} {msg}" } else { "{spinner} {msg}" };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    style.progress_chars("█▌░")
}

/// The width of the terminal on standard error.
pub(super) fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { USUAL_WIDTH } else { columns }
}

/// Shows the status of a run in the background, until its sender is dropped.
pub fn start(status: watch::Receiver<Status>) -> JoinHandle<()> {
    tokio::spawn(show(status))
}

async fn show(mut status: watch::Receiver<Status>) {
    let mut bar = Bar::new();
    let mut last_stage = String::new();
    let mut notes_shown = 0;
    loop {
        let now = status.borrow_and_update().clone();
        for note in now.notes.iter().skip(notes_shown) {
            bar.say(|| tell(note));
        }
        notes_shown = now.notes.len();
        bar.show(&far(&now), now.stage != last_stage);
        last_stage = now.stage;
        // Not at every change: there may be thousands per second.
        let over = async { while status.changed().await.is_ok() {} };
        if tokio::time::timeout(LIVE_EVERY, over).await.is_ok() {
            break;
        }
    }
    drop(bar);
    for note in status.borrow().notes.iter().skip(notes_shown) {
        tell(note);
    }
}

/// The progress of a run in one line, and in a few more.
fn far(status: &Status) -> Far {
    let Some(at) = status.at else { return Far { text: status.stage.clone(), ..Far::default() } };
    let seconds = at.as_secs_f64();
    let time = match status.of {
        Some(of) => format!("{:.0} of {:.0} s", seconds.min(of.as_secs_f64()), of.as_secs_f64()),
        None => format!("{seconds:.0} s"),
    };
    let (ok, fail, info) = (plural(status.ok, "update"), count(status.fail), count(status.info));
    let faults: Vec<&str> = status.faults.iter().map(|(_, what)| what.as_str()).collect();
    let rate = if seconds >= 1.0 { format!(" · {:.1} per second", status.ok as f64 / seconds) } else { String::new() };
    let so_far = match (status.overlaps, status.lost) {
        (0, 0) => String::new(),
        (overlaps, 0) => plural(overlaps, "overlap"),
        (overlaps, lost) => format!("{}, at least {} lost", plural(overlaps, "overlap"), plural(lost, "update")),
    };
    let mut text = format!("{} · {time} · {ok}, {fail} failed, {info} unknown", status.stage);
    for more in [&faults.join(", "), &so_far].into_iter().filter(|more| !more.is_empty()) {
        text.push_str(&format!(" · {more}"));
    }
    let working = status.stage == system::controller::RUNNING;
    let left = status.of.filter(|_| working).map(|of| of.saturating_sub(at));
    let done = status.of.map(|of| (seconds / of.as_secs_f64().max(1e-3)).min(1.0));
    if !is_live() {
        return Far { text, left, done, more: Vec::new() };
    }
    let more = vec![
        format!("operations  {} ok, {fail} fail, {info} info{rate}", count(status.ok)),
        format!("fault now   {}", if faults.is_empty() { "none".to_string() } else { faults.join(", ") }),
        format!("so far      {}", if so_far.is_empty() { "no overlap, nothing lost".to_string() } else { so_far })
            + ", according to the clients; checked at the end",
    ];
    Far { text: format!("{} · {time}", status.stage), left, done, more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_has_come() {
        let mut status = Status { stage: "starting the clients".into(), ..Status::default() };
        assert_eq!(far(&status), Far { text: "starting the clients".into(), ..Far::default() });
        status.stage = "running".into();
        (status.at, status.of) = (Some(Duration::from_secs(12)), Some(Duration::from_secs(30)));
        (status.ok, status.fail, status.info) = (7, 2, 1);
        status.faults.push((0, "pause client:3".into()));
        let now = far(&status);
        assert_eq!(now.text, "running · 12 of 30 s · 7 updates, 2 failed, 1 unknown · pause client:3");
        assert_eq!((now.done, now.left), (Some(0.4), Some(Duration::from_secs(18))));
        (status.overlaps, status.lost, status.of) = (1, 2, None);
        let scripted = far(&status);
        assert_eq!(
            scripted.text,
            "running · 12 s · 7 updates, 2 failed, 1 unknown · pause client:3 · 1 overlap, at least 2 updates lost"
        );
        assert_eq!((scripted.done, scripted.left), (None, None), "nobody knows when a script ends");
    }

    #[test]
    fn the_rest_takes_as_long_as_what_is_done() {
        let far = Far::of(25, 100, Duration::from_secs(10), String::new());
        assert_eq!((far.done, far.left), (Some(0.25), Some(Duration::from_secs(30))));
        assert_eq!(Far::of(0, 100, Duration::from_secs(10), String::new()).left, None);
        assert_eq!(Far::of(0, 0, Duration::ZERO, String::new()).done, Some(0.0));
        assert_eq!([left(Duration::from_secs(18)), left(Duration::ZERO)], ["18 s left", "1 s left"]);
    }
}

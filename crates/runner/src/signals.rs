//! How the user, or the process that started this one, stops the work.
//!
//! The first Ctrl-C (SIGINT), SIGTERM or SIGHUP raises the [`Interrupt`]: everything is healed and removed. The second
//! one ends the program at once, and it says what `redjepsen clean` will remove; so does SIGQUIT.
//!
//! A thread of its own listens, so that the program also ends while all the others wait for something that hangs.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::watch;

use super::Console;
use base::interrupt::Interrupt;
use base::sync::lock;

/// Names the process that this one works for. A variable, not a flag: it is not part of what is run.
pub const PARENT: &str = "REDJEPSEN_PARENT";

/// `timeout` sends its signal to the process and to its group: that is one, not two.
const ECHO: Duration = Duration::from_millis(100);
/// A terminal or a pipe that takes no more output must not keep the program alive.
const SAY_LIMIT: Duration = Duration::from_millis(200);

/// What there would be to clean up if this process ended now: one thing of several that may be made at a time. Clones are
/// about the same one.
#[derive(Clone, Default)]
pub struct Leftovers {
    all: Arc<Mutex<BTreeMap<usize, Option<Last>>>>,
    /// The key of this one.
    number: usize,
    /// Whether the last moment has come.
    told: Arc<AtomicBool>,
}

/// Does what can be done in the last moment, and says what is left.
type Last = Box<dyn Fn() -> String + Send>;

impl Leftovers {
    /// What something else leaves that is made at the same time.
    pub fn beside(&self) -> Leftovers {
        let mut all = lock(&self.all);
        let number = all.last_key_value().map_or(0, |(last, _)| *last).max(self.number) + 1;
        all.insert(number, None);
        Leftovers { all: Arc::clone(&self.all), number, told: Arc::clone(&self.told) }
    }

    /// From now on `last` is called before the process ends at once. Does not return in the last moment, so that nothing is
    /// made of which nobody was told.
    pub fn set(&self, last: impl Fn() -> String + Send + 'static) {
        let mut all = lock(&self.all);
        if self.told.load(Ordering::SeqCst) {
            drop(all);
            loop {
                thread::park();
            }
        }
        all.insert(self.number, Some(Box::new(last)));
    }

    pub fn clear(&self) {
        lock(&self.all).insert(self.number, None);
    }

    /// Never resolves in the last moment: whoever notices first what ends then must not end the program before it has
    /// said what is left.
    pub async fn unless_reported(&self) {
        if self.told.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }

    fn told(&self) -> String {
        let all = lock(&self.all);
        self.told.store(true, Ordering::SeqCst);
        let told: Vec<String> = all.values().flatten().map(|last| last()).collect();
        if told.is_empty() { format!("{AT_ONCE}; nothing is left behind") } else { told.join("\nredjepsen: ") }
    }
}

/// How a process begins to say what it leaves.
const AT_ONCE: &str = "stopped at once";

/// Whether this is how a process says what it leaves, if anything.
pub fn is_left_behind(line: &str) -> bool {
    line.starts_with(AT_ONCE)
}

/// What a process says that leaves this much behind.
pub fn left_behind(what: &str) -> String {
    format!("{AT_ONCE}, without removing {what}; `redjepsen clean` removes it")
}

/// Listens for signals from now on.
pub fn listen(console: Console) -> io::Result<(Interrupt, Leftovers)> {
    let (sender, interrupt) = Interrupt::new();
    let leftovers = Leftovers::default();
    let (begun, begins) = mpsc::sync_channel(1);
    let told = leftovers.clone();
    let thread = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.and_then(|runtime| {
            runtime.block_on(async {
                let listener = Listener::new()?;
                let _ = begun.send(Ok(()));
                listener.listen(&sender, console, &told).await;
                Ok(())
            })
        });
        if let Err(error) = outcome {
            let _ = begun.send(Err(error));
        }
    };
    thread::Builder::new().name("signals".to_string()).spawn(thread)?;
    begins.recv().map_err(io::Error::other)??;
    Ok((interrupt, leftovers))
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopRequest {
    /// Stop; said twice, stop at once.
    Stop,
    /// Stop. A terminal that closes says it more than once: the shell passes it on, and so does the kernel.
    StopOnce,
    StopAtOnce,
}

struct Listener {
    interrupt: Signals,
    terminate: Signals,
    quit: Signals,
    /// None if the user wants the program to outlive the terminal (`nohup`).
    hangup: Option<Signals>,
}

impl Listener {
    fn new() -> io::Result<Listener> {
        Ok(Listener {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hangup: if is_ignored(Signal::HUP)? { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    async fn next(&mut self) -> StopRequest {
        let Listener { interrupt, terminate, quit, hangup } = self;
        let hangup = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = quit.recv() => StopRequest::StopAtOnce,
            _ = interrupt.recv() => StopRequest::Stop,
            _ = terminate.recv() => StopRequest::Stop,
            _ = hangup => StopRequest::StopOnce,
        }
    }

    async fn listen(mut self, sender: &watch::Sender<bool>, console: Console, leftovers: &Leftovers) {
        let mut first = None;
        loop {
            let wish = self.next().await;
            let since_first = first.get_or_insert_with(Instant::now).elapsed();
            let again = *sender.borrow() && wish == StopRequest::Stop && since_first > ECHO;
            if again || wish == StopRequest::StopAtOnce {
                // Before anybody else hears of it, who might end the program first, and say less.
                say(console, format!("redjepsen: {}", leftovers.told()));
                (console.leave)();
            }
            if !sender.send_replace(true) {
                say(
                    console,
                    "stopping: healing faults, removing the cluster; press Ctrl-C again to stop at once".to_string(),
                );
            }
        }
    }
}

/// Prints a line, and does not wait for long if that is not possible.
fn say(console: Console, line: String) {
    let (done, is_done) = mpsc::sync_channel(1);
    let print = move || {
        (console.say)(&line);
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(print).is_ok() {
        let _ = is_done.recv_timeout(SAY_LIMIT);
    }
}

/// Whether whoever started this process has it ignore this signal.
fn is_ignored(signal: Signal) -> io::Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| {
        io::Error::new(error.kind(), format!("/proc/self/status: {error}; this program needs /proc to be mounted"))
    })?;
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    Ok(mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1))
}

/// Has the kernel send this process a SIGTERM when the process that [`PARENT`] names is gone, however it ended. To be
/// called by the first thread, because the kernel ties this to the calling thread.
pub fn with_parent() -> io::Result<()> {
    let Some(parent) = std::env::var(PARENT).ok().and_then(|pid| pid.parse::<i32>().ok()) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may be gone already.
    match getppid() {
        Some(pid) if pid.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(io::Error::other("the process that started this process is gone")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_left_is_told_and_nothing_that_is_gone() {
        assert_eq!(Leftovers::default().told(), "stopped at once; nothing is left behind");
        let one = Leftovers::default();
        let (other, third) = (one.beside(), one.beside());
        for (leftovers, name) in [(&one, "a"), (&other, "b"), (&third, "c")] {
            leftovers.set(move || left_behind(name));
        }
        other.clone().clear();
        let told = one.told();
        assert!(
            told.contains("removing a;") && !told.contains("removing b;") && told.contains("removing c;"),
            "{told}"
        );
        one.clear();
        third.clear();
        assert_eq!(other.told(), "stopped at once; nothing is left behind");
    }

    #[test]
    fn nothing_is_made_after_the_last_moment() {
        let leftovers = Leftovers::default();
        let begins = |leftovers: Leftovers| {
            let (begun, is_begun) = mpsc::channel();
            thread::spawn(move || {
                leftovers.set(|| left_behind("a folder"));
                let _ = begun.send(());
            });
            is_begun.recv_timeout(Duration::from_millis(300)).is_ok()
        };
        assert!(begins(leftovers.beside()));
        assert!(leftovers.told().contains("a folder"));
        assert!(!begins(leftovers.beside()), "nobody would be told of it");
    }
}

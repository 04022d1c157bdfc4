//! How the user, or the parent process, stops the work.
//!
//! The first Ctrl-C (SIGINT), SIGTERM or SIGHUP raises the [`Interrupt`]: redjepsen heals and removes everything. The second
//! one exits the program at once, with a message on what `redjepsen clean` will remove. So does SIGQUIT.
//!
//! A separate thread listens, so that the program can exit even if all other threads wait for something that hangs.

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

/// The variable with the parent's process id. It is not a flag, because it is not part of the run.
pub const PARENT: &str = "REDJEPSEN_PARENT";

/// `timeout` sends its signal to the process and to its group. Within this time, that counts as one signal.
const ECHO: Duration = Duration::from_millis(100);
/// A terminal or a pipe that accepts no output must not keep the program alive.
const SAY_LIMIT: Duration = Duration::from_millis(200);

/// The remains of this process if it exited now. There is an entry for each thing that may be made in parallel. Clones share
/// the entry.
#[derive(Clone, Default)]
pub struct Leftovers {
    all: Arc<Mutex<BTreeMap<usize, Option<Last>>>>,
    /// The key of this entry.
    number: usize,
    /// True once the program is exiting.
    told: Arc<AtomicBool>,
}

/// Does the final clean-up, and returns a message on what is left.
type Last = Box<dyn Fn() -> String + Send>;

impl Leftovers {
    /// A new entry, for something that is made in parallel.
    pub fn beside(&self) -> Leftovers {
        let mut all = lock(&self.all);
        let number = all.last_key_value().map_or(0, |(last, _)| *last).max(self.number) + 1;
        all.insert(number, None);
        Leftovers { all: Arc::clone(&self.all), number, told: Arc::clone(&self.told) }
    }

    /// Sets the function that is called before the process exits at once. Does not return while the process is exiting, so that
    /// nothing is made without being reported.
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

    /// Does not resolve while the process is exiting: another thread must not exit before the message is printed.
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

/// The beginning of a process's message on what it leaves behind.
const AT_ONCE: &str = "stopped at once";

pub fn is_left_behind(line: &str) -> bool {
    line.starts_with(AT_ONCE)
}

/// The message of a process that leaves this behind.
pub fn left_behind(what: &str) -> String {
    format!("{AT_ONCE}, without removing {what}; `redjepsen clean` removes it")
}

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

#[derive(Clone, Copy, PartialEq, Eq)]
enum StopRequest {
    /// Stop. The second one means stop at once.
    Stop,
    /// Stop. A closing terminal sends this more than once: the shell and the kernel both do.
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
                // Print before other threads are informed: they might exit first, with a shorter message.
                say(console, format!("redjepsen: {}", leftovers.told()));
                (console.leave)();
            }
            if !sender.send_replace(true) {
                say(
                    console,
                    "stopping, and undoing what this command began; press Ctrl-C again to stop at once".to_string(),
                );
            }
        }
    }
}

/// Prints a line, and does not wait long if that is not possible.
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

/// True if the parent process made this one ignore the signal.
fn is_ignored(signal: Signal) -> io::Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| {
        io::Error::new(error.kind(), format!("/proc/self/status: {error}; this program needs /proc to be mounted"))
    })?;
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    Ok(mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1))
}

/// Makes the kernel send this process a SIGTERM when the process in [`PARENT`] ends. Must be called by the first thread,
/// because the kernel ties this to the calling thread.
pub fn with_parent() -> io::Result<()> {
    let Some(parent) = std::env::var(PARENT).ok().and_then(|pid| pid.parse::<i32>().ok()) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may already be gone.
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

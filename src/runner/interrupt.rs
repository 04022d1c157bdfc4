//! How the user, or the process that started this one, stops the work: orderly, with everything healed and removed.

use std::io;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Names the process that this one works for. A variable, not a flag: it is not part of what is run.
pub const PARENT: &str = "REDJEPSEN_PARENT";

/// Turns true at the first Ctrl-C or SIGTERM, which is also reported to `say`.
pub fn wanted(say: fn(&str)) -> io::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            let first = !sender.send_replace(true);
            say(if first { "stopping: healing, reading, removing the cluster" } else { "already stopping" });
        }
    });
    Ok(receiver)
}

/// Has the kernel send this process a SIGTERM when the process that [`PARENT`] names is gone, however it ended. To be
/// called by the first thread, because the kernel ties this to the calling thread.
pub fn with_parent() -> io::Result<()> {
    let Some(parent) = std::env::var(PARENT).ok().and_then(|pid| pid.parse::<i32>().ok()) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may be gone already.
    match getppid() {
        Some(pid) if pid.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(io::Error::other("the process that started this one is gone")),
    }
}

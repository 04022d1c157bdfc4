//! Runs programs that install a client. They end together with redjepsen and within a time limit, and their output is kept in
//! bounded memory.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, set_parent_process_death_signal, waitid,
};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How many bytes are kept of the beginning and of the end of each stream.
const KEPT: usize = 512 << 10;
/// The interval at which the program is checked, and the time limit for its last output.
const LOOK: Duration = Duration::from_millis(10);
const DRAIN: Duration = Duration::from_millis(200);

pub(super) struct EndedProgram {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Why a program did not end by itself.
pub(super) enum NotEnded {
    NotFound,
    TooLong,
    Failed(io::Error),
}

impl From<io::Error> for NotEnded {
    fn from(error: io::Error) -> NotEnded {
        if error.kind() == io::ErrorKind::NotFound { NotEnded::NotFound } else { NotEnded::Failed(error) }
    }
}

/// Runs a program to its end, and then kills its remaining children. They may keep its output open, but this does not wait for
/// them.
pub(super) async fn run(mut command: Command, limit: Duration) -> Result<EndedProgram, NotEnded> {
    let until = Instant::now() + limit;
    // It starts programs of its own, which must end with it.
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Even if this process is killed and can no longer end it.
    let with_us = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: one system call, which is safe between fork and exec.
    unsafe { command.pre_exec(with_us) };
    let mut child = command.spawn()?;
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = ProcessGroup(id);
    let (mut stdout, mut stderr) = (HeadAndTail::default(), HeadAndTail::default());
    let reading = async {
        tokio::join!(stdout.read(child.stdout.take()), stderr.read(child.stderr.take()));
    };
    let ended = async {
        tokio::pin!(reading);
        let mut all_read = false;
        while !id.is_some_and(has_ended) {
            tokio::select! {
                () = &mut reading, if !all_read => all_read = true,
                () = sleep(LOOK) => {}
            }
        }
        if !all_read {
            let _ = timeout(DRAIN, &mut reading).await;
        }
    };
    timeout_at(until, ended).await.map_err(|_| NotEnded::TooLong)?;
    // Kill the group before the kernel can reuse its number: the child has not been reaped yet.
    group.end();
    let status = child.wait().await?;
    Ok(EndedProgram { status, stdout: stdout.whole(), stderr: stderr.whole() })
}

/// True if a child has ended. Its status can still be read.
fn has_ended(id: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(waitid(WaitId::Pid(id), options), Ok(None))
}

/// A process group that is killed when this value is dropped: the children of an installation that was given up.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn end(&mut self) {
        if let Some(group) = self.0.take() {
            // The group may already be gone.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// The beginning and the end of a stream.
#[derive(Default)]
struct HeadAndTail {
    first: Vec<u8>,
    last: Vec<u8>,
    left_out: u64,
}

impl HeadAndTail {
    async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut part = vec![0; 16 << 10];
        while let Ok(read @ 1..) = stream.read(&mut part).await {
            self.add(&part[..read]);
        }
    }

    fn add(&mut self, part: &[u8]) {
        let (first, rest) = part.split_at(part.len().min(KEPT - self.first.len()));
        self.first.extend_from_slice(first);
        self.last.extend_from_slice(rest);
        if self.last.len() > 2 * KEPT {
            let old = self.last.len() - KEPT;
            self.last.drain(..old);
            self.left_out += old as u64;
        }
    }

    fn whole(self) -> Vec<u8> {
        let gap =
            base::words::unless_none(self.left_out, |bytes| format!("\n… redjepsen left out {bytes} bytes here …\n"));
        [self.first, gap.into_bytes(), self.last].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(script: &str, limit: Duration) -> Result<EndedProgram, NotEnded> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limit).await
    }

    #[tokio::test]
    async fn output_keeps_beginning_and_end_within_its_limit() {
        let script = "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last; echo wrong >&2; exit 3";
        let Ok(ended) = shell(script, Duration::from_secs(60)).await else { panic!("it ends") };
        let text = String::from_utf8(ended.stdout).unwrap();
        assert!(text.starts_with("first\nxxx") && text.ends_with("x\nlast\n"), "{}", text.len());
        assert!(text.contains("redjepsen left out ") && text.len() < 4 * KEPT, "{}", text.len());
        assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(3), &b"wrong\n"[..]));
        let Ok(short) = shell("echo all of it", Duration::from_secs(60)).await else { panic!("it ends") };
        assert_eq!(short.stdout, b"all of it\n");
    }

    #[tokio::test]
    async fn children_that_keep_output_open_end_with_the_installer() {
        let Ok(ended) = shell("sleep 3737 & echo $!", Duration::from_secs(60)).await else { panic!("it ends") };
        let id = String::from_utf8(ended.stdout).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
        // On a busy machine a signal takes time, and a killed orphan may still wait for its parent.
        let runs = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z")
        };
        timeout(Duration::from_secs(60), async {
            while runs() {
                sleep(LOOK).await;
            }
        })
        .await
        .expect("it was killed");
        // A child in a session of its own is not waited for either.
        let Ok(ended) = shell("setsid sleep 2 & echo said", Duration::from_secs(60)).await else { panic!("it ends") };
        assert_eq!(ended.stdout, b"said\n");
        assert!(matches!(shell("sleep 60", Duration::from_millis(50)).await, Err(NotEnded::TooLong)));
    }
}

//! The fault `clock`: a process's wall clock shows a wrong time, while its monotonic clock stays true.
//!
//! The process reads its clock through redjepsen's preload library, which adds the offset from the control page. The library is
//! in `nemeses/clock/`; `build.rs` builds it, and this program embeds it as [`LIBRARY`]. The agent maps the same page
//! ([`Control`]) and writes to it in place. So a change takes effect at the process's next reading, and every reading shows
//! either the old clock or the new one. Nothing must run while a skew lasts: rate and strobe are functions of CLOCK_MONOTONIC.
//! Process and agent must therefore share this clock (one kernel, one time namespace).
//!
//! The library also records in the page how long each file was when the process synced it ([`Control::synced`]). This part of an
//! append-only file survives a power loss. The page also sets how long each sync waits ([`Control::slow_disk`]), for the fault
//! `slow-disk`.
//!
//! A member to be skewed has both files in its root, with a control file that every user can write, and is started with
//! [`ENVIRONMENT`]. For limits of the library, such as programs without libc, see `nemeses/clock/lib.rs`.

#[path = "../../../../../nemeses/clock/control.rs"]
mod control;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use control::{FILES, MAGIC, MAX_WAIT_US, ONE, PAGE_BYTES, PROCESS_MAGIC, Page, Process, State, VERSION, file_key};
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

use base::sync::lock;

/// The preload library, a shared object.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libredjepsen_clock.so"));
/// The library's path in a member's root. Readable by every user.
pub const LIBRARY_PATH: &str = "/redjepsen/clock.so";
/// The path of the library's control file in a member's root. Every user can read and write it (mode 666), since a server may run
/// as any user. While the member runs, the agent only writes it in place and never replaces or truncates it.
pub const CONTROL_PATH: &str = "/redjepsen/clock";
/// Environment for a process, so that it loads the library and finds its control file.
pub const ENVIRONMENT: [(&str, &str); 2] = [("LD_PRELOAD", LIBRARY_PATH), ("REDJEPSEN_CLOCK", CONTROL_PATH)];

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_MS: i64 = 1_000_000;
const NS_PER_US: i64 = 1_000;
/// The largest jump of a clock, in ms: ten years.
const MAX_JUMP_MS: i64 = 10 * 365 * 24 * 3600 * 1000;
/// The fastest that a clock may run, as a multiple of the true rate.
const MAX_RATE: f64 = 1000.0;
/// A new rate begins this many ns after the order: the process must know the rate before, or its clock would jump.
const RATE_LEAD_NS: i64 = 5 * NS_PER_MS;
/// The longest period of a strobe, in µs: an hour.
const MAX_PERIOD_US: u64 = 3_600_000_000;
/// The longest time that a sync may wait, without jitter.
const MAX_WAIT: Duration = Duration::from_micros(MAX_WAIT_US as u64);

/// A control file that shows the true time: the content of [`CONTROL_PATH`] when a member starts.
pub fn blank_control() -> Vec<u8> {
    let mut content = [MAGIC, VERSION].map(u64::to_ne_bytes).concat();
    content.resize(PAGE_BYTES, 0);
    content
}

/// How a process reads the time, as far as its memory shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Through the preload library, which has a control page.
    Library,
    /// The library is loaded, but was never called: the program reads the time elsewhere, or not at all.
    Nobody,
    /// The library is not loaded.
    Elsewhere,
}

/// How this process reads the time. Fails if the process does not exist, or its memory cannot be read.
pub fn asks(pid: u32) -> io::Result<Asks> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    // The process's own root may precede the path, and a deleted file is still mapped.
    let mut of_library =
        maps.lines().filter(|line| line.trim_end_matches(" (deleted)").ends_with(LIBRARY_PATH)).peekable();
    if of_library.peek().is_none() {
        return Ok(Asks::Elsewhere);
    }
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    for line in of_library {
        // For example `7f34095-7f34097 rw-p 000020a0 08:01 1234 /redjepsen/clock.so`.
        let mut words = line.split_ascii_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let Some((from, to)) = range.filter(|_| words.next().is_some_and(|access| access.starts_with("rw"))) else {
            continue;
        };
        let number = |hex| u64::from_str_radix(hex, 16).map_err(io::Error::other);
        let (from, to) = (number(from)?, number(to)?);
        let mut data = vec![0; usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?];
        memory.read_exact_at(&mut data, from)?;
        let magic = PROCESS_MAGIC.map(u64::to_ne_bytes).concat();
        let found = (0..data.len()).step_by(align_of::<Process>()).find(|at| data[*at..].starts_with(&magic));
        if let Some(asked) = found.and_then(|at| data.get(at + offset_of!(Process, asked)..)?.first_chunk()) {
            return Ok(if u64::from_ne_bytes(*asked) == 0 { Asks::Nobody } else { Asks::Library });
        }
    }
    Ok(Asks::Nobody)
}

/// How a wall clock is wrong. Each skew starts from the current offset, without the strobe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Skew {
    /// The clock jumps by this many ms, ahead or (below 0) back, and then runs at the true rate.
    Jump { ms: i64 },
    /// The clock continues from its current time, this many times as fast as the true clock.
    Rate { factor: f64 },
    /// In every other period of this many µs, beginning now, the clock is `ms` ahead (below 0: behind).
    Strobe { ms: i64, period_us: u64 },
}

impl Skew {
    /// Fails if the numbers are out of range; the error says what is expected.
    pub fn check(&self) -> Result<(), String> {
        let far = |ms: i64| ms == 0 || ms.unsigned_abs() > MAX_JUMP_MS.unsigned_abs();
        match *self {
            Skew::Jump { ms } if far(ms) => {
                Err(format!("a jump by {ms} ms: expected 1 to {MAX_JUMP_MS} (ten years), or the same range below 0"))
            }
            Skew::Rate { factor } if !(0.0..=MAX_RATE).contains(&factor) => {
                Err(format!("a rate of {factor}: expected 0 (the clock stands still) to {MAX_RATE}"))
            }
            Skew::Strobe { ms, .. } if far(ms) => {
                Err(format!("a strobe by {ms} ms: expected 1 to {MAX_JUMP_MS} (ten years), or the same range below 0"))
            }
            Skew::Strobe { period_us, .. } if !(1..=MAX_PERIOD_US).contains(&period_us) => {
                Err(format!("a strobe with periods of {period_us} µs: expected 1 to {MAX_PERIOD_US} (an hour)"))
            }
            _ => Ok(()),
        }
    }
}

/// Identifies a file as the preload library does. The id may change when the file system is mounted again, such as the root of a
/// restarted container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(u64);

impl FileId {
    /// Fails if the file does not exist.
    ///
    /// The path must use the same mount as the member, such as a path under /proc/PID/root.
    pub fn of(file: &Path) -> io::Result<FileId> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(CWD, file, AtFlags::empty(), wanted)?;
        let born_ns = if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME) {
            let (seconds, ns) = (found.stx_btime.tv_sec.cast_unsigned(), found.stx_btime.tv_nsec);
            seconds.wrapping_mul(NS_PER_S.cast_unsigned()).wrapping_add(u64::from(ns))
        } else {
            0
        };
        Ok(FileId(file_key(makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino, born_ns)))
    }
}

/// The control page of a member, mapped by the agent, so that it outlives the file's name.
///
/// Only one writer at a time is allowed; the agent is the only writer.
#[derive(Debug)]
pub struct Control {
    page: NonNull<Page>,
    writing: Mutex<()>,
}

// SAFETY: the page is memory that no thread owns, and all accesses are atomic.
unsafe impl Send for Control {}
// SAFETY: as above; `writing` allows only one writer at a time.
unsafe impl Sync for Control {}

impl Control {
    /// Maps a control file: [`CONTROL_PATH`] in /proc/PID/root. Fails if the file is not a control file or not accessible.
    pub fn open(path: &Path) -> io::Result<Control> {
        let explain = |reason: String| io::Error::other(format!("the control file {}: {reason}", path.display()));
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| explain(error.to_string()))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() < PAGE_BYTES as u64 {
            return Err(explain(format!("it has {} bytes instead of {PAGE_BYTES}", metadata.len())));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address = unsafe { mmap(ptr::null_mut(), PAGE_BYTES, access, MapFlags::SHARED, &file, 0) }?;
        let page = NonNull::new(address.cast()).ok_or_else(|| explain("it is not mapped".to_string()))?;
        let control = Control { page, writing: Mutex::new(()) };
        let (magic, version) = (&control.page().magic, &control.page().version);
        if (magic.load(Ordering::Relaxed), version.load(Ordering::Relaxed)) != (MAGIC, VERSION) {
            return Err(explain(format!("its content does not have version {VERSION}")));
        }
        Ok(control)
    }

    /// Skews the clock from now on (a new rate starts 5 ms later, when this returns). If the skew's numbers are out of range,
    /// fails and changes nothing.
    pub fn set(&self, skew: Skew) -> io::Result<()> {
        skew.check().map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        let _writing = lock(&self.writing);
        let (_, old) = self.page().state();
        let lead_ns = if let Skew::Rate { .. } = skew { RATE_LEAD_NS } else { 0 };
        loop {
            let now = Moment::now();
            let taken_ns = now.mono_ns;
            let state = skewed(skew, &old, &now.after(lead_ns));
            // If this thread was interrupted after it read the clocks, it reads them again.
            if ns(clock_gettime(ClockId::Monotonic)) - taken_ns < RATE_LEAD_NS / 2 {
                self.page().publish(&state);
                break;
            }
        }
        thread::sleep(Duration::from_nanos(lead_ns.unsigned_abs()));
        Ok(())
    }

    /// Shows the true time again, with a jump if needed.
    pub fn heal(&self) {
        let _writing = lock(&self.writing);
        self.page().publish(&State::default());
    }

    /// How often the member's processes have read their wall clocks. Wraps around at 2^64.
    pub fn readings(&self) -> u64 {
        self.page().readings.load(Ordering::Relaxed)
    }

    /// True if a process of the member has read its clock since it was last set or healed. Then the skew is in effect, not only
    /// ordered.
    pub fn is_applied(&self) -> bool {
        let (generation, _) = self.page().state();
        self.page().applied.load(Ordering::Relaxed) >= generation
    }

    /// The clock's current offset from the true time, in ns; below 0 if it is behind.
    pub fn shown_offset_ns(&self) -> i64 {
        let (_, state) = self.page().state();
        let now = Moment::now();
        state.shown_ns(now.real_ns, || now.mono_ns).saturating_sub(now.real_ns)
    }

    /// How many bytes of a file would survive a power loss now, because the member has synced them; `None` if it never synced the
    /// file. Fails if the page is incomplete: the member has more than [`FILES`] files, or the kernel does not identify files for
    /// the library.
    pub fn synced(&self, file: FileId) -> io::Result<Option<u64>> {
        if self.page().incomplete.load(Ordering::Acquire) != 0 {
            return Err(io::Error::other(format!(
                "the synced data is unknown: more than {FILES} files, or files that the kernel does not identify"
            )));
        }
        let slot = self.page().files.iter().find(|slot| slot.key.load(Ordering::Acquire) == file.0);
        Ok(slot.and_then(|slot| slot.durable_bytes()))
    }

    /// Makes each sync of the member take `wait` longer, plus or minus a random time up to `jitter`; nothing longer if `wait` is
    /// zero. Also changes the length of syncs that are waiting now, and returns their number. If a time is longer than ten
    /// seconds, fails and changes nothing.
    pub fn slow_disk(&self, wait: Duration, jitter: Duration) -> io::Result<usize> {
        let too_long = || {
            io::Error::new(io::ErrorKind::InvalidInput, format!("a delay of {wait:?} per sync: at most ten seconds"))
        };
        let micros =
            |time: Duration| u32::try_from(time.as_micros()).ok().filter(|_| time <= MAX_WAIT).ok_or_else(too_long);
        let (wait_us, jitter_us) = (micros(wait)?, micros(jitter)?);
        let _writing = lock(&self.writing);
        let disk = &self.page().disk;
        disk.jitter_us.store(jitter_us, Ordering::Relaxed);
        disk.wait_us.store(wait_us, Ordering::Release);
        // Other processes have mapped the page too, so the futex is not private.
        Ok(futex::wake(&disk.wait_us, futex::Flags::empty(), i32::MAX.unsigned_abs())?)
    }

    /// How many syncs of the member have waited so far, including syncs that still wait.
    pub fn waited(&self) -> u64 {
        self.page().disk.waited.load(Ordering::Relaxed)
    }

    /// How many syncs of files the member has begun. A sync that began after the disk became slow waits.
    #[cfg(test)]
    pub fn syncs(&self) -> u64 {
        let tickets = self.page().files.iter().map(|file| file.tickets.load(Ordering::Acquire));
        tickets.fold(0, u64::wrapping_add)
    }

    fn page(&self) -> &Page {
        // SAFETY: the page is mapped until this is dropped, and all its bit patterns are valid.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: no reference outlives this. If it fails, the page stays mapped, which does no harm.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// The clock's state from `base` on, if its state was `old` until then.
fn skewed(skew: Skew, old: &State, base: &Moment) -> State {
    let ahead_ns = old.steady_ns(base.real_ns, || base.mono_ns).saturating_sub(base.real_ns);
    let state = State { base_ns: base.mono_ns, real_ns: base.real_ns, offset_ns: ahead_ns, ..State::default() };
    match skew {
        Skew::Jump { ms } => State { offset_ns: ahead_ns.saturating_add(ms * NS_PER_MS), ..state },
        Skew::Rate { factor } => {
            // The factor is at most 1000 (checked), so 31 more bits fit.
            State { excess: ((factor - 1.0) * ONE as f64).round() as i64, excess_before: old.excess, ..state }
        }
        Skew::Strobe { ms, period_us } => {
            let period_ns = i64::try_from(period_us).unwrap_or(i64::MAX).saturating_mul(NS_PER_US);
            State { strobe_ns: ms * NS_PER_MS, period_ns, ..state }
        }
    }
}

/// A wall clock that a skew makes wrong, for a caller that keeps the true time itself. Shows the true time at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct WrongClock(State);

impl WrongClock {
    /// Skews the clock from now on; `real` is the true wall clock.
    pub fn set(&mut self, skew: Skew, real: Duration, monotonic: Duration) -> Result<(), String> {
        skew.check()?;
        self.0 = skewed(skew, &self.0, &Moment { real_ns: nanos(real), mono_ns: nanos(monotonic) });
        Ok(())
    }

    /// The time that the clock shows when the true wall clock reads `real`.
    pub fn shows(&self, real: Duration, monotonic: Duration) -> Duration {
        Duration::from_nanos(self.0.shown_ns(nanos(real), || nanos(monotonic)).max(0).cast_unsigned())
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The wall clock and the monotonic clock at one moment, in ns.
struct Moment {
    real_ns: i64,
    mono_ns: i64,
}

impl Moment {
    /// Two clocks can't be read at once, so this takes the fastest of several readings.
    fn now() -> Moment {
        let read = || {
            let before = ns(clock_gettime(ClockId::Monotonic));
            let real_ns = ns(clock_gettime(ClockId::Realtime));
            let after = ns(clock_gettime(ClockId::Monotonic));
            (after - before, Moment { real_ns, mono_ns: before + (after - before) / 2 })
        };
        let mut best = read();
        for _ in 0..8 {
            let other = read();
            if other.0 < best.0 {
                best = other;
            }
        }
        best.1
    }

    fn after(self, ns: i64) -> Moment {
        Moment { real_ns: self.real_ns + ns, mono_ns: self.mono_ns + ns }
    }
}

fn ns(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(NS_PER_S).saturating_add(time.tv_nsec)
}

#[cfg(test)]
mod tests;

//! The fault `clock`: a process's wall clock shows what it should not, while its monotonic clock stays true.
//!
//! The process itself reads its clock through our preload library (`nemeses/clock/`, built by `build.rs`, inside this
//! program as [`LIBRARY`]), which adds what the control page says. The agent maps the same page ([`Control`]) and
//! writes it in place, so a change takes effect with the process's next reading, and every reading shows either the old
//! clock or the new one. Nothing has to be scheduled while a skew lasts: rate and strobe are functions of
//! CLOCK_MONOTONIC, which process and agent must therefore share (one kernel, one time namespace).
//!
//! The library also notes in the page how long each file was that the process has synced ([`Control::synced`]), which
//! is what a loss of power leaves of a file that only grows.
//!
//! A member that is to be skewed finds both files in its root, the control file writable by every user, and is started
//! with [`ENVIRONMENT`]. What the library does not reach, such as programs without libc, is in `nemeses/clock/lib.rs`.

#[path = "../../../nemeses/clock/control.rs"]
mod control;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use control::{FILES, MAGIC, ONE, PAGE_BYTES, Page, State, VERSION, file_key};
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

/// The preload library, a shared object.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libredjepsen_clock.so"));
/// Where it is in a member's root. Readable by every user.
pub const LIBRARY_PATH: &str = "/redjepsen/clock.so";
/// Where its control file is in a member's root. Readable and writable by every user (mode 666), as a server may run as
/// any; never replaced or cut short while the member runs, only written in place.
pub const CONTROL_PATH: &str = "/redjepsen/clock";
/// What a process is to be started with, so that the library is in it and finds its control file.
pub const ENVIRONMENT: [(&str, &str); 2] = [("LD_PRELOAD", LIBRARY_PATH), ("REDJEPSEN_CLOCK", CONTROL_PATH)];

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_MS: i64 = 1_000_000;
const NS_PER_US: i64 = 1_000;
/// Ten years: as far as a clock may be moved at once, in ms.
const MAX_JUMP_MS: i64 = 10 * 365 * 24 * 3600 * 1000;
/// As fast as a clock may run.
const MAX_RATE: f64 = 1000.0;
/// A new rate begins so many ns after it was ordered: the process must know of it before, or its clock would jump.
const RATE_LEAD_NS: i64 = 5 * NS_PER_MS;
/// An hour: as long as a period of a strobe may be, in µs.
const MAX_PERIOD_US: u64 = 3_600_000_000;

/// The content of a control file that shows the true time: what lies at [`CONTROL_PATH`] when a member starts.
pub(crate) fn blank_control() -> Vec<u8> {
    let mut content = [MAGIC, VERSION].map(u64::to_ne_bytes).concat();
    content.resize(PAGE_BYTES, 0);
    content
}

/// Whether the preload library is in a process. Whether that found its control file shows in [`Control::is_applied`].
pub(crate) fn is_loaded(pid: u32) -> bool {
    let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { return false };
    // The process's own root may stand before the path, and a file that is gone is still mapped.
    maps.lines().any(|line| line.trim_end_matches(" (deleted)").ends_with(LIBRARY_PATH))
}

/// How a wall clock is wrong. Each takes over what the clock was ahead or behind before, without the strobe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Skew {
    /// It jumps by so many ms, ahead or (below 0) back, and goes on at the true rate.
    Jump { ms: i64 },
    /// It goes on from where it is, so many times as fast as the true one.
    Rate { factor: f64 },
    /// It is `ms` ahead (below 0: behind) of where it was for every other period of so many µs, beginning now.
    Strobe { ms: i64, period_us: u64 },
}

impl Skew {
    /// Says what is wrong with the numbers, if anything is.
    pub fn check(&self) -> Result<(), String> {
        let far = |ms: i64| ms == 0 || ms.unsigned_abs() > MAX_JUMP_MS.unsigned_abs();
        match *self {
            Skew::Jump { ms } if far(ms) => {
                Err(format!("a jump by {ms} ms: expected 1 to {MAX_JUMP_MS} (ten years), or as much below 0"))
            }
            Skew::Rate { factor } if !(0.0..=MAX_RATE).contains(&factor) => {
                Err(format!("a rate of {factor}: expected 0 (the clock stands still) to {MAX_RATE}"))
            }
            Skew::Strobe { ms, .. } if far(ms) => {
                Err(format!("a strobe by {ms} ms: expected 1 to {MAX_JUMP_MS} (ten years), or as much below 0"))
            }
            Skew::Strobe { period_us, .. } if !(1..=MAX_PERIOD_US).contains(&period_us) => {
                Err(format!("a strobe with periods of {period_us} µs: expected 1 to {MAX_PERIOD_US} (an hour)"))
            }
            _ => Ok(()),
        }
    }
}

/// A file, as the preload library knows it. It may become another one when its file system is mounted again, as the root of
/// a container is that starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId(u64);

impl FileId {
    /// Fails where there is no such file.
    ///
    /// The file must be reached in the same mount as the member does, such as under /proc/PID/root.
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

/// The control page of a member, as the agent holds it: mapped, so that it outlives the file's name.
///
/// One at a time may write it; the agent is the only one that does.
#[derive(Debug)]
pub(crate) struct Control {
    page: NonNull<Page>,
    writing: Mutex<()>,
}

// SAFETY: it is memory that no thread owns, reached through atomics alone.
unsafe impl Send for Control {}
// SAFETY: as above; writers exclude each other by `writing`.
unsafe impl Sync for Control {}

impl Control {
    /// Maps a control file: [`CONTROL_PATH`] in /proc/PID/root. Fails where it can't be read and written, or is none.
    pub fn open(path: &Path) -> io::Result<Control> {
        let explain = |reason: String| io::Error::other(format!("the control file {}: {reason}", path.display()));
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| explain(error.to_string()))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() < PAGE_BYTES as u64 {
            return Err(explain(format!("it has {} bytes instead of {PAGE_BYTES}", metadata.len())));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where nothing was.
        let address = unsafe { mmap(ptr::null_mut(), PAGE_BYTES, access, MapFlags::SHARED, &file, 0) }?;
        let page = NonNull::new(address.cast()).ok_or_else(|| explain("it is mapped nowhere".to_string()))?;
        let control = Control { page, writing: Mutex::new(()) };
        let (magic, version) = (&control.page().magic, &control.page().version);
        if (magic.load(Ordering::Relaxed), version.load(Ordering::Relaxed)) != (MAGIC, VERSION) {
            return Err(explain(format!("its content is none of version {VERSION}")));
        }
        Ok(control)
    }

    /// Skews the clock from now on (a new rate 5 ms later, when this returns). Fails, without an effect, where the
    /// skew's numbers make no sense.
    pub fn set(&self, skew: Skew) -> io::Result<()> {
        skew.check().map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, old) = self.page().state();
        let lead_ns = if let Skew::Rate { .. } = skew { RATE_LEAD_NS } else { 0 };
        loop {
            let now = Moment::now();
            let taken_ns = now.mono_ns;
            let state = skewed(skew, &old, &now.after(lead_ns));
            // Whoever was interrupted since it looked at the clocks looks again.
            if ns(clock_gettime(ClockId::Monotonic)) - taken_ns < RATE_LEAD_NS / 2 {
                self.page().publish(&state);
                break;
            }
        }
        thread::sleep(Duration::from_nanos(lead_ns.unsigned_abs()));
        Ok(())
    }

    /// Shows the true time again, by a jump if need be.
    pub fn heal(&self) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.page().publish(&State::default());
    }

    /// How often the member's processes read their wall clocks until now. It wraps around after 2^64.
    pub fn readings(&self) -> u64 {
        self.page().readings.load(Ordering::Relaxed)
    }

    /// Whether a process of the member has read its clock as it was last set or healed: the effect is there, not only
    /// ordered.
    pub fn is_applied(&self) -> bool {
        let (generation, _) = self.page().state();
        self.page().applied.load(Ordering::Relaxed) >= generation
    }

    /// How far ahead of the true time the clock is at this moment, in ns; below 0: behind.
    pub fn shown_offset_ns(&self) -> i64 {
        let (_, state) = self.page().state();
        let now = Moment::now();
        state.shown_ns(now.real_ns, || now.mono_ns).saturating_sub(now.real_ns)
    }

    /// How many bytes of a file would survive a loss of power now, as its member has synced so many; `None`: it never
    /// was. Fails where the page lost count: more than [`FILES`] files, or a kernel that doesn't tell the library which
    /// file is which.
    pub fn synced(&self, file: FileId) -> io::Result<Option<u64>> {
        if self.page().incomplete.load(Ordering::Acquire) != 0 {
            return Err(io::Error::other(format!(
                "it is not known what was synced: more than {FILES} files, or files that the kernel tells nothing about"
            )));
        }
        let slot = self.page().files.iter().find(|slot| slot.key.load(Ordering::Acquire) == file.0);
        Ok(slot.and_then(|slot| slot.durable_bytes()))
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped until it is dropped, and every value is one of its words.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference that outlives this. If it fails, the page stays mapped, which harms nobody.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// What the clock shows from `base` on, when it showed `old` until then.
fn skewed(skew: Skew, old: &State, base: &Moment) -> State {
    let ahead_ns = old.steady_ns(base.real_ns, || base.mono_ns).saturating_sub(base.real_ns);
    let state = State { base_ns: base.mono_ns, real_ns: base.real_ns, offset_ns: ahead_ns, ..State::default() };
    match skew {
        Skew::Jump { ms } => State { offset_ns: ahead_ns.saturating_add(ms * NS_PER_MS), ..state },
        Skew::Rate { factor } => {
            // Checked: at most 1000, which leaves room for 31 bits more.
            State { excess: ((factor - 1.0) * ONE as f64).round() as i64, excess_before: old.excess, ..state }
        }
        Skew::Strobe { ms, period_us } => {
            let period_ns = i64::try_from(period_us).unwrap_or(i64::MAX).saturating_mul(NS_PER_US);
            State { strobe_ns: ms * NS_PER_MS, period_ns, ..state }
        }
    }
}

/// Both wall clock and monotonic clock at one moment, in ns.
struct Moment {
    real_ns: i64,
    mono_ns: i64,
}

impl Moment {
    /// Two clocks can't be read at once, so the reading that took the least time of a few counts.
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

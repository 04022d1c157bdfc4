//! A library to be preloaded (LD_PRELOAD) into a process. The process's wall clock then shows what the agent wants it
//! to show, its syncs take as much longer as the agent says, and the agent learns how much of each file it has synced.
//!
//! Built by `build.rs` as a shared object that depends on no other. It has no libc, so it loads into any image, glibc
//! or musl, of any age. It has no allocator, no thread-local storage and no constructor order, so it may be called at
//! any time, even by the process's allocator during startup. All its memory is on the stack, in two words of its own,
//! and in the control page (`control.rs`), which it finds through the environment variable `REDJEPSEN_CLOCK`. Without
//! that variable, or if it does not name a readable and writable control file, the library changes nothing.
//!
//! It replaces libc's `clock_gettime` (CLOCK_REALTIME and CLOCK_REALTIME_COARSE; every other clock is left alone),
//! `gettimeofday`, `time`, `timespec_get`, `fsync` and `fdatasync`. Forked children keep the page, and programs that
//! they execute find it again, since both inherit what they need. For those that look for the kernel's clock_gettime
//! themselves, as Go's runtime and Rust's rustix do, it puts itself in that function's place (`vdso.rs`, x86_64 only).
//!
//! Whether the process ever asked it for the time is kept where the agent can see it ([`control::Process`]): a program
//! that asks somebody else must not pass for one whose clock is wrong.
//!
//! Deliberately absent: programs that are statically linked, as Go's are without cgo, or that call the kernel itself; times passed *to* the kernel or libc, such as the deadline of `pthread_cond_timedwait` on
//! CLOCK_REALTIME, and file times, all of which stay true; syncs by other means (`msync`, `sync`, `O_SYNC`, io_uring;
//! `sync_file_range` promises nothing); writes, which never wait, however slow the disk is. `fsync` is no longer a
//! cancellation point.

#![no_std]

mod control;
mod environment;
mod synced;
mod system;
mod vdso;

use core::ffi::{c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use control::{MAGIC, PAGE_BYTES, PROCESS_MAGIC, Page, Process, VERSION};
use system::{Errno, FileKind, Timespec};

const CLOCK_REALTIME: c_int = 0;
const CLOCK_MONOTONIC: c_int = 1;
const CLOCK_REALTIME_COARSE: c_int = 5;
const CLOCK_MONOTONIC_COARSE: c_int = 6;
const TIME_UTC: c_int = 1;
const NS_PER_S: i64 = 1_000_000_000;

/// What gettimeofday fills.
#[repr(C)]
pub struct Timeval {
    seconds: c_long,
    microseconds: c_long,
}

/// In the data of the process, where the agent looks for its magic.
#[used]
static PROCESS: Process = Process { magic: PROCESS_MAGIC, asked: AtomicU64::new(0) };

/// Looks for the page early: some programs (Redis is one) later write their titles over the environment. And the vDSO
/// has to be ours before the program reads it.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        if page().is_some() {
            vdso::replace(of_the_kernel);
        }
    }
    at_start
};

/// # Safety
/// As for libc's: `time` points to a timespec.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    // SAFETY: guaranteed by the caller.
    system::to_c(unsafe { any_clock(clock, time) })
}

/// In place of the kernel's own, which returns its error, and leaves errno alone.
///
/// # Safety
/// As for libc's.
unsafe extern "C" fn of_the_kernel(clock: c_int, time: *mut Timespec) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { any_clock(clock, time) }.map_or_else(|errno| -errno.number(), |()| 0)
}

/// # Safety
/// `time` points to a timespec.
unsafe fn any_clock(clock: c_int, time: *mut Timespec) -> Result<(), Errno> {
    match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_COARSE => {
            let now = wall_clock(clock)?;
            // SAFETY: guaranteed by the caller.
            unsafe { time.write(now) };
            Ok(())
        }
        _ => {
            page().inspect(|_| note_asked());
            // SAFETY: guaranteed by the caller.
            unsafe { vdso::clock_gettime(clock, time) }
        }
    }
}

/// # Safety
/// As for libc's: `time` and `zone` each point to their structure or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut Timeval, zone: *mut c_void) -> c_int {
    if !zone.is_null() {
        // SAFETY: the caller guarantees it for the zone, and the kernel accepts null for the time.
        if let Err(errno) = unsafe { system::time_zone(zone) } {
            return system::to_c(Err(errno));
        }
    }
    if time.is_null() {
        return 0;
    }
    system::to_c(wall_clock(CLOCK_REALTIME).map(|now| {
        // SAFETY: guaranteed by the caller.
        unsafe { time.write(Timeval { seconds: now.seconds, microseconds: now.nanoseconds / 1000 }) };
    }))
}

/// # Safety
/// As libc's: `time` points to a time_t or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(time: *mut c_long) -> c_long {
    // The coarse clock, as in the kernel's own `time`.
    let seconds = match wall_clock(CLOCK_REALTIME_COARSE) {
        Ok(now) => now.seconds,
        Err(errno) => c_long::from(system::to_c(Err(errno))),
    };
    if !time.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { time.write(seconds) };
    }
    seconds
}

/// Supports only TIME_UTC, and returns 0 for any other base.
///
/// # Safety
/// As for libc's: `time` points to a timespec.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timespec_get(time: *mut Timespec, base: c_int) -> c_int {
    match wall_clock(CLOCK_REALTIME) {
        Ok(now) if base == TIME_UTC => {
            // SAFETY: guaranteed by the caller.
            unsafe { time.write(now) };
            base
        }
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn fsync(file: c_int) -> c_int {
    system::to_c(synced::note(page(), file, || system::fsync(file)))
}

#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(file: c_int) -> c_int {
    system::to_c(synced::note(page(), file, || system::fdatasync(file)))
}

/// What a wall clock shows.
fn wall_clock(clock: c_int) -> Result<Timespec, Errno> {
    let Some(page) = page() else { return read_clock(clock) };
    let mono = if clock == CLOCK_REALTIME { CLOCK_MONOTONIC } else { CLOCK_MONOTONIC_COARSE };
    let (generation, shown_ns) = loop {
        let (generation, state) = page.state();
        let real_ns = read_clock(clock)?.to_ns();
        // If this clock cannot be read, none can.
        let shown_ns = state.shown_ns(real_ns, || read_clock(mono).map_or(state.base_ns, |now| now.to_ns()));
        // If interrupted above, this thread would show an old rate applied to a later time.
        if page.generation.load(Ordering::Acquire) == generation {
            break (generation, shown_ns);
        }
    };
    note_asked();
    page.readings.fetch_add(1, Ordering::Relaxed);
    if page.applied.load(Ordering::Relaxed) < generation {
        page.applied.fetch_max(generation, Ordering::Relaxed);
    }
    Ok(Timespec::from_ns(shown_ns))
}

fn note_asked() {
    if PROCESS.asked.load(Ordering::Relaxed) == 0 {
        PROCESS.asked.store(1, Ordering::Relaxed);
    }
}

fn read_clock(clock: c_int) -> Result<Timespec, Errno> {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: it points to a timespec.
    unsafe { vdso::clock_gettime(clock, &raw mut now) }?;
    Ok(now)
}

impl Timespec {
    fn to_ns(&self) -> i64 {
        self.seconds.saturating_mul(NS_PER_S).saturating_add(self.nanoseconds)
    }

    fn from_ns(ns: i64) -> Timespec {
        Timespec { seconds: ns.div_euclid(NS_PER_S), nanoseconds: ns.rem_euclid(NS_PER_S) }
    }
}

/// The control page, if this process has one.
fn page() -> Option<&'static Page> {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        page = find_page();
    }
    // SAFETY: anything but `NO_PAGE` is a page that stays mapped.
    (page != NO_PAGE).then(|| unsafe { &*page })
}

/// Null until the first search; [`NO_PAGE`] if there is none.
static PAGE: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());
const NO_PAGE: *mut Page = ptr::dangling_mut();

#[cold]
fn find_page() -> *mut Page {
    let found = map_page().unwrap_or(NO_PAGE);
    match PAGE.compare_exchange(ptr::null_mut(), found, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => found,
        Err(first) => {
            if found != NO_PAGE {
                // SAFETY: another thread was faster, and nobody has seen this mapping.
                unsafe { system::unmap(found.cast(), PAGE_BYTES) };
            }
            first
        }
    }
}

/// Maps the control file that the environment names, if it really is one.
fn map_page() -> Option<*mut Page> {
    let file = environment::with_variable(b"REDJEPSEN_CLOCK=", |path| system::open(path, system::READ_WRITE))?.ok()?;
    let page = map(&file);
    file.close();
    page
}

fn map(file: &system::File) -> Option<*mut Page> {
    let status = system::status(file.descriptor()).ok()?;
    if status.kind != FileKind::Regular || status.length < PAGE_BYTES as u64 {
        return None;
    }
    let page: *mut Page = file.map_shared(PAGE_BYTES).ok()?.cast();
    // SAFETY: the file was long enough, so the whole page is there, and any bits are valid for its words.
    let (magic, version) = unsafe { ((*page).magic.load(Ordering::Relaxed), (*page).version.load(Ordering::Relaxed)) };
    if magic != MAGIC || version != VERSION {
        // SAFETY: nobody has seen this mapping.
        unsafe { system::unmap(page.cast(), PAGE_BYTES) };
        return None;
    }
    Some(page)
}

/// Nothing here panics. The compiler requires this; it would end the process with an illegal instruction.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    system::trap()
}

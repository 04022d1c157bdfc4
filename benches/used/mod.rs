//! Time and memory of a process.

/// Waits for a child; returns its peak memory in bytes, and the seconds that it took on all cores together.
pub fn used(child: u32) -> (u64, f64) {
    // SAFETY: it holds only numbers, for which all zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: both places are valid until the call returns, and nobody else waits for this child.
    unsafe { libc::wait4(child.cast_signed(), &mut status, 0, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (usage.ru_maxrss.unsigned_abs() * 1024, seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

//! System calls without libc: the few that the library makes, for x86_64 and aarch64.

use core::arch::asm;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::control::file_key;

/// Why the kernel refused, as in errno.h.
#[derive(Clone, Copy)]
pub struct Errno(c_int);

impl Errno {
    pub fn number(self) -> c_int {
        self.0
    }
}

/// What clock_gettime fills.
#[repr(C)]
pub struct Timespec {
    pub seconds: c_long,
    pub nanoseconds: c_long,
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const FSYNC: usize = 74;
    pub const FDATASYNC: usize = 75;
    pub const GETTIMEOFDAY: usize = 96;
    pub const FUTEX: usize = 202;
    pub const CLOCK_GETTIME: usize = 228;
    pub const OPENAT: usize = 257;
    pub const STATX: usize = 332;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const FSYNC: usize = 82;
    pub const FDATASYNC: usize = 83;
    pub const FUTEX: usize = 98;
    pub const CLOCK_GETTIME: usize = 113;
    pub const GETTIMEOFDAY: usize = 169;
    pub const MUNMAP: usize = 215;
    pub const MMAP: usize = 222;
    pub const STATX: usize = 291;
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("nemeses/clock knows the system calls of x86_64 and aarch64 only");

/// # Safety
/// The kernel does whatever the arguments say, to any memory that they refer to.
unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: by the kernel's convention, it changes only rax, rcx, r11 and what the caller agreed to.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: by the kernel's convention, it changes only x0 and what the caller agreed to.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            in("x5") f, options(nostack));
    }
    match result {
        // The kernel's errors are -4095 to -1.
        -4095..=-1 => Err(Errno((-result) as c_int)),
        _ => Ok(result as usize),
    }
}

/// # Safety
/// `time` points to a timespec.
pub unsafe fn clock_gettime(clock: c_int, time: *mut Timespec) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller.
    unsafe { call(number::CLOCK_GETTIME, [clock as usize, time as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Fills in the time zone that gettimeofday reports.
///
/// # Safety
/// `zone` points to a struct timezone.
pub unsafe fn time_zone(zone: *mut c_void) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller.
    unsafe { call(number::GETTIMEOFDAY, [0, zone as usize, 0, 0, 0, 0]) }.map(drop)
}

pub fn fsync(file: c_int) -> Result<(), Errno> {
    // SAFETY: accesses no memory.
    unsafe { call(number::FSYNC, [file as usize, 0, 0, 0, 0, 0]) }.map(drop)
}

pub fn fdatasync(file: c_int) -> Result<(), Errno> {
    // SAFETY: accesses no memory.
    unsafe { call(number::FDATASYNC, [file as usize, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Sleeps while the word, which other processes share, has this value: until it is woken, interrupted, or the time is over.
pub fn wait_on(word: &AtomicU32, value: u32, time: &Timespec) {
    const FUTEX_WAIT: usize = 0;
    let (word, time) = (word.as_ptr() as usize, ptr::from_ref(time) as usize);
    // SAFETY: the kernel only reads the word and the time.
    let _ = unsafe { call(number::FUTEX, [word, FUTEX_WAIT, value as usize, time, 0, 0]) };
}

/// A file that the library opened for itself. It is not closed on drop, since nobody could be told if that failed.
pub struct File(usize);

pub const READ_ONLY: usize = 0;
pub const READ_WRITE: usize = 2;

/// Opens the file with this zero-terminated path.
pub fn open(path: *const c_char, access: usize) -> Result<File, Errno> {
    const AT_FDCWD: isize = -100;
    const O_NONBLOCK: usize = 0o4000;
    const O_CLOEXEC: usize = 0o2_000_000;
    let flags = access | O_CLOEXEC | O_NONBLOCK;
    // SAFETY: the kernel reads the path, and returns an error if it cannot.
    unsafe { call(number::OPENAT, [AT_FDCWD as usize, path as usize, flags, 0, 0, 0]) }.map(File)
}

impl File {
    pub fn descriptor(&self) -> c_int {
        self.0 as c_int
    }

    /// Reads what is available, at most a buffer full; empty at the end.
    pub fn read<'a>(&self, buffer: &'a mut [MaybeUninit<u8>]) -> Result<&'a [u8], Errno> {
        let start = buffer.as_mut_ptr().cast::<u8>();
        // SAFETY: the kernel fills the buffer.
        let count = unsafe { call(number::READ, [self.0, start as usize, buffer.len(), 0, 0, 0]) }?;
        // SAFETY: the kernel filled this many bytes of it.
        Ok(unsafe { core::slice::from_raw_parts(start, count.min(buffer.len())) })
    }

    /// Maps the first bytes for reading and writing, shared with every other process that does so.
    pub fn map_shared(&self, bytes: usize) -> Result<*mut c_void, Errno> {
        const PROT_READ_WRITE: usize = 3;
        const MAP_SHARED: usize = 1;
        // SAFETY: a new mapping, where nothing was before.
        let address = unsafe { call(number::MMAP, [0, bytes, PROT_READ_WRITE, MAP_SHARED, self.0, 0]) }?;
        Ok(address as *mut c_void)
    }

    pub fn close(self) {
        // SAFETY: nobody else uses this descriptor.
        let _ = unsafe { call(number::CLOSE, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// # Safety
/// It was mapped by [`File::map_shared`] and nobody uses it any more.
pub unsafe fn unmap(address: *mut c_void, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    let _ = unsafe { call(number::MUNMAP, [address as usize, bytes, 0, 0, 0, 0]) };
}

/// Changes what may be done with whole pages.
///
/// # Safety
/// Whoever uses them does no more than what they now permit.
#[cfg(target_arch = "x86_64")]
pub unsafe fn protect(address: usize, bytes: usize, access: usize) -> Result<(), Errno> {
    // SAFETY: guaranteed by the caller.
    unsafe { call(number::MPROTECT, [address, bytes, access, 0, 0, 0]) }.map(drop)
}

#[derive(PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Other,
}

/// What an open file is.
pub struct Status {
    pub kind: FileKind,
    /// In bytes.
    pub length: u64,
    /// The key of the file in the control page.
    pub key: u64,
}

/// struct statx, as far as it is needed here.
#[repr(C)]
struct Statx {
    mask: u32,
    block_bytes: u32,
    attributes: u64,
    links: u32,
    user: u32,
    group: u32,
    mode: u16,
    unused: u16,
    inode: u64,
    length: u64,
    blocks: u64,
    attributes_mask: u64,
    accessed: StatxTime,
    born: StatxTime,
    changed: StatxTime,
    modified: StatxTime,
    special_major: u32,
    special_minor: u32,
    device_major: u32,
    device_minor: u32,
    rest: [u64; 14],
}

#[repr(C)]
struct StatxTime {
    seconds: i64,
    nanoseconds: u32,
    unused: i32,
}

const _: () = assert!(size_of::<Statx>() == 256);

/// Looks up an open file. Also fails if the kernel (before 4.11) or its filters lack statx, because stat alone cannot
/// tell a file from a later one with the same inode.
pub fn status(file: c_int) -> Result<Status, Errno> {
    const AT_EMPTY_PATH: usize = 0x1000;
    const TYPE_INODE_SIZE: u32 = 0x301;
    const BORN: u32 = 0x800;
    const FORMAT: u16 = 0o170_000;
    const REGULAR: u16 = 0o100_000;
    const EINVAL: Errno = Errno(22);
    let mut found = MaybeUninit::<Statx>::uninit();
    let arguments = [
        file as usize,
        c"".as_ptr() as usize,
        AT_EMPTY_PATH,
        (TYPE_INODE_SIZE | BORN) as usize,
        &raw mut found as usize,
    ];
    let [a, b, c, d, e] = arguments;
    // SAFETY: the kernel fills all of it.
    let found = unsafe {
        call(number::STATX, [a, b, c, d, e, 0])?;
        found.assume_init()
    };
    if found.mask & TYPE_INODE_SIZE != TYPE_INODE_SIZE {
        return Err(EINVAL);
    }
    let born_ns = if found.mask & BORN == 0 {
        0
    } else {
        (found.born.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(found.born.nanoseconds))
    };
    let kind = if found.mode & FORMAT == REGULAR { FileKind::Regular } else { FileKind::Other };
    let device = device_number(found.device_major, found.device_minor);
    Ok(Status { kind, length: found.length, key: file_key(device, found.inode, born_ns) })
}

/// Packed like stat's st_dev, by which others know the file's device.
fn device_number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    ((major & 0xffff_f000) << 32) | ((major & 0xfff) << 8) | ((minor & 0xffff_ff00) << 12) | (minor & 0xff)
}

/// The return value of a C function for this outcome; sets errno.
pub fn to_c(outcome: Result<(), Errno>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(Errno(errno)) => {
            if let Some(location) = errno_location() {
                // SAFETY: this is the address of this thread's errno.
                unsafe { location().write(errno) };
            }
            -1
        }
    }
}

/// libc's function that returns the address of errno; it has this name in glibc and musl. It is a weak reference
/// without a version, so the library requires nothing of the libc that it meets, not even that there is one.
fn errno_location() -> Option<extern "C" fn() -> *mut c_int> {
    let address: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the address that the loader found, or 0.
    unsafe {
        asm!(".weak __errno_location", "mov {}, qword ptr [rip + __errno_location@GOTPCREL]", out(reg) address,
            options(nostack, pure, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the address that the loader found, or 0.
    unsafe {
        asm!(".weak __errno_location", "adrp {0}, :got:__errno_location", "ldr {0}, [{0}, :got_lo12:__errno_location]",
            out(reg) address, options(nostack, pure, readonly, preserves_flags));
    }
    // SAFETY: it is null, which becomes `None`, or the address of that function.
    unsafe { core::mem::transmute::<usize, Option<extern "C" fn() -> *mut c_int>>(address) }
}

/// Ends the process with an illegal instruction.
pub fn trap() -> ! {
    // SAFETY: does not return.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("ud2", options(noreturn, nomem, nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("udf #0", options(noreturn, nomem, nostack));
    }
}

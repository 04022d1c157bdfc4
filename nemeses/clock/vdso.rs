//! The kernel's own clock_gettime, which needs no system call: code in the vDSO, which is mapped into every process. A
//! call through it takes a tenth of the time, which matters to a server that reads the clock several times per request.
//!
//! If it is not found, for whatever reason, the system call does the same.
//!
//! Programs that need no libc for this look the function up by its name in the vDSO's own table, as Go's runtime does when
//! it starts. [`replace`] makes that table, in this process's copy of it, name a function of ours. Whoever looked before,
//! such as libc's loader, keeps the kernel's.

use core::ffi::{CStr, c_int};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::environment;
use crate::system::{self, Errno, Timespec};

#[cfg(target_arch = "x86_64")]
const NAME: &CStr = c"__vdso_clock_gettime";
#[cfg(target_arch = "aarch64")]
const NAME: &CStr = c"__kernel_clock_gettime";

pub type ClockGettime = unsafe extern "C" fn(c_int, *mut Timespec) -> c_int;

/// Null until the first search; [`NOT_THERE`] if there is none.
static FUNCTION: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
const NOT_THERE: *mut u8 = ptr::dangling_mut();

/// Makes the vDSO name this function instead of its own from now on. Changes nothing if that is not possible: there is no
/// vDSO, the kernel has sealed it, or there is no room.
///
/// The table must name a place within the image, or rustix panics, and at its very end at the latest. There the last page
/// has some unused bytes, and gets a jump.
#[cfg(target_arch = "x86_64")]
pub fn replace(by: ClockGettime) {
    const PAGE_BYTES: usize = 4096;
    const READ_EXECUTE: usize = 5;
    const READ_WRITE_EXECUTE: usize = 7;
    // movabs rax, ADDRESS; jmp rax
    let mut jump = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0];
    let address = (by as usize).to_ne_bytes();
    jump.iter_mut().skip(2).zip(address).for_each(|(byte, of_it)| *byte = of_it);
    // Ours calls the kernel's, so it is looked up first.
    let is_known = FUNCTION.load(Ordering::Acquire);
    if (if is_known.is_null() { look() } else { is_known }) == NOT_THERE {
        return;
    }
    // SAFETY: the kernel says that its image is there.
    let Some((symbol, image)) = image().and_then(|image| unsafe { find(image, NAME) }) else { return };
    let room = image.end as usize % PAGE_BYTES;
    if room == 0 || PAGE_BYTES - room < jump.len() {
        return;
    }
    let first = (symbol as usize).min(image.end as usize) / PAGE_BYTES * PAGE_BYTES;
    let last = (symbol as usize + size_of::<Symbol>()).max(image.end as usize).next_multiple_of(PAGE_BYTES);
    // SAFETY: the process has no other thread yet. These are private pages of the image, of which nothing is changed that
    // anybody executes, and they stay executable.
    unsafe {
        if system::protect(first, last - first, READ_WRITE_EXECUTE).is_err() {
            return;
        }
        ptr::copy_nonoverlapping(jump.as_ptr(), image.end, jump.len());
        (*symbol).value = (image.end as usize).wrapping_sub(image.base as usize) as u64;
        // If that fails they can be written as well, which harms nobody.
        let _ = system::protect(first, last - first, READ_EXECUTE);
    }
}

/// Not tried on this processor, whose caches have to be told of new code.
#[cfg(target_arch = "aarch64")]
pub fn replace(_: ClockGettime) {}

/// # Safety
/// `time` points to a timespec.
pub unsafe fn clock_gettime(clock: c_int, time: *mut Timespec) -> Result<(), Errno> {
    let mut function = FUNCTION.load(Ordering::Acquire);
    if function.is_null() {
        function = look();
    }
    if function != NOT_THERE {
        // SAFETY: it is that function of the kernel's, and the caller vouches for `time`.
        let result = unsafe { core::mem::transmute::<*mut u8, ClockGettime>(function)(clock, time) };
        if result == 0 {
            return Ok(());
        }
    }
    // SAFETY: guaranteed by the caller. If the vDSO failed, the system call also reports the error.
    unsafe { system::clock_gettime(clock, time) }
}

#[cold]
fn look() -> *mut u8 {
    // SAFETY: the kernel says that its image is there, and so the symbol is in it.
    let function = image().and_then(|image| unsafe {
        let (symbol, image) = find(image, NAME)?;
        Some(image.base.wrapping_add((*symbol).value as usize).cast_mut())
    });
    let function = function.unwrap_or(NOT_THERE);
    // Another thread that searches finds the same.
    FUNCTION.store(function, Ordering::Release);
    function
}

/// Where the kernel has put the vDSO.
fn image() -> Option<*const u8> {
    const AT_SYSINFO_EHDR: usize = 33;
    environment::auxiliary(AT_SYSINFO_EHDR).filter(|address| *address != 0).map(|address| address as *const u8)
}

/// The vDSO as it is mapped.
#[cfg_attr(target_arch = "aarch64", allow(dead_code, reason = "the end is where a jump goes"))]
struct Image {
    /// Where the address 0 of its tables is.
    base: *const u8,
    /// The first byte behind its segment.
    end: *mut u8,
}

#[repr(C)]
struct Header {
    identity: [u8; 16],
    kind_machine_version: u64,
    entry: u64,
    programs_offset: u64,
    sections_offset: u64,
    flags: u32,
    header_bytes: u16,
    program_bytes: u16,
    programs: u16,
}

#[repr(C)]
struct Program {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    address_too: u64,
    bytes_of_file: u64,
    bytes: u64,
}

#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    bytes: u64,
}

/// The symbol of this name in the vDSO whose ELF header is at `image`.
///
/// # Safety
/// The kernel's complete, well-formed ELF image is mapped there.
unsafe fn find(image: *const u8, name: &CStr) -> Option<(*mut Symbol, Image)> {
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const DT_NULL: u64 = 0;
    const DT_HASH: u64 = 4;
    const DT_STRTAB: u64 = 5;
    const DT_SYMTAB: u64 = 6;
    const DT_GNU_HASH: u64 = 0x6fff_fef5;
    // SAFETY: every offset and count comes from the image itself, and the caller vouches for the image.
    unsafe {
        let header = &*image.cast::<Header>();
        if header.identity.get(..5) != Some(b"\x7fELF\x02") {
            return None;
        }
        let mut segment = None;
        let mut dynamic = None;
        for index in 0..usize::from(header.programs) {
            let at = header.programs_offset as usize + index * usize::from(header.program_bytes);
            let program = &*image.add(at).cast::<Program>();
            match program.kind {
                PT_LOAD if segment.is_none() => {
                    let start = image.wrapping_add(program.offset as usize);
                    let end = start.wrapping_add(program.bytes as usize).cast_mut();
                    segment = Some(Image { base: start.wrapping_sub(program.address as usize), end });
                }
                PT_DYNAMIC => dynamic = Some(image.add(program.offset as usize).cast::<Dynamic>()),
                _ => {}
            }
        }
        let (segment, mut entry) = (segment?, dynamic?);
        let (mut strings, mut symbols, mut hash, mut gnu_hash) = (None, None, None, None);
        while (*entry).tag != DT_NULL {
            let address = segment.base.wrapping_add((*entry).value as usize);
            match (*entry).tag {
                DT_STRTAB => strings = Some(address),
                DT_SYMTAB => symbols = Some(address.cast::<Symbol>()),
                DT_HASH => hash = Some(address.cast::<u32>()),
                DT_GNU_HASH => gnu_hash = Some(address.cast::<u32>()),
                _ => {}
            }
            entry = entry.add(1);
        }
        let (strings, symbols) = (strings?, symbols?);
        let matches = |index: u32| {
            let symbol = symbols.add(index as usize);
            // By hand, since CStr would call libc's strlen.
            let its = strings.add((*symbol).name as usize);
            let is_it = name.to_bytes_with_nul().iter().enumerate().all(|(at, byte)| *its.add(at) == *byte);
            (is_it && (*symbol).section != 0).then(|| symbol.cast_mut())
        };
        // The kernel may have omitted either table.
        let symbol = match (hash, gnu_hash) {
            (Some(hash), _) => (0..*hash.add(1)).find_map(matches),
            (None, Some(table)) => gnu_chain(table, name).find_map(matches),
            (None, None) => None,
        };
        Some((symbol?, segment))
    }
}

/// The symbols that may have the name, from a table of type DT_GNU_HASH.
///
/// # Safety
/// `table` points to such a table.
unsafe fn gnu_chain(table: *const u32, name: &CStr) -> impl Iterator<Item = u32> {
    let mut wanted: u32 = 5381;
    for byte in name.to_bytes() {
        wanted = wanted.wrapping_mul(33).wrapping_add(u32::from(*byte));
    }
    // SAFETY: every count comes from the table itself: buckets, the first symbol, filter words (64 bits each) and a
    // shift; then the filter, the buckets and the chains.
    unsafe {
        let (buckets, first, filters) = (*table, *table.add(1), *table.add(2));
        let bucket = table.add(4 + 2 * filters as usize);
        let chains = bucket.add(buckets as usize);
        let start = wanted.checked_rem(buckets).map_or(0, |index| *bucket.add(index as usize));
        let mut next = (start >= first && start != 0).then_some(start);
        core::iter::from_fn(move || {
            let symbol = next?;
            // The last entry of a chain has its lowest bit set.
            let is_last = *chains.add((symbol - first) as usize) & 1 == 1;
            next = if is_last { None } else { symbol.checked_add(1) };
            Some(symbol)
        })
    }
}

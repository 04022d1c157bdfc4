//! Records in the control page how much of each file is synced, and makes syncs wait where that says so.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::control::{Disk, FILES, MAX_WAIT_US, Page, SyncedFile};
use crate::system::{Errno, FileKind, Timespec, status, wait_on};
use crate::{CLOCK_MONOTONIC, read_clock};

/// Syncs a file. On success, records how long the file was *before* the sync, since what is written during a sync may
/// or may not be part of it.
pub fn note(page: Option<&Page>, file: c_int, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    let Some(page) = page else { return sync() };
    let begun = begin(page, file);
    wait(&page.disk);
    sync()?;
    match begun {
        Begun::Noted { slot, ticket, length } => slot.end(ticket, length),
        Begun::NotOurs => {}
        Begun::NoRoom => page.incomplete.store(1, Ordering::Release),
    }
    Ok(())
}

/// Waits for as long as the disk is to be slower. It ends early if the disk is fast again.
fn wait(disk: &Disk) {
    if !waits(disk.wait_us.load(Ordering::Acquire)) {
        return;
    }
    let number = disk.waited.fetch_add(1, Ordering::Relaxed);
    let Ok(began) = read_clock(CLOCK_MONOTONIC) else { return };
    while let Ok(now) = read_clock(CLOCK_MONOTONIC) {
        let wait_us = disk.wait_us.load(Ordering::Acquire);
        let left_ns = began.to_ns().saturating_add(disk.wait_ns(wait_us, number)).saturating_sub(now.to_ns());
        if !waits(wait_us) || left_ns <= 0 {
            return;
        }
        // Whatever it returns for, the loop looks whether it is over.
        wait_on(&disk.wait_us, wait_us, &Timespec::from_ns(left_ns));
    }
}

/// A page that holds nonsense must not stop the process for good.
fn waits(wait_us: u32) -> bool {
    (1..=MAX_WAIT_US).contains(&wait_us)
}

enum Begun<'a> {
    Noted {
        slot: &'a SyncedFile,
        ticket: u64,
        length: u64,
    },
    /// It has no length that a power failure could cut: a folder, a device.
    NotOurs,
    /// The table is full, or the kernel does not identify the file.
    NoRoom,
}

fn begin(page: &Page, file: c_int) -> Begun<'_> {
    // The file's identity does not change, but its length does, and must be read after the ticket is drawn.
    let Ok(identity) = status(file) else { return Begun::NoRoom };
    if identity.kind != FileKind::Regular {
        return Begun::NotOurs;
    }
    let Some(slot) = slot(page, identity.key) else { return Begun::NoRoom };
    let ticket = slot.begin();
    match status(file) {
        Ok(status) => Begun::Noted { slot, ticket, length: status.length },
        Err(_) => Begun::NoRoom,
    }
}

/// The file's slot in the table; takes a free one if it has none yet.
fn slot(page: &Page, key: u64) -> Option<&SyncedFile> {
    let (before, from) = page.files.split_at_checked((key % FILES as u64) as usize)?;
    from.iter().chain(before).find(|slot| match slot.key.load(Ordering::Acquire) {
        0 => match slot.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(taken_by) => taken_by == key,
        },
        taken_by => taken_by == key,
    })
}

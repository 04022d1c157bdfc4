//! The program: the library has all the code.

use std::ffi::{c_int, c_long};

/// The system's allocator costs simulated runs 10% of their time; mimalloc costs 5%.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

unsafe extern "C" {
    /// From mimalloc.h; the crate does not export it.
    fn mi_option_set(option: c_int, value: c_long);
}

/// `mi_option_purge_delay`, in milliseconds: how long freed memory is kept for reuse.
const PURGE_DELAY: c_int = 15;

fn main() -> std::process::ExitCode {
    // A million operations then take a sixth less memory, and nothing takes longer.
    // SAFETY: this sets a number that is read when memory is freed, and no other thread runs yet.
    unsafe { mi_option_set(PURGE_DELAY, 0) };
    redjepsen::cli::main()
}

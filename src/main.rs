//! The program: everything is in the library.

/// Runs in virtual time spend a tenth of their time in the system's allocator, and half as much in this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    redjepsen::cli::main()
}

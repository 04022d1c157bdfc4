//! Bugs that tests plant, one at a time, to check that redjepsen finds them. A build with debug assertions reads the name of
//! the bug from `REDJEPSEN_PLANTED`, once. A release build has no bugs and reads no variable.
//!
//! `mutants.csv` and `checker-mutants.csv` in `tests/fixtures` list all bugs. `crates/model/src/locks/mutants.rs` changes the
//! commands of a lock, and `crates/checker/src/mutants.rs` the findings of the checker. Other code calls [`planted`] only for
//! decisions that these two cannot reach.

#[cfg(debug_assertions)]
pub fn planted(bug: &str) -> bool {
    static PLANTED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("REDJEPSEN_PLANTED").ok());
    PLANTED.as_deref() == Some(bug)
}

/// A release build has no planted bugs.
#[cfg(not(debug_assertions))]
pub const fn planted(_: &str) -> bool {
    false
}

//! Bugs that the tests plant, one at a time, to see whether redjepsen finds them. A build with debug assertions takes the name of
//! the bug from `REDJEPSEN_PLANTED`, once; a release build has none of them and reads no variable.
//!
//! `mutants.csv` and `checker-mutants.csv` in `tests/fixtures` list them all. What a lock sends is changed in `crates/model/src/locks/mutants.rs`, what the checker finds in
//! `crates/checker/src/mutants.rs`; only a decision that neither can reach asks [`planted`] where it is made.

/// Whether this bug is planted.
#[cfg(debug_assertions)]
pub fn planted(bug: &str) -> bool {
    static PLANTED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("REDJEPSEN_PLANTED").ok());
    PLANTED.as_deref() == Some(bug)
}

/// No bug is planted in what is shipped.
#[cfg(not(debug_assertions))]
pub const fn planted(_: &str) -> bool {
    false
}

//! The checker against brute force, against the page that describes it, and against all kinds of files. All tests are in one
//! program, since linking takes longer than running most of them.

mod explain;
mod formats;
mod linear_time;
mod oracle;
mod search;
mod support;

/// The number of histories of each kind; `REDJEPSEN_CASES` sets more, as CI does in its nightly run.
fn cases(usual: u64) -> u64 {
    std::env::var("REDJEPSEN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

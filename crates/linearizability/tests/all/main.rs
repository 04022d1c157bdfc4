//! The checker against brute force, against the page that describes it, and against all kinds of files. It is one
//! program, since linking one takes longer than running most of its tests.

mod explain;
mod formats;
mod linear_time;
mod oracle;
mod search;
mod support;

/// How many histories of each kind to try; `REDJEPSEN_CASES` asks for more, as CI does every night.
fn cases(usual: u64) -> u64 {
    std::env::var("REDJEPSEN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

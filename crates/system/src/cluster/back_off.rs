//! How soon members' connections recover after a cut.

/// Sysctls of a member's network namespace (Linux 6.15 or later). Without them an old connection waits out TCP's
/// back-off after a cut, up to as long as the cut took; with them it retries at least once a second.
///
/// The second offsets a side effect of the first. A socket closed during a cut counts as dead once its back-off is at
/// the maximum, so the kernel would drop it after two seconds. The server would never learn of the close.
pub const SHORT_BACK_OFF: [(&str, &str); 2] =
    [("net.ipv4.tcp_rto_max_ms", "1000"), ("net.ipv4.tcp_orphan_retries", "100")];

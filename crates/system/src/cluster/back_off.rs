//! How soon members' connections recover after a cut.

/// Sysctls of a member's network namespace (Linux 6.15 or later). Without them, an old connection waits out TCP's back-off after
/// a cut, for up to as long as the cut lasted. With them, it retries at least once per second.
///
/// The second sysctl offsets a side effect of the first. The kernel gives up on a socket that was closed during a cut once its
/// back-off is at the maximum, here after two seconds. The server would then never learn of the close.
pub const SHORT_BACK_OFF: [(&str, &str); 2] =
    [("net.ipv4.tcp_rto_max_ms", "1000"), ("net.ipv4.tcp_orphan_retries", "100")];

//! How soon members' connections go on after a cut.

/// Settings of a member's network namespace. Without them an old connection waits out TCP's back-off after a cut, up to as
/// long as that took; with them it tries again each second at the latest. For kernels from 6.15 on.
///
/// The second one, since the first would make the kernel give up a connection that was closed during a cut after two
/// seconds: it counts one that waits as long as it may as dead. The server would never learn that it was closed.
pub(crate) const SHORT_BACK_OFF: [(&str, &str); 2] =
    [("net.ipv4.tcp_rto_max_ms", "1000"), ("net.ipv4.tcp_orphan_retries", "100")];

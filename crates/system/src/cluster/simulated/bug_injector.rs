//! For tests of the tester: bugs planted between the parts of a simulated cluster, which must be found.

use std::net::SocketAddrV4;

use crate::faults::MemberAction;

/// Sees what passes between the parts, and may change it. By default nothing changes.
pub trait BugInjector: Send + Sync {
    /// Whether this is really done to a member. It is reported as seen in any case.
    fn acts(&self, _member: &str, _action: MemberAction) -> bool {
        true
    }

    /// Whether a fault of the network is really injected, or healed. It is reported as seen in any case.
    fn changes_network(&self, _heals: bool) -> bool {
        true
    }

    /// Whether these bytes arrive at a server; it may change them before.
    fn arrives(&self, _to: SocketAddrV4, _bytes: &mut Vec<u8>) -> bool {
        true
    }

    /// What the controller hears instead of this line of a client's.
    fn says(&self, _client: &str, line: Vec<u8>) -> Vec<Vec<u8>> {
        vec![line]
    }
}

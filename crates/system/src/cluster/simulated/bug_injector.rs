//! For tests of redjepsen itself: bugs planted between the parts of a simulated cluster, which redjepsen must find.

use std::net::SocketAddrV4;

use crate::faults::MemberAction;

/// Sees the messages between the parts, and may change them. By default nothing changes.
pub trait BugInjector: Send + Sync {
    /// True if this action is really done to the member. Either way, it is reported as done.
    fn acts(&self, _member: &str, _action: MemberAction) -> bool {
        true
    }

    /// True if a network fault is really injected or healed. Either way, it is reported as done.
    fn changes_network(&self, _heals: bool) -> bool {
        true
    }

    /// True if these bytes arrive at a server. May change the bytes first.
    fn arrives(&self, _to: SocketAddrV4, _bytes: &mut Vec<u8>) -> bool {
        true
    }

    /// The lines that the controller gets in place of this line of a client.
    fn says(&self, _client: &str, line: Vec<u8>) -> Vec<Vec<u8>> {
        vec![line]
    }
}

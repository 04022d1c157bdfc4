//! Every process of the members stops, and goes on with the heal of the last pause on it.

use super::ToMembers;
use crate::fault_kinds::FaultKind;
use crate::faults::host::MemberAction;

pub(super) static ACT: ToMembers = ToMembers {
    kind: FaultKind::Pause,
    inject: |_| Some(MemberAction::Stop),
    heal: MemberAction::Continue,
    shared: true,
};

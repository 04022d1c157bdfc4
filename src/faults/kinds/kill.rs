//! Every process of the members ends. Whoever started them starts them again; the heal sees that they run.

use super::ToMembers;
use crate::fault_kinds::FaultKind;
use crate::faults::host::MemberAction;

pub(super) static ACT: ToMembers = ToMembers {
    kind: FaultKind::Kill,
    inject: |_| Some(MemberAction::Kill),
    heal: MemberAction::VerifyRunning,
    shared: false,
};

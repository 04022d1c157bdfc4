//! Every thread of the members' processes stops but the first of each.

use super::ToMembers;
use crate::fault_kinds::FaultKind;
use crate::faults::host::MemberAction;

pub(super) static ACT: ToMembers = ToMembers {
    kind: FaultKind::PauseBackground,
    inject: |_| Some(MemberAction::StopBackground),
    heal: MemberAction::ContinueBackground,
    shared: true,
};

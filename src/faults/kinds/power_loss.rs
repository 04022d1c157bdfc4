//! Like `kill`, and what was not synced to a file is lost.

use super::ToMembers;
use crate::fault_kinds::FaultKind;
use crate::faults::host::MemberAction;

pub(super) static ACT: ToMembers = ToMembers {
    kind: FaultKind::PowerLoss,
    inject: |_| Some(MemberAction::LosePower),
    heal: MemberAction::VerifyRunning,
    shared: false,
};

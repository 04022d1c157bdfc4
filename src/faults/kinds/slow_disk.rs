//! The members' syncs take longer, and as long as they do again with the heal of the last such fault on them.

use super::ToMembers;
use crate::fault_kinds::FaultKind;
use crate::faults::host::MemberAction;
use crate::faults::injection::Parameter;

pub(super) static ACT: ToMembers = ToMembers {
    kind: FaultKind::SlowDisk,
    inject: |with| match *with {
        Parameter::Length { ms, jitter_ms } => Some(MemberAction::SlowDisk { ms, jitter_ms }),
        _ => None,
    },
    heal: MemberAction::RestoreDisk,
    shared: true,
};

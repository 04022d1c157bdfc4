//! The members' wall clocks go wrong, and show the true time again with the heal of the last fault on them.

use super::ToMembers;
use crate::fault_kinds::FaultKind;
use crate::faults::host::MemberAction;
use crate::faults::injection::Parameter;

pub(super) static ACT: ToMembers = ToMembers {
    kind: FaultKind::Clock,
    inject: |with| match with {
        Parameter::Skew(skew) => Some(MemberAction::Skew(*skew)),
        _ => None,
    },
    heal: MemberAction::RestoreClock,
    shared: true,
};

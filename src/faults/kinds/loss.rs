//! The links drop a share of the packets.

use super::ToLinks;
use crate::fault_kinds::FaultKind;
use crate::faults::injection::Parameter;
use crate::faults::network::Effect;

pub(super) static ACT: ToLinks = ToLinks {
    kind: FaultKind::Loss,
    effect: |with| match with {
        Parameter::Percent(percent) => Some(Effect::Lose { percent: *percent }),
        _ => None,
    },
};

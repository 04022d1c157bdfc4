//! The links hold packets back.

use super::ToLinks;
use crate::fault_kinds::FaultKind;
use crate::faults::injection::Parameter;
use crate::faults::network::Effect;

pub(super) static ACT: ToLinks = ToLinks {
    kind: FaultKind::Delay,
    effect: |with| match *with {
        Parameter::Length { ms, jitter_ms } => Some(Effect::Delay { ms, jitter_ms }),
        _ => None,
    },
};

//! TCP connections over the links are reset.

use super::ToLinks;
use crate::fault_kinds::FaultKind;
use crate::faults::network::Effect;

pub(super) static ACT: ToLinks = ToLinks { kind: FaultKind::Reset, effect: |_| Some(Effect::Reset) };

//! The links drop every packet.

use super::ToLinks;
use crate::fault_kinds::FaultKind;
use crate::faults::network::Effect;

pub(super) static ACT: ToLinks = ToLinks { kind: FaultKind::Partition, effect: |_| Some(Effect::Drop) };

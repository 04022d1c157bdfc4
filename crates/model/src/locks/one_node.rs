//! The parts of a lock on one node without its own settings.

use std::marker::PhantomData;
use std::time::Duration;

use super::LockParts;

/// The lock `L` on one node; the file of `L` has its acquisition and its release.
pub struct OneNode<N, C, L> {
    pub node: N,
    pub clock: C,
    pub ttl: Duration,
    pub(super) lock: PhantomData<L>,
}

impl<N, C, L> OneNode<N, C, L> {
    pub(super) fn build<M>(mut parts: LockParts<'_, N, C, M>) -> Result<Self, String> {
        Ok(OneNode { node: parts.node()?, ttl: parts.settings.ttl(), clock: parts.clock, lock: PhantomData })
    }
}

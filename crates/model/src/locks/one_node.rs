//! What a lock on one node without settings of its own is built of.

use std::marker::PhantomData;
use std::time::Duration;

use super::LockParts;

/// The lock `L` on one node; its file says how it is acquired and released.
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

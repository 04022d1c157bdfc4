//! Time as a lock sees it, and the randomness of its waits.

use std::future::Future;
use std::time::Duration;

/// Shared by all that reckon together; a clone reads the same clock.
pub trait Clock: Clone + Send + Sync + 'static {
    /// A reading of the clock. Only differences mean anything; where it is the time of day, later ones may be smaller.
    fn now(&self) -> Duration;

    fn sleep(&self, length: Duration) -> impl Future<Output = ()> + Send;

    /// A length drawn evenly from the range, both ends included.
    fn draw(&self, range: (Duration, Duration)) -> Duration;
}

//! Time as a lock sees it, and all that it draws.

use std::future::Future;
use std::time::Duration;

/// Shared by all that reckon together; a clone reads the same clock and goes on with the same draws.
///
/// Given to the lock by its client, so that the time may be virtual or wrong, and so that a seed repeats every draw.
pub trait Clock: Clone + Send + Sync + 'static {
    /// A reading of the clock. Only differences mean anything; where it is the time of day, later ones may be smaller.
    fn now(&self) -> Duration;

    fn sleep(&self, length: Duration) -> impl Future<Output = ()> + Send;

    /// A length drawn evenly from the range, both ends included.
    fn draw(&self, range: (Duration, Duration)) -> Duration;

    /// A value that no other acquisition has, of any client and any process of it: 20 bytes as hexadecimal text.
    fn mark(&self) -> String;
}

//! Time and random values for a lock.

use std::future::Future;
use std::time::Duration;

/// All parts of a lock that need the same time share one clock; a clone reads the same clock and continues the same random draws.
///
/// The client passes it to the lock, so that the time may be virtual or wrong, and so that a seed repeats every draw.
pub trait Clock: Clone + Send + Sync + 'static {
    /// A reading of the clock. Only differences mean anything; if it is the time of day, later readings may be smaller.
    fn now(&self) -> Duration;

    fn sleep(&self, length: Duration) -> impl Future<Output = ()> + Send;

    /// A length drawn uniformly from the range, both ends included.
    fn draw(&self, range: (Duration, Duration)) -> Duration;

    /// A value unique to one acquisition, among all clients and all their processes: 20 bytes as hexadecimal text.
    fn mark(&self) -> String;
}

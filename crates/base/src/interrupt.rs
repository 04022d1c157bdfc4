//! Interrupts from the user. All stages handle them in the same way.
//!
//! A stage is a future, and an interrupted one is dropped. So a stage does not own what it makes. Its caller does, and heals or
//! removes it, however the stage ended.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// True once the user wants to stop. Clones share the state.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<bool>);

/// The stage was interrupted because the user wants to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupt {
    /// An interrupt and its sender. Sending `true` raises the interrupt.
    pub fn new() -> (watch::Sender<bool>, Interrupt) {
        let (sender, receiver) = watch::channel(false);
        (sender, Interrupt(receiver))
    }

    /// An interrupt that is raised together with this one, or after this time at the latest. Must be called in a runtime.
    pub fn or_after(&self, limit: Duration) -> Interrupt {
        let earlier = self.clone();
        Interrupt::raised_by(async move {
            tokio::select! {
                biased;
                () = earlier.raised() => {}
                () = sleep(limit) => {}
            }
        })
    }

    /// An interrupt that is raised this much later than this one. Must be called in a runtime.
    pub fn later_by(&self, grace: Duration) -> Interrupt {
        let earlier = self.clone();
        Interrupt::raised_by(async move {
            earlier.raised().await;
            sleep(grace).await;
        })
    }

    fn raised_by(cause: impl Future<Output = ()> + Send + 'static) -> Interrupt {
        let (sender, interrupt) = Interrupt::new();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = cause => {
                    sender.send_replace(true);
                }
                // All receivers are gone.
                () = sender.closed() => {}
            }
        });
        interrupt
    }

    pub fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the user wants to stop. Never resolves if the sender is gone.
    pub async fn raised(&self) {
        if self.0.clone().wait_for(|raised| *raised).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Runs a stage and returns its result. If the user wants to stop, the stage ends at once, or does not even begin.
    pub async fn unless<T>(&self, stage: impl Future<Output = T>) -> Result<T, Interrupted> {
        if self.is_raised() {
            return Err(Interrupted);
        }
        self.with(std::future::ready(()), stage).await
    }

    /// Runs a stage and returns its result. If the user wants to stop, the stage may take this much longer.
    pub async fn within<T>(&self, grace: Duration, stage: impl Future<Output = T>) -> Result<T, Interrupted> {
        self.with(sleep(grace), stage).await
    }

    /// Runs a stage and returns its result. If the user wants to stop, `patience` begins, and the stage is dropped when
    /// `patience` ends.
    pub async fn with<T>(
        &self,
        patience: impl Future<Output = ()>,
        stage: impl Future<Output = T>,
    ) -> Result<T, Interrupted> {
        let cut = async {
            self.raised().await;
            patience.await;
        };
        tokio::select! {
            // A stage that completes at the same moment counts as complete.
            biased;
            outcome = stage => Ok(outcome),
            () = cut => Err(Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::Instant;

    use super::*;

    const LATER: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_stage_ends_when_it_is_done_or_when_the_user_wants() {
        let (sender, interrupt) = Interrupt::new();
        assert_eq!(interrupt.unless(sleep(LATER)).await, Ok(()), "nobody wants to stop");
        let began = Instant::now();
        let raise = async {
            sleep(LATER).await;
            sender.send_replace(true);
            pending::<()>().await;
        };
        assert_eq!(interrupt.unless(raise).await, Err(Interrupted));
        assert_eq!(began.elapsed(), LATER);
        assert_eq!(interrupt.unless(async { unreachable!("it must not begin") }).await, Err::<(), _>(Interrupted));
        assert_eq!(interrupt.within(LATER, ready(7)).await, Ok(7), "it is not held up either");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stage_has_its_grace_from_the_interrupt_on_and_no_longer() {
        let (sender, interrupt) = Interrupt::new();
        assert_eq!(interrupt.within(LATER / 5, sleep(LATER)).await, Ok(()), "there was no interrupt");
        sender.send_replace(true);
        assert_eq!(interrupt.within(LATER, sleep(LATER / 5)).await, Ok(()));
        let began = Instant::now();
        assert_eq!(interrupt.within(LATER / 5, sleep(LATER)).await, Err(Interrupted));
        assert_eq!(began.elapsed(), LATER / 5);
        assert_eq!(interrupt.with(pending(), sleep(LATER)).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_may_follow_another_or_the_time() {
        let (sender, interrupt) = Interrupt::new();
        let (limited, later) = (interrupt.or_after(LATER), interrupt.later_by(LATER));
        assert_eq!(limited.unless(sleep(LATER / 2)).await, Ok(()), "its time is not over");
        assert_eq!(limited.unless(sleep(LATER)).await, Err(Interrupted), "it is now");
        assert!(!interrupt.is_raised() && !later.is_raised());
        let limited = interrupt.or_after(LATER);
        let began = Instant::now();
        sender.send_replace(true);
        limited.raised().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(later.unless(sleep(LATER / 2)).await, Ok(()));
        later.raised().await;
        assert_eq!(began.elapsed(), LATER);
    }

    #[tokio::test(start_paused = true)]
    async fn without_anybody_to_raise_it_nothing_is_interrupted() {
        let (sender, interrupt) = Interrupt::new();
        drop(sender);
        assert_eq!(interrupt.unless(sleep(LATER)).await, Ok(()));
        let (sender, interrupt) = Interrupt::new();
        sender.send_replace(true);
        drop(sender);
        assert_eq!(interrupt.unless(sleep(LATER)).await, Err(Interrupted), "it was raised before");
    }
}

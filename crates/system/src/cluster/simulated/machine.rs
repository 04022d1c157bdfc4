//! A client's view of its simulated machine: its clocks, its connections to servers, and that it stands still while paused.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;

use super::stream::SimulatedStream;
use super::world::{Waiting, What, World, WorldState};
use base::machine::{Machine, Stream};

#[derive(Clone)]
pub(super) struct Inside {
    pub world: Arc<World>,
    pub address: Ipv4Addr,
    /// None for a process that is not a member, which no fault reaches.
    pub pid: Option<u32>,
}

#[async_trait]
impl Machine for Inside {
    fn monotonic(&self) -> Duration {
        self.world.change(|state| state.monotonic())
    }

    fn wall(&self) -> Duration {
        self.world.change(|state| state.clocks(self.address).wall)
    }

    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        let host: Ipv4Addr = host.parse().map_err(|_| io::Error::other(format!("there is no machine {host}")))?;
        let to = SocketAddrV4::new(host, port);
        let stream = SimulatedStream::open(self.clone(), to);
        stream.connected().await?;
        Ok(Box::new(stream) as Box<dyn Stream>)
    }
}

impl Inside {
    /// Does the work unless the process is paused; then the task is woken when the process continues.
    pub fn unless_stopped<T>(
        &self,
        part: Waiting,
        context: &Context<'_>,
        work: impl FnOnce(&mut WorldState) -> Poll<T>,
    ) -> Poll<T> {
        self.world.change(|state| if self.stands_still(state, part, context) { Poll::Pending } else { work(state) })
    }

    fn stands_still(&self, state: &mut WorldState, part: Waiting, context: &Context<'_>) -> bool {
        let running = self.pid.and_then(|pid| state.running(self.address).filter(|running| running.pid == pid));
        let Some(running) = running.filter(|running| running.stopped) else { return false };
        if let What::Client { waiting, .. } = &mut running.what
            && !waiting.iter().any(|(_, waker)| waker.will_wake(context.waker()))
        {
            waiting.push((part, context.waker().clone()));
        }
        true
    }
}

/// A task that does nothing while its process is paused.
pub(super) struct Stoppable<F: ?Sized> {
    pub inside: Inside,
    pub work: Pin<Box<F>>,
}

impl<F: Future + ?Sized> Future for Stoppable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.inside.unless_stopped(Waiting::Program, context, |_| Poll::Ready(())) {
            Poll::Ready(()) => self.work.as_mut().poll(context),
            Poll::Pending => Poll::Pending,
        }
    }
}

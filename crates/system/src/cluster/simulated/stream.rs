//! A client's end of a simulated connection.

use std::io;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::machine::Inside;
use super::world::Waiting;

/// Closes its connection when dropped.
pub(super) struct SimulatedStream {
    inside: Inside,
    link: u64,
}

impl SimulatedStream {
    /// Starts to open a connection.
    pub fn open(inside: Inside, to: SocketAddrV4) -> SimulatedStream {
        let link = inside.world.change(|state| state.connect_task(inside.address, to));
        SimulatedStream { inside, link }
    }

    /// Resolves once the connection is open or was refused; never, while the network is silent.
    pub async fn connected(&self) -> io::Result<()> {
        std::future::poll_fn(|context| {
            self.inside
                .unless_stopped(Waiting::Connection, context, |state| state.network.poll_connected(self.link, context))
        })
        .await
    }
}

impl AsyncRead for SimulatedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.inside
            .unless_stopped(Waiting::Connection, context, |state| state.network.poll_read(self.link, context, into))
    }
}

impl AsyncWrite for SimulatedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inside
            .unless_stopped(Waiting::Connection, context, |state| Poll::Ready(state.send_from_task(self.link, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inside.world.change(|state| state.close_from_task(self.link));
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimulatedStream {
    fn drop(&mut self) {
        self.inside.world.change(|state| state.close_from_task(self.link));
    }
}

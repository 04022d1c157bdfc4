//! A connection whose other end takes what it asked for. Who asks and does not read would keep its place for ever, and there are
//! only so many.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// For so long, nothing may be taken of an answer.
const LIMIT: Duration = Duration::from_secs(10);
/// How much of an answer the kernel keeps, which counts as taken, in bytes. It asks for more only once a good part has gone: so who
/// takes a byte now and then has taken nothing.
const KEPT: usize = 64 << 10;

/// A connection with that limit on what is written to it.
pub(super) struct Patience {
    stream: TcpStream,
    /// When it is over, if something waits to be taken.
    over: Pin<Box<Sleep>>,
    waits: bool,
}

impl Patience {
    pub fn with(stream: TcpStream) -> Patience {
        // With more the limit only gets stricter for slow readers.
        let _ = set_socket_send_buffer_size(&stream, KEPT);
        Patience { stream, over: Box::pin(sleep(LIMIT)), waits: false }
    }

    /// What became of an attempt to write: an error once nothing was taken for too long.
    fn limited<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !self.waits {
            self.waits = true;
            self.over.as_mut().reset(Instant::now() + LIMIT);
        }
        ready!(self.over.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patience {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patience {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.limited(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

//! A connection with a time limit for its reader. A client that sends requests and does not read would occupy its place for
//! ever, and places are limited.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// The longest time in which the client may read nothing of an answer.
const LIMIT: Duration = Duration::from_secs(10);
/// How many bytes of an answer the kernel buffers; these count as read. The kernel asks for more only after a good part was
/// read. So a client that reads single bytes counts as reading nothing.
const KEPT: usize = 64 << 10;

/// A connection with that limit on writes.
pub(super) struct Patience {
    stream: TcpStream,
    /// Fires at the time limit, if data waits to be read.
    over: Pin<Box<Sleep>>,
    waits: bool,
}

impl Patience {
    pub fn with(stream: TcpStream) -> Patience {
        // If this fails, the buffer stays larger. Then the limit is stricter for slow readers.
        let _ = set_socket_send_buffer_size(&stream, KEPT);
        Patience { stream, over: Box::pin(sleep(LIMIT)), waits: false }
    }

    /// The result of an attempt to write. An error if the client read nothing for too long.
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

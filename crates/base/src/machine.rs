//! The machine that a client runs on: its clocks, and its network to servers.
//!
//! The caller passes a machine to each client. A client in its own process uses the kernel's clocks and network. A client that
//! is one of several tasks may have a virtual machine. Waits and time limits use the runtime's clock.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisResult};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A client's view of clocks and network.
#[async_trait]
pub trait Machine: Send + Sync {
    /// CLOCK_MONOTONIC.
    fn monotonic(&self) -> Duration;

    /// The time since 1970.
    fn wall(&self) -> Duration;

    /// Connects to a Redis server. Clients of other systems use only the kernel's network.
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>>;
}

/// The machine that this process runs on.
pub struct ThisMachine;

#[async_trait]
impl Machine for ThisMachine {
    fn monotonic(&self) -> Duration {
        let time = clock_gettime(ClockId::Monotonic);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn wall(&self) -> Duration {
        // Uses libc, so that the fault `clock` can change the time.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(TcpStream::connect((host, port)).await?) as Box<dyn Stream>)
    }
}

/// The address of a Redis server, and the machine that connects to it.
#[derive(Clone)]
pub struct Address {
    machine: Arc<dyn Machine>,
    host: String,
    port: u16,
    /// The user, the password and the database for the connection.
    pub greeting: RedisConnectionInfo,
}

impl Address {
    /// Parses a `redis://` URL. Fails only if the URL is invalid.
    pub fn of(url: &str, machine: &Arc<dyn Machine>) -> Result<Address, String> {
        let info = url.into_connection_info().map_err(|error| format!("{url}: {error}"))?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(format!("{url}: expected redis://HOST:PORT"));
        };
        let (host, greeting) = (host.clone(), info.redis_settings().clone());
        Ok(Address { machine: Arc::clone(machine), host, port: *port, greeting })
    }

    pub async fn connect(&self) -> RedisResult<Box<dyn Stream>> {
        Ok(self.machine.connect(&self.host, self.port).await?)
    }
}

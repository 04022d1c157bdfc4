//! Connections to servers, with or without TLS. Each error is a sentence with a remedy, without any secret.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::access::Access;
use crate::address::{Address, HOW_TO_GIVE_A_PASSWORD};
use crate::resp::Resp;

/// In TLS 1.3, a server rejects a client's certificate only after the handshake.
pub const CLOSED_TLS: &str =
    "The server closes the TLS connection. If it wants a client certificate, give --cert FILE and --key FILE.";

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects. Returns the stream and its local address.
pub async fn connect(
    address: &Address,
    tls: Option<&TlsConnector>,
    until: Instant,
) -> Result<(Box<dyn Stream>, Option<SocketAddr>), String> {
    let dial = TcpStream::connect((address.host.as_str(), address.port));
    let tcp = match timeout_at(until, dial).await {
        Ok(Ok(tcp)) => tcp,
        Ok(Err(error)) => return Err(not_connected(&error)),
        Err(_) => return Err("No connection in time. Check the address, and firewalls on the way.".to_string()),
    };
    let _ = tcp.set_nodelay(true);
    let local = tcp.local_addr().ok();
    let Some(tls) = tls.filter(|_| address.tls) else { return Ok((Box::new(tcp), local)) };
    let name = ServerName::try_from(address.host.clone())
        .map_err(|_| "The host's name cannot be in a certificate.".to_string())?;
    match timeout_at(until, tls.connect(name, tcp)).await {
        Ok(Ok(stream)) => Ok((Box::new(stream), local)),
        Ok(Err(error)) => Err(no_tls(&error)),
        Err(_) => Err("No TLS handshake in time. Does this port speak TLS?".to_string()),
    }
}

/// Connects within `limit`, authenticates, and selects the address's database. Returns the stream, which is ready for commands, and
/// its local address.
pub async fn open(
    address: &Address,
    access: &Access,
    tls: Option<&TlsConnector>,
    limit: Duration,
) -> Result<(Box<dyn Stream>, Option<SocketAddr>), String> {
    let until = Instant::now() + limit;
    let (mut stream, local) = connect(address, tls, until).await?;
    let mut ask = async |words: &[Vec<u8>]| match timeout_at(until, ask(&mut stream, words)).await {
        Ok(Ok(reply)) => Ok(reply.as_error()),
        Ok(Err(_)) if address.tls => Err(CLOSED_TLS.to_string()),
        Ok(Err(error)) => Err(format!("The server ends the connection: {error}.")),
        Err(_) => Err("The server accepts the connection but does not answer in time.".to_string()),
    };
    if let Some(auth) = access.auth(address)
        && let Some(error) = ask(&auth).await?
        && let Some(rejection) = access.rejection(address, &error)
    {
        return Err(rejection);
    }
    let select = [b"SELECT".to_vec(), address.database.to_string().into_bytes()];
    let ping = [b"PING".to_vec()];
    match ask(if address.database > 0 { &select } else { &ping }).await? {
        Some(error) if error.starts_with("NOAUTH") => {
            Err(format!("The server asks for a password. To give it, {HOW_TO_GIVE_A_PASSWORD}."))
        }
        Some(error) if address.database > 0 => {
            Err(format!("The server refuses database {}: {}.", address.database, access.clean(&error)))
        }
        // A user who may not PING may still acquire locks.
        _ => Ok((stream, local)),
    }
}

/// The server's reply to a command, on a connection without other pending commands.
pub async fn ask<W: AsRef<[u8]>>(stream: &mut (impl Stream + ?Sized), words: &[W]) -> io::Result<Resp> {
    stream.write_all(&packed(words)).await?;
    stream.flush().await?;
    let mut bytes = Vec::new();
    loop {
        if let Some((reply, _)) = Resp::parse(&bytes).map_err(io::Error::other)? {
            return Ok(reply);
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A command in the form that clients send (RESP).
pub fn packed<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn not_connected(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "The connection is refused. Check that a server listens on this port.".to_string()
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "This machine has no route to the address. Check the address and the network.".to_string()
        }
        _ => format!("No connection: {error}. Check the address."),
    }
}

fn no_tls(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => format!(
            "The server's certificate is rejected ({why}). Give its authority with --ca FILE, or use the name that the \
             certificate has."
        ),
        Some(rustls::Error::InvalidMessage(_)) => {
            "The server does not speak TLS on this port. Use redis:// there.".to_string()
        }
        Some(rustls::Error::AlertReceived(alert)) => format!(
            "The server ends the TLS handshake ({alert:?}). If it wants a client certificate, give --cert and --key."
        ),
        _ => format!("The TLS handshake fails: {error}."),
    }
}

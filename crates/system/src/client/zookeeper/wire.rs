//! The part of ZooKeeper's protocol that the lock needs: big-endian numbers, and strings and frames with a length prefix. It has
//! no watches, transactions or authentication.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The request number of pings and of their answers.
pub const PING: i32 = -2;

/// Far above a server's limit, which is one megabyte by default.
const LONGEST_FRAME: usize = 16 << 20;

/// Codes of the errors that matter to the lock or the session.
const NO_NODE: i32 = -101;
const NODE_EXISTS: i32 = -110;
const SESSION_EXPIRED: i32 = -112;
const SESSION_MOVED: i32 = -118;

/// Why a request got no answer, or an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("no such node")]
    NoNode,
    #[error("the node exists")]
    NodeExists,
    #[error("the session is over")]
    SessionOver,
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Other(error.to_string())
    }
}

/// The error for a record that ends too early.
fn cut_short(_: bytes::TryGetError) -> Trouble {
    Trouble::Other("an answer is incomplete".into())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZooKeeperRequest {
    /// Lists the names of this node's children.
    Children(String),
    /// Creates a node that outlives its session, at exactly this path.
    CreateLasting(String),
    /// Creates a node that vanishes with its session, at this path plus a number that the server appends.
    CreateNumbered(String),
    /// Removes this node, whatever its version.
    Delete(String),
    Ping,
    CloseSession,
}

impl ZooKeeperRequest {
    /// The request as a frame. Answers come back in the order of the requests, each with its request's number.
    pub fn frame(&self, number: i32) -> Bytes {
        let mut record = BytesMut::new();
        record.put_i32(number);
        match self {
            ZooKeeperRequest::Delete(path) => {
                record.put_i32(2);
                put(&mut record, path.as_bytes());
                record.put_i32(-1);
            }
            ZooKeeperRequest::Children(path) => {
                record.put_i32(8);
                put(&mut record, path.as_bytes());
                // No watch.
                record.put_u8(0);
            }
            ZooKeeperRequest::CreateLasting(path) => put_create(&mut record, path, 0),
            // Ephemeral and sequential.
            ZooKeeperRequest::CreateNumbered(path) => put_create(&mut record, path, 1 | 2),
            ZooKeeperRequest::Ping => record.put_i32(11),
            ZooKeeperRequest::CloseSession => record.put_i32(-11),
        }
        framed(&record)
    }
}

/// Creates a node without content that any client may change. This request (since 3.5) also returns the node's metadata.
fn put_create(record: &mut BytesMut, path: &str, flags: i32) {
    record.put_i32(15);
    put(record, path.as_bytes());
    put(record, b"");
    record.put_i32(1);
    record.put_i32(0b11111);
    put(record, b"world");
    put(record, b"anyone");
    record.put_i32(flags);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub number: i32,
    /// The newest transaction the server knows.
    pub zxid: i64,
    pub content: Result<Bytes, Trouble>,
}

impl Response {
    pub fn read(mut frame: Bytes) -> Result<Response, Trouble> {
        let number = frame.try_get_i32().map_err(cut_short)?;
        let zxid = frame.try_get_i64().map_err(cut_short)?;
        let content = match frame.try_get_i32().map_err(cut_short)? {
            0 => Ok(frame),
            NO_NODE => Err(Trouble::NoNode),
            NODE_EXISTS => Err(Trouble::NodeExists),
            SESSION_EXPIRED | SESSION_MOVED => Err(Trouble::SessionOver),
            code => Err(Trouble::Other(format!("the server answers error {code}"))),
        };
        Ok(Response { number, zxid, content })
    }
}

/// The names in the answer to [`ZooKeeperRequest::Children`].
pub fn names(mut content: Bytes) -> Result<Vec<String>, Trouble> {
    let count = content.try_get_i32().map_err(cut_short)?;
    (0..count).map(|_| take_text(&mut content)).collect()
}

/// The path of a created node, and the transaction that created it.
pub fn created(mut content: Bytes) -> Result<(String, i64), Trouble> {
    let path = take_text(&mut content)?;
    Ok((path, content.try_get_i64().map_err(cut_short)?))
}

/// A client's first message and the server's answer: the session, and how long the servers keep it if it is silent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The session's id; 0 means none.
    pub session: i64,
    pub password: Bytes,
    pub timeout_ms: i32,
}

impl Hello {
    /// The frame that asks a server for this session (a new one if its id is 0). The server must know transaction `zxid`.
    pub fn frame(&self, zxid: i64) -> Bytes {
        let mut record = BytesMut::new();
        // The protocol's only version.
        record.put_i32(0);
        record.put_i64(zxid);
        record.put_i32(self.timeout_ms);
        record.put_i64(self.session);
        put(&mut record, &self.password);
        // Refuse read-only servers, which have lost contact with the others.
        record.put_u8(0);
        framed(&record)
    }

    pub fn read(mut frame: Bytes) -> Result<Hello, Trouble> {
        let _version = frame.try_get_i32().map_err(cut_short)?;
        let timeout_ms = frame.try_get_i32().map_err(cut_short)?;
        let session = frame.try_get_i64().map_err(cut_short)?;
        Ok(Hello { session, timeout_ms, password: take(&mut frame)? })
    }
}

fn framed(record: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    put(&mut frame, record);
    frame.freeze()
}

fn put(record: &mut BytesMut, content: &[u8]) {
    // No content here is nearly long enough to overflow.
    record.put_i32(i32::try_from(content.len()).unwrap_or(i32::MAX));
    record.put_slice(content);
}

fn take(record: &mut Bytes) -> Result<Bytes, Trouble> {
    // A negative length means no content.
    let length = usize::try_from(record.try_get_i32().map_err(cut_short)?).unwrap_or(0);
    if length > record.len() {
        return Err(Trouble::Other("an answer is incomplete".into()));
    }
    Ok(record.split_to(length))
}

fn take_text(record: &mut Bytes) -> Result<String, Trouble> {
    String::from_utf8(take(record)?.into()).map_err(|error| Trouble::Other(error.to_string()))
}

/// A connection that carries frames.
pub struct Frames {
    stream: TcpStream,
    received: BytesMut,
}

impl Frames {
    pub async fn connect(server: &str) -> io::Result<Frames> {
        Ok(Frames::on(TcpStream::connect(server).await?))
    }

    pub fn on(stream: TcpStream) -> Frames {
        // Otherwise a ping in flight would delay a request.
        let _ = stream.set_nodelay(true);
        Frames { stream, received: BytesMut::new() }
    }

    pub async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.stream.write_all(frame).await
    }

    /// The next frame, without its length. Nothing is lost if the wait is cancelled.
    pub async fn next(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(prefix) = self.received.first_chunk() {
                let length = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
                if length > LONGEST_FRAME {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the server does not speak ZooKeeper"));
                }
                if self.received.len() >= 4 + length {
                    self.received.advance(4);
                    return Ok(self.received.split_to(length).freeze());
                }
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_the_protocol_has_them() {
        let frame = ZooKeeperRequest::Children("/k".into()).frame(7);
        assert_eq!(&frame[..], b"\0\0\0\x0f\0\0\0\x07\0\0\0\x08\0\0\0\x02/k\0");
        let frame = ZooKeeperRequest::Delete("/k".into()).frame(1);
        assert_eq!(&frame[..], b"\0\0\0\x12\0\0\0\x01\0\0\0\x02\0\0\0\x02/k\xff\xff\xff\xff");
        let flags = |request: ZooKeeperRequest| request.frame(1).last().copied();
        assert_eq!(flags(ZooKeeperRequest::CreateLasting("/k".into())), Some(0));
        assert_eq!(flags(ZooKeeperRequest::CreateNumbered("/k/n-".into())), Some(3));
    }

    #[test]
    fn an_answer_is_content_or_an_error() {
        let answer = |code: i32, content: &[u8]| {
            let mut frame = BytesMut::new();
            frame.put_i32(5);
            frame.put_i64(33);
            frame.put_i32(code);
            frame.put_slice(content);
            Response::read(frame.freeze()).unwrap()
        };
        let listed = answer(0, b"\0\0\0\x02\0\0\0\x01a\0\0\0\x02bc");
        assert_eq!((listed.number, listed.zxid), (5, 33));
        assert_eq!(names(listed.content.unwrap()).unwrap(), ["a", "bc"]);
        let made = answer(0, b"\0\0\0\x01a\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x09");
        assert_eq!(created(made.content.unwrap()), Ok(("a".into(), 9)));
        for (code, trouble) in [(-101, Trouble::NoNode), (-110, Trouble::NodeExists), (-112, Trouble::SessionOver)] {
            assert_eq!(answer(code, b"").content, Err(trouble));
        }
        assert!(answer(-4, b"").content.unwrap_err().to_string().contains("-4"));
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        for content in [&b""[..], b"\0\0\0\x01", b"\0\0\0\x01\0\0\0\x02a"] {
            assert!(names(Bytes::from_static(content)).is_err(), "{content:?}");
        }
        assert!(created(Bytes::from_static(b"\0\0\0\x01a\0\0")).is_err());
        assert!(Response::read(Bytes::from_static(b"\0\0\0\x01")).is_err());
        assert!(Hello::read(Bytes::from_static(b"\0\0\0\0\0\0\0\x01")).is_err());
    }
}

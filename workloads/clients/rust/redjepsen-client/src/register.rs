//! The resource that the lock protects: texts in a separate Redis (docs/resources.md), read and written over one
//! connection.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit of a request. Generous, because the resource is not under test.
const LIMIT: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(20);
/// The maximum length of a text that is accepted from the resource, in bytes.
const LONGEST: usize = 1 << 20;

/// The reason why there is no answer.
#[derive(Debug)]
pub enum Trouble {
    /// The server replied with an error: nothing was done.
    Refused(String),
    /// It is unknown whether the request was executed, if one was sent.
    Connection(io::Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Refused(text) => f.write_str(text),
            Trouble::Connection(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Connection(error)
    }
}

/// After an error the connection is closed and never used again: a late reply would look like the reply to the next
/// request.
pub struct Register {
    address: String,
    connection: Option<BufReader<TcpStream>>,
    /// The server's id of the connection.
    number: Option<String>,
}

impl Register {
    pub fn new(url: &str) -> Result<Register, String> {
        let address = url.strip_prefix("redis://").map(|rest| rest.trim_end_matches('/'));
        let address = address.ok_or_else(|| format!("the resource is at {url}, not at a redis:// URL"))?.to_string();
        Ok(Register { address, connection: None, number: None })
    }

    /// Connects if there is no connection. An error means that nothing was sent.
    pub fn connect(&mut self) -> Result<(), Trouble> {
        if self.connection.is_some() {
            return Ok(());
        }
        let address = self.address.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other(format!("{} has no address", self.address)))?;
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        self.connection = Some(BufReader::new(stream));
        self.number = self.ask(&["CLIENT", "ID"])?;
        Ok(())
    }

    pub fn read(&mut self, key: &str) -> Result<Option<String>, Trouble> {
        self.ask(&["GET", key])
    }

    pub fn write(&mut self, key: &str, new: &str) -> Result<(), Trouble> {
        self.ask(&["SET", key, new]).map(|_| ())
    }

    /// Returns whether nothing that was sent on the broken connection can arrive any more: the server has closed it.
    pub fn cut_off(&mut self, within: Duration) -> bool {
        let Some(number) = self.number.clone() else { return true };
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            match self.ask(&["CLIENT", "KILL", "ID", &number]) {
                Ok(_) => return true,
                Err(_) => sleep(AGAIN),
            }
        }
        false
    }

    /// Sends one request and returns its answer; numbers are returned as texts.
    fn ask(&mut self, words: &[&str]) -> Result<Option<String>, Trouble> {
        self.connect()?;
        let outcome = self.exchange(words);
        if matches!(outcome, Err(Trouble::Connection(_))) {
            self.connection = None;
        }
        outcome
    }

    fn exchange(&mut self, words: &[&str]) -> Result<Option<String>, Trouble> {
        let connection = self.connection.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        connection.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(Trouble::Connection(io::ErrorKind::UnexpectedEof.into()));
        };
        let strange = || Trouble::Connection(io::Error::new(io::ErrorKind::InvalidData, line.to_string()));
        match line.split_at_checked(1) {
            Some(("-", text)) => Err(Trouble::Refused(text.to_string())),
            Some((":" | "+", text)) => Ok(Some(text.to_string())),
            Some(("$", "-1")) => Ok(None),
            Some(("$", size)) => {
                let size: usize = size.parse().map_err(|_| strange())?;
                if size > LONGEST {
                    return Err(strange());
                }
                let mut text = vec![0; size + 2];
                connection.read_exact(&mut text)?;
                text.truncate(size);
                Ok(Some(String::from_utf8_lossy(&text).into_owned()))
            }
            _ => Err(strange()),
        }
    }
}

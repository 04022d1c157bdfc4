//! A conversation with one server: questions with time limits, on connections that may break.
//!
//! Questions are sent together and answered in order. If the connection breaks, the remaining questions are asked one by one.
//! So the question for which a proxy closes connections is identified.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use combine::parser::combinator::AnySendSyncPartialState;
use combine::stream::PointerOffset;
use combine::stream::decoder::Decoder;
use remote::{Address, CLOSED_TLS, HOW_TO_GIVE_A_PASSWORD, Stream, connect, packed};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, Take, WriteHalf};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::request::Request;
use crate::values::Answer;

/// The time limit to connect, and for each answer after the one before it.
const CONNECT: Duration = Duration::from_millis(700);
const ANSWER: Duration = Duration::from_millis(500);

/// The largest number of bytes that a server may send on one connection. The longest valid answer is some kilobytes.
const MOST_BYTES: u64 = 16 << 20;

const CLOSED: &str = "The server accepts the connection and does not answer in the Redis protocol. Check the port, and whether \
                      it expects TLS (rediss://).";

/// A command with its arguments.
pub type Question = Vec<Vec<u8>>;

/// A command from a text without spaces inside its words.
pub fn words(text: &str) -> Question {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Makes connections.
#[derive(Clone, Copy)]
pub struct Dialer<'r> {
    pub request: &'r Request,
    pub tls: Option<&'r TlsConnector>,
    /// The name of one of doctor's own keys, which does not exist.
    pub probe: &'r str,
    pub until: Instant,
}

struct Connection {
    reader: Take<ReadHalf<Box<dyn Stream>>>,
    writer: WriteHalf<Box<dyn Stream>>,
    decoder: Decoder<AnySendSyncPartialState, PointerOffset<[u8]>>,
    until: Instant,
    local: Option<SocketAddr>,
}

impl Connection {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = async {
            self.writer.write_all(bytes).await?;
            self.writer.flush().await
        };
        timeout_at(self.until, sent).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn receive(&mut self) -> Answer {
        let until = self.until.min(Instant::now() + ANSWER);
        match timeout_at(until, redis::parse_redis_value_async(&mut self.decoder, &mut self.reader)).await {
            Ok(Ok(value)) => Answer::of(value),
            Ok(Err(_)) => Answer::Closed,
            Err(_) => Answer::Late,
        }
    }

    async fn ask(&mut self, question: &Question) -> Answer {
        match self.send(&packed(question)).await {
            Ok(()) => self.receive().await,
            Err(_) => Answer::Closed,
        }
    }
}

impl Dialer<'_> {
    /// Connects, authenticates, and checks that the server answers. The error is a sentence with a remedy, without any secret.
    async fn open(&self, address: &Address, lazy: bool) -> Result<Connection, String> {
        let mut connection = self.connect(address).await?;
        if !lazy {
            self.authenticate(&mut connection, address).await?;
        }
        let probe = vec![b"GET".to_vec(), self.probe.as_bytes().to_vec()];
        let mut answer = connection.ask(&probe).await;
        // Sentinels often have no password where their servers have one. A password is sent only to a server that asks for it.
        if lazy
            && self.request.access.password.is_some()
            && answer.error().is_some_and(|error| error.starts_with("NOAUTH"))
        {
            self.authenticate(&mut connection, address).await?;
            answer = connection.ask(&probe).await;
        }
        match &answer {
            Answer::Error(error) if error.starts_with("NOAUTH") => {
                return Err(format!("The server asks for a password. To give it, {HOW_TO_GIVE_A_PASSWORD}."));
            }
            Answer::Error(error) if error.starts_with("DENIED") => {
                return Err(
                    "The server is in protected mode and accepts only local clients without a password. Set a \
                            password there, or ask from that machine."
                        .to_string(),
                );
            }
            Answer::Error(error) if error.contains("max number of clients") => {
                return Err(
                    "The server has as many clients as maxclients allows. Raise it, or close connections.".to_string()
                );
            }
            Answer::Error(error) if error.starts_with("LOADING") => {
                return Err("The server is still loading its data. Ask again when it has finished.".to_string());
            }
            Answer::Closed if address.tls => return Err(CLOSED_TLS.to_string()),
            Answer::Closed => return Err(CLOSED.to_string()),
            Answer::Late => {
                return Err(
                    "The server accepts the connection but does not answer in time. Check the port, and whether \
                            it expects TLS (rediss://)."
                        .to_string(),
                );
            }
            _ => {}
        }
        if address.database > 0 {
            let chosen = connection.ask(&words(&format!("SELECT {}", address.database))).await;
            if let Some(error) = chosen.error() {
                let (number, error) = (address.database, self.request.access.clean(error));
                return Err(format!("The server refuses database {number}: {error}."));
            }
        }
        Ok(connection)
    }

    async fn authenticate(&self, connection: &mut Connection, address: &Address) -> Result<(), String> {
        let Some(question) = self.request.access.auth(address) else { return Ok(()) };
        match connection.ask(&question).await {
            Answer::Error(error) => self.request.access.rejection(address, &error).map_or(Ok(()), Err),
            Answer::Said(_) => Ok(()),
            Answer::Closed if address.tls => Err(CLOSED_TLS.to_string()),
            Answer::Closed => Err(CLOSED.to_string()),
            Answer::Late => Err("The server does not answer AUTH in time.".to_string()),
        }
    }

    async fn connect(&self, address: &Address) -> Result<Connection, String> {
        let until = self.until.min(Instant::now() + CONNECT);
        let (stream, local) = connect(address, self.tls, until).await?;
        let (reader, writer) = tokio::io::split(stream);
        let reader = reader.take(MOST_BYTES);
        Ok(Connection { reader, writer, decoder: Decoder::new(), until: self.until, local })
    }
}

/// A conversation that continues when a connection breaks.
pub struct Session<'r> {
    dialer: Dialer<'r>,
    address: Address,
    lazy: bool,
    connection: Option<Connection>,
    local: Option<SocketAddr>,
}

impl<'r> Session<'r> {
    /// Connects. If `lazy`, the password is sent only if the server asks for it.
    pub async fn open(dialer: Dialer<'r>, address: &Address, lazy: bool) -> Result<Session<'r>, String> {
        let connection = dialer.open(address, lazy).await?;
        let local = connection.local;
        Ok(Session { dialer, address: address.clone(), lazy, connection: Some(connection), local })
    }

    /// The local address of the connection.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// Asks all questions at once. Returns one answer per question.
    pub async fn ask(&mut self, questions: &[Question]) -> Vec<Answer> {
        let mut answers = Vec::new();
        if let Some(connection) = &mut self.connection {
            let all: Vec<u8> = questions.iter().flat_map(|question| packed(question)).collect();
            // Questions that were sent may be answered although the rest could not be sent.
            let _ = connection.send(&all).await;
            while answers.len() < questions.len() {
                match connection.receive().await {
                    // Asking one by one shows which question broke the connection.
                    Answer::Closed => {
                        self.connection = None;
                        break;
                    }
                    Answer::Late => {
                        answers.push(Answer::Late);
                        self.connection = None;
                        break;
                    }
                    answer => answers.push(answer),
                }
            }
        }
        for question in &questions[answers.len()..] {
            answers.push(self.ask_one(question).await);
        }
        answers.into_iter().map(|answer| self.cleaned(answer)).collect()
    }

    async fn ask_one(&mut self, question: &Question) -> Answer {
        if Instant::now() >= self.dialer.until {
            return Answer::Late;
        }
        if self.connection.is_none() {
            match self.dialer.open(&self.address, self.lazy).await {
                Ok(connection) => self.connection = Some(connection),
                Err(_) => return Answer::Late,
            }
        }
        let Some(connection) = &mut self.connection else { return Answer::Late };
        let answer = connection.ask(question).await;
        if matches!(answer, Answer::Closed | Answer::Late) {
            self.connection = None;
        }
        answer
    }

    fn cleaned(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Error(text) => Answer::Error(self.dialer.request.access.clean(&text)),
            other => other,
        }
    }

    /// An answer, the time of its question, and the time that it took. For clocks.
    pub async fn timed(&mut self, question: &Question) -> (Answer, std::time::SystemTime, Duration) {
        let (began, clock) = (std::time::SystemTime::now(), Instant::now());
        let answer = self.ask_one(question).await;
        (answer, began, clock.elapsed())
    }
}

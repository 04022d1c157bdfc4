//! One connection to one Redis server: every request has a time limit, and none is retried.
//!
//! If a request gets no answer, its connection is closed and never used again. Otherwise a late reply to the old request would
//! look like the reply to the next one.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Arg, AsyncConnectionConfig, Cmd, FromRedisValue, RedisError};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use base::machine::{Address, Machine};
use model::locks::RequestError;

pub struct Connection {
    address: Address,
    /// Time limit for connecting, and for each request.
    pub limit: Duration,
    /// True to ask the server for the id of each connection.
    numbered: bool,
    open: Mutex<Option<Open>>,
    /// The id of the connection on which a request last got no answer.
    broken: Mutex<Option<u64>>,
}

/// A connection, and its id at the server if known.
struct Open {
    connection: MultiplexedConnection,
    number: Option<u64>,
    /// The task that reads and writes. Dropping it ends the task and the connection at once. The library alone would first wait
    /// for the answers to all pending requests.
    _traffic: JoinSet<()>,
}

/// Pause between two attempts to reach a server.
const TRY_AGAIN: Duration = Duration::from_millis(20);

impl Connection {
    /// Creates a connection to the server at a `redis://` URL; connects at the first request. Fails only if the URL is invalid.
    pub fn new(url: &str, limit: Duration, machine: &Arc<dyn Machine>) -> Result<Connection, String> {
        let address = Address::of(url, machine)?;
        Ok(Connection { address, limit, numbered: false, open: Mutex::new(None), broken: Mutex::new(None) })
    }

    /// Creates a connection that can be [cut off](Connection::cut_off).
    pub fn numbered(self) -> Connection {
        Connection { numbered: true, ..self }
    }

    /// Connects now if there is no connection. An error means that nothing was sent.
    pub async fn connect(&self) -> Result<(), RequestError> {
        let mut slot = self.open.lock().await;
        if slot.is_none() {
            *slot = Some(self.new_connection().await?);
        }
        Ok(())
    }

    /// Sends one request and returns its answer.
    pub async fn request<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RequestError> {
        self.ask(command).await?.map_err(|refusal| RequestError::NotDone(refusal.to_string()))
    }

    /// Sends one request. Returns its answer, or the error by which the server says that it did not carry the request out. A
    /// client's requests follow one another. So the connection is taken out during a request, and put back only if an answer
    /// came.
    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<Result<T, RedisError>, RequestError> {
        let mut slot = self.open.lock().await;
        let open = match slot.take() {
            Some(open) => open,
            None => self.new_connection().await?,
        };
        let number = open.number;
        match answer(command, open, self.limit).await {
            Ok((answer, open)) => {
                *slot = Some(open);
                Ok(answer)
            }
            Err(error) => {
                *self.broken.lock().await = number;
                Err(error)
            }
        }
    }

    /// Waits until the server can carry out nothing more that was sent on the connection that broke last. It asks the server to
    /// close that connection: the server closes it and drops all unread requests, or says that the connection no longer exists.
    /// The server may have carried out requests that arrived before. False if this is still unknown after `within`.
    pub async fn cut_off(&self, within: Duration) -> bool {
        let Some(number) = *self.broken.lock().await else { return false };
        let deadline = Instant::now() + within;
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(number);
        while Instant::now() < deadline {
            if self.request::<u64>(&kill).await.is_ok() {
                return true;
            }
            sleep(TRY_AGAIN).await;
        }
        false
    }

    /// Sends a request about the work of this very connection; fails if the connection is gone.
    pub async fn follow_up<T: FromRedisValue>(&self, command: &Cmd, limit: Duration) -> Result<T, RequestError> {
        let mut slot = self.open.lock().await;
        let gone = || RequestError::NotDone("the connection is closed".to_string());
        let (answer, open) = answer(command, slot.take().ok_or_else(gone)?, limit).await?;
        *slot = Some(open);
        answer.map_err(|refusal| RequestError::NotDone(refusal.to_string()))
    }

    async fn new_connection(&self) -> Result<Open, RequestError> {
        // This type enforces both limits itself. The library's own defaults would be half a second and one second.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let opened = async {
            let stream = self.address.connect().await?;
            let (mut connection, traffic) =
                MultiplexedConnection::new_with_config(&self.address.greeting, stream, config).await?;
            let mut running = JoinSet::new();
            running.spawn(traffic);
            let number = match self.numbered {
                true => {
                    let id = redis::cmd("CLIENT").arg("ID").to_owned();
                    match id.query_async(&mut connection).await {
                        // A server that does not know CLIENT ID has no ids.
                        Err(error) if refused(&id, &error) => None,
                        number => Some(number?),
                    }
                }
                false => None,
            };
            Ok::<_, RedisError>(Open { connection, number, _traffic: running })
        };
        match timeout(self.limit, opened).await {
            Ok(Ok(open)) => Ok(open),
            Ok(Err(error)) => Err(RequestError::NotDone(format!("can't connect: {error}"))),
            Err(_) => {
                Err(RequestError::NotDone(format!("can't connect within {}", humantime::format_duration(self.limit))))
            }
        }
    }
}

/// Returns the connection if an answer came; otherwise closes it.
async fn answer<T: FromRedisValue>(
    command: &Cmd,
    mut open: Open,
    limit: Duration,
) -> Result<(Result<T, RedisError>, Open), RequestError> {
    match timeout(limit, command.query_async(&mut open.connection)).await {
        Err(_) => Err(RequestError::Timeout(limit)),
        Ok(Ok(value)) => Ok((Ok(value), open)),
        Ok(Err(error)) if refused(command, &error) => Ok((Err(error), open)),
        Ok(Err(error)) if error.code().is_some() => Err(RequestError::InDoubt(error.to_string())),
        Ok(Err(error)) => Err(RequestError::ConnectionLost(error.to_string())),
    }
}

/// True if the server itself said that it did not carry the command out: it replied with an error. The error of a script counts
/// only if the script cannot have written before it failed. Any other error leaves the outcome unknown.
fn refused(command: &Cmd, error: &RedisError) -> bool {
    /// Redis checks for these errors before it runs a script, or before the script's first write, but never after that write.
    const BEFORE_WRITES: &[&str] = &[
        "OOM",
        "READONLY",
        "LOADING",
        "MISCONF",
        "NOREPLICAS",
        "BUSY",
        "NOSCRIPT",
        "NOPERM",
        "NOAUTH",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "CROSSSLOT",
        "TRYAGAIN",
        "MOVED",
        "ASK",
    ];
    let Some(code) = error.code() else { return false };
    !is_script(command) || BEFORE_WRITES.contains(&code) || !error.to_string().contains("script")
}

fn is_script(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(word)) if word.eq_ignore_ascii_case(b"EVAL"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use base::machine::ThisMachine;

    const LIMIT: Duration = Duration::from_millis(200);

    /// The server's reply on the connection with this id, or None for no reply. By default, `CLIENT ID` gets the connection's id.
    type Answers = dyn Fn(u64, &str) -> Option<&'static str> + Send + Sync;

    /// A Redis that counts its connections from 1 and never answers a write.
    async fn server(answers: Arc<Answers>) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            for number in 1.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, number, Arc::clone(&answers)));
            }
        });
        let machine: Arc<dyn Machine> = Arc::new(ThisMachine);
        Connection::new(&url, LIMIT, &machine).unwrap().numbered()
    }

    async fn serve(stream: TcpStream, number: u64, answers: Arc<Answers>) {
        let mut stream = BufReader::new(stream);
        while let Ok(command) = read(&mut stream).await {
            let answer = match command.as_str() {
                "SET k v" => continue,
                "CLIENT ID" => answers(number, &command).map_or(format!(":{number}\r\n"), str::to_string),
                other => match answers(number, other) {
                    Some(answer) => answer.to_string(),
                    None => continue,
                },
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    /// The words of one command.
    async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
        let mut words = Vec::new();
        for _ in 0..length(stream).await? {
            let mut word = vec![0; length(stream).await? + 2];
            stream.read_exact(&mut word).await?;
            words.push(String::from_utf8_lossy(&word).trim_end().to_string());
        }
        Ok(words.join(" "))
    }

    /// The number in a header such as `*3` or `$12`.
    async fn length(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        line.trim_end().get(1..).and_then(|number| number.parse().ok()).ok_or(std::io::ErrorKind::UnexpectedEof.into())
    }

    fn write() -> Cmd {
        let mut command = redis::cmd("SET");
        command.arg("k").arg("v");
        command
    }

    #[tokio::test]
    async fn a_write_without_an_answer_is_cut_off_once_the_server_has_closed_its_connection() {
        let connection = server(Arc::new(|number, command| match (number, command) {
            (_, "CLIENT ID") => None,
            // The first attempt gets no answer, so the connection's end is still unknown.
            (2, "CLIENT KILL ID 1") => None,
            (_, "CLIENT KILL ID 1") => Some(":1\r\n"),
            (_, other) => {
                assert!(other.starts_with("CLIENT SETINFO"), "{other}");
                Some("+OK\r\n")
            }
        }))
        .await;
        assert_eq!(connection.request::<()>(&write()).await, Err(RequestError::Timeout(LIMIT)));
        let began = Instant::now();
        assert!(connection.cut_off(Duration::from_secs(10)).await);
        assert!(began.elapsed() >= LIMIT, "not before the server has said so");
    }

    #[tokio::test]
    async fn where_the_server_does_not_say_so_it_is_not_known() {
        let silent = server(Arc::new(|number, command| match (number, command) {
            (1, "CLIENT ID") => None,
            (_, "CLIENT ID") => Some(""),
            _ => Some("+OK\r\n"),
        }))
        .await;
        assert!(silent.request::<()>(&write()).await.is_err());
        assert!(!silent.cut_off(LIMIT * 3).await);

        let without_numbers = server(Arc::new(|_, command| match command {
            "CLIENT ID" => Some("-ERR unknown subcommand 'ID'\r\n"),
            _ => Some("+OK\r\n"),
        }))
        .await;
        assert!(without_numbers.request::<()>(&write()).await.is_err());
        let began = Instant::now();
        assert!(!without_numbers.cut_off(Duration::from_secs(10)).await);
        assert!(began.elapsed() < LIMIT, "there is nothing to wait for");
    }

    #[tokio::test]
    async fn an_error_reply_is_a_refusal_unless_a_script_may_have_written_before_it() {
        let answer_to = |command: &'static str, reply: &'static str| async move {
            let connection = server(Arc::new(move |_, asked| match asked {
                "CLIENT ID" => None,
                other if other.starts_with("CLIENT SETINFO") => Some("+OK\r\n"),
                _ => Some(reply),
            }))
            .await;
            let mut words = command.split(' ');
            let mut asked = redis::cmd(words.next().unwrap());
            words.for_each(|word| _ = asked.arg(word));
            connection.request::<()>(&asked).await
        };
        for (command, reply) in [
            ("SET k w", "-NOREPLICAS Not enough good replicas to write.\r\n"),
            ("SET k w", "-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
            ("SET k w", "-READONLY You can't write against a read only replica.\r\n"),
            ("SET k w", "-MISCONF Redis is configured to save RDB snapshots\r\n"),
            ("SET k w", "-ERR unknown command 'SET'\r\n"),
            ("SET k w", "-WRONGPASS invalid username-password pair\r\n"),
            ("SET k w", "-SOMETHING that no library knows\r\n"),
            ("EVAL s 1 k", "-NOREPLICAS Not enough good replicas to write. script: 1f, on @user_script:1.\r\n"),
            ("EVAL s 1 k", "-READONLY You can't write against a read only replica. script: 1f, on @user_script:1.\r\n"),
            ("EVAL s 1 k", "-NOSCRIPT No matching script.\r\n"),
            ("EVAL s 1 k", "-ERR unknown command 'EVAL'\r\n"),
        ] {
            let answer = answer_to(command, reply).await;
            assert!(matches!(answer, Err(RequestError::NotDone(_))), "{command}: {reply}: {answer:?}");
        }
        for (command, reply) in [
            ("EVAL s 1 k", "-WRONGTYPE Operation against a key of another type script: 1f, on @user_script:2.\r\n"),
            ("EVAL s 1 k", "-ERR Error running script (call to f_1f): @user_script:2: not an integer\r\n"),
            ("EVAL s 1 k", "-SOMETHING that a script made up script: 1f, on @user_script:2.\r\n"),
        ] {
            let answer = answer_to(command, reply).await;
            assert!(matches!(answer, Err(RequestError::InDoubt(_))), "{command}: {reply}: {answer:?}");
        }
        let nonsense = answer_to("SET k w", "?what\r\n").await;
        assert!(matches!(nonsense, Err(RequestError::ConnectionLost(_))), "{nonsense:?}");
    }
}

//! A session with a ZooKeeper ensemble. Pings keep it alive, and it moves to another server if its server is silent or gone.
//!
//! A separate task owns the connection. The task ends with the session: when the last handle is dropped, which closes the
//! session, or when the servers must have expired it.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::wire::{Frames, Hello, PING, Response, Trouble, ZooKeeperRequest};

/// Pause after all servers failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Dropping the last copy closes the session. Its nodes then vanish, even if closing it takes another server.
#[derive(Clone)]
pub struct Session {
    timeout: Duration,
    requests: mpsc::UnboundedSender<PendingRequest>,
}

struct PendingRequest {
    request: ZooKeeperRequest,
    answer: oneshot::Sender<Result<Bytes, Trouble>>,
}

impl Session {
    /// Opens a new session. Tries each of these servers once, beginning at index `first`.
    pub async fn open(servers: &[String], first: usize, timeout: Duration) -> Result<Session, Trouble> {
        let mut keeper = Keeper::new(servers, first, timeout);
        let mut last = Trouble::Other("there are no servers".into());
        for _ in servers {
            match keeper.connect().await {
                Ok(frames) => {
                    let (requests, asked) = mpsc::unbounded_channel();
                    let session = Session { timeout: keeper.timeout, requests };
                    tokio::spawn(keeper.keep(frames, asked));
                    return Ok(session);
                }
                Err(trouble) => last = trouble,
            }
        }
        Err(last)
    }

    /// How long the servers keep the session if the client is silent, as the servers decided.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends one request once. Waits while the session is between two servers.
    pub async fn ask(&self, request: ZooKeeperRequest) -> Result<Bytes, Trouble> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(PendingRequest { request, answer }).map_err(|_| Trouble::SessionOver)?;
        answered.await.map_err(|_| Trouble::Other("the connection was lost before the server answered".into()))?
    }
}

/// The state of the task that owns the session.
struct Keeper {
    servers: Vec<String>,
    /// Index of the server to try next.
    next: usize,
    hello: Hello,
    timeout: Duration,
    /// The newest transaction seen: the session must not move to a server that does not know it yet.
    zxid: i64,
    /// When a server last sent anything.
    heard: Instant,
}

impl Keeper {
    fn new(servers: &[String], first: usize, timeout: Duration) -> Keeper {
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // A session without a number yet has a password of zeros.
        let hello = Hello { session: 0, password: Bytes::from_static(&[0; 16]), timeout_ms };
        let next = first.checked_rem(servers.len()).unwrap_or(0);
        Keeper { servers: servers.to_vec(), next, hello, timeout, zxid: 0, heard: Instant::now() }
    }

    /// How long a server may be silent. Leaves enough time to try another server and get its answer.
    fn patience(&self) -> Duration {
        self.timeout * 2 / 5
    }

    /// How long after the last request a ping is sent. Two pings fit in before a server counts as silent.
    fn quiet(&self) -> Duration {
        self.timeout * 3 / 20
    }

    /// Connects this session to the next server.
    async fn connect(&mut self) -> Result<Frames, Trouble> {
        let server = self.servers.get(self.next).cloned().unwrap_or_default();
        self.next = (self.next + 1) % self.servers.len().max(1);
        let hello = self.hello.frame(self.zxid);
        let said = timeout(self.patience(), async {
            let mut frames = Frames::connect(&server).await?;
            frames.send(&hello).await?;
            let frame = frames.next().await?;
            Ok::<_, Trouble>((Hello::read(frame)?, frames))
        });
        let in_words = |why: String| Trouble::Other(format!("{server}: {why}"));
        let (hello, frames) = match said.await {
            Ok(Ok(said)) => said,
            Ok(Err(trouble)) => return Err(in_words(trouble.to_string())),
            Err(_) => return Err(in_words("no answer".into())),
        };
        let timeout = Duration::from_millis(u64::try_from(hello.timeout_ms).unwrap_or(0));
        // This is the answer for a session that the servers don't know (any more).
        if hello.session == 0 || timeout.is_zero() {
            return Err(Trouble::SessionOver);
        }
        (self.hello, self.timeout, self.heard) = (hello, timeout, Instant::now());
        Ok(frames)
    }

    async fn keep(mut self, mut frames: Frames, mut asked: mpsc::UnboundedReceiver<PendingRequest>) {
        while let Err(trouble) = self.serve(&mut frames, &mut asked).await {
            if trouble == Trouble::SessionOver {
                return;
            }
            // By then the servers have expired the session, with a margin for their clocks.
            let over = self.heard + self.timeout * 7 / 5;
            match timeout_at(over, self.move_on()).await {
                Ok(Ok(found)) => frames = found,
                _ => return,
            }
        }
    }

    /// Looks for a server that accepts the session; has no time limit of its own.
    async fn move_on(&mut self) -> Result<Frames, Trouble> {
        loop {
            for _ in 0..self.servers.len() {
                match self.connect().await {
                    Err(Trouble::Other(_)) => {}
                    found => return found,
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Passes requests to one server until the session is closed. After an error the connection can't be used; pending requests
    /// see their channels close.
    async fn serve(
        &mut self,
        frames: &mut Frames,
        asked: &mut mpsc::UnboundedReceiver<PendingRequest>,
    ) -> Result<(), Trouble> {
        let mut waiting = VecDeque::new();
        let (mut number, mut said) = (0, Instant::now());
        let mut closing = false;
        loop {
            let silent = self.heard + self.patience();
            let (request, answer) = tokio::select! {
                biased;
                frame = frames.next() => {
                    let answer = Response::read(frame?)?;
                    self.heard = Instant::now();
                    if answer.number == PING {
                        continue;
                    }
                    self.zxid = self.zxid.max(answer.zxid);
                    if answer.content == Err(Trouble::SessionOver) {
                        return Err(Trouble::SessionOver);
                    }
                    match waiting.pop_front() {
                        Some((expected, _)) if expected != answer.number => {
                            return Err(Trouble::Other("the answer belongs to another request".into()));
                        }
                        Some((_, Some(sender))) => {
                            let sender: oneshot::Sender<_> = sender;
                            // The caller may have given up meanwhile.
                            let _ = sender.send(answer.content);
                        }
                        // The session is closed.
                        Some((_, None)) => return Ok(()),
                        None => return Err(Trouble::Other("unexpected reply from the server".into())),
                    }
                    continue;
                }
                next = asked.recv(), if !closing => match next {
                    Some(PendingRequest { request, answer }) => (request, Some(answer)),
                    None => {
                        closing = true;
                        (ZooKeeperRequest::CloseSession, None)
                    }
                },
                () = sleep_until(silent.min(said + self.quiet())) => {
                    if Instant::now() >= silent {
                        return Err(Trouble::Other("the server does not answer".into()));
                    }
                    (ZooKeeperRequest::Ping, None)
                }
            };
            let sent = if request == ZooKeeperRequest::Ping {
                PING
            } else {
                number += 1;
                waiting.push_back((number, answer));
                number
            };
            said = Instant::now();
            let frame = request.frame(sent);
            let sending = timeout_at(silent, frames.send(&frame));
            sending.await.map_err(|_| Trouble::Other("the server does not answer".into()))??;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use tokio::net::TcpListener;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(1);

    /// A fake server: accepts connections, one after another.
    struct FakeServer(TcpListener);

    impl FakeServer {
        async fn start() -> (FakeServer, String) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            (FakeServer(listener), address)
        }

        /// Accepts a connection and welcomes it as session `session`. Returns the session that the client asked for.
        async fn welcome(&self, session: i64) -> (Frames, i64) {
            let mut frames = Frames::on(self.0.accept().await.unwrap().0);
            let asked = frames.next().await.unwrap();
            let mut answer = BytesMut::new();
            answer.put_i32(4 + 4 + 8 + 4 + 16);
            answer.put_i32(0);
            answer.put_i32(TIMEOUT.as_millis() as i32);
            answer.put_i64(session);
            answer.put_i32(16);
            answer.put_slice(&[7; 16]);
            frames.send(&answer).await.unwrap();
            (frames, i64::from_be_bytes(asked[16..24].try_into().unwrap()))
        }
    }

    /// The number and kind of the next request that is not a ping. Answers pings.
    async fn request(frames: &mut Frames) -> (i32, i32) {
        loop {
            let frame = frames.next().await.unwrap();
            let number = i32::from_be_bytes(frame[..4].try_into().unwrap());
            if number != PING {
                return (number, i32::from_be_bytes(frame[4..8].try_into().unwrap()));
            }
            answer(frames, PING, b"").await;
        }
    }

    async fn answer(frames: &mut Frames, number: i32, content: &[u8]) {
        let mut answer = BytesMut::new();
        answer.put_i32(16 + content.len() as i32);
        answer.put_i32(number);
        answer.put_i64(1);
        answer.put_i32(0);
        answer.put_slice(content);
        frames.send(&answer).await.unwrap();
    }

    fn children() -> ZooKeeperRequest {
        ZooKeeperRequest::Children("/k".into())
    }

    #[tokio::test]
    async fn it_asks_pings_and_closes() {
        let (server, address) = FakeServer::start().await;
        let client = tokio::spawn(async move {
            let session = Session::open(&[address], 0, TIMEOUT).await.unwrap();
            assert_eq!(session.timeout(), TIMEOUT);
            let first = session.ask(children()).await;
            sleep(TIMEOUT * 2).await;
            (first, session.ask(children()).await)
        });
        let (mut frames, asked) = server.welcome(5).await;
        assert_eq!(asked, 0);
        for content in [b"a", b"b"] {
            let (number, kind) = request(&mut frames).await;
            assert_eq!(kind, 8);
            answer(&mut frames, number, content).await;
        }
        assert_eq!(client.await.unwrap(), (Ok(Bytes::from_static(b"a")), Ok(Bytes::from_static(b"b"))));
        assert_eq!(request(&mut frames).await.1, -11);
    }

    #[tokio::test]
    async fn it_moves_to_another_server_and_is_closed_there() {
        let ((one, first), (other, second)) = (FakeServer::start().await, FakeServer::start().await);
        let client = tokio::spawn(async move {
            let session = Session::open(&[first, second], 0, TIMEOUT).await.unwrap();
            let lost = session.ask(children()).await;
            (lost, session.ask(children()).await)
        });
        let (mut frames, _) = one.welcome(5).await;
        request(&mut frames).await;
        // The first server is silent from here on, with the connection open.
        let (mut moved, asked) = other.welcome(5).await;
        assert_eq!(asked, 5);
        let (number, _) = request(&mut moved).await;
        answer(&mut moved, number, b"b").await;
        let (lost, answered) = client.await.unwrap();
        assert!(lost.unwrap_err().to_string().contains("lost"));
        assert_eq!(answered, Ok(Bytes::from_static(b"b")));
        // A cancelled request is not withdrawn; the end of the session is sent after it.
        drop(moved);
        let (mut frames, asked) = one.welcome(5).await;
        assert_eq!((asked, request(&mut frames).await.1), (5, -11));
    }

    #[tokio::test]
    async fn a_session_that_the_servers_gave_up_is_over() {
        let (server, address) = FakeServer::start().await;
        let client = tokio::spawn(async move {
            let session = Session::open(&[address], 0, TIMEOUT).await.unwrap();
            session.requests.closed().await;
            session.ask(children()).await
        });
        drop(server.welcome(5).await);
        // The server does not know the session.
        let (_frames, asked) = server.welcome(0).await;
        assert_eq!((asked, client.await.unwrap()), (5, Err(Trouble::SessionOver)));
    }

    #[tokio::test]
    async fn without_a_server_there_is_no_session() {
        let (server, address) = FakeServer::start().await;
        drop(server);
        let error = Session::open(std::slice::from_ref(&address), 0, TIMEOUT).await.err().unwrap();
        assert!(error.to_string().starts_with(&address), "{error}");
        assert!(Session::open(&[], 0, TIMEOUT).await.is_err());
    }
}

//! Existing servers as the nodes of a lock.
//!
//! Each node of the cluster is a relay: a member with its own address. To clients, the relay is the server, and faults affect the
//! relay's links. The relay hands each connection to the controller, which authenticates at the real server, with TLS if needed.
//! So no client sees a password, and only commands on keys of the run pass (see `admission`).
//!
//! In a group, the servers' replies name other servers. Clients get the relays' addresses instead (see `announced`).
//!
//! - `admission`: which commands reach the server; `requests`: where each command ends
//! - `places`: which servers a group has; `announced`: the addresses in their replies
//! - `written`: the keys that the run wrote, and their removal
//! - `recorder`: the commands of the run, if the user allows MONITOR

mod admission;
mod announced;
mod places;
mod recorder;
mod requests;
mod written;

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use self::admission::{Admission, Rules};
use self::announced::{Announced, Unanswered};
use self::places::Places;
use self::recorder::Recorder;
use self::written::WrittenKeys;
use super::error::ClusterError;
use super::sandbox::channel::Channel;
use super::spec::{ClusterSpec, Member};
use crate::faults::SeenCommand;
use base::members::{Role, node_name};
use base::sync::lock;
use model::topology::ExistingServers;
use remote::{Access, Address, Resp, Secret, Stream, Tls, packed};

/// Time limit for opening a connection to a server, up to the first command, and for an answer to a removal.
const LIMIT: Duration = Duration::from_secs(5);
const BUFFER: usize = 16 << 10;
/// Sent to the server in place of a refused command. No server knows this command, so it answers with an error, in the order of
/// all other answers.
const REFUSED: &str = "REDJEPSEN.REFUSED";

/// The servers, with their user, password and certificates.
pub struct Existing {
    addresses: Vec<Address>,
    access: Access,
    tls: Option<TlsConnector>,
    servers: ExistingServers,
    /// The servers that the last check found.
    places: Mutex<Places>,
}

impl std::fmt::Debug for Existing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Existing").field(&self.servers).finish()
    }
}

impl Existing {
    /// Reads the files that the settings name: the password, certificates. Does not connect.
    pub fn of(servers: &ExistingServers) -> Result<Existing, ClusterError> {
        let wrong = |reason: String| ClusterError::Existing { reason };
        let addresses: Result<Vec<Address>, _> =
            servers.addresses.iter().map(|text| Address::parse(text, false)).collect();
        let addresses = addresses.map_err(|error| wrong(format!("--server {error}")))?;
        let password = match &servers.password_file {
            Some(file) => Some(Secret::of_file(file).map_err(|error| wrong(error.to_string()))?),
            None => Secret::of_environment(),
        };
        let tls = Tls {
            ca: servers.ca.clone(),
            client: servers.cert.clone().zip(servers.key.clone()),
            insecure: servers.insecure,
        };
        let access = Access { user: servers.user.clone(), password, tls };
        let tls = access.connector(&addresses).map_err(|error| wrong(error.to_string()))?;
        Ok(Existing { addresses, access, tls, servers: servers.clone(), places: Mutex::default() })
    }

    /// The addresses for messages, with the names of the nodes once they are known.
    pub fn shown(&self) -> String {
        let places = lock(&self.places);
        if places.announced.is_empty() {
            return self.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        }
        let nodes = places.nodes.iter().enumerate().map(|(node, address)| format!("n{node} {address}"));
        let sentinels = places.sentinels.iter().enumerate().map(|(sentinel, address)| format!("s{sentinel} {address}"));
        nodes.chain(sentinels).collect::<Vec<_>>().join(", ")
    }

    /// Finds the servers that the cluster's members stand for, and checks that each accepts a connection.
    pub async fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        let refused = |reason: String| ClusterError::Existing { reason };
        let places = places::find(self, &self.addresses, &spec.topology, spec.nodes).await.map_err(refused)?;
        for address in places.nodes.iter().chain(&places.sentinels) {
            let opened = self.open_at(address).await;
            opened.map_err(|reason| refused(format!("--server {address}: {reason}")))?;
        }
        *lock(&self.places) = places;
        Ok(())
    }

    /// A connection to a server, ready for commands.
    async fn open_at(&self, address: &Address) -> Result<Box<dyn Stream>, String> {
        self.open_from(address).await.map(|(stream, _)| stream)
    }

    /// The same, with its local address.
    async fn open_from(&self, address: &Address) -> Result<(Box<dyn Stream>, Option<SocketAddr>), String> {
        remote::open(address, &self.access, self.tls.as_ref(), LIMIT).await
    }
}

/// Removes all keys that the run with this folder left on servers, if it used any servers. The error is a sentence.
pub async fn remove_keys(folder: &Path) -> Result<(), String> {
    written::remove(folder).await
}

/// True if servers may still have keys of the run with this folder.
pub fn has_keys(folder: &Path) -> bool {
    written::is_there(folder)
}

/// The controller's end of all relays of a run.
pub struct Relays {
    existing: Arc<Existing>,
    /// The server of each relay, nodes before Sentinels.
    servers: Vec<Address>,
    /// How many of the servers are nodes.
    nodes: usize,
    /// The addresses that the servers announce; None if they know nothing of each other.
    announced: Option<Announced>,
    /// A text that the name of each key of the run contains.
    mark: String,
    written: WrittenKeys,
    recorder: Recorder,
    /// The reasons why commands were refused, each once.
    refused: Mutex<BTreeSet<String>>,
    conversations: Mutex<JoinSet<()>>,
    /// True once the run is over: conversations then accept no further command.
    over: watch::Sender<bool>,
}

impl Relays {
    /// Starts the relays of a run. `members` are the run's members; its nodes and Sentinels are relays.
    pub fn begin(
        existing: &Arc<Existing>,
        run_id: &str,
        folder: &Path,
        members: &[Member],
    ) -> Result<Arc<Relays>, ClusterError> {
        let places = lock(&existing.places).clone();
        let of_role = |role: Role| members.iter().filter(move |member| member.role == role);
        let relays: Vec<(Ipv4Addr, u16)> = of_role(Role::Node)
            .chain(of_role(Role::Sentinel))
            .filter_map(|member| Some((member.address?, member.server.as_ref()?.port)))
            .collect();
        let announced = (!places.announced.is_empty()).then(|| places.with_relays(&relays));
        let written =
            ExistingServers { addresses: places.nodes.iter().map(Address::url).collect(), ..existing.servers.clone() };
        let written = WrittenKeys::begin(folder, written, announced.is_some());
        let written =
            written.map_err(|error| ClusterError::Existing { reason: format!("{}: {error}", folder.display()) })?;
        Ok(Arc::new(Relays {
            existing: Arc::clone(existing),
            nodes: places.nodes.len(),
            servers: [places.nodes, places.sentinels].concat(),
            announced,
            mark: format!("redjepsen:{run_id}:"),
            written,
            recorder: Recorder::default(),
            refused: Mutex::default(),
            conversations: Mutex::default(),
            over: watch::Sender::new(false),
        }))
    }

    /// Records the commands of the run's clients from now on. The error says why a server cannot be recorded.
    pub async fn record(&self) -> Result<(), String> {
        let nodes = self.servers.iter().take(self.nodes).enumerate();
        let nodes: Vec<_> = nodes.map(|(node, address)| (node_name(node as u32), address.clone())).collect();
        self.recorder.begin(&self.existing, &nodes).await
    }

    /// Ends the recording. Returns the commands with the names of the nodes.
    pub fn recorded(&self) -> Vec<(String, SeenCommand)> {
        self.recorder.end()
    }

    /// The prefix of each key's name, for clients.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The stdin for the relay at index `place`, nodes before Sentinels. From now on, each connection that the relay accepts is
    /// connected to its server.
    pub fn serve(self: &Arc<Relays>, place: usize) -> io::Result<OwnedFd> {
        let (ours, theirs) = Channel::pair()?;
        let (relays, runtime) = (Arc::clone(self), Handle::current());
        // A plain thread. It ends with the relay.
        thread::Builder::new().name("relay".to_string()).spawn(move || {
            while let Ok(Some((_, accepted))) = ours.receive::<SocketAddr>() {
                for client in accepted.into_iter().map(std::net::TcpStream::from) {
                    if let Err(error) = relays.converse(&runtime, place, client) {
                        tracing::warn!("a connection to {} is lost: {error}", relays.server(place));
                    }
                }
            }
        })?;
        Ok(theirs.into())
    }

    fn converse(self: &Arc<Relays>, runtime: &Handle, place: usize, client: std::net::TcpStream) -> io::Result<()> {
        client.set_nonblocking(true)?;
        client.set_nodelay(true)?;
        let _within = runtime.enter();
        let client = TcpStream::from_std(client)?;
        let relays = Arc::clone(self);
        let mut conversations = lock(&self.conversations);
        while conversations.try_join_next().is_some() {}
        conversations.spawn_on(async move { relays.carry(place, client).await }, runtime);
        Ok(())
    }

    /// The address of a relay's server, without secrets.
    pub fn server(&self, place: usize) -> String {
        self.servers.get(place).map(ToString::to_string).unwrap_or_default()
    }

    /// Carries one connection's commands and answers until either end closes it. Then waits until the server has carried out all
    /// commands.
    async fn carry(&self, place: usize, client: TcpStream) {
        let Some(address) = self.servers.get(place) else { return };
        let server = match self.existing.open_from(address).await {
            Ok((server, local)) => {
                self.recorder.note(local, client.peer_addr().ok());
                server
            }
            // The client sees its connection closed, as it would if the server were down.
            Err(reason) => return tracing::warn!("{address}: {reason}"),
        };
        let (mut from_server, mut to_server) = tokio::io::split(server);
        let (from_client, mut to_client) = client.into_split();
        let mut over = self.over.subscribe();
        let unanswered = self.announced.as_ref().map(|_| Mutex::new(Unanswered::default()));
        let ended = tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => Ok(()),
            ended = self.requests(place, from_client, &mut to_server, unanswered.as_ref()) => ended,
            ended = self.replies(place, &mut from_server, &mut to_client, unanswered.as_ref()) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!("{address}: a connection ended: {error}");
        }
        // A server closes a connection once it has carried out all its commands. So after this, nothing more of this connection
        // takes effect.
        let drained = async {
            to_server.shutdown().await?;
            tokio::io::copy(&mut from_server, &mut tokio::io::sink()).await
        };
        if timeout(LIMIT, drained).await.is_err() {
            tracing::warn!("{address}: the server did not close a connection in time");
        }
    }

    async fn requests(
        &self,
        place: usize,
        mut from: OwnedReadHalf,
        to: &mut (impl AsyncWrite + Unpin),
        unanswered: Option<&Mutex<Unanswered>>,
    ) -> io::Result<()> {
        let mut waiting: Vec<u8> = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            waiting.extend(&buffer[..read]);
            let (mut sent, mut at) = (Vec::new(), 0);
            let not_resp = |_| io::Error::other("the client does not send commands as Redis clients do");
            while let Some((words, length)) = requests::first(&waiting[at..]).map_err(not_resp)? {
                let replaced = self.judge(place, &words)?;
                if let Some(unanswered) = unanswered {
                    lock(unanswered).note(replaced.as_ref().unwrap_or(&words));
                }
                match replaced {
                    Some(replaced) => sent.extend(packed(&replaced)),
                    None => sent.extend(&waiting[at..at + length]),
                }
                at += length;
            }
            waiting.drain(..at);
            to.write_all(&sent).await?;
            to.flush().await?;
        }
    }

    /// Carries the server's replies. In a group, replaces the servers' addresses by the relays' addresses.
    async fn replies(
        &self,
        place: usize,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        unanswered: Option<&Mutex<Unanswered>>,
    ) -> io::Result<()> {
        let Some((announced, unanswered)) = self.announced.as_ref().zip(unanswered) else {
            return tokio::io::copy(from, to).await.map(|_| ());
        };
        let mut waiting = Vec::new();
        while from.read_buf(&mut waiting).await? > 0 {
            let (mut sent, mut at) = (Vec::new(), 0);
            while let Some((value, length)) = Resp::parse(&waiting[at..]).map_err(io::Error::other)? {
                announced.in_place_of(value, &mut lock(unanswered), place).write(&mut sent);
                at += length;
            }
            waiting.drain(..at);
            to.write_all(&sent).await?;
        }
        Ok(())
    }

    /// The command to send in place of this command; None to send it unchanged.
    fn judge(&self, place: usize, words: &[Vec<u8>]) -> io::Result<Option<Vec<Vec<u8>>>> {
        let rules = Rules {
            mark: &self.mark,
            database: self.servers.get(place).map_or(0, |address| address.database),
            is_sentinel: place >= self.nodes,
            may_fail_over: self.existing.servers.allow_failover,
        };
        match admission::admit(words, rules) {
            Admission::Pass(keys) => self.written.note(place, keys).map(|()| None),
            Admission::Replace(words) => Ok(Some(words)),
            Admission::Refuse(why) => {
                if lock(&self.refused).insert(why.clone()) {
                    tracing::warn!("redjepsen does not pass this command to {}: {why}", self.existing.shown());
                }
                Ok(Some(vec![REFUSED.into(), why.into_bytes()]))
            }
        }
    }

    /// Waits until the servers have carried out everything that the clients sent, and removes all keys that were written.
    pub async fn close(&self) -> Result<(), ClusterError> {
        self.over.send_replace(true);
        let mut conversations = std::mem::take(&mut *lock(&self.conversations));
        while conversations.join_next().await.is_some() {}
        remove_keys(self.written.folder()).await.map_err(|reason| ClusterError::Existing { reason })
    }
}

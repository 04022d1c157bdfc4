//! How servers other than Redis are started: each server knows the other members of its group from the start.

use std::net::Ipv4Addr;

use super::spec::FILES;
use base::members::node_name;
use model::topology::Program;
use model::topology::server::{DATA, Server, ServerFile};

/// A member of an etcd cluster of these nodes. etcd always syncs its writes.
pub(super) fn etcd(run_id: &str, nodes: &[Ipv4Addr], place: usize) -> Server {
    const PORT: u16 = 2379;
    const PEERS_PORT: u16 = 2380;
    // Half of etcd's defaults. A lease lasts for at least one and a half election timeouts, rounded up to whole seconds. So these
    // values allow leases of one second.
    const HEARTBEAT_MS: u32 = 50;
    const ELECTION_MS: u32 = 500;
    let own = nodes.get(place).copied().unwrap_or(Ipv4Addr::UNSPECIFIED);
    let (client, peer) = (format!("http://{own}:{PORT}"), format!("http://{own}:{PEERS_PORT}"));
    let members = (0..).zip(nodes).map(|(node, address)| format!("{}=http://{address}:{PEERS_PORT}", node_name(node)));
    let name = node_name(u32::try_from(place).unwrap_or(u32::MAX));
    let arguments = [
        ("--name", name),
        ("--data-dir", format!("{DATA}/etcd")),
        ("--listen-client-urls", format!("http://0.0.0.0:{PORT}")),
        ("--advertise-client-urls", client),
        ("--listen-peer-urls", format!("http://0.0.0.0:{PEERS_PORT}")),
        ("--initial-advertise-peer-urls", peer),
        ("--initial-cluster", members.collect::<Vec<_>>().join(",")),
        ("--initial-cluster-state", "new".to_string()),
        ("--initial-cluster-token", run_id.to_string()),
        ("--heartbeat-interval", HEARTBEAT_MS.to_string()),
        ("--election-timeout", ELECTION_MS.to_string()),
        ("--logger", "zap".to_string()),
        ("--log-outputs", "stderr".to_string()),
    ];
    Server {
        program: Program::Etcd,
        arguments: arguments.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect(),
        env: Vec::new(),
        files: Vec::new(),
        data: true,
        port: PORT,
    }
}

/// A member of a ZooKeeper ensemble of these nodes. It syncs a write before it answers.
pub(super) fn zookeeper(nodes: &[Ipv4Addr], place: usize) -> Server {
    const PORT: u16 = 2181;
    // Sessions expire at a multiple of the tick.
    const TICK_MS: u32 = 200;
    // In ticks: how long a member may take to join, and how far it may lag. Joining is slow, since all members start at once.
    const JOIN_TICKS: u32 = 50;
    const LAG_TICKS: u32 = 10;
    let config = format!("{FILES}/zoo.cfg");
    let mut settings = format!(
        "tickTime={TICK_MS}\ninitLimit={JOIN_TICKS}\nsyncLimit={LAG_TICKS}\ndataDir={DATA}\nclientPort={PORT}\n\
         minSessionTimeout={TICK_MS}\nmaxSessionTimeout=3600000\nmaxClientCnxns=0\nadmin.enableServer=false\n\
         4lw.commands.whitelist=srvr\n"
    );
    if nodes.len() > 1 {
        let member = |(number, address): (usize, &Ipv4Addr)| format!("server.{number}={address}:2888:3888\n");
        settings.extend((1..).zip(nodes).map(member));
    }
    let file = |path: String, content: String| ServerFile { path, content };
    Server {
        program: Program::Zookeeper,
        files: vec![file(config.clone(), settings), file(format!("{DATA}/myid"), format!("{}\n", place + 1))],
        arguments: vec![config],
        // ZooKeeper's own start scripts read it.
        env: vec![("JVMFLAGS".to_string(), "-Xmx96m".to_string())],
        data: true,
        port: PORT,
    }
}

/// A PostgreSQL with a table of registers. Its defaults are safe: it syncs a write before it answers.
pub(super) fn postgres() -> Server {
    const PORT: u16 = 5432;
    let (script, rules) = (format!("{FILES}/start-postgres"), format!("{FILES}/pg_hba.conf"));
    let settings = [
        "listen_addresses=*".to_string(),
        format!("port={PORT}"),
        // All connections come over the network.
        "unix_socket_directories=".to_string(),
        format!("hba_file={rules}"),
        // Enough for a hundred clients, the agent, and sessions that have not ended yet.
        "max_connections=250".to_string(),
        "shared_buffers=16MB".to_string(),
        // Works with any size of /dev/shm that an engine sets.
        "dynamic_shared_memory_type=mmap".to_string(),
        "jit=off".to_string(),
    ];
    let settings = settings.map(|setting| format!(" -c '{setting}'")).concat();
    let table = "create table registers (key text primary key, value text)";
    let start = format!(
        "set -eu
data={DATA}/postgres
if [ ! -s $data/PG_VERSION ]; then
  initdb --pgdata $data --username postgres --auth trust --no-locale --encoding UTF8 --wal-segsize 1 --no-sync >&2
  echo '{table}' | postgres --single -D $data postgres >&2
fi
exec postgres -D $data{settings}
"
    );
    let file = |path: &str, content: String| ServerFile { path: path.to_string(), content };
    Server {
        program: Program::Postgres,
        files: vec![file(&script, start), file(&rules, "host all all 0.0.0.0/0 trust\n".to_string())],
        arguments: vec![script],
        env: Vec::new(),
        data: true,
        port: PORT,
    }
}

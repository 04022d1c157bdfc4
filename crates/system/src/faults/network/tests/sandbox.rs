//! A bridge in its own network namespace, and members in their own namespaces.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::topology::REDIS_PORT;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// How long a member waits for another before it counts as cut off.
const PATIENCE: Duration = Duration::from_millis(300);
/// Set if this process may create namespaces.
const MAY: &str = "REDJEPSEN_TEST_MAY_UNSHARE";

pub struct Sandbox {
    members: Vec<RefCell<Holder>>,
}

/// A process that only keeps its network namespace alive.
struct Holder(Child);

/// A connection between members, each end in its own namespace. Reads time out.
#[derive(Debug)]
pub struct SandboxConnection {
    pub client: TcpStream,
    pub server: TcpStream,
}

/// Runs a test with a sandbox, in a thread inside its namespace.
pub fn in_sandbox(members: usize, test: impl FnOnce(&Sandbox) + Send + 'static) {
    if !rustix::process::geteuid().is_root() && std::env::var_os(MAY).is_none() {
        again_as_root();
        return;
    }
    let body = move || {
        let own = Holder::start();
        own.enter();
        let sandbox = Sandbox { members: (0..members).map(|_| RefCell::new(Holder::start())).collect() };
        sandbox.build();
        test(&sandbox);
    };
    if let Err(panic) = thread::spawn(body).join() {
        resume_unwind(panic);
    }
}

/// Runs the same test again, in a user namespace where this user is root.
fn again_as_root() {
    let test = thread::current().name().expect("tests have names").to_string();
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(program).args(["--exact", &test, "--nocapture"]).env(MAY, "1");
    assert!(command.status().unwrap().success(), "{test} failed as root");
}

impl Holder {
    fn start() -> Holder {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "600"]).stdin(Stdio::null()).process_group(0);
        let holder = Holder(command.spawn().expect("unshare (util-linux)"));
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let began = Instant::now();
        while std::fs::read_link(holder.namespace()).unwrap() == own {
            assert!(began.elapsed() < Duration::from_secs(10), "network namespaces can be made");
            thread::sleep(Duration::from_millis(1));
        }
        holder
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Moves the calling thread into this member's namespace.
    fn enter(&self) {
        let namespace = File::open(self.namespace()).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
    }
}

impl Sandbox {
    fn build(&self) {
        let bridge = self.bridge();
        self.run(&format!("ip link set lo up; ip link add {bridge} type bridge; ip link set {bridge} up"));
        (0..self.members.len()).for_each(|member| self.plug(member));
    }

    /// Connects a member to the bridge.
    fn plug(&self, member: usize) {
        let (bridge, pid, address) = (self.bridge(), self.members[member].borrow().0.id(), self.address(member));
        self.run(&format!(
            "ip link add port{member} type veth peer name eth0 netns {pid} \
             && ip link set port{member} master {bridge} up \
             && nsenter -t {pid} -n ip address add {address}/24 dev eth0 \
             && nsenter -t {pid} -n ip link set eth0 up && nsenter -t {pid} -n ip link set lo up"
        ));
    }

    pub fn bridge(&self) -> &'static str {
        "br-members"
    }

    pub fn address(&self, member: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 99, 0, 1 + member as u8)
    }

    /// Runs a line of shell in the sandbox's namespace and returns its output.
    pub fn run(&self, line: &str) -> String {
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Ends a member: its namespace disappears.
    pub fn end(&self, member: usize) {
        self.members[member].borrow_mut().end();
        // The kernel removes its devices a little later.
        self.run(&format!("while ip link show port{member} >/dev/null 2>&1; do sleep 0.01; done"));
    }

    /// Starts a member that has ended. It has the same address, another port of the bridge and another hardware address.
    pub fn start(&self, member: usize) {
        *self.members[member].borrow_mut() = Holder::start();
        self.plug(member);
    }

    /// Runs a job in a member's namespace.
    fn within<T: Send>(&self, member: usize, job: impl FnOnce() -> T + Send) -> T {
        let holder = self.members[member].borrow();
        let namespace = File::open(holder.namespace()).unwrap();
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                job()
            });
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Tries to open a new connection.
    pub fn connect(&self, from: usize, to: usize) -> io::Result<SandboxConnection> {
        self.connect_to_port(from, to, 0)
    }

    /// Opens a connection to Redis's port.
    pub fn connect_to_redis(&self, from: usize, to: usize) -> SandboxConnection {
        let tries = (0..10).find_map(|_| self.connect_to_port(from, to, REDIS_PORT).ok());
        tries.expect("members reach each other")
    }

    fn connect_to_port(&self, from: usize, to: usize, port: u16) -> io::Result<SandboxConnection> {
        let listener = self.within(to, || TcpListener::bind(("0.0.0.0", port)))?;
        let address = SocketAddr::from((self.address(to), listener.local_addr()?.port()));
        let client = self.within(from, || TcpStream::connect_timeout(&address, PATIENCE))?;
        let (server, _) = listener.accept()?;
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE))?;
            end.set_nodelay(true)?;
        }
        Ok(SandboxConnection { client, server })
    }

    /// True if a new connection can be opened, even on a busy machine.
    pub fn connects(&self, from: usize, to: usize) -> bool {
        (0..10).any(|_| self.connect(from, to).is_ok())
    }

    pub fn connection(&self, from: usize, to: usize) -> SandboxConnection {
        let tries = (0..10).find_map(|_| self.connect(from, to).ok());
        tries.expect("members reach each other")
    }

    pub fn receive(&self, member: usize) -> UdpSocket {
        let address = (self.address(member), 0);
        let socket = self.within(member, || UdpSocket::bind(address)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    pub fn send(&self, from: usize, to: &UdpSocket, count: usize) {
        let address = to.local_addr().unwrap();
        let socket = self.within(from, || UdpSocket::bind("0.0.0.0:0")).unwrap();
        for _ in 0..count {
            socket.send_to(b"datagram", address).unwrap();
        }
    }

    /// Counts the datagrams that arrive, until none has arrived for a while.
    pub fn count(&self, socket: &UdpSocket) -> usize {
        std::iter::from_fn(|| socket.recv(&mut [0; 16]).ok()).count()
    }

    /// How many of `count` datagrams arrive.
    pub fn datagrams(&self, from: usize, to: usize, count: usize) -> usize {
        let receiver = self.receive(to);
        let mut arrived = 0;
        // At most as many at once as fit into a socket's buffer.
        for sent in (0..count).step_by(100) {
            self.send(from, &receiver, 100.min(count - sent));
            arrived += self.count(&receiver);
        }
        arrived
    }

    /// A TCP counter of the member's kernel.
    pub fn tcp_counter(&self, member: usize, name: &str) -> u64 {
        let text = self.within(member, || std::fs::read_to_string("/proc/thread-self/net/snmp")).unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.split(' ').position(|found| found == name).unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    }
}

impl SandboxConnection {
    /// Sends one byte there and one byte back.
    pub fn round_trip(&mut self) -> io::Result<Duration> {
        let began = Instant::now();
        self.client.write_all(b"x")?;
        self.server.read_exact(&mut [0])?;
        self.server.write_all(b"y")?;
        self.client.read_exact(&mut [0])?;
        Ok(began.elapsed())
    }

    pub fn fastest_round_trip(&mut self) -> Duration {
        (0..10).map(|_| self.round_trip().unwrap()).min().unwrap()
    }

    /// Waits for TCP retransmissions, at either end.
    pub fn read_what_was_lost(&mut self) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            for end in [&mut self.client, &mut self.server] {
                match end.read(&mut [0; 8]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < 20 * PATIENCE => {}
                    other => return other,
                }
            }
        }
    }
}

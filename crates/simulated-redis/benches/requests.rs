//! How fast a simulated server is: starts, and requests of a lock.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use simulated_redis::{Action, Clocks, Config, Connection, Disk, Persistence, Process, ProcessEvent, Server};

const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

fn main() {
    divan::main();
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
    bytes.into_bytes()
}

struct Client {
    server: Server,
    clocks: Clocks,
    actions: Vec<Action>,
}

const CONNECTION: Connection = Connection::Accepted(1);

impl Client {
    fn new(persistence: Persistence) -> Client {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 6379);
        let clocks = Clocks { wall: Duration::from_secs(1_700_000_000), monotonic: Duration::ZERO };
        let mut server = Server::start(Config { persistence, ..Config::new(address, 1) }, Disk::default(), clocks);
        let mut actions = Vec::new();
        server.handle(
            ProcessEvent::Accepted { connection: CONNECTION, peer: address, local: address },
            clocks,
            &mut actions,
        );
        Client { server, clocks, actions }
    }

    fn ask(&mut self, bytes: &[u8]) {
        self.clocks.wall += Duration::from_micros(100);
        self.clocks.monotonic += Duration::from_micros(100);
        self.actions.clear();
        self.server.handle(ProcessEvent::Received { connection: CONNECTION, bytes }, self.clocks, &mut self.actions);
        black_box(&self.actions);
    }
}

#[divan::bench]
fn start() -> Client {
    Client::new(Persistence::None)
}

#[divan::bench]
fn get(bencher: divan::Bencher) {
    let mut client = Client::new(Persistence::None);
    let get = request(&["GET", "lock:k0"]);
    bencher.bench_local(|| client.ask(&get));
}

#[divan::bench(args = [Persistence::None, Persistence::Everysec])]
fn set_nx_px_and_del(bencher: divan::Bencher, persistence: &Persistence) {
    let mut client = Client::new(*persistence);
    let set = request(&["SET", "lock:k0", "0123456789abcdef", "NX", "PX", "10000"]);
    let del = request(&["DEL", "lock:k0"]);
    bencher.bench_local(|| {
        client.ask(&set);
        client.ask(&del);
    });
}

#[divan::bench]
fn set_nx_px_and_script(bencher: divan::Bencher) {
    let mut client = Client::new(Persistence::None);
    let set = request(&["SET", "lock:k0", "0123456789abcdef", "NX", "PX", "10000"]);
    let script = request(&["EVAL", COMPARE_AND_DELETE, "1", "lock:k0", "0123456789abcdef"]);
    bencher.bench_local(|| {
        client.ask(&set);
        client.ask(&script);
    });
}

#[divan::bench]
fn first_script() {
    let mut client = Client::new(Persistence::None);
    client.ask(&request(&["EVAL", COMPARE_AND_DELETE, "1", "lock:k0", "0123456789abcdef"]));
}

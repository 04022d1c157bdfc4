//! Servers that a test starts in place of a user's, and their state, which redjepsen must not change.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::Value;
use tempfile::TempDir;

/// A server that ends with the test.
pub struct Redis {
    child: Child,
    pub port: u16,
    pub folder: TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server's program. redis-tools has it under another name of the same file.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut found = ["redis-server", "redis-check-rdb"]
        .into_iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)).filter(|file| file.is_file()));
    found.next().expect("a Redis server: install redis-server or redis-tools")
}

/// A port that no other test gets.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut given = GIVEN.lock().unwrap();
        // The cluster bus uses the port 10000 above.
        if port < 55_000 && !given.contains(&port) {
            given.push(port);
            return port;
        }
    }
}

impl Redis {
    /// Starts a server with these lines of redis.conf.
    pub fn start(lines: &[&str]) -> Redis {
        Redis::start_at(free_port(), lines, false)
    }

    pub fn start_at(port: u16, lines: &[&str], sentinel: bool) -> Redis {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("redis.conf");
        let start = match lines.iter().any(|line| line.starts_with("tls-port")) {
            true => "port 0".to_string(),
            false => format!("port {port}"),
        };
        let own =
            format!("{start}\nbind 127.0.0.1\ndir {}\nlogfile log\n{}\n", folder.path().display(), lines.join("\n"));
        fs::write(&file, own).unwrap();
        let mut command = Command::new(program());
        command.arg0("redis-server").arg(&file).stdout(Stdio::null());
        if sentinel {
            command.arg("--sentinel");
        }
        let child = command.spawn().unwrap();
        let redis = Redis { child, port, folder };
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = fs::read_to_string(redis.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "no server on port {port}: {log}");
            sleep(Duration::from_millis(20));
        }
        redis
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The server's answer to a command, after the commands `before` on the same connection.
    pub fn ask(&self, before: &[&str], command: &str) -> Value {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut parser = redis::Parser::new();
        let mut answer = Value::Nil;
        for line in before.iter().chain([&command]) {
            let mut words = redis::Cmd::new();
            line.split(' ').for_each(|word| _ = words.arg(word));
            connection.write_all(&words.get_packed_command()).unwrap();
            answer = parser.parse_value(&mut connection).unwrap();
        }
        answer
    }

    /// All state that redjepsen must not change. The commands `before` authenticate.
    pub fn state(&self, before: &[&str]) -> Vec<String> {
        let info = format!("{:?}", self.ask(before, "INFO memory"));
        let scripts = info.split("\\r\\n").filter(|line| line.starts_with("number_of_")).map(str::to_string);
        let asked = ["KEYS *", "CONFIG GET *", "SLOWLOG LEN", "ACL LIST", "PUBSUB CHANNELS", "FUNCTION LIST"];
        let Value::Array(refusals) = self.ask(before, "ACL LOG") else { panic!("no ACL LOG") };
        // Leave out their ages.
        let refusals = refusals.iter().map(|entry| match entry {
            Value::Array(fields) => format!("ACL LOG: {:?}", &fields[..10]),
            other => panic!("{other:?}"),
        });
        let answers = asked.iter().map(|command| format!("{command}: {:?}", self.ask(before, command)));
        answers.chain(refusals).chain(scripts).chain([format!("clients: {}", self.settled_clients(before))]).collect()
    }

    /// The number of clients, after closed connections have disappeared from the list.
    fn settled_clients(&self, before: &[&str]) -> usize {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            match self.clients(before) {
                2.. if Instant::now() < until => sleep(Duration::from_millis(10)),
                settled => return settled,
            }
        }
    }

    /// The number of clients that are not servers, including this one.
    fn clients(&self, before: &[&str]) -> usize {
        match self.ask(before, "CLIENT LIST TYPE normal") {
            Value::BulkString(text) => String::from_utf8_lossy(&text).lines().count(),
            other => panic!("{other:?}"),
        }
    }
}

/// Makes `ca.pem`, and a certificate and a key for a server and a client: `server.pem`, `server.key`, `client.pem`,
/// `client.key`.
pub fn certificates(files: &Path) {
    openssl(files, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem");
    fs::write(files.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    for name in ["server", "client"] {
        openssl(files, &format!("req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"));
        openssl(
            files,
            &format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
            ),
        );
    }
}

/// Runs openssl, which ca-certificates depends on.
fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.current_dir(folder).args(arguments.split(' ')).output().expect("openssl");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

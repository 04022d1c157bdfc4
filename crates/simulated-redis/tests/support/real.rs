//! A real redis-server as a process of the test, or another server that behaves as one.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use simulated_redis::{Persistence, Version};
use tempfile::TempDir;

use super::{reply_length, request};

const START_LIMIT: Duration = Duration::from_secs(20);

/// Names the programs to compare with, separated by colons.
const SERVERS: &str = "REDJEPSEN_SERVERS";

/// A server's program.
#[derive(Clone, Debug)]
pub struct ServerProgram {
    path: PathBuf,
    /// The simulated server that it is compared with.
    pub version: Version,
}

impl ServerProgram {
    /// The redis-server on the PATH.
    pub fn usual() -> ServerProgram {
        ServerProgram { path: "redis-server".into(), version: Version::Redis70 }
    }

    /// Those that the environment names, or else the usual one.
    pub fn all() -> Vec<ServerProgram> {
        let Some(paths) = std::env::var_os(SERVERS) else { return vec![ServerProgram::usual()] };
        let programs: Vec<_> = std::env::split_paths(&paths).map(ServerProgram::of).collect();
        assert!(!programs.is_empty(), "{SERVERS} names no program");
        programs
    }

    fn of(path: PathBuf) -> ServerProgram {
        let said = Command::new(&path).arg("--version").output().unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let said = String::from_utf8(said.stdout).unwrap().to_lowercase();
        let is_it =
            |version: &Version| said.starts_with(version.name()) && said.contains(&format!(" v={} ", version.number()));
        let version = Version::ALL.into_iter().find(is_it);
        let version = version.unwrap_or_else(|| panic!("{path:?} is {said}, and no simulated server behaves as that"));
        ServerProgram { path, version }
    }
}

/// A server that runs. It ends with this value.
pub struct Real {
    child: Child,
    program: ServerProgram,
    folder: TempDir,
    arguments: Vec<String>,
}

impl Real {
    pub fn start(program: &ServerProgram, persistence: Persistence) -> Real {
        let (kept, fsync) = match persistence {
            Persistence::None => ("no", "everysec"),
            Persistence::Never => ("yes", "no"),
            Persistence::Everysec => ("yes", "everysec"),
            Persistence::Always => ("yes", "always"),
        };
        Real::with(program, &["--port", "0", "--save", "", "--appendonly", kept, "--appendfsync", fsync], &[])
    }

    /// One with these arguments, in a folder with these files.
    pub fn with(program: &ServerProgram, arguments: &[&str], files: &[(&str, &str)]) -> Real {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, content)| std::fs::write(folder.path().join(name), content).unwrap());
        let arguments = arguments.iter().copied().chain(["--unixsocket", "socket"]);
        let arguments: Vec<String> = arguments.map(str::to_string).collect();
        let child = spawn(program, &arguments, &folder);
        Real { child, program: program.clone(), folder, arguments }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let _ = std::fs::remove_file(self.socket());
    }

    /// The answer on a new connection; empty if it is not running, or closes the connection as one does that is promoted.
    pub fn ask(&self, words: &[&str]) -> String {
        let answer = UnixStream::connect(self.socket()).and_then(|stream| {
            stream.set_read_timeout(Some(START_LIMIT))?;
            RealClient { stream, buffer: Vec::new() }.try_ask(&request(words))
        });
        String::from_utf8_lossy(&answer.unwrap_or_default()).into_owned()
    }

    /// Kills it and starts it again in the same folder.
    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    pub fn start_again(&mut self) {
        self.child = spawn(&self.program, &self.arguments, &self.folder);
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn connect(&self) -> RealClient {
        let began = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(self.socket()) {
                stream.set_read_timeout(Some(START_LIMIT)).unwrap();
                let mut client = RealClient { stream, buffer: Vec::new() };
                if !client.ask(b"PING\r\n").starts_with(b"-LOADING") {
                    return client;
                }
            }
            assert!(began.elapsed() < START_LIMIT, "{:?} does not answer; is it installed?", self.program);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn spawn(program: &ServerProgram, arguments: &[String], folder: &TempDir) -> Child {
    let mut command = Command::new(&program.path);
    command.args(arguments).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{program:?}: {error}; these tests need redis-server on the PATH"))
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct RealClient {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl RealClient {
    /// One request and its answer.
    pub fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.try_ask(request).unwrap()
    }

    fn try_ask(&mut self, request: &[u8]) -> std::io::Result<Vec<u8>> {
        self.stream.write_all(request)?;
        loop {
            if let Some(length) = reply_length(&self.buffer) {
                return Ok(self.buffer.drain(..length).collect());
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes)?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend_from_slice(&bytes[..count]);
        }
    }
}

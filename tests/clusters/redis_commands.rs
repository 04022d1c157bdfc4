//! The table of Redis's commands against a real server's description of them.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base::redis_commands::{asks, is_housekeeping, keys, removes, renews, runs_a_script, writes};
use redis::Value;

/// A server that listens on a socket in its own folder, until it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A server's description of a command: its name in capitals, its flags, and the positions of its keys (first, last, and the step
/// between keys).
type Described = (String, Vec<String>, [i64; 3]);

fn described() -> Vec<Described> {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let mut server = Command::new("redis-server");
    server.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).arg("--dir").arg(folder.path());
    let server = server.stdout(Stdio::null()).spawn().expect("these tests need a redis-server");
    let _server = Server(server);
    let client = redis::Client::open(format!("redis+unix://{}", socket.display())).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let mut connection = loop {
        match client.get_connection() {
            Ok(connection) => break connection,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    let commands: Vec<Vec<Value>> = redis::cmd("COMMAND").query(&mut connection).unwrap();
    let of = |command: &Vec<Value>| {
        let name: String = redis::from_redis_value(command[0].clone()).unwrap();
        let flags: Vec<String> = redis::from_redis_value(command[2].clone()).unwrap();
        let place = |at: usize| redis::from_redis_value(command[at].clone()).unwrap();
        (name.to_uppercase(), flags, [place(3), place(4), place(5)])
    };
    commands.iter().map(of).collect()
}

#[test]
fn the_table_of_commands_is_what_a_server_says() {
    let commands = described();
    assert!(commands.len() > 200, "{} commands", commands.len());
    for (name, flags, [first_key, last_key, step]) in commands {
        let has = |flag: &str| flags.iter().any(|one| one == flag);
        if runs_a_script(&name) {
            continue;
        }
        assert_eq!(writes(&name), has("write"), "{name}: {flags:?}");
        assert!(!asks(&name) || has("readonly") && first_key > 0, "{name}: {flags:?}");
        assert!(asks(&name) || !has("readonly") || first_key == 0, "{name} asks: {flags:?}");
        if !has("movablekeys") {
            let words: Vec<String> =
                (0..7).map(|at| if at == 0 { name.clone() } else { format!("word{at}") }).collect();
            let last = if last_key < 0 { 7 + last_key } else { last_key };
            let places = (first_key..=last).step_by(step.max(1) as usize).filter(|place| *place > 0);
            let expected: Vec<String> = places.map(|place| format!("word{place}")).collect();
            let found =
                keys(&words).map(|found| found.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect());
            assert!(found.is_none() || found == Some(expected), "the keys of {name}: {found:?}");
        }
        assert!(!is_housekeeping(&name) || first_key == 0 && !has("write"), "{name}: {flags:?}");
        assert!(!(renews(&name) || removes(&name)) || has("write"), "{name}: {flags:?}");
    }
}

//! A simulated server by itself, in virtual time.

use std::time::Duration;

use simulated_redis::{Action, Clocks, Config, Connection, Disk, Persistence, Process, ProcessEvent, Server};

use super::support::request;
use super::support::simulated::{Simulated, address, answers};

const MILLI: Duration = Duration::from_millis(1);

/// A server, and a client of it.
fn alone(persistence: Persistence) -> (Simulated, Connection) {
    let mut server = Simulated::with(persistence);
    let client = server.connect();
    (server, client)
}

#[test]
fn a_key_ends_with_its_time_and_a_clock_that_jumps_takes_it_along() {
    let (mut server, client) = alone(Persistence::None);
    assert_eq!(server.words(client, &["SET", "k", "v", "PX", "1000"]), "+OK\r\n");
    server.pass(1000 * MILLI);
    assert_eq!(server.words(client, &["PTTL", "k"]), ":0\r\n", "its last millisecond is not over");
    server.pass(MILLI);
    assert_eq!(server.words(client, &["PTTL", "k"]), ":-2\r\n");
    server.words(client, &["SET", "k", "v", "PX", "1000"]);
    server.clocks.wall -= 60_000 * MILLI;
    server.pass(2000 * MILLI);
    assert_eq!(server.words(client, &["GET", "k"]), "$1\r\nv\r\n");
    server.clocks.wall += 60_000 * MILLI;
    assert_eq!(server.words(client, &["GET", "k"]), "$-1\r\n");
}

#[test]
fn keys_that_nobody_asks_for_end_within_a_tick_and_an_idle_server_sleeps() {
    let (mut server, client) = alone(Persistence::None);
    server.words(client, &["SET", "k", "v", "PX", "1000"]);
    server.pass(1000 * MILLI);
    assert_eq!(server.words(client, &["DBSIZE"]), ":1\r\n");
    server.pass(101 * MILLI);
    assert_eq!(server.words(client, &["DBSIZE"]), ":0\r\n");
    let mut idle = Server::start(Config::new(address(), 1), Disk::default(), Clocks::default());
    assert_eq!(idle.next_wake(), None);
    idle.handle(ProcessEvent::Wake, Clocks::default(), &mut Vec::new());
    assert_eq!(idle.next_wake(), None);
}

/// Returns which of two writes remain, with this delay between them.
fn left_after_power_loss(persistence: Persistence, apart: Duration, then: Duration) -> [bool; 2] {
    let (mut server, client) = alone(persistence);
    server.pass(2500 * MILLI);
    server.words(client, &["SET", "first", "v"]);
    server.pass(apart);
    server.words(client, &["SET", "second", "v"]);
    server.pass(then);
    server.lose_power_and_restart();
    let client = server.connect();
    ["first", "second"].map(|key| server.words(client, &["EXISTS", key]) == ":1\r\n")
}

#[test]
fn a_power_loss_leaves_what_was_synced() {
    use Persistence::{Always, Everysec, Never, None};
    assert_eq!(left_after_power_loss(Always, Duration::ZERO, Duration::ZERO), [true, true]);
    assert_eq!(left_after_power_loss(None, Duration::ZERO, Duration::ZERO), [false, false]);
    assert_eq!(left_after_power_loss(Never, 1000 * MILLI, 5000 * MILLI), [false, false]);
    // The first write of a second is synced with it, the next one when the wall clock's second is over.
    assert_eq!(left_after_power_loss(Everysec, 100 * MILLI, 100 * MILLI), [true, false]);
    assert_eq!(left_after_power_loss(Everysec, 100 * MILLI, 1000 * MILLI), [true, true]);
}

#[test]
fn a_kill_leaves_what_was_written_and_times_are_absolute() {
    for persistence in [Persistence::Never, Persistence::Everysec, Persistence::Always] {
        let (mut server, client) = alone(persistence);
        server.words(client, &["SET", "k", "v", "PX", "1000"]);
        server.words(client, &["EVAL", "redis.call('set', 'a', 1) redis.call('incr', 'a')", "0"]);
        server.pass(400 * MILLI);
        server.kill_and_restart();
        let client = server.connect();
        assert_eq!(server.words(client, &["PTTL", "k"]), ":600\r\n");
        assert_eq!(server.words(client, &["GET", "a"]), "$1\r\n2\r\n");
        server.pass(601 * MILLI);
        server.kill_and_restart();
        let client = server.connect();
        assert_eq!(server.words(client, &["GET", "k"]), "$-1\r\n");
    }
    let (mut server, client) = alone(Persistence::None);
    server.words(client, &["SET", "k", "v"]);
    server.kill_and_restart();
    let client = server.connect();
    assert_eq!(server.words(client, &["DBSIZE"]), ":0\r\n");
}

#[test]
fn a_snapshot_is_loaded_where_there_is_no_other_file_unless_it_is_removed() {
    for (persistence, removed, left) in [
        (Persistence::None, false, ":1\r\n"),
        (Persistence::None, true, ":0\r\n"),
        (Persistence::Always, false, ":2\r\n"),
        (Persistence::Always, true, ":2\r\n"),
    ] {
        let (mut server, client) = alone(persistence);
        for words in [&["SET", "a", "1"][..], &["BGSAVE"], &["SET", "b", "1"]] {
            server.words(client, words);
        }
        let told = server.words(client, &["INFO", "persistence"]);
        assert!(told.contains("rdb_saves:1\r\n") && told.contains("rdb_bgsave_in_progress:0\r\n"), "{told}");
        if removed {
            server.forget_snapshot();
        }
        server.kill_and_restart();
        let client = server.connect();
        assert_eq!(server.words(client, &["DBSIZE"]), left, "{persistence:?} {removed}");
    }
    let (mut server, client) = alone(Persistence::None);
    assert_eq!(server.words(client, &["BGSAVE"]), "+Background saving started\r\n");
    assert_eq!(server.words(client, &["BGSAVE", "SCHEDULE"]), "+Background saving started\r\n");
    assert_eq!(server.words(client, &["BGSAVE", "now"]), "-ERR syntax error\r\n");
}

#[test]
fn the_file_holds_units_and_no_relative_times() {
    let (mut server, client) = alone(Persistence::Always);
    let wall = server.clocks.wall.as_millis();
    let script = "redis.call('incr', 'a') redis.call('pexpire', 'a', 50)";
    for words in [&["SET", "k", "v", "NX", "PX", "10"][..], &["GET", "k"], &["EVAL", script, "0"]] {
        server.words(client, words);
    }
    let disk = server.kill();
    assert_eq!(disk.synced(), disk.append_only_file().len());
    let text = String::from_utf8_lossy(disk.append_only_file()).into_owned();
    let words: Vec<&str> =
        text.split("\r\n").filter(|word| !word.starts_with(['*', '$']) && !word.is_empty()).collect();
    let expected = format!("SELECT 0 SET k v PXAT {} MULTI incr a PEXPIREAT a {} EXEC", wall + 10, wall + 50);
    assert_eq!(words.join(" "), expected);
}

#[test]
fn commands_come_in_pieces_and_many_at_once() {
    let (mut server, client) = alone(Persistence::None);
    let mut bytes = request(&["SET", "k", "v"]);
    bytes.extend(request(&["GET", "k"]));
    bytes.extend(request(&["PING"]));
    let mut answer = Vec::new();
    for byte in &bytes {
        answer.extend(server.ask(client, &[*byte]));
    }
    assert_eq!(answer, b"+OK\r\n$1\r\nv\r\n+PONG\r\n");
    assert_eq!(server.ask(client, &bytes), answer);
    let actions = server.tell(client, b"*1\r\nnonsense\r\n");
    assert_eq!(actions.last(), Some(&Action::Close { connection: client }));
    let answer = answers(actions, client);
    assert_eq!(String::from_utf8_lossy(&answer), "-ERR Protocol error: expected '$', got 'n'\r\n");
}

#[test]
fn subscribers_get_what_is_published() {
    let mut server = Simulated::with(Persistence::None);
    let (listener, sender) = (server.connect(), server.connect());
    assert_eq!(server.words(listener, &["SUBSCRIBE", "c"]), "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let refused = server.words(listener, &["GET", "c"]);
    assert!(refused.starts_with("-ERR Can't execute 'get'"), "{refused}");
    let actions = server.tell(sender, &request(&["PUBLISH", "c", "hello"]));
    assert_eq!(answers(actions.clone(), sender), b":1\r\n");
    assert_eq!(answers(actions, listener), b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n");
    assert_eq!(server.words(sender, &["PUBLISH", "d", "hello"]), ":0\r\n");
}

#[test]
fn memory_that_is_limited_evicts_or_refuses() {
    let (mut server, client) = alone(Persistence::None);
    for number in 0..100 {
        server.words(client, &["SET", &format!("k{number}"), "v"]);
    }
    server.words(client, &["CONFIG", "SET", "maxmemory", "1"]);
    let refused = server.words(client, &["SET", "k", "v"]);
    assert_eq!(refused, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    assert_eq!(server.words(client, &["DBSIZE"]), ":100\r\n");
    server.words(client, &["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    assert_eq!(server.words(client, &["DBSIZE"]), ":0\r\n");
    assert!(server.words(client, &["INFO", "stats"]).contains("evicted_keys:100\r\n"));
    server.words(client, &["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(server.words(client, &["SET", "k", "v"]), "+OK\r\n");
}

#[test]
fn a_server_that_wants_replicas_and_has_none_refuses_writes_in_scripts_and_transactions_too() {
    let (mut server, client) = alone(Persistence::None);
    server.words(client, &["SET", "k", "v"]);
    server.words(client, &["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let refused = "-NOREPLICAS Not enough good replicas to write.";
    for write in [&["SET", "k", "w"][..], &["DEL", "k"], &["EVAL", "return redis.call('del', KEYS[1])", "1", "k"]] {
        let answer = server.words(client, write);
        assert!(answer.starts_with(refused), "{answer}");
    }
    server.words(client, &["MULTI"]);
    assert!(server.words(client, &["DEL", "k"]).starts_with(refused));
    assert!(server.words(client, &["EXEC"]).starts_with("-EXECABORT"));
    assert_eq!(server.words(client, &["GET", "k"]), "$1\r\nv\r\n");
    server.words(client, &["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(server.words(client, &["DEL", "k"]), ":1\r\n");
}

#[test]
fn the_same_events_have_the_same_outcome() {
    let run = || {
        let (mut server, client) = alone(Persistence::Everysec);
        let mut told = server.words(client, &["INFO"]);
        for number in 0..50 {
            server.words(client, &["SET", &format!("k{number}"), "v", "PX", &(number * 50 + 1).to_string()]);
            told += &server.words(client, &["EVAL", "return redis.call('time')", "0"]);
        }
        server.pass(1200 * MILLI);
        server.words(client, &["CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", "901000"]);
        told + &server.words(client, &["KEYS", "*"])
    };
    assert_eq!(run(), run());
}

#[test]
fn clients_that_are_killed_are_gone() {
    let mut server = Simulated::with(Persistence::None);
    let (first, second) = (server.connect(), server.connect());
    assert_eq!(server.words(first, &["CLIENT", "ID"]), ":1\r\n");
    assert_eq!(server.words(second, &["CLIENT", "KILL", "ID", "7"]), ":0\r\n");
    let actions = server.tell(second, &request(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]));
    assert!(actions.contains(&Action::Close { connection: first }) && answers(actions, second) == b":1\r\n");
    assert!(server.words(second, &["INFO", "clients"]).contains("connected_clients:1\r\n"));
    assert_eq!(server.words(second, &["CLIENT", "KILL", "ID", "1"]), ":0\r\n");
}

#[test]
fn an_endless_script_keeps_everybody_waiting_until_its_threshold_and_is_killed_after_that() {
    let mut server = Simulated::with(Persistence::None);
    let (author, other) = (server.connect(), server.connect());
    assert_eq!(server.words(other, &["SCRIPT", "KILL"]), "-NOTBUSY No scripts in execution right now.\r\n");
    assert_eq!(server.words(other, &["CONFIG", "SET", "lua-time-limit", "100"]), "+OK\r\n");
    server.words(other, &["SET", "k", "v", "PX", "150"]);
    assert_eq!(server.words(author, &["EVAL", "while true do end", "0"]), "");
    let late = server.connect();
    for (client, words) in [(author, &["PING"][..]), (other, &["SET", "lost", "v"]), (late, &["SCRIPT", "FLUSH"])] {
        assert_eq!(server.words(client, words), "");
    }
    assert!(server.pass(99 * MILLI).is_empty());
    let read = server.pass(MILLI);
    assert!(answers(read.clone(), other).starts_with(b"-BUSY ") && answers(read.clone(), late).starts_with(b"-BUSY "));
    assert!(answers(read, author).is_empty());
    assert!(server.pass(100 * MILLI).is_empty());
    let killed = server.tell(other, &request(&["SCRIPT", "KILL"]));
    assert_eq!(answers(killed.clone(), other), b"+OK\r\n");
    let text = String::from_utf8(answers(killed, author)).unwrap();
    assert!(text.starts_with("-ERR ") && text.contains("SCRIPT KILL") && text.ends_with("+PONG\r\n"), "{text}");
    // Its clock went on, and what was refused was not done.
    assert_eq!(server.words(late, &["EXISTS", "k", "lost"]), ":0\r\n");
}

#[test]
fn nothing_is_recorded_unless_it_is_wanted() {
    let mut simulated = Simulated::with(Persistence::None);
    let connection = simulated.connect();
    simulated.words(connection, &["SET", "k", "v"]);
    assert!(simulated.take_executed().is_empty());
    simulated.record_commands();
    simulated.words(connection, &["SET", "k", "w"]);
    assert_eq!(simulated.take_executed().len(), 1);
    assert!(simulated.take_executed().is_empty(), "it is told once");
}

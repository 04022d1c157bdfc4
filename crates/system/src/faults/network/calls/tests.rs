//! Faults at commands, on segments made by hand.

use super::*;
use Treatment::{PassOn, Withheld};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const FAULT: u32 = 7;

/// A link with one fault, and the sequence numbers of each connection.
struct Wire {
    calls: Calls,
    strikes: Strikes,
    /// By the client's port: the next sequence numbers of both ends.
    numbers: BTreeMap<u16, (u32, u32)>,
    server: Ipv4Addr,
    /// How many bytes of errors the clients have received.
    ahead: u32,
}

impl Wire {
    fn new(action: CallEffect, command: &str, nth: Option<u32>) -> Wire {
        Wire::with(call(action, command, nth))
    }

    fn with(call: CommandWatch) -> Wire {
        let strikes = Strikes::default();
        strikes.arm(FAULT);
        let mut calls = Calls::new(strikes.clone());
        let pairs = [(CLIENT, SERVER), (SERVER, CLIENT), (CLIENT, OTHER), (OTHER, CLIENT)].into();
        assert!(calls.arm(&[(FAULT, (call, pairs))].into()).is_empty());
        Wire { calls, strikes, numbers: BTreeMap::new(), server: SERVER, ahead: 0 }
    }

    fn frame(&mut self, direction: StreamDirection, port: u16, flags: u8, payload: &[u8], advance: bool) -> Vec<u8> {
        // Close to the number where sequence numbers wrap around.
        let numbers = self.numbers.entry(port).or_insert((u32::MAX - 20, u32::MAX - 10));
        let (own, others) = match direction {
            StreamDirection::Request => (&mut numbers.0, numbers.1.wrapping_add(self.ahead)),
            StreamDirection::Reply => (&mut numbers.1, numbers.0),
        };
        let (sequence, acknowledged) = (*own, others);
        if advance {
            *own = own.wrapping_add(payload.len() as u32 + u32::from(flags & flags::SYN != 0));
        }
        let (ends, ports) = match direction {
            StreamDirection::Request => ((CLIENT, self.server), (port, REDIS_PORT)),
            StreamDirection::Reply => ((self.server, CLIENT), (REDIS_PORT, port)),
        };
        let header = Tcp { from_port: ports.0, to_port: ports.1, sequence, acknowledged, flags, length: 0 };
        bare(frame::segment(([1; 6], [2; 6]), ends, 0, &header, payload, 9))
    }

    fn says(&mut self, direction: StreamDirection, port: u16, payload: &[u8]) -> Treatment {
        let frame = self.frame(direction, port, flags::ACK, payload, true);
        self.calls.treat(&frame)
    }

    fn asks(&mut self, port: u16, words: &str) -> Treatment {
        self.says(StreamDirection::Request, port, &command(words))
    }

    fn answers(&mut self, port: u16, reply: &str) -> Treatment {
        self.says(StreamDirection::Reply, port, reply.as_bytes())
    }

    fn strike(&self) -> Option<(u32, String)> {
        let (strike, _) = self.strikes.so_far(FAULT, false).ok()?;
        Some((strike.nth, format!("{} {}", strike.command, strike.key)))
    }

    /// The first matching command that did nothing, and its answer.
    fn spared(&self) -> Option<(String, String)> {
        let spared = self.strikes.so_far(FAULT, false).err()??;
        Some((spared.command, spared.answer))
    }

    /// The frames that the heal sends: from which end, and their content or that they are an RST.
    fn heal(&mut self) -> Vec<String> {
        self.calls.arm(&BTreeMap::new()).iter().map(|bytes| told(bytes)).collect()
    }
}

fn call(action: CallEffect, command: &str, nth: Option<u32>) -> CommandWatch {
    CommandWatch {
        effect: action,
        command: named(command),
        nth,
        key: None,
        error: None,
        writing: BTreeSet::new(),
        chosen: Vec::new(),
    }
}

fn named(word: &str) -> Command {
    match word {
        "any" => Command::Any,
        "write" => Command::Write,
        name => Command::Named(name.to_string()),
    }
}

fn command(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let strings: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{strings}", words.len()).into_bytes()
}

fn told(bytes: &[u8]) -> String {
    let packet = frame::ipv4(&bytes[OFFLOAD_HEADER..]).unwrap();
    let segment = frame::tcp(&packet).unwrap();
    let whom = if packet.to == CLIENT { "client" } else { "server" };
    match segment.flags & (flags::RST | flags::FIN) {
        0 => format!("to {whom}: {}", String::from_utf8_lossy(frame::content(&packet)).replace("\r\n", " ")),
        flags::FIN => format!("FIN to {whom} at {}", segment.sequence),
        _ => format!("RST to {whom} at {}", segment.sequence),
    }
}

fn resets(treatment: Treatment) -> Vec<String> {
    match treatment {
        Treatment::Answered(frames) => frames.iter().map(|frame| told(frame)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_second_set_waits_with_all_that_follows_it() {
    let mut wire = Wire::new(CallEffect::HoldRequest, "SET", Some(2));
    assert_eq!(wire.asks(1, "SET k0 a NX"), PassOn);
    assert_eq!(wire.answers(1, "+OK\r\n"), PassOn);
    assert_eq!(wire.asks(1, "GET k0"), PassOn, "another command");
    assert_eq!(wire.answers(1, "$1\r\na\r\n"), PassOn);
    assert_eq!(wire.strike(), None);
    assert_eq!(wire.asks(2, "set k1 b"), Withheld, "counted over all connections of the client to the server");
    assert_eq!(wire.strike(), Some((2, "SET k1".to_string())));
    assert_eq!(wire.says(StreamDirection::Request, 2, b""), Withheld, "an acknowledgement");
    assert_eq!(wire.answers(2, ""), PassOn, "the other direction goes on");
    assert_eq!(wire.asks(1, "SET k0 c"), PassOn, "the third");
    wire.server = OTHER;
    assert_eq!(wire.asks(3, "SET k0 d"), PassOn, "the first to another server");
    assert_eq!(wire.heal(), ["to server: *3 $3 set $2 k1 $1 b ", "to server: "]);
}

#[test]
fn the_reply_waits_and_the_request_does_not() {
    let mut wire = Wire::new(CallEffect::HoldReply, "EVAL", Some(1));
    assert_eq!(wire.asks(1, "GET k"), PassOn);
    assert_eq!(wire.asks(1, "EVALSHA abc 1 lock:k token"), PassOn);
    assert_eq!(wire.answers(1, "$-1\r\n"), PassOn, "to the first of the two");
    assert_eq!(wire.strike(), None);
    assert_eq!(wire.answers(1, ":1\r\n"), Withheld);
    assert_eq!(wire.strike(), Some((1, "EVALSHA lock:k".to_string())));
    assert_eq!(wire.asks(1, "PING"), PassOn);
    assert_eq!(wire.answers(1, "+PONG\r\n"), Withheld, "what comes later");
    assert_eq!(wire.heal(), ["to client: :1 ", "to client: +PONG "]);
    assert_eq!(wire.answers(1, "+PONG\r\n"), PassOn);
}

#[test]
fn a_reply_that_left_before_the_request_came_is_not_its_reply() {
    let mut wire = Wire::new(CallEffect::HoldReply, "SET", Some(1));
    // A command that was sent before the connection was followed, and answered while the SET was on its way.
    let early = wire.frame(StreamDirection::Reply, 1, flags::ACK, b"+PONG\r\n", true);
    assert_eq!(wire.asks(1, "SET k v"), PassOn);
    assert_eq!(wire.calls.treat(&early), PassOn);
    assert_eq!(wire.strike(), None);
    assert_eq!(wire.answers(1, "+OK\r\n"), Withheld);
}

#[test]
fn a_lost_reply_never_arrives_and_the_heal_ends_the_connection() {
    let mut wire = Wire::new(CallEffect::LoseReply, "any", Some(1));
    assert_eq!(wire.asks(1, "CLIENT SETINFO LIB-NAME x"), PassOn, "not counted");
    assert_eq!(wire.answers(1, "+OK\r\n"), PassOn);
    assert_eq!(wire.asks(1, "DEL k"), PassOn);
    let (asked, answered) = wire.numbers[&1];
    assert_eq!(wire.answers(1, ":1\r\n"), Withheld);
    assert_eq!(wire.strike(), Some((1, "DEL k".to_string())));
    assert_eq!(wire.asks(2, "GET k"), PassOn);
    assert_eq!(wire.answers(2, "$-1\r\n"), PassOn, "other connections go on");
    let mut resets = wire.heal();
    resets.sort();
    assert_eq!(resets, [format!("RST to client at {answered}"), format!("RST to server at {asked}")]);
}

#[test]
fn a_fault_that_waits_for_a_reply_waits_for_one_that_says_that_something_was_done() {
    let mut wire = Wire::new(CallEffect::HoldReply, "write", Some(1));
    assert_eq!(wire.asks(1, "SET lock:k0 a NX"), PassOn);
    assert_eq!(wire.answers(1, "$-1\r\n"), PassOn, "it was taken");
    assert_eq!(wire.asks(1, "EVALSHA abc 1 lock:k0 a"), PassOn);
    assert_eq!(wire.answers(1, "-NOSCRIPT No matching script.\r\n"), PassOn);
    assert_eq!(wire.strike(), None);
    assert_eq!(wire.spared(), Some(("SET".to_string(), "nothing".to_string())), "the first of the two");
    assert_eq!(wire.asks(1, "EVAL script 1 lock:k0 a"), PassOn);
    assert_eq!(wire.answers(1, ":1\r\n"), Withheld);
    assert_eq!(wire.strike(), Some((1, "EVAL lock:k0".to_string())), "others do not count");

    // Both commands come in one segment, and their replies one by one.
    let mut wire = Wire::new(CallEffect::LoseReply, "SET", Some(2));
    let both = [command("SET lock:k0 a NX"), command("SET lock:k0 b"), command("SET lock:k0 c")].concat();
    assert_eq!(wire.says(StreamDirection::Request, 1, &both), PassOn);
    assert_eq!(wire.answers(1, "$-1\r\n+OK\r\n"), PassOn);
    assert_eq!(wire.strike(), None);
    assert_eq!(wire.answers(1, "+OK\r\n"), Withheld);

    let mut wire = Wire::new(CallEffect::HoldReply, "any", Some(1));
    assert_eq!(wire.asks(1, "SET lock:k0 a NX"), PassOn);
    assert_eq!(wire.answers(1, "$-1\r\n"), Withheld, "any command, whatever became of it");
}

#[test]
fn writes_to_other_keys_are_not_the_locks() {
    for (asked, treated) in [
        ("SET heartbeat 1", PassOn),
        ("EVAL script 1 symfony_check_support_time", PassOn),
        ("EVAL script 2 queue lock:k0", Withheld),
        ("EVAL script 0 lock:k0", Withheld),
        ("SET lock:k0 a", Withheld),
    ] {
        assert_eq!(Wire::new(CallEffect::HoldRequest, "write", Some(1)).asks(1, asked), treated, "{asked}");
    }
    let any_key = CommandWatch { key: Some("*".to_string()), ..call(CallEffect::HoldRequest, "write", Some(1)) };
    assert_eq!(Wire::with(any_key).asks(1, "SET heartbeat 1"), Withheld, "if it says so");
}

#[test]
fn what_is_queued_is_done_when_exec_is_answered() {
    let mut wire = Wire::new(CallEffect::HoldReply, "write", Some(1));
    let ask = |wire: &mut Wire, exec: &str| {
        for (asked, answered) in [("MULTI", "+OK\r\n"), ("SET lock:k0 a", "+QUEUED\r\n")] {
            assert_eq!(wire.asks(1, asked), PassOn);
            assert_eq!(wire.answers(1, answered), PassOn);
        }
        assert_eq!(wire.asks(1, "EXEC"), PassOn);
        wire.answers(1, exec)
    };
    assert_eq!(ask(&mut wire, "*-1\r\n"), PassOn, "what was watched had changed");
    assert_eq!(ask(&mut wire, "-EXECABORT\r\n"), PassOn);
    assert_eq!(wire.strike(), None);
    assert_eq!(ask(&mut wire, "*1\r\n+OK\r\n"), Withheld);
    assert_eq!(wire.strike(), Some((1, "SET lock:k0".to_string())));
}

#[test]
fn a_reset_after_a_command_replaces_its_reply() {
    let mut wire = Wire::new(CallEffect::ResetAfter, "SET", Some(1));
    assert_eq!(wire.asks(1, "SET k v"), PassOn);
    let (asked, answered) = wire.numbers[&1];
    let expected = [format!("RST to client at {answered}"), format!("RST to server at {asked}")];
    assert_eq!(resets(wire.answers(1, "+OK\r\n")), expected);
    assert_eq!(resets(wire.asks(1, "GET k")).len(), 2, "until it is healed");
    let syn = wire.frame(StreamDirection::Request, 1, flags::SYN, b"", true);
    assert_eq!(wire.calls.treat(&syn), PassOn, "a new connection may have the same port");
    assert_eq!(wire.asks(1, "SET k v"), PassOn);
    assert_eq!(wire.answers(1, "+OK\r\n"), PassOn);
    assert!(wire.heal().is_empty());
}

#[test]
fn a_connection_is_closed_after_a_command_to_its_client_alone() {
    let mut wire = Wire::new(CallEffect::CloseAfter, "SET", Some(1));
    assert_eq!(wire.asks(1, "SET k v"), PassOn);
    let (asked, answered) = wire.numbers[&1];
    let expected = [format!("FIN to client at {answered}"), format!("RST to server at {asked}")];
    assert_eq!(resets(wire.answers(1, "+OK\r\n")), expected);
    assert!(resets(wire.answers(1, "+OK\r\n")).is_empty(), "sent again");
    assert!(resets(wire.says(StreamDirection::Request, 1, b"")).is_empty());
    assert_eq!(resets(wire.asks(1, "GET k")).len(), 1, "a closed socket answers with an RST");
    assert_eq!(wire.asks(2, "SET k v"), PassOn);
    assert_eq!(wire.answers(2, "+OK\r\n"), PassOn, "the second");
    assert!(wire.heal().is_empty());
}

#[test]
fn one_connection_of_several_is_cut_or_reset() {
    let chosen =
        CommandWatch { chosen: vec![(CLIENT, 5, SERVER)], ..call(CallEffect::CutConnection, "SUBSCRIBE", Some(0)) };
    let mut wire = Wire::with(chosen.clone());
    assert_eq!(wire.strike(), None, "nothing was seen yet");
    assert_eq!(wire.asks(1, "SUBSCRIBE news"), PassOn);
    assert_eq!(wire.answers(5, "+message\r\n"), Withheld);
    assert_eq!(wire.strike(), Some((0, " ".to_string())));
    assert_eq!(wire.asks(5, "PING"), Withheld);
    assert!(wire.heal().is_empty());
    assert_eq!(wire.asks(5, "PING"), PassOn);

    let mut wire = Wire::with(CommandWatch { effect: CallEffect::ResetConnection, ..chosen });
    assert_eq!(resets(wire.answers(5, "")).len(), 2);
    let mut wire = Wire::new(CallEffect::ResetConnection, "SUBSCRIBE", Some(1));
    assert_eq!(wire.asks(1, "GET k"), PassOn);
    assert_eq!(resets(wire.asks(2, "SUBSCRIBE news")).len(), 2, "as soon as the command comes");
    assert_eq!(wire.asks(1, "GET k"), PassOn);
}

#[test]
fn what_tcp_sends_again_counts_once_and_a_command_may_come_in_pieces() {
    let mut wire = Wire::new(CallEffect::HoldRequest, "SET", Some(2));
    let bytes = command("SET k v");
    let first = wire.frame(StreamDirection::Request, 1, flags::ACK, &bytes[..9], true);
    let second = wire.frame(StreamDirection::Request, 1, flags::ACK, &bytes[9..], true);
    for frame in [&first, &second, &first, &second] {
        assert_eq!(wire.calls.treat(frame), PassOn);
    }
    assert_eq!(wire.strike(), None, "one SET, sent twice");
    let both = [command("GET k"), command("SET k w"), command("GET k")].concat();
    assert_eq!(wire.says(StreamDirection::Request, 1, &both[..50]), Withheld, "in one segment with others");
    assert_eq!(wire.strike(), Some((2, "SET k".to_string())));
    assert_eq!(wire.says(StreamDirection::Request, 1, &both[50..]), Withheld);
    assert_eq!(wire.heal().len(), 2);
}

#[test]
fn after_a_gap_it_goes_on_with_the_next_segment_that_begins_with_a_command() {
    let mut wire = Wire::new(CallEffect::HoldRequest, "SET", Some(1));
    let bytes = command("SET k v");
    assert_eq!(wire.says(StreamDirection::Request, 1, &bytes[4..]), PassOn, "met in the middle of a command");
    assert_eq!(wire.asks(1, "GET k"), PassOn);
    let _missed = wire.frame(StreamDirection::Request, 1, flags::ACK, &bytes[..9], true);
    assert_eq!(wire.says(StreamDirection::Request, 1, &bytes[9..]), PassOn);
    assert_eq!(wire.strike(), None);
    assert_eq!(wire.asks(1, "SET k v"), Withheld);
}

#[test]
fn keys_and_classes_of_commands_are_told_apart() {
    let like = |pattern: &str, text: &str| is_like(pattern.as_bytes(), text.as_bytes());
    for (pattern, text) in [("lock:*", "lock:k0"), ("*", ""), ("*k?", "lock:k0"), ("a*b*c", "axxbxbxc"), ("k", "k")] {
        assert!(like(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [("lock:*", "clock:k0"), ("", "k"), ("*k?", "lock:k"), ("a*b*c", "axxbxb"), ("k?", "k")] {
        assert!(!like(pattern, text), "{pattern} {text}");
    }
    let says = |writing: &[&str], word: &str| {
        let writing = writing.iter().map(|name| name.to_string()).collect();
        let commands = ["SET", "GET", "EVALSHA", "CLIENT", "SETNX", "PUBSUB", "EVAL_RO", "JSON.SET"];
        commands.map(|one| fits(&named(word), &writing, one))
    };
    let meant = |word: &str| says(&[], word);
    assert_eq!(meant("any"), [true, true, true, false, true, true, true, true]);
    assert_eq!(meant("write"), [true, false, true, false, true, false, false, true]);
    assert_eq!(meant("EVAL"), [false, false, true, false, false, false, true, false]);
    assert_eq!(meant("SET"), [true, false, false, false, false, false, false, false]);
    let told = says(&["SET", "JSON.SET"], "write");
    assert_eq!(
        told,
        [true, false, true, false, false, false, false, true],
        "the server knows best, but not of scripts"
    );

    let set = call(CallEffect::HoldRequest, "SET", None);
    let mut wire = Wire::with(CommandWatch { key: Some("lock:*".to_string()), ..set });
    assert_eq!(wire.asks(1, "SET other v"), PassOn);
    assert_eq!(wire.asks(1, "SET lock:k v"), Withheld);
    assert_eq!(wire.asks(2, "SET lock:k v"), Withheld, "each of them");
    wire.server = OTHER;
    assert_eq!(wire.asks(3, "SET lock:k v"), Withheld);
    let (_, pairs) = wire.strikes.so_far(FAULT, false).unwrap();
    assert_eq!(pairs, [(CLIENT, SERVER), (CLIENT, OTHER)].into());
}

#[test]
fn connections_are_chosen_by_what_the_server_says_of_them() {
    let list = "id=3 addr=10.0.0.1:5000 name= sub=1 psub=0 cmd=ping lib-name=x\n\
                id=4 addr=10.0.0.1:5001 name= sub=0 psub=0 cmd=client|setinfo\n\
                id=5 addr=10.0.0.9:5002 sub=0 psub=2 cmd=psubscribe\nnonsense\nid=6 addr=[::1]:7 sub=0 psub=0 cmd=set\n\
                id=7 addr=10.0.0.1:5003 sub=0 psub=0 cmd=set\n";
    let ports = |word: &str| {
        let call = call(CallEffect::CutConnection, word, Some(1));
        call.chosen_from(list, SERVER).iter().map(|(_, port, _)| *port).collect::<Vec<_>>()
    };
    assert_eq!(ports("SUBSCRIBE"), [5000], "even if it has said something else since");
    assert_eq!(ports("PSUBSCRIBE"), [5002]);
    assert_eq!(ports("SET"), [5003]);
    assert_eq!(ports("write"), [5003]);
    assert!(ports("GET").is_empty());
}

#[test]
fn once_disarmed_it_strikes_no_more() {
    let mut wire = Wire::new(CallEffect::HoldRequest, "SET", None);
    assert_eq!(wire.strikes.so_far(FAULT, true), Err(None));
    assert_eq!(wire.asks(1, "SET k v"), PassOn);
    assert_eq!(wire.strike(), None);

    let mut wire = Wire::new(CallEffect::HoldReply, "SET", None);
    assert_eq!(wire.asks(1, "SET k v"), PassOn);
    assert_eq!(wire.strikes.so_far(FAULT, true), Err(None));
    assert_eq!(wire.answers(1, "+OK\r\n"), PassOn);
}

#[test]
fn other_links_and_ports_are_left_alone_and_memory_is_bounded() {
    let mut wire = Wire::new(CallEffect::HoldRequest, "SET", None);
    let mut elsewhere = wire.frame(StreamDirection::Request, 1, flags::ACK, &command("SET k v"), true);
    elsewhere[OFFLOAD_HEADER + 29] = 9;
    assert_eq!(wire.calls.treat(&elsewhere), PassOn);
    for nonsense in [&b""[..], b"short", &[0; 60]] {
        assert_eq!(wire.calls.treat(nonsense), PassOn);
    }
    for port in 1..=5000 {
        wire.asks(port, "GET k");
    }
    assert_eq!(wire.calls.connections.len(), MOST_CONNECTIONS);
    assert_eq!(wire.asks(1, "SET k v"), Withheld);
    let much = [&command("SET k v")[..], &[b'x'; 60_000]].concat();
    for _ in 0..100 {
        assert_eq!(wire.says(StreamDirection::Request, 1, &much), Withheld);
    }
    assert!(wire.calls.connections[&(CLIENT, 1, SERVER)].held_bytes <= ROOM);
}

#[test]
fn it_is_told_in_words() {
    let call = |action, nth| self::call(action, "SET", nth);
    let strike = |nth| CommandStrike {
        client: CLIENT,
        server: SERVER,
        nth,
        command: "SET".to_string(),
        key: "lock:k0".to_string(),
        answer: if nth == 2 { "OK".to_string() } else { String::new() },
    };
    let told = call(CallEffect::HoldReply, Some(2)).tell(&strike(2), "c0", "n1");
    assert_eq!(told, "c0's 2nd SET of lock:k0 to n1 was answered with OK, and the reply is held");
    let told = call(CallEffect::LoseReply, None).tell(&strike(1), "c0", "n1");
    assert_eq!(told, "c0's 1st SET of lock:k0 to n1 was answered, and the reply was lost");
    let told = call(CallEffect::CutConnection, Some(0)).tell(&strike(0), "c0", "n1");
    assert!(told.starts_with("the connection of c0 to n1 with SET as its last command was dropped"), "{told}");
    let strike_with_error = CommandStrike { answer: ErrorReply::Oom.text("SET", "lock:k0", SERVER), ..strike(1) };
    let told = refuse("SET", None).tell(&strike_with_error, "c0", "n1");
    assert_eq!(told, "c0's 1st SET of lock:k0 to n1 was refused with OOM, and n1 never received it");
    let pairs = [("c0", "n1"), ("c0", "n0"), ("c1", "n0")].map(|(one, other)| (one.to_string(), other.to_string()));
    let told = call(CallEffect::HoldReply, Some(2)).tell_none(&pairs, None);
    assert_eq!(told, "armed, but there was no reply to a 2nd SET from c0 or c1 to n0 or n1");
    assert_eq!(
        call(CallEffect::HoldRequest, None).tell_none(&pairs[..1], None),
        "armed, but there was no SET from c0 to n1"
    );
    let refused = CommandStrike { answer: "nothing".to_string(), ..strike(0) };
    let told = self::call(CallEffect::HoldReply, "write", Some(1)).tell_none(&pairs[..1], Some(&refused));
    let expected = "armed, but there was no reply to a write of the operation's key from c0 to n1; SET of lock:k0 was \
                    answered with nothing and did nothing";
    assert_eq!(told, expected);
}

/// The segments that replace one segment: the receiver, the sequence numbers, and the content.
fn replaced(treatment: Treatment) -> Vec<(&'static str, u32, u32, String)> {
    let Treatment::Replaced(frames) = treatment else { panic!("{treatment:?}") };
    let read = |bytes: &Vec<u8>| {
        let packet = frame::ipv4(&bytes[OFFLOAD_HEADER..]).unwrap();
        let segment = frame::tcp(&packet).unwrap();
        let whom = if packet.to == CLIENT { "client" } else { "server" };
        (whom, segment.sequence, segment.acknowledged, String::from_utf8_lossy(frame::content(&packet)).into_owned())
    };
    frames.iter().map(read).collect()
}

fn refuse(command: &str, nth: Option<u32>) -> CommandWatch {
    CommandWatch { error: Some(ErrorReply::Oom), ..call(CallEffect::Refuse, command, nth) }
}

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
const OOM_LENGTH: u32 = OOM.len() as u32;

fn line_ends(words: &str) -> String {
    "\n".repeat(command(words).len())
}

#[test]
fn a_refused_command_never_comes_and_its_connection_goes_on_by_two_counts() {
    let mut wire = Wire::with(refuse("SET", Some(1)));
    assert_eq!(wire.asks(1, "GET k0"), PassOn);
    assert_eq!(wire.answers(1, "$-1\r\n"), PassOn);
    let (asked, answered) = wire.numbers[&1];
    let set = "SET k0 a NX";
    assert_eq!(
        replaced(wire.asks(1, set)),
        [("server", asked, answered, line_ends(set)), ("client", answered, asked, OOM.to_string())]
    );
    assert_eq!(wire.strike(), Some((1, "SET k0".to_string())));
    // The client has received the error, and the server does not know it.
    wire.ahead = OOM_LENGTH;
    let (asked, answered) = wire.numbers[&1];
    let get = String::from_utf8(command("GET k0")).unwrap();
    assert_eq!(replaced(wire.asks(1, "GET k0")), [("server", asked, answered, get)]);
    let asked = wire.numbers[&1].0;
    let value = "$1\r\na\r\n";
    let as_the_client_counts = answered.wrapping_add(OOM_LENGTH);
    assert_eq!(replaced(wire.answers(1, value)), [("client", as_the_client_counts, asked, value.to_string())]);
    assert_eq!(wire.asks(2, set), PassOn, "the second, on another connection");
    // From now on, no fault corrects the difference.
    assert_eq!(wire.heal(), [format!("RST to client at {as_the_client_counts}"), format!("RST to server at {asked}")]);
}

#[test]
fn each_error_comes_in_its_turn_wherever_segments_end() {
    // A refused command between two other commands, all in one segment, and their replies in one segment as well.
    let mut wire = Wire::with(refuse("SET", None));
    let all = [command("GET k0"), command("SET k0 a"), command("SET k0 b"), command("GET k1")].concat();
    let (asked, answered) = wire.numbers.entry(1).or_insert((100, 200)).to_owned();
    let passed =
        [command("GET k0"), line_ends("SET k0 a").into(), line_ends("SET k0 b").into(), command("GET k1")].concat();
    assert_eq!(
        replaced(wire.says(StreamDirection::Request, 1, &all)),
        [("server", asked, answered, String::from_utf8(passed).unwrap())],
        "the reply to GET comes first"
    );
    let asked = wire.numbers[&1].0;
    assert_eq!(
        replaced(wire.answers(1, "$-1\r\n:1\r\n")),
        [
            ("client", answered, asked, "$-1\r\n".to_string()),
            ("client", answered + 5, asked, OOM.to_string()),
            ("client", answered + 5 + OOM_LENGTH, asked, OOM.to_string()),
            ("client", answered + 5 + 2 * OOM_LENGTH, asked, ":1\r\n".to_string()),
        ]
    );
    // An error that the client has received in part counts as whole for the server, which must not resend any of it.
    wire.ahead = OOM_LENGTH + 3;
    let acknowledged = |wire: &mut Wire| replaced(wire.says(StreamDirection::Request, 1, b""))[0].2;
    wire.numbers.insert(1, (asked, answered + 5));
    assert_eq!(acknowledged(&mut wire), answered + 5);
    wire.ahead = 2 * OOM_LENGTH;
    wire.numbers.insert(1, (asked, answered + 9));
    assert_eq!(acknowledged(&mut wire), answered + 9);
}

#[test]
fn what_is_sent_again_is_refused_again_and_counts_once() {
    let mut wire = Wire::with(refuse("SET", None));
    let set = command("SET k0 a");
    let before = wire.frame(StreamDirection::Request, 1, flags::ACK, &set, false);
    let first = replaced(wire.says(StreamDirection::Request, 1, &set));
    assert_eq!(first.len(), 2);
    assert_eq!(replaced(wire.calls.treat(&before)), first[..1], "no second error");
    assert_eq!(wire.strikes.forget(FAULT), 1);
}

#[test]
fn a_command_that_has_passed_in_part_and_one_of_a_transaction_are_not_refused() {
    let mut wire = Wire::with(refuse("SET", None));
    let set = command("SET k0 a");
    assert_eq!(wire.says(StreamDirection::Request, 1, &set[..9]), PassOn);
    assert_eq!(wire.says(StreamDirection::Request, 1, &set[9..]), PassOn);
    assert_eq!(wire.answers(1, "+OK\r\n"), PassOn);
    for words in ["MULTI", "SET k0 a", "EXEC"] {
        assert_eq!(wire.asks(1, words), PassOn, "{words}");
    }
    assert_eq!(wire.strike(), None);
    assert_eq!(wire.answers(1, "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"), PassOn);
    assert_eq!(replaced(wire.asks(1, "SET k0 b")).len(), 2);

    let mut wire = Wire::with(refuse("EXEC", None));
    for words in ["MULTI", "SET k0 a", "EXEC"] {
        assert_eq!(wire.asks(1, words), PassOn, "{words}");
    }
    let mut wire = Wire::with(refuse("MULTI", Some(1)));
    assert_eq!(replaced(wire.asks(1, "MULTI")).len(), 2, "which begins none then");
    assert_eq!(wire.strikes.so_far(FAULT, true).map(|(strike, _)| strike.command), Ok("MULTI".to_string()));
}

#[test]
fn a_reply_to_a_connection_with_an_error_is_held_and_lost_like_any_other() {
    let mut wire = Wire::with(refuse("SET", Some(1)));
    let both: BTreeSet<Pair> = [(CLIENT, SERVER), (SERVER, CLIENT)].into();
    let orders = |effect| -> BTreeMap<u32, Ordered> {
        [(FAULT, (refuse("SET", Some(1)), both.clone())), (8, (call(effect, "GET", None), both.clone()))].into()
    };
    assert_eq!(replaced(wire.asks(1, "SET k0 a")).len(), 2);
    wire.ahead = OOM_LENGTH;
    wire.strikes.arm(8);
    assert!(wire.calls.arm(&orders(CallEffect::HoldReply)).is_empty());
    assert_eq!(replaced(wire.asks(1, "GET k0")).len(), 1);
    let answered = wire.numbers[&1].1;
    assert_eq!(wire.answers(1, "$1\r\na\r\n"), Withheld);
    let let_go = wire.calls.arm(&[(FAULT, (refuse("SET", Some(1)), both.clone()))].into());
    assert_eq!(
        replaced(Treatment::Replaced(let_go)),
        [("client", answered.wrapping_add(OOM_LENGTH), wire.numbers[&1].0, "$1\r\na\r\n".to_string())]
    );
    wire.strikes.arm(8);
    assert!(wire.calls.arm(&orders(CallEffect::ResetAfter)).is_empty());
    assert_eq!(replaced(wire.asks(1, "GET k0")).len(), 1);
    let (asked, answered) = wire.numbers[&1];
    assert_eq!(
        resets(wire.answers(1, "$1\r\nv\r\n")),
        [format!("RST to client at {}", answered.wrapping_add(OOM_LENGTH)), format!("RST to server at {asked}")]
    );
}

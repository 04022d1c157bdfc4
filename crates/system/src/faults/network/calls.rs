//! Faults on one command of one connection: its request or its reply is held, its reply is lost, or its connection ends. Or
//! [`refusal`] refuses the command.
//!
//! All packets between a client and a server pass through here. The server's port shows whether a segment has requests or
//! replies. Sequence numbers show what is new in each direction, so that retransmitted data counts once; [`resp`] finds the ends
//! of commands and replies. A connection that existed before is followed from the first segment that begins with a command. After
//! a gap, which only lost packets leave, it is followed from the next such segment.
//!
//! A fault fires on a whole segment, which also affects other data in the segment. From then on, it affects this direction of the
//! connection until it is healed, because data on a connection stays in order. A reply is identified by its position: the third
//! reply belongs to the third command. If a command was in flight when its connection was first seen, its reply may be taken for
//! the reply to the next command. The next reply is then held or lost as well, since it comes later.
//!
//! A fault at a command that did nothing would not test the lock. So a fault that waits for a reply also checks the reply
//! ([`effect`]). And `write` means a write to the operation's key, whatever other keys a library has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

use super::capture::OFFLOAD_HEADER;
use super::frame::{self, Tcp, flags};
use super::resp::{self, RespValue, Scanner};
use super::{Pair, reset};
use base::redis_commands::{is_housekeeping, may_write, runs_a_script};
use base::sync::lock;
use effect::{did_nothing, keys_of, shown};
use model::fault_kinds::{CallEffect, Command, CommandFault, ErrorReply, names_a_key_of_the_run, ordinal};
use model::topology::REDIS_PORT;
use refusal::Refusals;

mod effect;
mod refusal;

/// At most this many connections are followed. Beyond that, the connection that was silent for longest is forgotten.
const MOST_CONNECTIONS: usize = 4096;
/// At most this many bytes of one connection are held. Segments beyond that are lost, and TCP sends them again.
const ROOM: usize = 4 << 20;

/// The effect of a fault, and the command at which it fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandWatch {
    pub effect: CallEffect,
    pub command: Command,
    /// The index of the matching command, from 1, counted for each client and server since the fault was injected. `None` for all
    /// matching commands.
    pub nth: Option<u32>,
    /// A pattern with `*` and `?` for one of the command's keys. `None` for any key or, if the command is `write`, for a key that
    /// names the key of an operation.
    pub key: Option<String>,
    /// The error of [`CallEffect::Refuse`].
    pub error: Option<ErrorReply>,
    /// The commands that write, in capitals, as the server lists them; empty if the server was not asked or does not say.
    pub writing: BTreeSet<String>,
    /// Connections that were chosen in advance: the client's address and port, and the server's address.
    pub chosen: Vec<Ends>,
}

/// A client's address and port, and a server's address.
pub type Ends = (Ipv4Addr, u16, Ipv4Addr);

/// True if a command, in capitals, matches. `writing` lists the commands that write, as the server says.
fn fits(meant: &Command, writing: &BTreeSet<String>, command: &str) -> bool {
    match meant {
        Command::Any => !is_housekeeping(command),
        Command::Write if runs_a_script(command) => !command.ends_with("_RO"),
        Command::Write if writing.is_empty() => may_write(command),
        Command::Write => writing.contains(command),
        Command::Named(name) if name == "EVAL" => runs_a_script(command),
        Command::Named(name) => name == command,
    }
}

impl From<CommandFault> for CommandWatch {
    fn from(fault: CommandFault) -> CommandWatch {
        let CommandFault { effect, nth, command, key, error } = fault;
        CommandWatch { effect, command, nth, key, error, writing: BTreeSet::new(), chosen: Vec::new() }
    }
}

impl CommandWatch {
    /// True if a command matches.
    fn fits(&self, command: &str, keys: &[String]) -> bool {
        let key_fits = match &self.key {
            Some(pattern) => {
                let none = [String::new()];
                let keys = if keys.is_empty() { &none } else { keys };
                keys.iter().any(|key| is_like(pattern.as_bytes(), key.as_bytes()))
            }
            // A script that declares no keys may write any key.
            None if keys.is_empty() && runs_a_script(command) => true,
            None => self.command != Command::Write || keys.iter().any(|key| names_a_key_of_the_run(key)),
        };
        key_fits && fits(&self.command, &self.writing, command)
    }

    /// The connections whose last command matches, from a server's answer to `CLIENT LIST`.
    pub fn chosen_from(&self, list: &str, server: Ipv4Addr) -> Vec<Ends> {
        let chosen = list.lines().filter_map(|line| {
            let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            let command = field("cmd")?.split('|').next()?.to_ascii_uppercase();
            let subscribed = |count: &str| field(count).is_some_and(|count| count != "0");
            let is_meant = match &self.command {
                Command::Named(name) if name == "SUBSCRIBE" => subscribed("sub"),
                Command::Named(name) if name == "PSUBSCRIBE" => subscribed("psub"),
                meant => fits(meant, &self.writing, &command),
            };
            let (address, port) = field("addr")?.rsplit_once(':')?;
            Some((address.parse().ok()?, port.parse().ok()?, server)).filter(|_| is_meant)
        });
        chosen.collect()
    }

    /// The observation of a fault that fired.
    pub fn tell(&self, strike: &CommandStrike, client: &str, server: &str) -> String {
        let which = match strike.nth {
            0 => format!("the connection of {client} to {server} with {} as its last command", self.command),
            nth => {
                let key = if strike.key.is_empty() { String::new() } else { format!(" of {}", strike.key) };
                format!("{client}'s {} {}{key} to {server}", ordinal(nth), strike.command)
            }
        };
        let answered = match strike.answer.as_str() {
            "" => "was answered".to_string(),
            answer => format!("was answered with {answer}"),
        };
        let what = match self.effect {
            CallEffect::HoldRequest => "is held",
            CallEffect::HoldReply => return format!("{which} {answered}, and the reply is held"),
            CallEffect::LoseReply => return format!("{which} {answered}, and the reply was lost"),
            CallEffect::ResetAfter => {
                return format!("{which} {answered}, the reply was lost, and both ends got an RST");
            }
            CallEffect::CloseAfter => {
                return format!("{which} {answered}, the reply was lost, {client} got a FIN, and {server} an RST");
            }
            CallEffect::ResetConnection => "was dropped, and both ends received an RST",
            CallEffect::CutConnection => "was dropped, as is everything else on its connection",
            CallEffect::Refuse => {
                let code = strike.answer.split(' ').next().unwrap_or_default();
                return format!("{which} was refused with {code}, and {server} never received it");
            }
        };
        format!("{which} {what}")
    }

    /// The observation of a fault that did not fire between these clients and servers. `spared` is the first matching command
    /// that did nothing.
    pub fn tell_none(&self, pairs: &[(String, String)], spared: Option<&CommandStrike>) -> String {
        let of = if self.effect.waits_for_the_reply() { "reply to a " } else { "" };
        let nth = self.nth.filter(|nth| *nth > 1).map(|nth| ordinal(nth) + " ").unwrap_or_default();
        let on = match &self.key {
            Some(key) => format!(" of a key like {key}"),
            None if self.command == Command::Write => " of the operation's key".to_string(),
            None => String::new(),
        };
        let unique = |mut names: Vec<&str>| {
            names.sort_unstable();
            names.dedup();
            names.join(" or ")
        };
        let clients = unique(pairs.iter().map(|(client, _)| client.as_str()).collect());
        let servers = unique(pairs.iter().map(|(_, server)| server.as_str()).collect());
        let spared = spared.map(|spared| {
            let of = if spared.key.is_empty() { String::new() } else { format!(" of {}", spared.key) };
            format!("; {}{of} was answered with {} and did nothing", spared.command, spared.answer)
        });
        let spared = spared.unwrap_or_default();
        format!("armed, but there was no {of}{nth}{}{on} from {clients} to {servers}{spared}", self.command)
    }
}

/// A command at which a fault fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandStrike {
    pub client: Ipv4Addr,
    pub server: Ipv4Addr,
    /// The command's index among the matching commands, from 1; 0 if the connection was chosen in advance.
    pub nth: u32,
    /// The command's name in capitals; empty if the connection was chosen in advance.
    pub command: String,
    /// The command's first key, or the key that matched.
    pub key: String,
    /// The server's answer, if it was seen, or the error that replaced it.
    pub answer: String,
}

/// The first command at which a fault fired, with all clients and servers that the fault has affected. If it has not fired, the
/// first matching command that did nothing.
pub type SoFar = Result<(CommandStrike, BTreeSet<Pair>), Option<CommandStrike>>;

/// The first firing of each fault, and how often it fired. The carrying thread shares it with the threads that ask.
#[derive(Clone, Default)]
pub(super) struct Strikes(Arc<Mutex<BTreeMap<u32, StruckCommand>>>);

#[derive(Default)]
struct StruckCommand {
    first: Option<CommandStrike>,
    /// The first matching command that did nothing.
    spared: Option<CommandStrike>,
    /// The pairs of client and server that the fault has affected.
    pairs: BTreeSet<Pair>,
    count: u64,
    /// True if the fault must not fire any more.
    disarmed: bool,
}

impl Strikes {
    pub fn arm(&self, fault: u32) {
        self.lock().insert(fault, StruckCommand::default());
    }

    pub fn forget(&self, fault: u32) -> u64 {
        self.lock().remove(&fault).map_or(0, |struck| struck.count)
    }

    /// Where a fault has fired so far. If `disarm`, it will not fire any more, whatever the answer.
    pub fn so_far(&self, fault: u32, disarm: bool) -> SoFar {
        let mut all = self.lock();
        let struck = all.get_mut(&fault).ok_or(None)?;
        struck.disarmed |= disarm;
        struck.first.clone().map(|first| (first, struck.pairs.clone())).ok_or_else(|| struck.spared.clone())
    }

    fn spare(&self, fault: u32, strike: CommandStrike) {
        if let Some(struck) = self.lock().get_mut(&fault) {
            struck.spared.get_or_insert(strike);
        }
    }

    /// Records that a fault fires; `false` if it must not.
    fn note(&self, fault: u32, strike: &CommandStrike) -> bool {
        let mut all = self.lock();
        let Some(struck) = all.get_mut(&fault).filter(|struck| !struck.disarmed) else { return false };
        struck.first.get_or_insert_with(|| strike.clone());
        struck.pairs.insert((strike.client, strike.server));
        struck.count += 1;
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, StruckCommand>> {
        lock(&self.0)
    }
}

/// The treatment of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    PassOn,
    /// The segment is held, or lost.
    Withheld,
    /// The segment is lost, and these frames are sent instead.
    Answered(Vec<Vec<u8>>),
    /// These frames continue in its place, in either direction, each subject to its link's faults.
    Replaced(Vec<Vec<u8>>),
}

/// All connections on which a fault may fire.
#[derive(Default)]
pub(super) struct Calls {
    faults: BTreeMap<u32, Armed>,
    connections: BTreeMap<Ends, TrackedConnection>,
    /// How many segments have been seen.
    seen: u64,
    strikes: Strikes,
}

/// A fault as the network knows it: its command watch, and its links.
pub(super) type Ordered = (CommandWatch, BTreeSet<Pair>);

struct Armed {
    watch: CommandWatch,
    pairs: BTreeSet<Pair>,
    /// How many commands have matched so far, by client and server.
    matched: BTreeMap<Pair, u32>,
}

#[derive(Default)]
struct TrackedConnection {
    requests: Stream,
    replies: Stream,
    /// How many commands have passed, and how many replies.
    asked: u64,
    answered: u64,
    /// Matching commands whose replies have not come yet.
    due: Vec<AwaitedCommand>,
    /// Matching commands since MULTI; the reply to EXEC answers them. `None` outside a transaction.
    queued: Option<Vec<(u32, CommandStrike)>>,
    /// Faults that chose this connection in advance, and have seen no segment of it yet.
    chosen: Vec<u32>,
    /// Faults that have fired on this connection.
    fates: Vec<(u32, CallEffect)>,
    refusals: Refusals,
    /// The last segment to the client after a refusal, as a frame.
    newest: Option<Vec<u8>>,
    held: VecDeque<(StreamDirection, Vec<u8>)>,
    held_bytes: usize,
    /// True if the client has been sent the server's close.
    is_closed: bool,
    /// The last segment of a lost reply, as a frame.
    lost: Option<Vec<u8>>,
    /// The acknowledgement number of the client's last segment.
    client_expects: u32,
    /// When the connection was last seen, as a count of segments.
    last: u64,
}

/// A matching command. The fault fires if the command's reply shows that it did something.
struct AwaitedCommand {
    /// The index of the reply on the connection that it waits for.
    number: u64,
    /// The sequence number at the end of its request.
    end: u32,
    fault: u32,
    strike: CommandStrike,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamDirection {
    Request,
    Reply,
}

/// One direction of a connection.
#[derive(Default)]
struct Stream {
    /// The sequence number of the next byte; None while the position within commands is unknown.
    next: Option<u32>,
    scanner: Scanner,
}

impl Calls {
    pub fn new(strikes: Strikes) -> Calls {
        Calls { strikes, ..Calls::default() }
    }

    /// Arms exactly these faults from now on. Returns the frames to send at once: frames that other faults held, in order, and
    /// RSTs where a reply was lost for good.
    pub fn arm(&mut self, faults: &BTreeMap<u32, Ordered>) -> Vec<Vec<u8>> {
        self.faults.retain(|fault, _| faults.contains_key(fault));
        for (fault, (watch, pairs)) in faults {
            if !self.faults.contains_key(fault) {
                for ends in &watch.chosen {
                    let connection = self.connections.entry(*ends).or_default();
                    connection.chosen.push(*fault);
                    connection.fates.push((*fault, watch.effect));
                }
                let armed = Armed { watch: watch.clone(), pairs: pairs.clone(), matched: BTreeMap::new() };
                self.faults.insert(*fault, armed);
            }
        }
        let mut send = Vec::new();
        let is_watched =
            |(client, _, server): &Ends| faults.values().any(|(_, pairs)| pairs.contains(&(*client, *server)));
        for (ends, connection) in &mut self.connections {
            connection.due.retain(|due| faults.contains_key(&due.fault));
            connection.queued.iter_mut().for_each(|all| all.retain(|(fault, _)| faults.contains_key(fault)));
            connection.chosen.retain(|fault| faults.contains_key(fault));
            connection.fates.retain(|(fault, _)| faults.contains_key(fault));
            connection.let_go(&mut send);
            // The connection's ends count bytes differently, and from now on no fault corrects this.
            if let Some(newest) = connection.newest.take_if(|_| !is_watched(ends)) {
                send.extend(reset::forge_at(&newest, connection.client_expects).into_iter().map(bare));
                connection.refusals = Refusals::default();
            }
        }
        if faults.is_empty() {
            self.connections.clear();
        }
        send
    }

    /// Handles a frame on a link that has faults. `bytes` begins with the offload header.
    pub fn treat(&mut self, bytes: &[u8]) -> Treatment {
        let captured = bytes.get(OFFLOAD_HEADER..).unwrap_or_default();
        let Some(packet) = frame::ipv4(captured) else { return Treatment::PassOn };
        let Some(segment) = frame::tcp(&packet) else { return Treatment::PassOn };
        let (direction, ends) = match (segment.from_port, segment.to_port) {
            (port, REDIS_PORT) => (StreamDirection::Request, (packet.from, port, packet.to)),
            (REDIS_PORT, port) => (StreamDirection::Reply, (packet.to, port, packet.from)),
            _ => return Treatment::PassOn,
        };
        let link = (packet.from, packet.to);
        if !self.faults.values().any(|armed| armed.pairs.contains(&link)) {
            return Treatment::PassOn;
        }
        self.seen += 1;
        let seen = self.seen;
        let connection = self.connection(ends, &segment);
        connection.last = seen;
        connection.follow_flags(direction, &segment);
        let payload = frame::content(&packet);
        match direction {
            StreamDirection::Request => {
                let end = segment.sequence.wrapping_add(segment.length);
                let mut begin = connection.requests.begins(segment.sequence);
                for command in connection.requests.read(segment.sequence, payload, resp::begins_a_command) {
                    let place = begin.replace(command.end).map(|begin| (begin, command.end));
                    self.asked(ends, &command, end, place);
                }
                if let Some(connection) = self.connections.get_mut(&ends) {
                    connection.say_errors(segment.acknowledged);
                }
            }
            StreamDirection::Reply => self.replied(ends, &segment, payload),
        }
        match self.connections.get_mut(&ends) {
            Some(connection) => connection.treat(ends, direction, bytes, &self.strikes),
            None => Treatment::PassOn,
        }
    }

    fn connection(&mut self, ends: Ends, segment: &Tcp) -> &mut TrackedConnection {
        let is_new = segment.flags & (flags::SYN | flags::ACK) == flags::SYN;
        if is_new {
            // An earlier connection with the same ends is over.
            self.connections.remove(&ends);
        }
        if self.connections.len() >= MOST_CONNECTIONS && !self.connections.contains_key(&ends) {
            let idle = self.connections.iter().filter(|(_, one)| one.fates.is_empty() && !one.refusals.has_any());
            let silent = idle.min_by_key(|(_, one)| one.last).map(|(ends, _)| *ends);
            silent.map(|silent| self.connections.remove(&silent));
        }
        self.connections.entry(ends).or_default()
    }

    /// Records that a command has passed, in a segment that ends at `end`. If the whole command is in this segment, `place` is
    /// its first byte and the first byte after it.
    fn asked(&mut self, ends: Ends, command: &RespValue, end: u32, place: Option<(u32, u32)>) {
        let Some(connection) = self.connections.get_mut(&ends) else { return };
        // Messages to a subscriber look like replies, so they must not be counted beyond the commands.
        connection.answered = connection.answered.min(connection.asked);
        connection.asked += 1;
        let number = connection.asked;
        let Some(name) = command.words.first() else { return };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        let in_transaction = connection.queued.is_some();
        match name.as_str() {
            "MULTI" => connection.queued = Some(Vec::new()),
            "DISCARD" => connection.queued = None,
            "EXEC" => {
                let queued = connection.queued.take().unwrap_or_default();
                connection.due.extend(queued.into_iter().map(|(fault, strike)| AwaitedCommand {
                    number,
                    end,
                    fault,
                    strike,
                }));
            }
            _ => {}
        }
        let keys = keys_of(&name, &command.words);
        let (client, _, server) = ends;
        for (fault, armed) in &mut self.faults {
            if !armed.pairs.contains(&(client, server)) || !armed.watch.fits(&name, &keys) {
                continue;
            }
            let key = keys.iter().find(|key| names_a_key_of_the_run(key)).or(keys.first()).cloned().unwrap_or_default();
            let strike = CommandStrike { client, server, nth: 0, command: name.clone(), key, answer: String::new() };
            if armed.watch.effect.waits_for_the_reply() {
                match &mut connection.queued {
                    Some(queued) if name != "MULTI" => queued.push((*fault, strike)),
                    _ => connection.due.push(AwaitedCommand { number, end, fault: *fault, strike }),
                }
                continue;
            }
            if let Some(error) = armed.watch.error {
                // If a part of the command has passed, the server would take the rest for another command. And a server refuses a
                // transaction as a whole.
                let Some(place) = place.filter(|_| !in_transaction) else { continue };
                let answer = error.text(&strike.command, &strike.key, server);
                if let Some(strike) = armed.counted(CommandStrike { answer, ..strike })
                    && self.strikes.note(*fault, &strike)
                {
                    connection.refusals.refuse(place, number, &strike.answer);
                    connection.due.retain(|due| due.number != number);
                    if name == "MULTI" {
                        connection.queued = None;
                    }
                    // No other fault can fire on a refused command.
                    return;
                }
                continue;
            }
            if let Some(strike) = armed.counted(strike)
                && self.strikes.note(*fault, &strike)
            {
                connection.has_struck(*fault, armed.watch.effect);
            }
        }
    }

    /// Handles a segment from the server: faults that wait for a reply in it fire, unless the reply says that nothing was done.
    fn replied(&mut self, ends: Ends, segment: &Tcp, payload: &[u8]) {
        let Some(connection) = self.connections.get_mut(&ends) else { return };
        if !connection.replies.is_new(segment.sequence, payload) {
            return;
        }
        let values = connection.replies.read(segment.sequence, payload, resp::begins_a_reply);
        let mut answers: Vec<(u64, RespValue)> = Vec::new();
        for value in values.into_iter().filter(|value| !matches!(value.kind, b'>' | b'|')) {
            connection.answered += 1;
            let (number, end) = (connection.answered, value.end);
            answers.push((number, value));
            connection.answered = connection.refusals.say(number, end);
        }
        // If the position of these bytes is unknown, they may be any reply.
        let begun = match connection.replies.next {
            Some(_) => connection.answered + u64::from(connection.replies.scanner.is_within()),
            None => connection.asked,
        };
        let is_here =
            |due: &AwaitedCommand| due.number <= begun && segment.acknowledged.wrapping_sub(due.end).cast_signed() >= 0;
        let (here, due) = std::mem::take(&mut connection.due).into_iter().partition::<Vec<_>, _>(is_here);
        connection.due = due;
        for AwaitedCommand { number, fault, mut strike, .. } in here {
            let Some(armed) = self.faults.get_mut(&fault) else { continue };
            // For a reply that continues in the next segment, only its beginning is known; such a long reply is not a refusal.
            if let Some((_, answer)) = answers.iter().find(|(place, _)| *place == number) {
                strike.answer = shown(answer);
                if did_nothing(&armed.watch.command, &strike.command, answer) {
                    self.strikes.spare(fault, strike);
                    continue;
                }
            }
            if let Some(strike) = armed.counted(strike)
                && self.strikes.note(fault, &strike)
            {
                connection.has_struck(fault, armed.watch.effect);
            }
        }
    }
}

impl Armed {
    /// Counts a matching command. If the fault fires at it, returns the command with its number.
    fn counted(&mut self, strike: CommandStrike) -> Option<CommandStrike> {
        let nth = self.matched.entry((strike.client, strike.server)).or_default();
        *nth += 1;
        let strikes = self.watch.nth.is_none_or(|wanted| wanted == *nth);
        strikes.then_some(CommandStrike { nth: *nth, ..strike })
    }
}

impl Stream {
    /// True if the segment has bytes that were not seen before, as far as this is known.
    fn is_new(&self, sequence: u32, payload: &[u8]) -> bool {
        let end = sequence.wrapping_add(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        !payload.is_empty() && self.next.is_none_or(|next| end.wrapping_sub(next).cast_signed() > 0)
    }

    /// The sequence number at which the next command or reply begins, in a segment that begins at `sequence`. `None` if one began
    /// in an earlier segment.
    fn begins(&self, sequence: u32) -> Option<u32> {
        match self.next {
            Some(next) if next.wrapping_sub(sequence).cast_signed() >= 0 => {
                Some(next).filter(|_| !self.scanner.is_within())
            }
            _ => Some(sequence),
        }
    }

    /// The new commands or replies that end in this segment.
    fn read(&mut self, sequence: u32, payload: &[u8], is_beginning: fn(&[u8]) -> bool) -> Vec<RespValue> {
        if !self.is_new(sequence, payload) {
            return Vec::new();
        }
        let known = self.next.map(|next| next.wrapping_sub(sequence).cast_signed());
        let new = match known.and_then(|known| usize::try_from(known).ok()) {
            Some(known) => payload.get(known..).unwrap_or_default(),
            // This is a new connection, or there was a gap.
            None => {
                (self.next, self.scanner) = (None, Scanner::default());
                if !is_beginning(payload) {
                    return Vec::new();
                }
                payload
            }
        };
        let end = sequence.wrapping_add(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        match self.scanner.read(new) {
            Ok(mut values) => {
                self.next = Some(end);
                let first = end.wrapping_sub(u32::try_from(new.len()).unwrap_or(u32::MAX));
                values.iter_mut().for_each(|value| value.end = value.end.wrapping_add(first));
                values
            }
            Err(resp::NoResp) => {
                (self.next, self.scanner) = (None, Scanner::default());
                Vec::new()
            }
        }
    }
}

impl TrackedConnection {
    /// Starts a direction at its SYN, which has its first sequence number.
    fn follow_flags(&mut self, direction: StreamDirection, segment: &Tcp) {
        let stream = match direction {
            StreamDirection::Request => &mut self.requests,
            StreamDirection::Reply => &mut self.replies,
        };
        if segment.flags & flags::SYN != 0 {
            *stream = Stream { next: Some(segment.sequence.wrapping_add(1)), scanner: Scanner::default() };
        }
        if direction == StreamDirection::Request && segment.flags & flags::ACK != 0 {
            self.client_expects = segment.acknowledged;
        }
    }

    fn has_struck(&mut self, fault: u32, action: CallEffect) {
        if !self.fates.contains(&(fault, action)) {
            self.fates.push((fault, action));
        }
    }

    fn has(&self, action: CallEffect) -> bool {
        self.fates.iter().any(|(_, fate)| *fate == action)
    }

    fn holds(&self, direction: StreamDirection) -> bool {
        match direction {
            StreamDirection::Request => self.has(CallEffect::HoldRequest),
            StreamDirection::Reply => self.has(CallEffect::HoldReply),
        }
    }

    /// Inserts the errors for which no earlier reply is missing. `acknowledged` is the client's acknowledgement number.
    fn say_errors(&mut self, acknowledged: u32) {
        if self.refusals.has_any() {
            let next = self.replies.next.unwrap_or_else(|| self.refusals.to_server(acknowledged));
            let answered = self.refusals.say(self.answered, next);
            if answered > self.answered {
                (self.answered, self.replies.next) = (answered, Some(next));
            }
        }
    }

    fn treat(&mut self, ends: Ends, direction: StreamDirection, bytes: &[u8], strikes: &Strikes) -> Treatment {
        if !self.refusals.has_any() {
            return self.treat_one(ends, direction, (bytes, bytes), strikes);
        }
        let mut send = Vec::new();
        for (way, frame) in self.refusals.renumber(ends, direction, bytes) {
            // A reset uses the client's sequence numbers: the server checks only the numbers of requests, which are the same at
            // both ends.
            let told = if way == StreamDirection::Request { bytes } else { &frame };
            match self.treat_one(ends, way, (told, &frame), strikes) {
                Treatment::PassOn => send.push(frame),
                Treatment::Withheld => {}
                other => return other,
            }
        }
        if send.is_empty() { Treatment::Withheld } else { Treatment::Replaced(send) }
    }

    /// Treats one segment. An RST is built from `told`; `bytes` is sent or held.
    fn treat_one(
        &mut self,
        (client, _, server): Ends,
        direction: StreamDirection,
        (told, bytes): (&[u8], &[u8]),
        strikes: &Strikes,
    ) -> Treatment {
        let captured = told.get(OFFLOAD_HEADER..).unwrap_or_default();
        if direction == StreamDirection::Reply && self.refusals.has_any() {
            self.newest = Some(captured[..captured.len().min(frame::HEADERS)].to_vec());
        }
        for fault in std::mem::take(&mut self.chosen) {
            let (command, key, answer) = (String::new(), String::new(), String::new());
            let strike = CommandStrike { client, server, nth: 0, command, key, answer };
            if !strikes.note(fault, &strike) {
                self.fates.retain(|(other, _)| *other != fault);
            }
        }
        if self.has(CallEffect::ResetAfter) || self.has(CallEffect::ResetConnection) {
            return Treatment::Answered(reset::forge(captured).into_iter().map(bare).collect());
        }
        if self.has(CallEffect::CloseAfter) {
            // The first reply segment is replaced by the close, later ones by nothing. Requests get an RST, as from a closed
            // socket.
            let forged = match direction {
                StreamDirection::Reply if !std::mem::replace(&mut self.is_closed, true) => reset::close(captured),
                StreamDirection::Reply => Vec::new(),
                StreamDirection::Request => reset::refuse(captured),
            };
            return Treatment::Answered(forged.into_iter().map(bare).collect());
        }
        if self.has(CallEffect::CutConnection) {
            return Treatment::Withheld;
        }
        if direction == StreamDirection::Reply && self.has(CallEffect::LoseReply) {
            // The segment's headers are enough.
            self.lost = Some(captured[..captured.len().min(frame::HEADERS)].to_vec());
            return Treatment::Withheld;
        }
        if !self.holds(direction) {
            return Treatment::PassOn;
        }
        if self.held_bytes + bytes.len() <= ROOM {
            self.held_bytes += bytes.len();
            self.held.push_back((direction, bytes.to_vec()));
        }
        Treatment::Withheld
    }

    /// Adds the frames that no fault holds any more.
    fn let_go(&mut self, send: &mut Vec<Vec<u8>>) {
        if !self.has(CallEffect::LoseReply)
            && let Some(lost) = self.lost.take()
        {
            // The client still expects the reply's first byte. The server expects the byte that its last segment acknowledged.
            send.extend(reset::forge_at(&lost, self.client_expects).into_iter().map(bare));
        }
        for (direction, bytes) in std::mem::take(&mut self.held) {
            if self.holds(direction) {
                self.held.push_back((direction, bytes));
            } else {
                self.held_bytes -= bytes.len();
                send.push(bytes);
            }
        }
    }
}

/// A frame in the form for a packet socket, with no checksum left to compute.
fn bare(frame: Vec<u8>) -> Vec<u8> {
    [&[0; OFFLOAD_HEADER], &frame[..]].concat()
}

/// True if a text matches a pattern, in which `*` stands for any bytes and `?` for one byte.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where to continue if the part after the last `*` does not match.
    let mut again: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                again = Some((at + 1, read));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || *wanted == text[read] => (at, read) = (at + 1, read + 1),
            _ => match &mut again {
                Some((after, from)) => {
                    *from += 1;
                    (at, read) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;

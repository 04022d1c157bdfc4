//! Replaces the addresses that servers announce by the addresses of their relays, in replies to clients.
//!
//! Source: the documentation of CLUSTER SLOTS, SHARDS and NODES, ROLE, INFO, SENTINEL, and redirections.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use remote::Resp;

/// A server, and its relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The id of a node in a Redis Cluster.
    pub id: Option<String>,
    /// Hosts and ports under which other servers announce it.
    pub known_as: Vec<(String, u16)>,
    /// The relay's address and port. None if the server has no relay.
    pub relay: Option<(Ipv4Addr, u16)>,
}

/// The servers of a group, nodes before Sentinels.
#[derive(Clone, Debug, Default)]
pub(super) struct Announced(pub Vec<Place>);

/// Commands, by the form of the addresses in their replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The reply contains no address.
    Other,
    Slots,
    Shards,
    Nodes,
    Info,
    Role,
    /// SENTINEL GET-MASTER-ADDR-BY-NAME.
    Primary,
    /// SENTINEL MASTER, MASTERS, REPLICAS or SENTINELS.
    Watched,
}

/// The commands of a connection that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    asked: VecDeque<Asked>,
    subscribes: bool,
    /// The client turned replies off with CLIENT REPLY OFF.
    is_silent: bool,
    /// The client turned off the reply to its next command with CLIENT REPLY SKIP.
    skips_next: bool,
}

impl Unanswered {
    /// Notes a command that is sent. Commands about channels have no reply of their own: the server sends messages instead.
    pub fn note(&mut self, words: &[Vec<u8>]) {
        let word = |at: usize| words.get(at).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        let (name, part) = (word(0), word(1));
        if (&name[..], &part[..]) == (b"CLIENT", b"REPLY") {
            match &word(2)[..] {
                b"ON" => self.is_silent = false,
                b"OFF" => self.is_silent = true,
                b"SKIP" => self.skips_next = true,
                _ => {}
            }
            if self.is_silent || self.skips_next {
                return;
            }
        } else if std::mem::take(&mut self.skips_next) || self.is_silent {
            return;
        }
        if name.ends_with(b"SUBSCRIBE") {
            self.subscribes = true;
            return;
        }
        self.asked.push_back(match (&name[..], &part[..]) {
            (b"CLUSTER", b"SLOTS") => Asked::Slots,
            (b"CLUSTER", b"SHARDS") => Asked::Shards,
            (b"CLUSTER", b"NODES") => Asked::Nodes,
            (b"INFO", _) => Asked::Info,
            (b"ROLE", _) => Asked::Role,
            (b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME") => Asked::Primary,
            (b"SENTINEL", b"MASTER" | b"MASTERS" | b"REPLICAS" | b"SLAVES" | b"SENTINELS") => Asked::Watched,
            _ => Asked::Other,
        });
    }

    /// The command that this value from the server answers; None if the value is a message.
    fn answered_by(&mut self, value: &Resp) -> Option<Asked> {
        let is_message = match value {
            Resp::List(b'>', _) => true,
            Resp::List(b'*', parts) if self.subscribes => {
                let kind = parts.first().and_then(Resp::as_text).unwrap_or_default();
                kind.ends_with("subscribe") || kind.ends_with("message")
            }
            _ => false,
        };
        if is_message { None } else { Some(self.asked.pop_front().unwrap_or(Asked::Other)) }
    }
}

impl Announced {
    /// The value to send to the client in place of this value from the server at index `place`.
    pub fn in_place_of(&self, value: Resp, unanswered: &mut Unanswered, place: usize) -> Resp {
        let Some(asked) = unanswered.answered_by(&value) else { return self.message(value) };
        if let Some(error) = value.as_error() {
            return self.redirection(&error, place).map_or(value, |error| Resp::Line(format!("-{error}").into_bytes()));
        }
        match asked {
            Asked::Other => value,
            Asked::Slots => each(value, |range| each_after(2, range, |node| self.in_slots(node))),
            Asked::Shards => {
                each(value, |shard| in_map(shard, "nodes", |nodes| each(nodes, |node| self.in_shards(node))))
            }
            Asked::Nodes => in_text(value, |text| lines(text, "\n", |line| self.in_nodes(line))),
            Asked::Info => in_text(value, |text| self.in_info(text)),
            Asked::Role => self.in_role(value),
            Asked::Primary => self.pair(value),
            Asked::Watched => self.watched(value).unwrap_or(Resp::List(b'*', Vec::new())),
        }
    }

    fn known_as(&self, host: &str, port: u16) -> Option<(Ipv4Addr, u16)> {
        let is_it = |place: &&Place| place.known_as.iter().any(|(other, at)| other == host && *at == port);
        self.0.iter().find(is_it)?.relay
    }

    fn of_id(&self, id: &str) -> Option<(Ipv4Addr, u16)> {
        self.0.iter().find(|place| place.id.as_deref() == Some(id))?.relay
    }

    /// Replaces the address in `host:port`.
    fn joined(&self, text: &str) -> Option<String> {
        let (host, port) = text.rsplit_once(':')?;
        let (address, port) = self.known_as(host.trim_matches(['[', ']']), port.parse().ok()?)?;
        Some(format!("{address}:{port}"))
    }

    /// Replaces the address in `MOVED 7 host:port` and similar errors. A missing host means the answering server's host.
    fn redirection(&self, error: &str, place: usize) -> Option<String> {
        let words: Vec<&str> = error.split(' ').collect();
        let (head, at) = match words[..] {
            ["MOVED" | "ASK", _, at] => (format!("{} {}", words[0], words[1]), at),
            ["REDIRECT", at] => ("REDIRECT".to_string(), at),
            _ => return None,
        };
        let at = match at.strip_prefix(':') {
            Some(port) => {
                let (host, _) = self.0.get(place)?.known_as.first()?;
                format!("{host}:{port}")
            }
            None => at.to_string(),
        };
        Some(format!("{head} {}", self.joined(&at)?))
    }

    /// Replaces the address of a node: a list of host, port, id, and perhaps other names of its host.
    fn in_slots(&self, node: Resp) -> Resp {
        let Resp::List(kind, mut parts) = node else { return node };
        let known = parts.get(2).and_then(Resp::as_text).and_then(|id| self.of_id(id));
        let known = known.or_else(|| self.known_as(parts.first()?.as_text()?, port(parts.get(1)?)?));
        if let Some((address, port)) = known
            && let [host, at, ..] = &mut parts[..]
        {
            (*host, *at) = (Resp::text(&address.to_string()), Resp::integer(port.into()));
            if let Some(Resp::List(_, names)) = parts.get_mut(3) {
                names.clear();
            }
        }
        Resp::List(kind, parts)
    }

    /// Replaces the addresses in a node's list of fields.
    fn in_shards(&self, node: Resp) -> Resp {
        let Some((address, port)) = field(&node, "id").and_then(Resp::as_text).and_then(|id| self.of_id(id)) else {
            return node;
        };
        let Resp::List(kind, parts) = node else { return node };
        let mut fields: Vec<Resp> = Vec::with_capacity(parts.len());
        for pair in parts.chunks(2) {
            match pair[0].as_text() {
                Some("ip" | "endpoint") => fields.extend([pair[0].clone(), Resp::text(&address.to_string())]),
                Some("port" | "tls-port" | "hostname") => {}
                _ => fields.extend_from_slice(pair),
            }
        }
        fields.extend([Resp::text("port"), Resp::integer(port.into())]);
        Resp::List(kind, fields)
    }

    /// Replaces the address in `id ip:port@bus,name flags …`.
    fn in_nodes(&self, line: &str) -> Option<String> {
        let mut words: Vec<&str> = line.split(' ').collect();
        let (address, port) = self.of_id(words.first()?)?;
        let at = format!("{address}:{port}@{}", u32::from(port) + 10_000);
        *words.get_mut(1)? = &at;
        Some(words.join(" "))
    }

    /// Replaces the addresses in `master_host:…` before `master_port:…`, and in `slave0:ip=…,port=…,…`.
    fn in_info(&self, text: &str) -> String {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let primary = value("master_host").zip(value("master_port").and_then(|port| port.parse().ok()));
        let primary = primary.and_then(|(host, port)| self.known_as(host, port));
        lines(text, "\r\n", |line| {
            let (name, value) = line.split_once(':')?;
            match (name, primary) {
                ("master_host", Some((address, _))) => return Some(format!("{name}:{address}")),
                ("master_port", Some((_, port))) => return Some(format!("{name}:{port}")),
                _ => {}
            }
            let rest = value.strip_prefix("ip=").filter(|_| name.starts_with("slave"))?;
            let (host, rest) = rest.split_once(",port=")?;
            let (port, rest) = rest.split_once(',')?;
            let (address, port) = self.known_as(host, port.parse().ok()?)?;
            Some(format!("{name}:ip={address},port={port},{rest}"))
        })
    }

    /// Replaces the addresses in `slave`, host, port, …, or in `master`, an offset, and a list for each replica.
    fn in_role(&self, value: Resp) -> Resp {
        let Resp::List(kind, mut parts) = value else { return value };
        if parts.first().and_then(Resp::as_text) == Some("slave") {
            let known = parts.get(1).and_then(Resp::as_text).zip(parts.get(2).and_then(port));
            if let Some((address, port)) = known.and_then(|(host, port)| self.known_as(host, port)) {
                (parts[1], parts[2]) = (Resp::text(&address.to_string()), Resp::integer(port.into()));
            }
            return Resp::List(kind, parts);
        }
        let parts = parts.into_iter().map(|part| each(part, |replica| self.pair(replica)));
        Resp::List(kind, parts.collect())
    }

    /// Replaces the address in a list that begins with host and port.
    fn pair(&self, value: Resp) -> Resp {
        let Resp::List(kind, mut parts) = value else { return value };
        let known = parts.first().and_then(Resp::as_text).zip(parts.get(1).and_then(port));
        if let Some((address, at)) = known.and_then(|(host, port)| self.known_as(host, port)) {
            (parts[0], parts[1]) = (Resp::text(&address.to_string()), Resp::text(&at.to_string()));
        }
        Resp::List(kind, parts)
    }

    /// Replaces the address in a server's fields, or in a list of servers. Leaves out servers without a relay.
    fn watched(&self, value: Resp) -> Option<Resp> {
        let Resp::List(kind, parts) = value else { return Some(value) };
        if parts.first().is_some_and(|first| first.as_list().is_some()) {
            return Some(Resp::List(kind, parts.into_iter().filter_map(|part| self.watched(part)).collect()));
        }
        let whole = Resp::List(kind, parts);
        let at = |host: &str, port_field: &str| {
            let host = field(&whole, host)?.as_text()?;
            Some((host.to_string(), port(field(&whole, port_field)?)?))
        };
        let Some((host, its_port)) = at("ip", "port") else { return Some(whole) };
        let (address, known_port) = self.known_as(&host, its_port)?;
        let primary = at("master-host", "master-port").and_then(|(host, port)| self.known_as(&host, port));
        let Resp::List(kind, mut parts) = whole else { return None };
        for pair in parts.chunks_mut(2) {
            let [name, value] = pair else { continue };
            let new = match (name.as_text(), primary) {
                (Some("ip"), _) => address.to_string(),
                (Some("port"), _) => known_port.to_string(),
                (Some("master-host"), Some((address, _))) => address.to_string(),
                (Some("master-port"), Some((_, port))) => port.to_string(),
                (Some("name"), _) if value.as_text() == Some(&format!("{host}:{its_port}")) => {
                    format!("{address}:{known_port}")
                }
                _ => continue,
            };
            *value = Resp::text(&new);
        }
        Some(Resp::List(kind, parts))
    }

    /// Replaces the addresses in a Sentinel's message, which has hosts and ports among its words, side by side or joined.
    fn message(&self, value: Resp) -> Resp {
        let Resp::List(kind, mut parts) = value else { return value };
        if let Some(last) = parts.pop() {
            parts.push(in_text(last, |text| {
                let mut words: Vec<String> = text.split(' ').map(str::to_string).collect();
                for at in 0..words.len() {
                    let beside = words.get(at + 1).and_then(|port| port.parse().ok());
                    if let Some((address, port)) = beside.and_then(|port| self.known_as(&words[at], port)) {
                        (words[at], words[at + 1]) = (address.to_string(), port.to_string());
                    } else if let Some(joined) = self.joined(&words[at]) {
                        words[at] = joined;
                    }
                }
                words.join(" ")
            }));
        }
        Resp::List(kind, parts)
    }
}

fn port(value: &Resp) -> Option<u16> {
    value.as_number()?.try_into().ok()
}

fn each(value: Resp, change: impl FnMut(Resp) -> Resp) -> Resp {
    each_after(0, value, change)
}

/// Applies `change` to all parts of a list except the first `first` parts.
fn each_after(first: usize, value: Resp, mut change: impl FnMut(Resp) -> Resp) -> Resp {
    let Resp::List(kind, parts) = value else { return value };
    let parts = parts.into_iter().enumerate();
    Resp::List(kind, parts.map(|(at, part)| if at < first { part } else { change(part) }).collect())
}

/// The value of a name, in a list that alternates names and values.
fn field<'a>(value: &'a Resp, name: &str) -> Option<&'a Resp> {
    value.as_list()?.chunks_exact(2).find(|pair| pair[0].as_text() == Some(name)).map(|pair| &pair[1])
}

fn in_map(value: Resp, name: &str, change: impl Fn(Resp) -> Resp) -> Resp {
    let Resp::List(kind, mut parts) = value else { return value };
    for pair in parts.chunks_exact_mut(2).filter(|pair| pair[0].as_text() == Some(name)) {
        pair[1] = change(pair[1].clone());
    }
    Resp::List(kind, parts)
}

fn in_text(value: Resp, change: impl FnOnce(&str) -> String) -> Resp {
    let Some(text) = value.as_text() else { return value };
    let changed = change(text);
    match value {
        Resp::Text(b'=', whole) => Resp::Text(b'=', [whole.get(..4).unwrap_or_default(), changed.as_bytes()].concat()),
        _ => Resp::text(&changed),
    }
}

fn lines(text: &str, end: &str, change: impl Fn(&str) -> Option<String>) -> String {
    let changed = text.split(end).map(|line| change(line).unwrap_or_else(|| line.to_string()));
    changed.collect::<Vec<_>>().join(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "07c37dfeb235213a872192d90877d0cd55635b91";
    const OTHER: &str = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1";

    fn announced() -> Announced {
        let place = |id: &str, host: &str, last: u8, port: u16| Place {
            id: Some(id.to_string()),
            known_as: vec![(host.to_string(), 7000), (format!("{host}.example"), 7000)],
            relay: Some((Ipv4Addr::new(10, 0, 0, last), port)),
        };
        Announced(vec![place(ID, "172.16.0.1", 1, 6379), place(OTHER, "172.16.0.2", 2, 6379)])
    }

    fn list(parts: &[Resp]) -> Resp {
        Resp::List(b'*', parts.to_vec())
    }

    fn words(words: &[&str]) -> Resp {
        Resp::List(b'*', words.iter().map(|word| Resp::text(word)).collect())
    }

    /// The value that a client gets after it sent this command to the first server.
    fn told(command: &str, value: Resp) -> Resp {
        let mut unanswered = Unanswered::default();
        unanswered.note(&command.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        announced().in_place_of(value, &mut unanswered, 0)
    }

    fn error(text: &str) -> Resp {
        Resp::Line(format!("-{text}").into_bytes())
    }

    #[test]
    fn redirections_lead_to_relays() {
        for (from, to) in [
            ("MOVED 5 172.16.0.2:7000", "MOVED 5 10.0.0.2:6379"),
            ("ASK 5 172.16.0.2.example:7000", "ASK 5 10.0.0.2:6379"),
            ("MOVED 5 :7000", "MOVED 5 10.0.0.1:6379"),
            ("REDIRECT 172.16.0.1:7000", "REDIRECT 10.0.0.1:6379"),
            ("MOVED 5 172.16.0.9:7000", "MOVED 5 172.16.0.9:7000"),
            ("ERR 172.16.0.2:7000", "ERR 172.16.0.2:7000"),
        ] {
            assert_eq!(told("GET k", error(from)), error(to));
        }
        assert_eq!(told("GET k", Resp::text("MOVED 5 172.16.0.2:7000")), Resp::text("MOVED 5 172.16.0.2:7000"));
    }

    #[test]
    fn a_clusters_nodes_are_at_their_relays() {
        let node = |host: Resp, port: u64, id: &str, names: &[&str]| {
            list(&[host, Resp::integer(port), Resp::text(id), words(names)])
        };
        let nil = Resp::Line(b"$-1".to_vec());
        let slots = |one: Resp, other: Resp| list(&[list(&[Resp::integer(0), Resp::integer(9), one, other])]);
        let seen = slots(node(nil, 7000, ID, &["hostname", "a"]), node(Resp::text("172.16.0.2"), 7000, OTHER, &[]));
        let at = |last: u8, id: &str| node(Resp::text(&format!("10.0.0.{last}")), 6379, id, &[]);
        assert_eq!(told("cluster slots", seen.clone()), slots(at(1, ID), at(2, OTHER)));
        assert_eq!(told("GET k", seen.clone()), seen, "another command's reply is data");

        let nodes = |one: &str, two: &str| {
            Resp::text(&format!(
                "{ID} {one} myself,master - 0 0 1 connected 0-9\n{OTHER} {two} slave {ID} 0 0 1 connected\n"
            ))
        };
        let seen = nodes("172.16.0.1:7000@17000,a.example", "172.16.0.2:7000@17000");
        assert_eq!(told("CLUSTER NODES", seen), nodes("10.0.0.1:6379@16379", "10.0.0.2:6379@16379"));

        let shard = |kind: u8, fields: Vec<Resp>| {
            list(&[Resp::List(kind, vec![Resp::text("nodes"), list(&[Resp::List(kind, fields)])])])
        };
        let pair = |name: &str, value: &str| [Resp::text(name), Resp::text(value)];
        for kind in [b'*', b'%'] {
            let seen = [
                pair("id", ID),
                [Resp::text("tls-port"), Resp::integer(7000)],
                pair("ip", "172.16.0.1"),
                pair("endpoint", "?"),
                pair("hostname", "a.example"),
                pair("role", "master"),
            ];
            let expected = [
                pair("id", ID),
                pair("ip", "10.0.0.1"),
                pair("endpoint", "10.0.0.1"),
                pair("role", "master"),
                [Resp::text("port"), Resp::integer(6379)],
            ];
            assert_eq!(told("CLUSTER SHARDS", shard(kind, seen.concat())), shard(kind, expected.concat()));
        }
    }

    #[test]
    fn roles_name_relays() {
        let info = |primary: &str, port: u16, replica: &str| {
            Resp::text(&format!(
                "role:slave\r\nmaster_host:{primary}\r\nmaster_port:{port}\r\nslave0:ip={replica},port={port},state=online\r\n"
            ))
        };
        let seen = info("172.16.0.1", 7000, "172.16.0.2");
        assert_eq!(told("INFO replication", seen), info("10.0.0.1", 6379, "10.0.0.2"));
        let seen = list(&[Resp::text("slave"), Resp::text("172.16.0.1"), Resp::integer(7000), Resp::text("connected")]);
        let expected =
            list(&[Resp::text("slave"), Resp::text("10.0.0.1"), Resp::integer(6379), Resp::text("connected")]);
        assert_eq!(told("ROLE", seen), expected);
        let of = |replica: Resp| list(&[Resp::text("master"), Resp::integer(7), list(&[replica])]);
        let seen = of(words(&["172.16.0.2", "7000", "7"]));
        assert_eq!(told("ROLE", seen), of(words(&["10.0.0.2", "6379", "7"])));
    }

    #[test]
    fn sentinels_name_relays_and_no_other_server() {
        assert_eq!(
            told("SENTINEL get-master-addr-by-name m", words(&["172.16.0.1", "7000"])),
            words(&["10.0.0.1", "6379"])
        );
        let unknown = Resp::Line(b"*-1".to_vec());
        assert_eq!(told("SENTINEL GET-MASTER-ADDR-BY-NAME m", unknown.clone()), unknown);
        let replica = |host: &str, port: &str| {
            words(&["name", &format!("{host}:{port}"), "ip", host, "port", port, "flags", "slave"])
        };
        let seen = list(&[replica("172.16.0.2", "7000"), replica("172.16.0.9", "7000")]);
        assert_eq!(told("SENTINEL REPLICAS m", seen), list(&[replica("10.0.0.2", "6379")]));
    }

    #[test]
    fn commands_whose_replies_a_client_does_not_want_are_not_waited_for() {
        let mut unanswered = Unanswered::default();
        let lines = [
            "CLIENT REPLY SKIP",
            "SENTINEL GET-MASTER-ADDR-BY-NAME m",
            "PING",
            "client reply off",
            "ROLE",
            "CLIENT REPLY ON",
            "SENTINEL GET-MASTER-ADDR-BY-NAME m",
        ];
        for line in lines {
            unanswered.note(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        }
        let told = |value: Resp, unanswered: &mut Unanswered| announced().in_place_of(value, unanswered, 0);
        for line in ["+PONG", "+OK"] {
            let line = Resp::Line(line.as_bytes().to_vec());
            assert_eq!(told(line.clone(), &mut unanswered), line);
        }
        assert_eq!(told(words(&["172.16.0.1", "7000"]), &mut unanswered), words(&["10.0.0.1", "6379"]));
        assert!(unanswered.asked.is_empty(), "{unanswered:?}");
    }

    #[test]
    fn messages_are_no_replies() {
        let mut unanswered = Unanswered::default();
        let mut note = |line: &str| {
            unanswered.note(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        };
        note("SUBSCRIBE +switch-master");
        note("SENTINEL GET-MASTER-ADDR-BY-NAME m");
        let told = |value: Resp, unanswered: &mut Unanswered| announced().in_place_of(value, unanswered, 0);
        let begun = list(&[Resp::text("subscribe"), Resp::text("+switch-master"), Resp::integer(1)]);
        assert_eq!(told(begun.clone(), &mut unanswered), begun);
        let message = |text: &str| words(&["message", "+switch-master", text]);
        assert_eq!(
            told(message("m 172.16.0.1 7000 172.16.0.2 7000"), &mut unanswered),
            message("m 10.0.0.1 6379 10.0.0.2 6379")
        );
        assert_eq!(told(words(&["172.16.0.1", "7000"]), &mut unanswered), words(&["10.0.0.1", "6379"]));
        let pushed = Resp::List(
            b'>',
            vec![Resp::text("message"), Resp::text("+slave"), Resp::text("slave 172.16.0.2:7000 172.16.0.2 7000 @ m")],
        );
        let Resp::List(_, parts) = told(pushed, &mut unanswered) else { panic!("a push stays one") };
        assert_eq!(parts[2], Resp::text("slave 10.0.0.2:6379 10.0.0.2 6379 @ m"));
    }
}

//! The commands of a Sentinel, for clients and other Sentinels.

use super::Sentinel;
use super::instance::{Instance, ServerRole, Turned};
use crate::data::CommandWords;
use crate::number;
use crate::process::{Action, Connection};
use crate::reply::Reply;
use crate::request::{ParsedRequest, parse};

/// A connected client or Sentinel.
#[derive(Clone, Debug, Default)]
pub(super) struct Asker {
    input: Vec<u8>,
}

impl Sentinel {
    pub(super) fn answer(&mut self, connection: Connection, bytes: &[u8]) {
        let Some(asker) = self.clients.get_mut(&connection) else { return };
        let mut input = std::mem::take(&mut asker.input);
        input.extend_from_slice(bytes);
        let (mut at, mut output, mut ranges, mut close) = (0, Vec::new(), Vec::new(), false);
        loop {
            let rest = &input[at..];
            let (length, reply) = match parse(rest, &mut ranges) {
                ParsedRequest::Incomplete => break,
                ParsedRequest::Command { length } => {
                    let words: Vec<&[u8]> = ranges.iter().map(|word| &rest[word.clone()]).collect();
                    (length, self.respond(&words))
                }
                ParsedRequest::Broken(reason) => {
                    close = true;
                    (rest.len(), Reply::failed(format!("ERR Protocol error: {reason}")))
                }
            };
            at += length;
            reply.write(&mut output);
        }
        if !output.is_empty() {
            self.actions.push(Action::Send { connection, bytes: output });
        }
        if close {
            self.clients.remove(&connection);
            self.actions.push(Action::Close { connection });
        } else if let Some(asker) = self.clients.get_mut(&connection) {
            asker.input = input[at..].to_vec();
        }
    }

    fn respond(&mut self, words: CommandWords<'_>) -> Reply {
        let Some(name) = words.first() else { return Reply::Nothing };
        match name.to_ascii_lowercase().as_slice() {
            b"ping" => Reply::Status("PONG".into()),
            b"sentinel" if words.len() > 1 => self.sentinel(words),
            b"role" => Reply::Array(vec![Reply::text("sentinel"), Reply::Array(vec![Reply::text(&self.config.group)])]),
            b"info" => Reply::text(&self.info()),
            b"publish" if words.len() == 3 => {
                self.heard_hello(&String::from_utf8_lossy(words[2]));
                Reply::Integer(1)
            }
            b"client" if words.len() > 1 => {
                let name = String::from_utf8_lossy(words[1]).to_lowercase();
                Reply::failed(format!("ERR unknown subcommand '{name}'. Try CLIENT HELP."))
            }
            _ => crate::commands::unknown(words),
        }
    }

    fn info(&self) -> String {
        let status = match (self.agreed_down_since, self.primary.down_since) {
            (Some(_), _) => "odown",
            (None, Some(_)) => "sdown",
            (None, None) => "ok",
        };
        let address = self.known_primary();
        format!(
            "# Server\r\nredis_version:7.0.15\r\nredis_mode:sentinel\r\n\r\n# Sentinel\r\nsentinel_masters:1\r\n\
             sentinel_tilt:{}\r\nmaster0:name={},status={status},address={address},slaves={},sentinels={}\r\n",
            u8::from(self.tilt.is_some()),
            self.config.group,
            self.replicas.len(),
            self.sentinels.len() + 1,
        )
    }

    fn sentinel(&mut self, words: CommandWords<'_>) -> Reply {
        const NO_SUCH_GROUP: Reply = Reply::error("ERR No such master with that name");
        let named = words.get(2).is_some_and(|name| *name == self.config.group.as_bytes());
        match words[1].to_ascii_lowercase().as_slice() {
            b"get-master-addr-by-name" if named => {
                let address = self.known_primary();
                Reply::Array(vec![Reply::text(&address.ip().to_string()), Reply::text(&address.port().to_string())])
            }
            b"get-master-addr-by-name" => Reply::NilArray,
            b"is-master-down-by-addr" if words.len() == 6 => self.answer_down(words),
            b"master" | b"replicas" | b"slaves" | b"sentinels" | b"ckquorum" | b"failover" if !named => NO_SUCH_GROUP,
            b"master" => self.describe(&self.primary),
            b"replicas" | b"slaves" => Reply::Array(self.replicas.iter().map(|one| self.describe(one)).collect()),
            b"sentinels" => Reply::Array(self.sentinels.iter().map(|one| self.describe(one)).collect()),
            b"ckquorum" => self.check_quorum(),
            b"failover" => self.order_failover(),
            _ => {
                let name = String::from_utf8_lossy(words[1]);
                Reply::failed(format!("ERR unknown subcommand '{name}'. Try SENTINEL HELP."))
            }
        }
    }

    fn order_failover(&mut self) -> Reply {
        if self.failover.is_running() {
            return Reply::error("INPROG Failover already in progress");
        }
        if self.best_replica().is_none() {
            return Reply::error("NOGOODSLAVE No suitable replica to promote");
        }
        self.start_failover();
        self.failover.ordered = true;
        Reply::OK
    }

    /// Answers a Sentinel that asks if the primary is down, and may ask for a vote.
    fn answer_down(&mut self, words: CommandWords<'_>) -> Reply {
        let address = format!("{}:{}", String::from_utf8_lossy(words[2]), String::from_utf8_lossy(words[3]));
        let mine = address == self.primary.address.to_string();
        let down = mine && self.tilt.is_none() && self.primary.down_since.is_some();
        let epoch = number::unsigned(words[4]).unwrap_or(0);
        let candidate = String::from_utf8_lossy(words[5]).into_owned();
        let (leader, epoch) = match mine && candidate != "*" {
            true => self.vote(epoch, &candidate),
            false => (None, 0),
        };
        let leader = leader.unwrap_or_else(|| "*".to_string());
        Reply::Array(vec![Reply::yes(down), Reply::text(&leader), Reply::Integer(epoch as i64)])
    }

    fn check_quorum(&self) -> Reply {
        let voters = self.sentinels.len() + 1;
        let usable = 1 + self.sentinels.iter().filter(|other| other.down_since.is_none() && other.is_linked()).count();
        let quorum = usable >= self.config.quorum;
        let majority = usable > voters / 2;
        if quorum && majority {
            let text = format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached");
            return Reply::Status(text.into());
        }
        let mut text = format!("NOQUORUM {usable} usable Sentinels. ");
        if !quorum {
            text += "Not enough available Sentinels to reach the specified quorum for this master";
        }
        if !majority {
            text += if quorum { "" } else { ". " };
            text += "Not enough available Sentinels to reach the majority and authorize a failover";
        }
        Reply::failed(text)
    }

    /// The known facts on a server, as names and values.
    fn describe(&self, one: &Instance) -> Reply {
        let now = self.now;
        let mut flags = vec![one.kind.word()];
        let primary = one.kind == ServerRole::Primary;
        let mut flag = |set: bool, word| flags.extend(set.then_some(word));
        flag(one.down_since.is_some(), "s_down");
        flag(primary && self.agreed_down_since.is_some(), "o_down");
        flag(one.says_down, "master_down");
        flag(!one.is_linked(), "disconnected");
        flag(primary && self.failover.is_running(), "failover_in_progress");
        flag(one.promoted, "promoted");
        flag(one.turned == Turned::Told, "reconf_sent");
        flag(one.turned == Turned::Following, "reconf_inprog");
        flag(one.turned == Turned::Done, "reconf_done");
        let name = if primary { self.config.group.clone() } else { one.address.to_string() };
        let mut fields = vec![
            ("name", if one.kind == ServerRole::Sentinel { one.id.clone() } else { name }),
            ("ip", one.address.ip().to_string()),
            ("port", one.address.port().to_string()),
            ("runid", one.id.clone()),
            ("flags", flags.join(",")),
            ("link-pending-commands", one.asked.len().to_string()),
            ("last-ping-sent", one.unanswered.map_or(0, |since| now - since).to_string()),
            ("last-ok-ping-reply", (now - one.available).to_string()),
            ("last-ping-reply", (now - one.last_pong).to_string()),
        ];
        fields.extend(one.down_since.map(|since| ("s-down-time", (now - since).to_string())));
        fields.push(("down-after-milliseconds", self.down_after().to_string()));
        if one.kind == ServerRole::Sentinel {
            fields.push(("last-hello-message", (now - one.last_hello).to_string()));
            let (leader, epoch) = one.leader.clone().unwrap_or(("?".to_string(), 0));
            fields.extend([("voted-leader", leader), ("voted-leader-epoch", epoch.to_string())]);
        } else {
            // For a server that has never answered INFO, the time counts from 1970.
            fields.push(("info-refresh", (now - one.informed.unwrap_or(0)).to_string()));
            fields.push(("role-reported", one.reported.word().to_string()));
            fields.push(("role-reported-time", (now - one.reported_since).to_string()));
        }
        if primary {
            fields.extend([
                ("config-epoch", self.config_epoch.to_string()),
                ("num-slaves", self.replicas.len().to_string()),
                ("num-other-sentinels", self.sentinels.len().to_string()),
                ("quorum", self.config.quorum.to_string()),
                ("failover-timeout", self.config.failover_timeout.as_millis().to_string()),
                ("parallel-syncs", self.config.parallel_syncs.to_string()),
            ]);
        }
        if one.kind == ServerRole::Replica {
            let primary =
                one.follows.map_or(("?".to_string(), 0), |follows| (follows.ip().to_string(), follows.port()));
            fields.extend([
                ("master-link-down-time", one.link_down.to_string()),
                ("master-link-status", if one.link_up { "ok" } else { "err" }.to_string()),
                ("master-host", primary.0),
                ("master-port", primary.1.to_string()),
                ("slave-priority", one.priority.to_string()),
                ("slave-repl-offset", one.offset.to_string()),
            ]);
        }
        Reply::Array(fields.iter().flat_map(|(name, value)| [Reply::text(name), Reply::text(value)]).collect())
    }
}

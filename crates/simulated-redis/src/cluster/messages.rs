//! Messages between nodes: the fields of Redis's own messages, written as a command's words.

use super::slots::Ranges;
use super::{Cluster, slots};
use crate::reply::write_command;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Ping,
    Pong,
    /// This node has failed, as a majority agrees.
    Fail(usize),
    /// Asks for a vote; true if the primary agrees to hand over.
    AskVote(bool),
    Vote,
    /// Corrects the owner of slots: the owner, its epoch, its slots.
    Update(usize, u64, Ranges),
    /// Asks the primary to hand over.
    HandOver,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub kind: MessageKind,
    pub sender: usize,
    pub primary: Option<usize>,
    pub current_epoch: u64,
    /// The epoch of the slots below.
    pub epoch: u64,
    pub offset: u64,
    /// True if the sender, a primary, has stopped writes for a handover.
    pub paused: bool,
    /// The slots of the sender, or of its primary.
    pub slots: Ranges,
    /// Its view of other nodes: down or not, and the time of the last message.
    pub gossip: Vec<(usize, bool, i64)>,
}

impl Cluster {
    pub(super) fn write(&self, kind: &MessageKind, offset: u64) -> Vec<u8> {
        let id = |node: usize| self.nodes[node].id.clone();
        let mut details = Vec::new();
        let word = match kind {
            MessageKind::Ping => "PING",
            MessageKind::Pong => "PONG",
            MessageKind::Fail(node) => {
                details.push(id(*node));
                "FAIL"
            }
            MessageKind::AskVote(forced) => {
                details.push(u8::from(*forced).to_string());
                "ASKVOTE"
            }
            MessageKind::Vote => "VOTE",
            MessageKind::Update(node, epoch, ranges) => {
                details.extend([id(*node), epoch.to_string(), slots::text(ranges)]);
                "UPDATE"
            }
            MessageKind::HandOver => "HANDOVER",
        };
        let myself = self.myself();
        let owner = myself.primary.unwrap_or(self.me);
        let others = self.nodes.iter().enumerate().filter(|(number, _)| *number != self.me);
        let gossip = others.map(|(_, node)| {
            format!("{},{},{}", node.id, u8::from(node.maybe_failed || node.failed.is_some()), node.pong_received)
        });
        let header = [
            word.to_string(),
            myself.id.clone(),
            myself.primary.map_or("-".to_string(), id),
            self.current_epoch.to_string(),
            self.nodes[owner].epoch.to_string(),
            offset.to_string(),
            u8::from(self.handover.to.is_some()).to_string(),
            slots::text(&self.ranges[owner]),
            gossip.collect::<Vec<_>>().join(" "),
        ];
        let words: Vec<&[u8]> = header.iter().chain(&details).map(String::as_bytes).collect();
        let mut bytes = Vec::new();
        write_command(&mut bytes, &words);
        bytes
    }

    /// Reads a message; None if it is malformed or from an unknown node.
    pub(super) fn understand(&self, words: &[&[u8]]) -> Option<Message> {
        let texts: Vec<&str> = words.iter().filter_map(|word| std::str::from_utf8(word).ok()).collect();
        let [word, sender, primary, current_epoch, epoch, offset, paused, ranges, gossip, details @ ..] = &texts[..]
        else {
            return None;
        };
        let find = |id: &str| self.find(id.as_bytes());
        let kind = match (*word, details) {
            ("PING", []) => MessageKind::Ping,
            ("PONG", []) => MessageKind::Pong,
            ("FAIL", [id]) => MessageKind::Fail(find(id)?),
            ("ASKVOTE", [forced]) => MessageKind::AskVote(*forced == "1"),
            ("VOTE", []) => MessageKind::Vote,
            ("UPDATE", [id, epoch, ranges]) => {
                MessageKind::Update(find(id)?, epoch.parse().ok()?, slots::parse(ranges))
            }
            ("HANDOVER", []) => MessageKind::HandOver,
            _ => return None,
        };
        let one = |text: &str| {
            let mut parts = text.split(',');
            Some((find(parts.next()?)?, parts.next()? == "1", parts.next()?.parse().ok()?))
        };
        Some(Message {
            kind,
            sender: find(sender)?,
            primary: find(primary),
            current_epoch: current_epoch.parse().ok()?,
            epoch: epoch.parse().ok()?,
            offset: offset.parse().ok()?,
            paused: *paused == "1",
            slots: slots::parse(ranges),
            gossip: gossip.split(' ').filter_map(one).collect(),
        })
    }
}

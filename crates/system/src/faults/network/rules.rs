//! Parts of an nftables ruleset as messages to the kernel: table, chain, sets of links, and rules that drop packets.
//!
//! The numbers are from linux/netfilter/nf_tables.h.

use std::net::Ipv4Addr;

use libc::c_int;

use super::frame::{ETHERTYPE_IPV4, PROTOCOL_TCP};
use super::netlink::Message;
use super::{Effect, Pair};

/// The kernel removes the table when the socket that created it closes.
pub(super) const OWNED: u32 = 2;

const SUBSYSTEM: u16 = libc::NFNL_SUBSYS_NFTABLES as u16;
const ANY_FAMILY: u8 = libc::AF_UNSPEC as u8;
const BRIDGE: u8 = libc::NFPROTO_BRIDGE as u8;
/// IPv4 and IPv6 of this machine itself.
const INET: u8 = libc::NFPROTO_INET as u8;
const HOOK_INPUT: u32 = 1;
const HOOK_FORWARD: u32 = 2;
const HOOK_OUTPUT: u32 = 3;
const CHAIN: &str = "forward";
/// nft's type for a pair of IPv4 addresses, and its length.
const PAIR_TYPE: u32 = 7 << 6 | 7;
const PAIR_LENGTH: u32 = 8;
/// This many elements fit in one attribute, whose length is a 16-bit number.
const ELEMENTS_AT_ONCE: usize = 2000;
/// Four-byte registers; a pair takes two consecutive ones.
const FIRST: u32 = 8;
const SECOND: u32 = 9;
/// The verdict register.
const VERDICT: u32 = 0;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
/// Metadata of a packet.
const PROTOCOL_OF_FRAME: u32 = 1;
const ENTERED_BY: u32 = 6;
const LEAVES_BY: u32 = 7;
const USER_OF_SOCKET: u32 = 10;
const PROTOCOL_OF_PACKET: u32 = 16;
/// The kernel compares the names of devices in full length.
const DEVICE_NAME: usize = 16;

/// An entry of a list.
const ENTRY: u16 = 1;
/// Values in nested attributes.
const VALUE: u16 = 1;

pub(super) fn begin() -> Message {
    Message::new(libc::NFNL_MSG_BATCH_BEGIN as u16, 0, &[ANY_FAMILY, 0, 0, SUBSYSTEM as u8])
}

pub(super) fn end() -> Message {
    Message::new(libc::NFNL_MSG_BATCH_END as u16, 0, &[ANY_FAMILY, 0, 0, SUBSYSTEM as u8])
}

/// Asks for all tables of family bridge.
#[cfg(test)]
pub(super) fn get_tables() -> Message {
    message(libc::NFT_MSG_GETTABLE, 0)
}

/// The table's name in an answer to [`get_tables`].
#[cfg(test)]
pub(super) fn name_of_table(kind: u16, content: &[u8]) -> Option<String> {
    let is_table = kind == SUBSYSTEM << 8 | libc::NFT_MSG_NEWTABLE as u16;
    let mut attributes = super::netlink::attributes(content.get(4..).filter(|_| is_table)?);
    attributes.find(|(kind, _)| *kind == 1).map(|(_, name)| super::netlink::text(name))
}

pub(super) fn delete_table(name: &str) -> Message {
    let mut message = message(libc::NFT_MSG_DELTABLE, 0);
    message.text(1, name);
    message
}

pub(super) fn new_table(name: &str, flags: u32) -> Message {
    let mut message = message(libc::NFT_MSG_NEWTABLE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
    message.text(1, name).number(2, flags);
    message
}

/// The chain for packets that the bridge forwards. It accepts packets that no rule drops.
pub(super) fn new_chain(table: &str) -> Message {
    let mut message = message(libc::NFT_MSG_NEWCHAIN, libc::NLM_F_CREATE);
    message.text(1, table).text(3, CHAIN).text(7, "filter").number(5, libc::NF_ACCEPT as u32);
    message.nest(4, |hook| _ = hook.number(1, HOOK_FORWARD).number(2, 0));
    message
}

/// A set of links, with the messages that fill the set.
pub(super) fn new_set(table: &str, fault: u32, pairs: impl IntoIterator<Item = Pair>) -> Vec<Message> {
    let name = set_name(fault);
    let mut set = message(libc::NFT_MSG_NEWSET, libc::NLM_F_CREATE);
    // The last number distinguishes the sets of one transaction.
    set.text(1, table).text(2, &name).number(3, 0).number(4, PAIR_TYPE).number(5, PAIR_LENGTH).number(10, fault);
    let keys: Vec<[[u8; 4]; 2]> = pairs.into_iter().map(|(from, to)| [from.octets(), to.octets()]).collect();
    let elements = keys.chunks(ELEMENTS_AT_ONCE).map(|keys| {
        let mut elements = message(libc::NFT_MSG_NEWSETELEM, libc::NLM_F_CREATE);
        elements.text(1, table).text(2, &name).number(4, fault).nest(3, |list| {
            for key in keys {
                list.nest(ENTRY, |element| _ = element.nest(1, |value| _ = value.bytes(VALUE, key.as_flattened())));
            }
        });
        elements
    });
    [set].into_iter().chain(elements).collect()
}

/// The rule that drops an effect's packets on the links of the set.
pub(super) fn new_rule(table: &str, fault: u32, effect: &Effect) -> Message {
    let mut message = message(libc::NFT_MSG_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND);
    message.text(1, table).text(2, CHAIN);
    message.nest(4, |rule| {
        // Only IPv4 has its addresses at these offsets.
        known(rule, PROTOCOL_OF_FRAME);
        compare(rule, Comparison::Equal, &ETHERTYPE_IPV4.to_be_bytes());
        load(rule, FIRST, (NETWORK_HEADER, 12), 4);
        load(rule, SECOND, (NETWORK_HEADER, 16), 4);
        expression(rule, "lookup", |lookup| {
            lookup.text(1, &set_name(fault)).number(2, FIRST).number(4, fault);
        });
        match *effect {
            Effect::Reset => {
                load(rule, FIRST, (NETWORK_HEADER, 9), 1);
                compare(rule, Comparison::Equal, &[PROTOCOL_TCP]);
            }
            Effect::Lose { percent } if percent < 100 => below(rule, percent),
            Effect::Drop | Effect::Lose { .. } | Effect::Delay { .. } | Effect::Command(_) => {}
        }
        drop_it(rule);
    });
    message.bytes(7, &comment(&format!("fault {fault}: {}", describe(effect))));
    message
}

/// A table for the rules of a [guard](super::guard), which the kernel removes with the socket that created it.
pub(super) fn new_guard(name: &str) -> Message {
    let mut message = message_of(INET, libc::NFT_MSG_NEWTABLE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
    message.text(1, name).number(2, OWNED);
    message
}

/// The sender of the packets that a guard checks.
#[derive(Clone, Copy)]
pub(super) enum Sender {
    /// Packets from the bridge to the machine.
    Members,
    /// Packets from the machine to the bridge.
    Machine,
}

/// The guard's chain for these packets, with its rules.
pub(super) fn guard_chain(table: &str, sender: Sender, bridge: &str) -> Vec<Message> {
    let (chain, hook, device) = match sender {
        Sender::Members => ("input", HOOK_INPUT, ENTERED_BY),
        Sender::Machine => ("output", HOOK_OUTPUT, LEAVES_BY),
    };
    let mut new = message_of(INET, libc::NFT_MSG_NEWCHAIN, libc::NLM_F_CREATE);
    new.text(1, table).text(3, chain).text(7, "filter").number(5, libc::NF_ACCEPT as u32);
    new.nest(4, |new| _ = new.number(1, hook).number(2, 0));
    let mut name = bridge.as_bytes().to_vec();
    name.resize(DEVICE_NAME, 0);
    let rule = |which: fn(&mut Message)| {
        let mut message = message_of(INET, libc::NFT_MSG_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND);
        message.text(1, table).text(2, chain).nest(4, |rule| {
            known(rule, device);
            compare(rule, Comparison::Equal, &name);
            which(rule);
            drop_it(rule);
        });
        message
    };
    let rules = match sender {
        Sender::Members => vec![rule(is_no_tcp), rule(opens_a_connection)],
        Sender::Machine => vec![rule(is_not_from_root)],
    };
    [new].into_iter().chain(rules).collect()
}

fn is_no_tcp(rule: &mut Message) {
    known(rule, PROTOCOL_OF_PACKET);
    compare(rule, Comparison::Different, &[PROTOCOL_TCP]);
}

fn opens_a_connection(rule: &mut Message) {
    known(rule, PROTOCOL_OF_PACKET);
    compare(rule, Comparison::Equal, &[PROTOCOL_TCP]);
    load(rule, FIRST, (TRANSPORT_HEADER, 13), 1);
    let (syn, ack) = (super::frame::flags::SYN, super::frame::flags::ACK);
    expression(rule, "bitwise", |bitwise| {
        bitwise.number(1, FIRST).number(2, FIRST).number(3, 1);
        bitwise.nest(4, |mask| _ = mask.bytes(VALUE, &[syn | ack])).nest(5, |flip| _ = flip.bytes(VALUE, &[0]));
    });
    compare(rule, Comparison::Equal, &[syn]);
}

fn is_not_from_root(rule: &mut Message) {
    known(rule, USER_OF_SOCKET);
    compare(rule, Comparison::Different, &0_u32.to_ne_bytes());
}

fn describe(effect: &Effect) -> String {
    match effect {
        Effect::Drop => "drop".to_string(),
        Effect::Lose { percent } => format!("lose {percent} %"),
        Effect::Delay { ms, jitter_ms: 0 } => format!("delay {ms} ms"),
        Effect::Delay { ms, jitter_ms } => format!("delay {ms} ms, jitter {jitter_ms} ms"),
        Effect::Reset => "reset".to_string(),
        Effect::Command(watch) => watch.effect.words().to_string(),
    }
}

fn set_name(fault: u32) -> String {
    format!("f{fault}")
}

/// The comment that nft shows after a rule.
fn comment(text: &str) -> Vec<u8> {
    let kind = 0;
    // These comments are short, so the length fits.
    let length = (text.len() + 1) as u8;
    [&[kind, length], text.as_bytes(), &[0]].concat()
}

fn message(kind: c_int, flags: c_int) -> Message {
    message_of(BRIDGE, kind, flags)
}

fn message_of(family: u8, kind: c_int, flags: c_int) -> Message {
    Message::new(SUBSYSTEM << 8 | kind as u16, flags, &[family, 0, 0, 0])
}

fn expression(rule: &mut Message, name: &str, fill: impl FnOnce(&mut Message)) {
    rule.nest(ENTRY, |entry| _ = entry.text(1, name).nest(2, fill));
}

/// Loads bytes of a header, from this offset.
fn load(rule: &mut Message, register: u32, (header, offset): (u32, u32), length: u32) {
    expression(rule, "payload", |payload| {
        payload.number(1, register).number(2, header).number(3, offset).number(4, length);
    });
}

/// Loads metadata of the packet into the first register.
fn known(rule: &mut Message, what: u32) {
    expression(rule, "meta", |meta| _ = meta.number(1, FIRST).number(2, what));
}

fn drop_it(rule: &mut Message) {
    expression(rule, "counter", |_| ());
    expression(rule, "immediate", |immediate| {
        let code = |verdict: &mut Message| _ = verdict.number(1, libc::NF_DROP as u32);
        immediate.number(1, VERDICT).nest(2, |data| _ = data.nest(2, code));
    });
}

#[derive(Clone, Copy)]
enum Comparison {
    Equal = 0,
    Different = 1,
    Less = 2,
}

/// Continues only if the first register compares like this.
fn compare(rule: &mut Message, comparison: Comparison, value: &[u8]) {
    expression(rule, "cmp", |cmp| {
        cmp.number(1, FIRST).number(2, comparison as u32).nest(3, |data| _ = data.bytes(VALUE, value));
    });
}

/// Continues for this percentage of packets, at random.
fn below(rule: &mut Message, percent: u8) {
    let random = 1;
    expression(rule, "numgen", |numgen| _ = numgen.number(1, FIRST).number(2, 100).number(3, random));
    // The kernel compares byte by byte, so the number must be in network order.
    let to_network_order = 1;
    expression(rule, "byteorder", |order| {
        order.number(1, FIRST).number(2, FIRST).number(3, to_network_order).number(4, 4).number(5, 4);
    });
    compare(rule, Comparison::Less, &u32::from(percent).to_be_bytes());
}

/// A link that no packet takes.
pub(super) const NOWHERE: Pair = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);

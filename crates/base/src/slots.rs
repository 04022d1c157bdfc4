//! The slots of Redis Cluster: the slot of a key, and the node that serves it according to `CLUSTER NODES`.
//!
//! Source: the Redis Cluster specification and the documentation of CLUSTER NODES.

use std::collections::BTreeMap;

pub const SLOTS: u16 = 16384;

/// The slot of a key: CRC16 (XMODEM) of the key, or of the part between its first braces.
pub fn slot(key: &[u8]) -> u16 {
    crc16(hashed(key)) % SLOTS
}

fn hashed(key: &[u8]) -> &[u8] {
    let tag = || {
        let open = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key.get(open..)?.iter().position(|byte| *byte == b'}')?;
        key.get(open..open + length).filter(|tag| !tag.is_empty())
    };
    tag().unwrap_or(key)
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut crc: u16, byte| {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        }
        crc
    })
}

/// A node of a cluster, as one of the nodes reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// `host:port`.
    pub address: String,
    pub primary: bool,
    /// True if the reporting node takes this one to be down, or does not know it well yet.
    pub doubtful: bool,
    /// The address of its primary, if it is a replica.
    pub replicates: Option<String>,
    /// The first and last slot of each range that it serves.
    pub slots: Vec<(u16, u16)>,
}

impl ClusterNode {
    pub fn serves(&self, slot: u16) -> bool {
        self.primary && self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// Parses the answer to `CLUSTER NODES`, in the order of the addresses. Invalid lines are left out.
pub fn parse(answer: &str) -> Vec<ClusterNode> {
    let lines: Vec<Vec<&str>> = answer.lines().map(|line| line.split_whitespace().collect()).collect();
    // `10.0.0.1:6379@16379,host-name`
    let address = |words: &[&str]| Some(words.get(1)?.split(['@', ',']).next()?.to_string());
    let addresses: BTreeMap<&str, String> =
        lines.iter().filter_map(|words| Some((*words.first()?, address(words)?))).collect();
    let node = |words: &Vec<&str>| {
        let flags: Vec<&str> = words.get(2)?.split(',').collect();
        let doubtful = |flag: &&str| matches!(*flag, "fail" | "fail?" | "handshake" | "noaddr");
        Some(ClusterNode {
            address: address(words)?,
            primary: flags.contains(&"master"),
            doubtful: flags.iter().any(doubtful) || *words.get(7)? != "connected",
            replicates: addresses.get(words.get(3)?).cloned(),
            slots: words.get(8..)?.iter().filter_map(|range| slots(range)).collect(),
        })
    };
    let mut nodes: Vec<ClusterNode> = lines.iter().filter_map(node).collect();
    nodes.sort_by(|one, other| one.address.cmp(&other.address));
    nodes
}

/// Parses `0-5460` or `7`. None for `[93-<-…]`, a slot that is migrating.
fn slots(range: &str) -> Option<(u16, u16)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_belong_to_the_slots_that_redis_says() {
        // From the specification, and as `CLUSTER KEYSLOT` answers.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS, "an empty tag is none");
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn what_nodes_say_of_each_other_is_understood() {
        let answer = "aa 10.0.0.2:6379@16379 myself,master - 0 0 1 connected 0-5460 7000 [93-<-bb]\n\
                      bb 10.0.0.1:6379@16379,host slave aa 0 1 1 connected\n\
                      cc 10.0.0.3:6379@16379 master,fail? - 0 1 2 connected 5461-6999\n\
                      dd :0@0 master,noaddr - 0 1 2 disconnected\nnonsense\n\n";
        let nodes = parse(answer);
        assert_eq!(nodes.len(), 4);
        let of = |address: &str| nodes.iter().find(|node| node.address == address).unwrap();
        let primary = of("10.0.0.2:6379");
        assert!(primary.serves(0) && primary.serves(7000) && !primary.serves(5461) && !primary.doubtful);
        let replica = of("10.0.0.1:6379");
        assert_eq!((replica.primary, replica.replicates.as_deref()), (false, Some("10.0.0.2:6379")));
        assert!(of("10.0.0.3:6379").doubtful && of(":0").doubtful);
    }
}

//! The one nftables table that holds all rules of a run.
//!
//! The table is of family bridge and hooks only packets that the bridge forwards: the traffic between members. It never affects
//! packets that the machine itself sends or receives, nor any other table. Each change replaces the whole table in one
//! transaction, so it is never partly in effect or missing.
//!
//! redjepsen talks to the kernel directly, without the program `nft`. This takes a fifth of a millisecond instead of five to
//! fifteen, and needs nothing installed. Also, the table belongs to this process's socket, so the kernel removes it if the
//! process is killed. This needs Linux 5.12; without it, there are no network faults. `nft list ruleset` shows the table.

use std::collections::BTreeMap;
use std::io;

use super::netlink::{Message, Netlink, Refusal};
use super::{Effect, InjectedFault, rules};

/// The prefix of all redjepsen tables.
const PREFIX: &str = "redjepsen-";
/// The kernel allows twice as many characters.
const LONGEST_NAME: usize = 128;

pub(super) struct NftTable {
    socket: Netlink,
    name: String,
    flags: u32,
    /// True if the table exists in the kernel, as far as this process knows.
    there: bool,
    #[cfg(test)]
    pub pretend: bool,
}

impl NftTable {
    /// Tries every kind of rule with no matching packets. Afterwards no table with this name exists.
    pub fn open(name: &str) -> io::Result<NftTable> {
        let mut table = NftTable {
            socket: Netlink::open(libc::NETLINK_NETFILTER).map_err(|error| explain(&error))?,
            name: table_name(name)?,
            flags: rules::OWNED,
            there: false,
            #[cfg(test)]
            pretend: false,
        };
        table.attempt().map_err(|refusal| explain(&refusal.error))?;
        Ok(table)
    }

    fn attempt(&mut self) -> Result<(), Refusal> {
        let effects = [Effect::Drop, Effect::Reset, Effect::Delay { ms: 1, jitter_ms: 0 }, Effect::Lose { percent: 1 }];
        let faults = effects.map(|effect| InjectedFault { effect, pairs: [rules::NOWHERE].into() });
        let sample = (0..).zip(faults).collect();
        self.bring_about(|table| {
            let mut messages = table.all(&sample);
            messages.push(rules::delete_table(&table.name));
            messages
        })?;
        self.there = false;
        Ok(())
    }

    /// From now on the table outlives this process, as if another program had created it.
    #[cfg(test)]
    pub fn disown(&mut self) {
        self.flags = 0;
    }

    /// The table's name in the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts exactly these faults in effect.
    pub fn apply(&mut self, faults: &BTreeMap<u32, InjectedFault>) -> io::Result<()> {
        #[cfg(test)]
        if self.pretend {
            return Ok(());
        }
        if faults.is_empty() {
            return self.delete();
        }
        self.bring_about(|table| table.all(faults)).map_err(|refusal| explain(&refusal.error))?;
        self.there = true;
        Ok(())
    }

    /// Removes the table if it exists.
    pub fn delete(&mut self) -> io::Result<()> {
        self.bring_about(|_| Vec::new()).map_err(|refusal| explain(&refusal.error))?;
        self.there = false;
        Ok(())
    }

    /// Replaces the table by the objects that the messages create, in one transaction.
    fn bring_about(&mut self, messages: impl Fn(&NftTable) -> Vec<Message>) -> Result<(), Refusal> {
        for _ in 0..3 {
            let mut all = if self.there { vec![rules::delete_table(&self.name)] } else { Vec::new() };
            all.extend(messages(self));
            match self.socket.transact(rules::begin(), all, rules::end()) {
                // Another program deleted the table, or a run with the same name left it behind.
                Err(Refusal { error, at: Some(0) }) if error.raw_os_error() == Some(libc::ENOENT) && self.there => {
                    self.there = false;
                }
                Err(Refusal { error, at: Some(0) }) if error.raw_os_error() == Some(libc::EEXIST) && !self.there => {
                    self.there = true;
                }
                // Another program's transaction came first.
                Err(Refusal { error, .. }) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                other => return other,
            }
        }
        Err(Refusal { error: io::Error::other("another program keeps changing the table"), at: None })
    }

    fn all(&self, faults: &BTreeMap<u32, InjectedFault>) -> Vec<Message> {
        let mut messages = vec![rules::new_table(&self.name, self.flags), rules::new_chain(&self.name)];
        for (number, fault) in faults {
            messages.extend(rules::new_set(&self.name, *number, fault.pairs.iter().copied()));
            messages.push(rules::new_rule(&self.name, *number, &fault.effect));
        }
        messages
    }
}

/// The names of all tables of family bridge with redjepsen's prefix, in the caller's network namespace.
#[cfg(test)]
pub(super) fn list() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut socket = Netlink::open(libc::NETLINK_NETFILTER).map_err(|error| explain(&error))?;
    let dumped = socket.dump(rules::get_tables(), |kind, content| names.extend(rules::name_of_table(kind, content)));
    dumped.map_err(|error| explain(&error))?;
    names.retain(|name| name.starts_with(PREFIX));
    Ok(names)
}

/// Deletes a table that [`list`] found; no error if it is already gone.
#[cfg(test)]
pub(super) fn delete(name: &str) -> io::Result<()> {
    let name = table_name(name)?;
    let mut socket = Netlink::open(libc::NETLINK_NETFILTER).map_err(|error| explain(&error))?;
    match socket.transact(rules::begin(), vec![rules::delete_table(&name)], rules::end()) {
        Err(Refusal { error, .. }) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other.map_err(|refusal| explain(&refusal.error)),
    }
}

/// The name in a form that nft can read, with redjepsen's prefix.
pub(super) fn table_name(name: &str) -> io::Result<String> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let allowed = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    let name: String = PREFIX.chars().chain(name.chars().map(allowed)).collect();
    if name.len() == PREFIX.len() || name.len() > LONGEST_NAME {
        let problem =
            format!("`{name}` is not a table name: it needs 1 to {} more letters", LONGEST_NAME - PREFIX.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    Ok(name)
}

/// Explains the kernel's error, with a remedy if there is one.
pub(super) fn explain(error: &io::Error) -> io::Error {
    let (kind, remedy) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let remedy = "; this needs the capability NET_ADMIN (run as root; docker: --cap-add NET_ADMIN)";
            (io::ErrorKind::PermissionDenied, remedy)
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::EINVAL) => {
            let remedy = "; it needs Linux 5.12 or newer, with CONFIG_NF_TABLES_BRIDGE and CONFIG_NFT_NUMGEN";
            (io::ErrorKind::Unsupported, remedy)
        }
        _ => (error.kind(), ""),
    };
    io::Error::new(kind, format!("the kernel refuses the rules for network faults: {error}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ours_and_readable() {
        assert_eq!(table_name("redjepsen-a.b_c").unwrap(), "redjepsen-a.b_c");
        assert_eq!(table_name("x; flush ruleset").unwrap(), "redjepsen-x--flush-ruleset");
        for bad in ["", "redjepsen-", &"x".repeat(200)] {
            assert!(table_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_names_the_remedy() {
        let denied = explain(&io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
        assert!(denied.to_string().contains("--cap-add NET_ADMIN"), "{denied}");
        let unknown = explain(&io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        assert!(unknown.to_string().contains("CONFIG_NF_TABLES_BRIDGE"), "{unknown}");
    }
}

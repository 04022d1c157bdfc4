//! The one nft table that holds all rules of a run.
//!
//! It is of family bridge and hooks only what the bridge forwards, so what goes from member to member; what the
//! machine itself sends or receives is never touched, nor is any other table. Each change replaces the whole table in
//! one transaction: at no moment is a part of it in effect, or none of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{Effect, Fault};

/// Every table of ours begins so.
pub(super) const PREFIX: &str = "redjepsen-";
/// The kernel takes twice as many.
const LONGEST_NAME: usize = 128;
/// Where administrators' programs are, which need not be in everybody's PATH.
const MORE_PLACES: [&str; 2] = ["/usr/sbin", "/sbin"];

#[derive(Debug)]
pub(super) struct Table {
    nft: PathBuf,
    name: String,
}

impl Table {
    /// Tries rules of every kind, none of which matches anything; afterwards there is no table of this name.
    pub fn open(name: &str) -> io::Result<Table> {
        let table = Table { nft: find_nft()?, name: table_name(name)? };
        let nobody = std::net::Ipv4Addr::UNSPECIFIED;
        let effects = [Effect::Drop, Effect::Reset, Effect::Delay { ms: 1, jitter_ms: 0 }, Effect::Lose { percent: 1 }];
        let faults = effects.map(|effect| Fault { effect, pairs: [(nobody, nobody)].into() });
        let sample = (0..).zip(faults).collect();
        table.run(&format!("{}{}", table.render(&sample), table.absent()))?;
        Ok(table)
    }

    /// Makes exactly these faults the ones in effect.
    pub fn apply(&self, faults: &BTreeMap<u32, Fault>) -> io::Result<()> {
        if faults.is_empty() { self.delete() } else { self.run(&self.render(faults)) }
    }

    /// Removes the table, if it is there.
    pub fn delete(&self) -> io::Result<()> {
        self.run(&self.absent())
    }

    /// From now on only pretends that rules change.
    #[cfg(test)]
    pub fn pretend(&mut self) {
        self.nft = PathBuf::from("/bin/true");
    }

    /// Brings about that there is no such table, whether there was one or not.
    fn absent(&self) -> String {
        let name = &self.name;
        format!("add table bridge {name}\ndelete table bridge {name}\n")
    }

    fn render(&self, faults: &BTreeMap<u32, Fault>) -> String {
        let mut text = self.absent();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "table bridge {} {{", self.name);
        for (number, fault) in faults {
            let pairs: Vec<_> = fault.pairs.iter().map(|(from, to)| format!("{from} . {to}")).collect();
            let elements = pairs.join(", ");
            let _ = writeln!(text, "set f{number} {{ type ipv4_addr . ipv4_addr; elements = {{ {elements} }}; }}");
        }
        text.push_str("chain forward {\ntype filter hook forward priority 0; policy accept;\n");
        for (number, fault) in faults {
            let (condition, comment) = match fault.effect {
                Effect::Drop => (String::new(), "drop".to_string()),
                // Answered by a forged RST.
                Effect::Reset => (" ip protocol tcp".to_string(), "reset".to_string()),
                // Taken and sent again later.
                Effect::Delay { ms, .. } => (String::new(), format!("delay {ms} ms")),
                // A random number below 100 cannot be compared with 100.
                Effect::Lose { percent: 100.. } => (String::new(), "lose all".to_string()),
                Effect::Lose { percent } => {
                    (format!(" numgen random mod 100 < {percent}"), format!("lose {percent} %"))
                }
            };
            let _ = writeln!(
                text,
                "ip saddr . ip daddr @f{number}{condition} counter drop comment \"fault {number}: {comment}\""
            );
        }
        text.push_str("}\n}\n");
        text
    }

    fn run(&self, transaction: &str) -> io::Result<()> {
        run(&self.nft, &["-f", "-"], transaction).map(|_| ())
    }
}

/// Names of all tables of family bridge that begin as ours do, in the caller's network namespace.
pub(super) fn list() -> io::Result<Vec<String>> {
    let output = run(&find_nft()?, &["list", "tables", "bridge"], "")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("table bridge "));
    Ok(names.filter(|name| name.starts_with(PREFIX)).map(str::to_string).collect())
}

/// Deletes one of the tables that [`list`] found; no error where it is gone already.
pub(super) fn delete(name: &str) -> io::Result<()> {
    Table { nft: find_nft()?, name: table_name(name)? }.delete()
}

/// The name as nft can read it, and recognizable as ours.
fn table_name(name: &str) -> io::Result<String> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let allowed = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    let name: String = PREFIX.chars().chain(name.chars().map(allowed)).collect();
    if name.len() == PREFIX.len() || name.len() > LONGEST_NAME {
        let problem =
            format!("`{name}` is no name for a table: it takes 1 to {} letters more", LONGEST_NAME - PREFIX.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    Ok(name)
}

fn find_nft() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_nft_in(std::env::split_paths(&path).chain(MORE_PLACES.into_iter().map(PathBuf::from)))
}

fn find_nft_in(mut places: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
    let missing = "network faults need the program `nft`, which is neither in PATH nor in /usr/sbin; \
                   install the package nftables";
    let found = places.find_map(|place| Some(place.join("nft")).filter(|file| file.is_file()));
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing))
}

fn run(nft: &Path, arguments: &[&str], input: &str) -> io::Result<Output> {
    let told = |error: io::Error| io::Error::new(error.kind(), format!("cannot run {}: {error}", nft.display()));
    let mut command = Command::new(nft);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(told)?;
    // nft reads all of its input before it says anything. One that ended early tells why below.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(told)?;
    if output.status.success() { Ok(output) } else { Err(refusal(&String::from_utf8_lossy(&output.stderr))) }
}

/// What nft said, with a remedy where it is known.
fn refusal(said: &str) -> io::Error {
    let first = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it does not say why");
    let (kind, remedy) = if said.contains("Operation not permitted") {
        (
            io::ErrorKind::PermissionDenied,
            ": this takes the capability NET_ADMIN (run as root; docker: --cap-add NET_ADMIN)",
        )
    } else if said.contains("not supported") || said.contains("No such file or directory") {
        (io::ErrorKind::Unsupported, ": the kernel needs nf_tables with CONFIG_NF_TABLES_BRIDGE and numgen")
    } else {
        (io::ErrorKind::Other, "")
    };
    io::Error::new(kind, format!("nft refused: {first}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_replaces_everything() {
        let table = Table { nft: PathBuf::new(), name: table_name("run 1/2").unwrap() };
        let pair = |from: u8, to: u8| ([10, 0, 0, from].into(), [10, 0, 0, to].into());
        let faults = [
            (3, Fault { effect: Effect::Drop, pairs: [pair(1, 2), pair(2, 1)].into() }),
            (4, Fault { effect: Effect::Lose { percent: 30 }, pairs: [pair(1, 3)].into() }),
            (5, Fault { effect: Effect::Delay { ms: 50, jitter_ms: 5 }, pairs: [pair(1, 3)].into() }),
            (7, Fault { effect: Effect::Reset, pairs: [pair(3, 1)].into() }),
        ];
        insta::assert_snapshot!(table.render(&faults.into()), @r#"
        add table bridge redjepsen-run-1-2
        delete table bridge redjepsen-run-1-2
        table bridge redjepsen-run-1-2 {
        set f3 { type ipv4_addr . ipv4_addr; elements = { 10.0.0.1 . 10.0.0.2, 10.0.0.2 . 10.0.0.1 }; }
        set f4 { type ipv4_addr . ipv4_addr; elements = { 10.0.0.1 . 10.0.0.3 }; }
        set f5 { type ipv4_addr . ipv4_addr; elements = { 10.0.0.1 . 10.0.0.3 }; }
        set f7 { type ipv4_addr . ipv4_addr; elements = { 10.0.0.3 . 10.0.0.1 }; }
        chain forward {
        type filter hook forward priority 0; policy accept;
        ip saddr . ip daddr @f3 counter drop comment "fault 3: drop"
        ip saddr . ip daddr @f4 numgen random mod 100 < 30 counter drop comment "fault 4: lose 30 %"
        ip saddr . ip daddr @f5 counter drop comment "fault 5: delay 50 ms"
        ip saddr . ip daddr @f7 ip protocol tcp counter drop comment "fault 7: reset"
        }
        }
        "#);
    }

    #[test]
    fn names_are_ours_and_readable() {
        assert_eq!(table_name("redjepsen-a.b_c").unwrap(), "redjepsen-a.b_c");
        assert_eq!(table_name("x; flush ruleset").unwrap(), "redjepsen-x--flush-ruleset");
        for bad in ["", "redjepsen-", &"x".repeat(200)] {
            assert!(table_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_program_is_told_with_the_remedy() {
        let missing = find_nft_in(["/".into(), "/no-such-place".into()].into_iter()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().contains("install the package nftables"), "{missing}");
    }

    #[test]
    fn a_refusal_names_the_remedy() {
        let denied =
            refusal("/dev/stdin:1:1-2: Error: Could not process rule: Operation not permitted\nadd table\n^^^");
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
        assert!(denied.to_string().contains("--cap-add NET_ADMIN"), "{denied}");
        assert!(refusal("").to_string().contains("does not say why"));
    }
}

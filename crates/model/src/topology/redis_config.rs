//! Lines of redis.conf from the user for the lock's nodes.

/// Settings of redjepsen itself, by the beginning of their names, and the reason.
const OWN: [(&str, &str); 21] = [
    ("port", "redjepsen connects to this port"),
    ("bind", "redjepsen connects to this address"),
    ("unixsocket", "members reach each other only through the network"),
    ("protected-mode", "clients have no password"),
    (
        "requirepass",
        "redjepsen's clients use no password; to test servers with a password, start them yourself and name them \
    with --server",
    ),
    ("masterauth", "nodes have no password"),
    ("masteruser", "nodes have no password"),
    (
        "user",
        "redjepsen's clients use no ACL user; to test servers with users, start them yourself and name them with --server",
    ),
    (
        "aclfile",
        "redjepsen's clients use no ACL user; to test servers with users, start them yourself and name them with \
    --server",
    ),
    (
        "tls-",
        "redjepsen's clients do not use TLS; to test servers with TLS, start them yourself and name them with --server",
    ),
    ("cluster-", "the workload's topology sets it"),
    ("replicaof", "the workload's topology sets it"),
    ("slaveof", "the workload's topology sets it"),
    ("replica-announce-", "the workload's topology sets it"),
    ("sentinel", "the workload's topology sets it"),
    ("dir", "a node has a folder of its own"),
    ("include", "a node can read no other file"),
    ("loadmodule", "a node can read no other file"),
    ("logfile", "the run's folder has the log"),
    ("daemonize", "the process must stay in the foreground"),
    ("rename-command", "redjepsen tracks nodes itself"),
];

/// The words of a line such as `min-replicas-to-write 1`: a name, then its values. The error is a clause.
pub fn parse(line: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(line).ok_or("a quote is not closed")?;
    let (name, values) = words.split_first().ok_or("it is empty; expected a name and a value")?;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(is_name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(format!("{name:?} is not the name of a setting, such as `maxmemory-policy`"));
    }
    if values.is_empty() {
        return Err(format!("`{name}` has no value"));
    }
    // Redis reads a word that begins with two dashes as the next setting.
    if let Some(value) = values.iter().find(|value| value.starts_with("--") || value.contains(char::is_control)) {
        return Err(format!("{value:?} is not a value"));
    }
    let is_own = |own: &str| name == own || own.ends_with('-') && name.starts_with(own);
    match OWN.iter().find(|(own, _)| is_own(own)) {
        Some((_, why)) => Err(format!("redjepsen sets `{name}` itself: {why}")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_accepted_unless_the_run_depends_on_them() {
        for (line, words) in [
            ("min-replicas-to-write 1", &["min-replicas-to-write", "1"][..]),
            ("save 900 1", &["save", "900", "1"]),
            ("save \"\"", &["save", ""]),
            ("maxmemory-policy allkeys-lru", &["maxmemory-policy", "allkeys-lru"]),
            ("dbfilename x.rdb", &["dbfilename", "x.rdb"]),
            ("user-agent x", &["user-agent", "x"]),
        ] {
            assert_eq!(parse(line).unwrap(), words, "{line}");
        }
        for (line, part) in [
            ("", "it is empty"),
            ("save \"", "a quote is not closed"),
            ("--save 1", "is not the name of a setting"),
            ("maxmemory", "has no value"),
            ("maxmemory 1mb --port 1", "is not a value"),
            ("port 1", "redjepsen connects to this"),
            ("requirepass x", "to test servers with a password, start them yourself"),
            ("tls-port 1", "clients do not use TLS"),
            ("replica-announce-ip x", "topology sets"),
            ("cluster-enabled yes", "topology sets"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}

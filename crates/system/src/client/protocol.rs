//! The client protocol, versions 1 and 2: newline-delimited JSON on a client's standard input and output.
//!
//! Any program that speaks it is a lock client; docs/client-protocol.md describes it for authors of clients. Unknown fields are
//! ignored. An unknown message type is an error. A line has at most [`LONGEST_LINE`] bytes.
//!
//! Version 2 adds several clients as threads or tasks of one process (`threads`), and operations that the controller cancels
//! (`cancel`). It also adds a blocked event loop (`block`), and locks shared by readers (`shared`). Each client of a process is
//! still a separate client, with its own name in the history and one operation at a time. So histories and the checker do not
//! depend on threads; a fault that hits the process hits all its clients. `hello` names the version that the run needs: 1, unless
//! the run uses one of these abilities. The client lists its abilities in `capabilities`.

use serde::{Deserialize, Serialize};

use model::history::{Function, Phase, is_one, one};
use model::locks::LockSettings;
use model::scenario::ResourceSpec;

/// The version that a run needs if it uses none of the capabilities.
pub const PROTOCOL: u32 = 1;
/// The newest version that this build speaks. A run that uses a capability needs it.
pub const NEWEST: u32 = 2;

/// The longest line that either side may send, in bytes.
pub const LONGEST_LINE: usize = 1 << 20;

/// A message from the controller to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ToClient {
    /// Connect; sent once.
    Hello(Hello),
    /// Perform one operation; sent one at a time.
    Invoke(Invoke),
    /// Continue from a phase that the operation's `breakpoints` name.
    Go { id: u64, phase: Phase },
    /// The immediate answer to [`FromClient::Acquire`]: whether the operation now holds the lock.
    Granted { id: u64, granted: bool },
    /// Version 2. The caller has cancelled the operation.
    Cancel { id: u64 },
    /// Version 2. Say `blocked`, block the event loop for this many milliseconds, say `unblocked`.
    Block { ms: u64 },
    /// Release, disconnect, exit 0 within a second.
    Bye,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    /// The client's name, such as `c3`; if several clients are threads of the process, the name of the first.
    pub client: String,
    /// How many clients are threads of the process.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    pub lock: LockSettings,
    pub resource: Resource,
    /// The seed of all random choices of the client, such as its waits. Each process gets a different seed.
    pub seed: u64,
    /// The prefix for the names of the client's own keys. The keys of operations already have it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key_prefix: String,
}

/// The protected resource, as a client reaches it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    pub kind: model::history::ResourceKind,
    pub url: String,
    pub fencing: model::scenario::Fencing,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Invoke {
    pub id: u64,
    /// The index of the thread that must perform the operation, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thread: u32,
    pub f: Function,
    pub key: String,
    /// The value that an rmw writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// How long to think between read and write.
    #[serde(default)]
    pub hold_ms: u64,
    /// How long to try to acquire the lock.
    #[serde(default)]
    pub acquire_timeout_ms: u64,
    /// The delay between the first call of the library's release and a second call, whatever the result of the first. None for no
    /// second call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_again_ms: Option<u64>,
    /// How often to ask the library whether it holds the lock, while the client holds it, and to report `owned` or `lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_every_ms: Option<u64>,
    /// Phases at which to wait for `go`.
    #[serde(flatten)]
    pub breakpoints: Breakpoints,
}

/// The phases at which to wait for `go`, sent under two names: `breakpoints`, and `gates` for older clients. Either name is
/// understood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakpoints {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    breakpoints: Vec<Phase>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gates: Vec<Phase>,
}

impl Breakpoints {
    pub fn at(phases: Vec<Phase>) -> Breakpoints {
        Breakpoints { gates: phases.clone(), breakpoints: phases }
    }

    pub fn contains(&self, phase: Phase) -> bool {
        self.breakpoints.contains(&phase) || self.gates.contains(&phase)
    }
}

/// A message from a client to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FromClient {
    Ready(Ready),
    /// The client can't take part; the run stops with this text.
    Failed {
        text: String,
    },
    Phase(PhaseMessage),
    /// For the lock `perfect`: asks the controller for the lock of the operation's key. The answer says whether the lock was
    /// free.
    Acquire {
        id: u64,
    },
    /// Releases that lock. If an operation ends without this message, its process keeps the lock. If the process dies, the lock
    /// stays taken until nothing that the process sent to the resource can still arrive.
    Release {
        id: u64,
    },
    /// The client is about to block its event loop.
    Blocked {
        mono_ns: u64,
    },
    /// The client's event loop was blocked, and continues.
    Unblocked {
        mono_ns: u64,
    },
    /// The operation happened.
    Ok {
        id: u64,
        /// The value that was read; absent if the client does not say, null for an empty key.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "said")]
        old: Option<Option<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new: Option<String>,
        /// The number of a counter or the length of a list that was read; absent if the client does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
        /// More about the operation, such as the result of a second release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The operation certainly did not happen.
    Fail(Problem),
    /// The operation may or may not have happened, or may still happen.
    Info(Problem),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    pub protocol: u32,
    /// Name and version of the lock library behind this client.
    pub name: String,
    #[serde(default)]
    pub capabilities: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseMessage {
    pub id: u64,
    pub phase: Phase,
    /// CLOCK_MONOTONIC of the client's kernel in nanoseconds. The client reads it on the safe side: after the reply for
    /// `acquired`, `read` and `written`, before the request for `before-write` and `releasing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mono_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validity_ms: Option<u64>,
    /// In phase `read`, the value that was read; absent if the client does not say, null for an empty register.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub value: Option<Option<String>>,
    /// In phase `read`, the number of a counter or the length of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    pub id: u64,
    /// One word. Certain: `not-acquired`, `unavailable`, `fenced`, `conflict`, `lock-lost`, `unsupported`, and `cancelled` if the
    /// operation was cancelled. Uncertain: `timeout`, `connection-lost`, `crash` and every other word.
    pub error: String,
    #[serde(default)]
    pub text: String,
}

/// The error words that say for certain that an operation did not happen.
pub const CERTAIN_ERRORS: &[&str] = &["not-acquired", "unavailable", "fenced", "conflict", "lock-lost", "unsupported"];

/// The error word of an operation that ended because its caller cancelled it. It is certain, like those words, if the controller
/// cancelled the operation.
pub const CANCELLED: &str = "cancelled";

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn said<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

impl Resource {
    pub fn new(spec: ResourceSpec, url: String) -> Resource {
        Resource { kind: spec.kind, url, fencing: spec.fencing }
    }
}

impl FromClient {
    /// The id of the operation that the message is about; None if it is about no operation.
    pub fn id(&self) -> Option<u64> {
        match self {
            FromClient::Ready(_)
            | FromClient::Failed { .. }
            | FromClient::Blocked { .. }
            | FromClient::Unblocked { .. } => None,
            FromClient::Phase(phase) => Some(phase.id),
            FromClient::Acquire { id } | FromClient::Release { id } | FromClient::Ok { id, .. } => Some(*id),
            FromClient::Fail(problem) | FromClient::Info(problem) => Some(problem.id),
        }
    }
}

/// A message as a line, including the newline.
pub fn to_line<T: Serialize>(message: &T) -> String {
    let mut line = serde_json::to_string(message).expect("a message has string keys only");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_as_the_protocol_shows_them_are_understood() {
        for line in [
            r#"{"type":"ready","protocol":1,"name":"redis-py 8.1.0","capabilities":["fencing","extend"],"later":1}"#,
            r#"{"type":"phase","id":17,"phase":"acquired","mono_ns":123,"token":34,"validity_ms":950}"#,
            r#"{"type":"phase","id":17,"phase":"before-write"}"#,
            r#"{"type":"phase","id":17,"phase":"owned","mono_ns":123}"#,
            r#"{"type":"acquire","id":17}"#,
            r#"{"type":"release","id":17}"#,
            r#"{"type":"ok","id":17,"old":"c1:12","new":"c3:17"}"#,
            r#"{"type":"ok","id":17,"old":null,"new":"c3:17"}"#,
            r#"{"type":"ok","id":17,"old":"c1:12","new":"c3:17","count":17}"#,
            r#"{"type":"phase","id":17,"phase":"read","value":"c1:12","count":17}"#,
            r#"{"type":"fail","id":17,"error":"not-acquired","text":"…"}"#,
            r#"{"type":"info","id":17,"error":"timeout"}"#,
            r#"{"type":"failed","text":"no such module"}"#,
            r#"{"type":"ready","protocol":2,"name":"redis-py 8.1.0","capabilities":["threads","cancel","block"]}"#,
            r#"{"type":"fail","id":17,"error":"cancelled","text":"…"}"#,
            r#"{"type":"blocked","mono_ns":123}"#,
            r#"{"type":"unblocked","mono_ns":124}"#,
        ] {
            let message: FromClient = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::from_str::<FromClient>(&to_line(&message)).unwrap(), message, "{line}");
        }
        for line in [
            r#"{"type":"invoke","id":17,"f":"rmw","key":"k0","value":"c3:17","breakpoints":["before-write"]}"#,
            r#"{"type":"invoke","id":17,"f":"rmw","key":"k0","value":"c3:17","release_again_ms":200}"#,
            r#"{"type":"hello","protocol":1,"client":"c3","lock":{"name":"redlock","ttl_ms":1000,"nodes":["redis://a"],"options":{}},"resource":{"kind":"register","url":"redis://b","fencing":"none"},"seed":7}"#,
            r#"{"type":"invoke","id":17,"f":"rmw","key":"k0","value":"c3:17","hold_ms":120,"acquire_timeout_ms":2000,"gates":["before-write"]}"#,
            r#"{"type":"invoke","id":17,"f":"rmw","key":"k0","value":"c3:17","check_every_ms":100}"#,
            r#"{"type":"go","id":17,"phase":"before-write"}"#,
            r#"{"type":"granted","id":17,"granted":true}"#,
            r#"{"type":"invoke","id":17,"thread":1,"f":"rmw","key":"k0","value":"c3:17"}"#,
            r#"{"type":"cancel","id":17}"#,
            r#"{"type":"block","ms":1300}"#,
            r#"{"type":"bye"}"#,
        ] {
            let message: ToClient = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::from_str::<ToClient>(&to_line(&message)).unwrap(), message, "{line}");
        }
    }

    #[test]
    fn breakpoints_have_two_names_and_both_are_sent() {
        let invoke = |more: &str| match serde_json::from_str(&format!(
            r#"{{"type":"invoke","id":1,"f":"rmw","key":"k"{more}}}"#
        )) {
            Ok(ToClient::Invoke(invoke)) => invoke,
            other => panic!("{other:?}"),
        };
        for named in
            [r#","breakpoints":["read"]"#, r#","gates":["read"]"#, r#","breakpoints":["read"],"gates":["read"]"#]
        {
            let breakpoints = invoke(named).breakpoints;
            assert!(breakpoints.contains(Phase::Read) && !breakpoints.contains(Phase::Written), "{named}");
        }
        assert!(!invoke("").breakpoints.contains(Phase::Read));
        let sent = to_line(&ToClient::Invoke(Invoke { breakpoints: Breakpoints::at(vec![Phase::Read]), ..invoke("") }));
        assert!(sent.contains(r#""breakpoints":["read"],"gates":["read"]"#), "{sent}");
        let none = to_line(&ToClient::Invoke(invoke("")));
        assert!(!none.contains("breakpoints") && !none.contains("gates"), "{none}");
    }

    #[test]
    fn what_a_read_phase_leaves_out_is_not_an_empty_register() {
        let phase = |line: &str| match serde_json::from_str(line).unwrap() {
            FromClient::Phase(phase) => phase.value,
            other => panic!("{other:?}"),
        };
        assert_eq!(phase(r#"{"type":"phase","id":1,"phase":"read"}"#), None);
        assert_eq!(phase(r#"{"type":"phase","id":1,"phase":"read","value":null}"#), Some(None));
        assert_eq!(phase(r#"{"type":"phase","id":1,"phase":"read","value":"v"}"#), Some(Some("v".into())));
    }

    #[test]
    fn anything_else_is_an_error() {
        for line in [
            "",
            "hello",
            "{}",
            r#"{"type":"okay","id":1}"#,
            r#"{"type":"ok"}"#,
            r#"{"type":"acquire"}"#,
            r#"{"type":"ok","id":1,"count":-1}"#,
            r#"{"type":"phase","id":1,"phase":"thinking"}"#,
        ] {
            assert!(serde_json::from_str::<FromClient>(line).is_err(), "{line}");
        }
    }
}

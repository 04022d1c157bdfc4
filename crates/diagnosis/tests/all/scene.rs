//! Short runs, written as text: the clients' reports about their operations, and the commands of the nodes. Times are in
//! milliseconds.

use diagnosis::{Diagnosis, Lives};
use model::history::{
    ClientEvent, ClientStep, FaultKind, FaultWindow, Function, Header, History, Operation, Outcome, Phase, PhaseStamp,
    Phases, Process, Promotion, RecordedCommand, SeenPromotion, Waited, WhyWaited,
};

const MS: u64 = 1_000_000;

/// Reads these lines:
///
/// - `nodes 5`: the number of the lock's nodes
/// - `op c0 5-900 ok acquired=12 releasing=880 released=895`: an operation on `k0`; without an end it is open
/// - `list c0 n0 n1 n2`: the nodes on the client's list, if it has not all
/// - `failed c0 NOSCRIPT No matching script`: the reason why the last operation failed
/// - `at 20 n0 c0 SET lock:k0 a NX PX 1000`: a command; from `lua`, a command that the preceding script calls
/// - `acquired=12#7` is a lock with the fencing token 7, `acquired=12~900` a lock that is valid for another 900 ms
/// - `threads 5`: how many clients are threads of one process; c0 sends the commands of all of them
/// - `claims releases`: the claims of the lock
/// - `gap 30 n0`: the node was not watched then
/// - `delay n0 c0 600 100-2700`: a fault that delays all packets from the node to the client by 600 ms
/// - `fault pause c0 100-400`, `promoted n1 for n0 at 500`
/// - `6 times every 300: at 13 n0 c0 SET lock:k0 a{} NX PX 1000`: an operation or a command six times, each 300 ms after the
///   previous one, with its number for `{}`
///
/// Operations are numbered from 0 in their order.
pub fn run(text: &str) -> (History, Vec<RecordedCommand>) {
    let mut history = History { run: Some(header()), ..History::default() };
    let mut commands = Vec::new();
    for (line, later) in text.lines().map(str::trim).filter(|line| !line.is_empty()).flat_map(repeated) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["nodes", count] => history.run.as_mut().unwrap().nodes = count.parse().unwrap(),
            ["threads", count] => history.run.as_mut().unwrap().threads = count.parse().unwrap(),
            ["claims", claim] => {
                history.run.as_mut().unwrap().claims.push(serde_json::from_value(claim.into()).unwrap())
            }
            ["op", client, span, outcome, ref phases @ ..] => {
                let index = history.operations.len() as u64;
                history.operations.push(operation(index, client, span, outcome, phases, later));
            }
            // The first operation of a client is cancelled.
            ["cancel", client, time] => {
                let is_its = |one: &&Operation| history.run.as_ref().unwrap().client_name(one.process) == client;
                let index = history.operations.iter().find(is_its).unwrap().index;
                history.cancelled.insert(index, ms(time));
            }
            ["list", client, ref nodes @ ..] => {
                let (step, text) = (ClientStep::Ready, String::new());
                let nodes = nodes.iter().map(ToString::to_string).collect();
                history.clients.push((0, ClientEvent { process: client[1..].parse().unwrap(), step, text, nodes }));
            }
            ["failed", _, ref why @ ..] => {
                let last = history.operations.last_mut().unwrap();
                last.fails(Some("error".into()), Some(why.join(" ").as_str().into()));
            }
            ["at", time, node, from, ref words @ ..] => commands.push(RecordedCommand {
                time: later + ms(time),
                node: node.to_string(),
                from: (from != "lua").then(|| from.to_string()),
                port: (from != "lua").then_some(1),
                in_script: from == "lua",
                words: words.iter().map(|word| word.to_string()).collect(),
                missed: None,
            }),
            // A member that waited for a processor for this long, between two times.
            ["waited", member, length, span] => {
                let (from, to) = span.split_once('-').unwrap();
                let waited = Waited {
                    members: vec![member.to_string()],
                    why: WhyWaited::Processor,
                    from_ns: ms(from),
                    to_ns: ms(to),
                    waited_ns: ms(length),
                };
                history.kept_waiting.push((0, waited));
            }
            ["gap", time, node] => commands.push(RecordedCommand {
                time: ms(time),
                node: node.to_string(),
                missed: Some("it ended".to_string()),
                ..RecordedCommand::default()
            }),
            ["fault", kind, target, span] => {
                let kind: FaultKind = serde_json::from_value(kind.into()).unwrap();
                let (from, to) = span.split_once('-').unwrap();
                let mut window = FaultWindow::new(history.faults.len() as u32, kind);
                window.targets = vec![target.to_string()];
                (window.inject, window.injected) = (ms(from), Some((ms(from), true)));
                (window.heal, window.healed) = (Some(ms(to)), Some((ms(to), true)));
                history.faults.push(window);
            }
            ["delay", from, to, delay, span] => {
                let kind: FaultKind = serde_json::from_value("delay".into()).unwrap();
                let (began, ended) = span.split_once('-').unwrap();
                let mut window = FaultWindow::new(history.faults.len() as u32, kind);
                window.delay_ns = Some(ms(delay));
                window.links = Some(vec![(from.to_string(), to.to_string())]);
                (window.inject, window.injected) = (ms(began), Some((ms(began), true)));
                (window.heal, window.healed) = (Some(ms(ended)), Some((ms(ended), true)));
                history.faults.push(window);
            }
            ["promoted", node, "for", instead_of, "at", time] => history.promotions.push(SeenPromotion {
                index: 0,
                time: ms(time),
                promotion: Promotion {
                    key: "k0".to_string(),
                    node: node.to_string(),
                    instead_of: instead_of.to_string(),
                    after_ns: ms(time).saturating_sub(10 * MS),
                },
            }),
            _ => panic!("{line}"),
        }
    }
    commands.sort_by_key(|command| command.time);
    let ends = history.operations.iter().filter_map(|operation| operation.completed);
    history.last_time = ends.chain(commands.last().map(|last: &RecordedCommand| last.time)).max().unwrap_or(0);
    (history, commands)
}

/// A line as often as it says, each with its delay in ns.
fn repeated(line: &str) -> Vec<(String, u64)> {
    let Some((how, line)) = line.split_once(": ") else { return vec![(line.to_string(), 0)] };
    let [times, "times", "every", apart] = how.split(' ').collect::<Vec<_>>()[..] else { panic!("{how}") };
    (0..times.parse().unwrap()).map(|number| (line.replace("{}", &number.to_string()), number * ms(apart))).collect()
}

/// The diagnoses of a run that is written as text.
pub fn diagnoses(text: &str) -> Vec<Diagnosis> {
    let (history, commands) = run(text);
    Lives::of(&history, &commands).diagnose()
}

fn ms(word: &str) -> u64 {
    word.parse::<u64>().unwrap_or_else(|_| panic!("{word}")) * MS
}

fn operation(index: u64, client: &str, span: &str, outcome: &str, phases: &[&str], later: u64) -> Operation {
    let (invoked, completed) = span.split_once('-').unwrap();
    let stamps = phases.iter().map(|phase| {
        let (phase, time) = phase.split_once('=').unwrap();
        let (time, token) = time.split_once('#').map_or((time, None), |(time, token)| (time, token.parse().ok()));
        let (time, validity) = time.split_once('~').map_or((time, None), |(time, ms)| (time, ms.parse().ok()));
        PhaseStamp {
            index: 0,
            phase: serde_json::from_value::<Phase>(phase.into()).unwrap(),
            received: later + ms(time),
            stamped: i64::try_from(later + ms(time)).ok(),
            token,
            validity_ms: validity,
        }
    });
    let mut all = Phases::default();
    all.edit(|kept| kept.extend(stamps));
    Operation {
        index,
        completed_index: None,
        process: Process::Client(client[1..].parse().unwrap()),
        f: Function::Rmw,
        key: "k0".into(),
        invoked: later + ms(invoked),
        completed: (!completed.is_empty()).then(|| later + ms(completed)),
        outcome: match outcome {
            "ok" => Outcome::Ok,
            "fail" => Outcome::Fail,
            _ => Outcome::Info,
        },
        old: model::history::Reading::Unknown,
        amount: None,
        new: None,
        failure: None,
        phases: all,
    }
}

fn header() -> Header {
    serde_json::from_value(serde_json::json!({
        "format": 1, "redjepsen": "0.1.0", "workload": "single", "nemesis": "none", "seed": 1, "clients": 5, "nodes": 1,
        "keys": 1, "ttl_ms": 1000, "time_limit_ms": 1000, "claims": [], "faults_expected": false, "started": "",
    }))
    .unwrap()
}

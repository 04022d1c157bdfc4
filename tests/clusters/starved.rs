//! Members that get no processor, are stopped from outside, or crash, while their locks work correctly.
//!
//! A test starves and stops members from outside, as a busy machine or its owner would, and ends only processes that it started.
//! The result does not depend on the machine's speed: the member gets no processor time at all for seconds.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use model::history::WhyWaited::{self, Gone, Processor, Stopped};
use system::cluster::Cluster;

use crate::turns;

const LEAST: Duration = Duration::from_millis(50);

/// Sends a signal from outside.
fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "{name} to {pid}");
}

/// Stops n0 for a while, ends n1, and gives the resource almost no processor time. Returns how long each was seen not to run, and
/// why.
async fn seen(
    cluster: &Cluster,
    pid_of: impl Fn(&str) -> u32,
    starve: impl AsyncFn(),
) -> impl Fn(&str, WhyWaited) -> Duration {
    cluster.watch(LEAST).await.unwrap();
    let pause = |ms| tokio::time::sleep(Duration::from_millis(ms));
    pause(300).await;
    let n0 = pid_of("n0");
    signal(n0, "STOP");
    pause(600).await;
    signal(n0, "CONT");
    signal(pid_of("n1"), "KILL");
    starve().await;
    let waits = cluster.waits().await.unwrap();
    assert!(cluster.waits().await.unwrap().is_empty(), "told once");
    move |member, why| {
        let of = waits.iter().filter(|waited| waited.members == [member] && waited.why == why);
        Duration::from_nanos(of.map(|waited| waited.waited_ns).sum())
    }
}

fn are_right(lost: impl Fn(&str, WhyWaited) -> Duration) {
    let second = Duration::from_secs(1);
    assert!((second / 4..second * 60).contains(&lost("n0", Stopped)), "{:?}", lost("n0", Stopped));
    assert!(lost("n1", Gone) > second, "{:?}", lost("n1", Gone));
    assert!(lost("resource", Processor) > second / 4, "{:?}", lost("resource", Processor));
    for (member, why) in
        [("n2", Stopped), ("n2", Gone), ("n0", Gone), ("resource", Gone), ("c0", Stopped), ("c0", Gone)]
    {
        assert_eq!(lost(member, why), Duration::ZERO, "{member} {why:?}");
    }
}

/// A loop that occupies a processor until it is dropped.
struct Loop(Child);

impl Loop {
    fn on(cpu: u32) -> Loop {
        let spin = ["taskset", "-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"].map(String::from);
        Loop(Command::new("setsid").args(spin).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

mod local {
    use system::cluster::Local;
    use system::faults::RedisCommand;

    use super::*;
    use crate::kit::{ask, command, spec};

    fn children(pid: u32) -> Vec<u32> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        children.collect::<String>().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// The processes that descend from this one, parents first.
    fn descendants(pid: u32) -> Vec<u32> {
        let mut all = children(pid);
        let mut next = 0;
        while let Some(pid) = all.get(next) {
            all.extend(children(*pid));
            next += 1;
        }
        all
    }

    /// A member's first process among the descendants of `controller`: a server sees only its own folder, and a client writes
    /// only to its own.
    fn pid_of(controller: u32, run: &str, member: &str) -> Option<u32> {
        let is_its = |pid: &u32| {
            let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
            mounts.lines().any(|line| {
                let fields: Vec<&str> = line.split(' ').collect();
                let (from, on) = (fields.get(3).unwrap_or(&""), fields.get(4).unwrap_or(&""));
                *on == "/redjepsen" && from.ends_with(&format!("{run}/{member}"))
                    || *on == format!("/redjepsen/{member}/data")
            })
        };
        descendants(controller).into_iter().find(is_its)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_agent_sees_who_does_not_run() {
        let _turn = turns::local();
        let local =
            Local::find(None, Some(env!("CARGO_BIN_EXE_redjepsen").into())).expect("these tests need a redis-server");
        let spec = spec("test-starved", 3, 1);
        let cluster =
            local.start(system::cluster::ClusterSpec { client: command(&["/bin/cat"]), ..spec }).await.unwrap();
        let run = cluster.run_id().to_string();
        let pid = |member: &str| pid_of(std::process::id(), &run, member).unwrap();
        let lost = seen(&cluster, pid, async || {
            let _busy = Loop::on(0);
            let resource = pid("resource").to_string();
            for starved in
                [&["taskset", "-a", "-p", "-c", "0", &resource], &["chrt", "-a", "-i", "-p", "0", &resource][..]]
            {
                assert!(Command::new(starved[0]).args(&starved[1..]).stdout(Stdio::null()).status().unwrap().success());
            }
            let until = Instant::now() + Duration::from_secs(3);
            while Instant::now() < until {
                _ = ask(&cluster, &cluster.resource_url(), RedisCommand::Ping).await;
            }
        });
        are_right(lost.await);
        cluster.stop().await.unwrap();
    }

    /// The member with this name, or the agent, from which all others descend: the child of its sandbox.
    fn find(controller: u32, member: &str) -> Option<u32> {
        match member {
            "agent" => children(*children(controller).first()?).first().copied(),
            _ => pid_of(controller, "", member),
        }
    }

    /// Stops a member repeatedly, for three quarters of the time, until the run is over.
    fn in_bursts(controller: u32, over: &AtomicBool, member: &str) {
        let pid = find(controller, member).expect(member);
        let send = |name: &str| {
            _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status()
        };
        while !over.load(Ordering::Relaxed) && find(controller, member) == Some(pid) {
            send("STOP");
            thread::sleep(Duration::from_millis(900));
            send("CONT");
            thread::sleep(Duration::from_millis(300));
        }
    }

    #[test]
    fn a_sound_lock_is_not_accused_of_a_member_that_is_stopped_again_and_again() {
        let _turn = turns::two_local();
        let noted = each(&["c0", "c1", "n0", "resource", "agent"], |member, flags| {
            run(&format!("--cluster local {flags}"), |controller, over| in_bursts(controller, over, member))
        });
        assert!(noted.iter().all(|noted| *noted > 0), "{noted:?}");
    }

    #[test]
    fn a_resource_that_dies_makes_what_follows_no_evidence() {
        let _turn = turns::local();
        let flags = "--cluster local --workload single --nemesis none --time-limit 3s --seed 1";
        let Outcome { code, text, .. } =
            run(flags, |controller, _| signal(find(controller, "resource").unwrap(), "KILL"));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("the resource's process was gone from"), "{text}");
    }

    /// The other side: values and stamps prove a violation even on a busy machine.
    #[test]
    fn a_lock_that_is_lost_is_a_violation_however_busy_the_machine_is() {
        let _turn = turns::local();
        let cores = u32::try_from(thread::available_parallelism().unwrap().get()).unwrap();
        let _busy: Vec<Loop> = (0..cores).flat_map(|cpu| [Loop::on(cpu), Loop::on(cpu)]).collect();
        let flags = "--cluster local --workload single --nemesis pause-before-write --seed 1";
        let Outcome { code, text, .. } = run(flags, |_, _| ());
        assert_eq!(code, Some(1), "{text}");
    }
}

/// The result of a run.
struct Outcome {
    code: Option<i32>,
    text: String,
    /// How often its history says that a member did not run.
    waited: usize,
}

/// Scenarios with deadlines. Only the first is run, unless the environment asks for this many runs of each.
const SCENARIOS: [&str; 4] = ["failed-release", "retry-after-applied", "cancelled-acquisition", "cancelled-release"];
const RUNS: &str = "REDJEPSEN_STARVED_RUNS";

/// Runs scenarios in which the lock works correctly, while each of these members is starved. Returns for each run how often its
/// history says that a member did not run.
fn each(members: &[&str], run: impl Fn(&str, &str) -> Outcome + Sync) -> Vec<usize> {
    let mut all = Vec::new();
    let runs: Option<u32> = std::env::var(RUNS).ok().and_then(|runs| runs.parse().ok());
    let scenarios = if runs.is_some() { &SCENARIOS[..] } else { &SCENARIOS[..1] };
    for (scenario, seed) in
        scenarios.iter().flat_map(|scenario| (1..=runs.unwrap_or(1)).map(move |seed| (scenario, seed)))
    {
        let flags = &format!("--workload single --nemesis {scenario} --ttl 3s --seed {seed}");
        let outcomes: Vec<Outcome> = thread::scope(|scope| {
            let started: Vec<_> = members.iter().map(|member| scope.spawn(|| run(member, flags))).collect();
            started.into_iter().map(|started| started.join().unwrap()).collect()
        });
        for (member, Outcome { code, text, waited }) in members.iter().zip(outcomes) {
            eprintln!("{scenario} {seed}, {member}: {code:?}, {waited} waits: {text}");
            assert!(matches!(code, Some(0 | 2)), "{scenario} with seed {seed}, {member} starved: {text}");
            all.push(waited);
        }
    }
    all
}

/// Makes a run while `torture` disturbs its members.
fn run(arguments: &str, torture: impl FnOnce(u32, &AtomicBool) + Send) -> Outcome {
    let store = tempfile::tempdir().unwrap();
    let mut redjepsen = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    redjepsen.arg("run").args(shlex::split(arguments).unwrap()).arg("--store").arg(store.path());
    let child = redjepsen.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (controller, over) = (child.id(), AtomicBool::new(false));
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) && count(store.path(), r#""type":"invoke""#) == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            torture(controller, &over);
        });
        let output = child.wait_with_output().unwrap();
        over.store(true, Ordering::Relaxed);
        output
    });
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Outcome { code: output.status.code(), text, waited: count(store.path(), r#""type":"waited""#) }
}

/// How many lines of the history in this store have these words.
fn count(store: &Path, words: &str) -> usize {
    let folders = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let histories = folders(store).flat_map(|test| folders(&test).collect::<Vec<_>>());
    let text = histories.filter_map(|folder| fs::read_to_string(folder.join("history.jsonl")).ok());
    text.map(|text| text.matches(words).count()).sum()
}

mod docker {
    use bollard::models::ContainerUpdateBody;
    use system::cluster::{Docker, ImageRequest};
    use system::faults::RedisCommand;

    use super::*;
    use crate::kit::{ask, spec};

    #[tokio::test(flavor = "multi_thread")]
    async fn the_agent_sees_who_does_not_run() {
        let _turn = turns::docker();
        let docker = Docker::connect().await.expect("these tests need a Docker engine");
        let request = ImageRequest { program: Some(env!("CARGO_BIN_EXE_redjepsen").into()), ..ImageRequest::default() };
        let images = docker.prepare(&request, &mut |line| eprintln!("{line}")).await.unwrap();
        let cluster = docker.start(spec("test-starved", 3, 1), images).await.unwrap();
        let engine = bollard::Docker::connect_with_defaults().unwrap();
        let container = |member: &str| {
            cluster.members().find(|one| one.name == member).and_then(|one| one.container.clone()).unwrap()
        };
        let mut pids = std::collections::BTreeMap::new();
        for member in ["n0", "n1"] {
            let state = engine.inspect_container(&container(member), None).await.unwrap().state.unwrap();
            pids.insert(member, u32::try_from(state.pid.unwrap()).unwrap());
        }
        let lost = seen(
            &cluster,
            |member| pids[member],
            async || {
                // A hundredth of a processor.
                let starved =
                    ContainerUpdateBody { cpu_period: Some(100_000), cpu_quota: Some(1_000), ..Default::default() };
                engine.update_container(&container("resource"), starved).await.unwrap();
                let until = Instant::now() + Duration::from_secs(3);
                while Instant::now() < until {
                    _ = ask(&cluster, &cluster.resource_url(), RedisCommand::Ping).await;
                }
            },
        );
        are_right(lost.await);
        cluster.stop().await.unwrap();
    }

    /// Makes the engine limit a member of this controller's run.
    fn limit(controller: u32, member: &str) {
        let docker = |arguments: &[&str]| {
            let said = Command::new("docker").args(arguments).output().unwrap();
            assert!(said.status.success(), "{said:?}");
            String::from_utf8(said.stdout).unwrap()
        };
        let label = format!("label=redjepsen.controller.pid={controller}");
        let found = docker(&["ps", "--filter", &label, "--format", "{{.ID}} {{.Names}}"]);
        let is_it = |line: &&str| line.ends_with(&format!("-{member}"));
        let id = found.lines().find(is_it).and_then(|line| line.split(' ').next());
        docker(&["update", "--cpu-period", "100000", "--cpu-quota", "1000", id.unwrap()]);
    }

    #[test]
    fn a_sound_lock_is_not_accused_of_a_member_with_a_hundredth_of_a_processor() {
        let _turn = turns::docker();
        let all = std::env::var_os(RUNS).is_some();
        let members = if all { &["n0", "c1", "resource", "agent"][..] } else { &["n0"] };
        let noted = each(members, |member, flags| {
            run(&format!("--cluster docker {flags}"), |controller, _| limit(controller, member))
        });
        // A server with little to do can work within this limit, so not every run notes a wait.
        assert!(noted.iter().any(|noted| *noted > 0), "{noted:?}");
    }
}

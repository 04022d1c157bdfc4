//! Members that get no processor, are stopped by somebody else, or die, while nothing is wrong with their locks.
//!
//! A test starves and stops members from outside, as a busy machine or its owner would, and ends only what it started. Nothing rests
//! on how fast this machine is: what is done to a member leaves it no time at all for seconds.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redjepsen::cluster::Cluster;
use redjepsen::history::WhyWaited::{self, Gone, Processor, Stopped};

use crate::turns;

const LEAST: Duration = Duration::from_millis(50);

/// Sends a signal from outside.
fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "{name} to {pid}");
}

/// Stops n0 for a while, ends n1, and has the resource get next to nothing. Says for how long each was seen not to run, and why.
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

/// A loop that has a processor for itself until it is dropped.
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
    use redjepsen::cluster::Local;
    use redjepsen::faults::RedisCommand;

    use super::*;
    use crate::kit::{ask, command, spec};

    /// The first process of a member of this run that descends from this one: each sees its own folder.
    fn pid_of(controller: u32, run: &str, member: &str) -> Option<u32> {
        let parent = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
        };
        let descends = |pid: u32| std::iter::successors(Some(pid), |pid| parent(*pid)).any(|pid| pid == controller);
        let is_its = |pid: u32| {
            let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
            mounts.lines().any(|line| {
                let fields: Vec<&str> = line.split(' ').collect();
                fields.get(4) == Some(&"/redjepsen")
                    && fields.get(3).is_some_and(|from| from.ends_with(&format!("{run}/{member}")))
            })
        };
        let pids =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| descends(*pid) && is_its(*pid)).min()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_agent_sees_who_does_not_run() {
        let _turn = turns::local();
        let local =
            Local::find(None, Some(env!("CARGO_BIN_EXE_redjepsen").into())).expect("these tests need a redis-server");
        let spec = spec("test-starved", 3, 1);
        let cluster =
            local.start(redjepsen::cluster::ClusterSpec { client: command(&["/bin/cat"]), ..spec }).await.unwrap();
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

    /// Runs while this is done to its members; returns the exit code and what was said.
    fn run(
        arguments: &str,
        torture: impl FnOnce(&dyn Fn(&str) -> Option<u32>, &AtomicBool) + Send,
    ) -> (Option<i32>, String) {
        let store = tempfile::tempdir().unwrap();
        let mut redjepsen = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        redjepsen
            .args(["run", "--cluster", "local"])
            .args(shlex::split(arguments).unwrap())
            .arg("--store")
            .arg(store.path());
        let child = redjepsen.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (controller, over) = (child.id(), AtomicBool::new(false));
        let output = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && !has_begun(store.path()) {
                    thread::sleep(Duration::from_millis(5));
                }
                torture(&|member| pid_of(controller, "", member), &over);
            });
            let output = child.wait_with_output().unwrap();
            over.store(true, Ordering::Relaxed);
            output
        });
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.code(), text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Whether clients work.
    fn has_begun(store: &Path) -> bool {
        let invoked = |folder: &Path| {
            fs::read_to_string(folder.join("history.jsonl")).is_ok_and(|history| history.contains(r#""type":"invoke""#))
        };
        let folders = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        folders(store).flat_map(|test| folders(&test).collect::<Vec<_>>()).any(|folder| invoked(&folder))
    }

    /// Stops a member again and again, three quarters of the time, until the run is over.
    fn in_bursts(pid_of: &dyn Fn(&str) -> Option<u32>, over: &AtomicBool, member: &str) {
        let Some(pid) = pid_of(member) else { return };
        let send = |name: &str| {
            _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status()
        };
        while !over.load(Ordering::Relaxed) && pid_of(member) == Some(pid) {
            send("STOP");
            thread::sleep(Duration::from_millis(300));
            send("CONT");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// With 0.55 TTL for each.
    #[test]
    fn a_node_that_is_stopped_again_and_again_makes_a_deadline_no_evidence() {
        let _turn = turns::local();
        let flags = "--workload single --nemesis failed-release --seed 1";
        let (code, text) = run(flags, |pid_of, over| in_bursts(pid_of, over, "n0"));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("n0 was stopped by somebody else"), "{text}");
    }

    #[test]
    fn a_resource_that_dies_makes_what_follows_no_evidence() {
        let _turn = turns::local();
        let flags = "--workload single --nemesis none --time-limit 3s --seed 1";
        let (code, text) = run(flags, |pid_of, _| signal(pid_of("resource").unwrap(), "KILL"));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("the resource's process was gone from"), "{text}");
    }

    /// The other side: what values and stamps show is no less certain on a busy machine.
    #[test]
    fn a_lock_that_is_lost_is_a_violation_however_busy_the_machine_is() {
        let _turn = turns::local();
        let cores = u32::try_from(thread::available_parallelism().unwrap().get()).unwrap();
        let _busy: Vec<Loop> = (0..cores).flat_map(|cpu| [Loop::on(cpu), Loop::on(cpu)]).collect();
        let (code, text) = run("--workload single --nemesis pause-before-write --seed 1", |_, _| ());
        assert_eq!(code, Some(1), "{text}");
    }
}

mod docker {
    use bollard::models::ContainerUpdateBody;
    use redjepsen::cluster::{Docker, ImageRequest};
    use redjepsen::faults::RedisCommand;

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
}

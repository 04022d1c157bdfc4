//! Clusters on a real engine. These tests fail if no Docker engine answers: a skipped test proves nothing.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};
use system::cluster::{
    CleanOptions, ClientCommand, ClientOutput, ClientSource, Cluster, ClusterError, ClusterSpec, Docker, ImageRequest,
    Images, NodeSource, Owner,
};
use tokio::io::AsyncWriteExt;

use crate::kit::{self, command, next, pause, say};
use crate::turns;

async fn engine() -> Docker {
    Docker::connect().await.expect("these tests need a Docker engine")
}

async fn images(docker: &Docker) -> Images {
    let request = ImageRequest { program: Some(env!("CARGO_BIN_EXE_redjepsen").into()), ..ImageRequest::default() };
    let began = Instant::now();
    let images = docker.prepare(&request, &mut |line| eprintln!("{line}")).await.unwrap();
    eprintln!("images there after {:?}", began.elapsed());
    images
}

fn run_id(test: &str) -> String {
    format!("test-{test}-{}", std::process::id())
}

/// A cluster whose clients run a program of this machine.
fn spec(test: &str, nodes: u32, clients: u32, argv: &[&str]) -> ClusterSpec {
    ClusterSpec { client: command(argv), ..kit::spec(&format!("test-{test}"), nodes, clients) }
}

/// Starts a cluster; the clients' image contains their program.
async fn start(docker: &Docker, spec: ClusterSpec) -> Result<Cluster, ClusterError> {
    let mut images = images(docker).await;
    if let ClientCommand::Own(own) = &spec.client
        && let Ok(image) = docker.client_image(Path::new(&own.command[0])).await
    {
        images.client = Some(image);
    }
    docker.start(spec, images).await
}

/// Asserts that the engine has nothing left of a run. Does not use `clean`, which would remove objects that other tests check.
async fn assert_gone(run_id: &str) {
    let engine = bare_engine().await;
    let label = HashMap::from([("label", vec![format!("redjepsen.run={run_id}")])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&label).build();
    let containers = engine.list_containers(Some(options)).await.unwrap();
    assert!(containers.is_empty(), "{containers:?}");
    let options = ListNetworksOptionsBuilder::new().filters(&label).build();
    let networks = engine.list_networks(Some(options)).await.unwrap();
    assert!(networks.is_empty(), "{networks:?}");
}

/// The engine, without redjepsen in between.
async fn bare_engine() -> bollard::Docker {
    bollard::Docker::connect_with_defaults().unwrap().negotiate_version().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_starts_answers_pauses_and_goes() {
    let _turn = turns::docker();
    let docker = engine().await;
    let spec = spec("whole", 5, 5, &["/bin/cat"]);
    let run_id = spec.run_id.clone();
    let began = Instant::now();
    let cluster = start(&docker, spec).await.unwrap();
    eprintln!("from nothing to all answering: {:?}", began.elapsed());

    let described = cluster.describe();
    assert!(described.server.contains("redis ") || described.server.contains("valkey "), "{described:?}");
    kit::answers_and_pauses(&cluster).await;

    let began = Instant::now();
    cluster.stop().await.unwrap();
    eprintln!("stopped in {:?}", began.elapsed());
    cluster.stop().await.expect("a second stop does no harm");
    assert_gone(&run_id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_comes_back_with_what_it_persisted() {
    let _turn = turns::docker();
    let docker = engine().await;
    kit::comes_back_with_what_it_persisted(async |spec| start(&docker, spec).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_belong_together_get_over_the_loss_of_a_primary_and_leave_nothing() {
    let _turn = turns::docker();
    let docker = engine().await;
    for (name, nodes, topology) in crate::groups::topologies() {
        let began = Instant::now();
        let cluster = start(&docker, ClusterSpec { topology, ..spec(name, nodes, 0, &["/bin/cat"]) }).await.unwrap();
        eprintln!("{name} ready after {:?}", began.elapsed());
        crate::groups::get_over_the_loss_of_the_primary(&cluster).await;
        cluster.stop().await.unwrap();
        assert_gone(cluster.run_id()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_heals_when_its_controller_is_gone() {
    let _turn = turns::cleaning_docker();
    let docker = engine().await;
    let cluster = start(&docker, spec("orphan", 1, 1, &["/bin/cat"])).await.unwrap();
    let mut client = cluster.start_client(0).await.unwrap();
    for member in ["c0", "n0"] {
        assert!(pause(&cluster, member).await.unwrap().observed);
    }
    let error = pause(&cluster, "c7").await.unwrap_err().to_string();
    assert!(error.contains("no member `c7`"), "{error}");

    // This is what happens to the agent's stdin when the controller dies.
    cluster.agent.close().await;
    assert_eq!(say(&mut client, "going on").await, "going on");
    // The agent ends once it has healed everything; its exit code confirms that it could.
    assert!(state_once_ended(&cluster, "agent").await.contains("(0)"));
    assert!(pause(&cluster, "c0").await.is_err());
    cluster.stop().await.unwrap();
}

/// A killed controller leaves nothing paused, and `clean` removes what it left. Part of the test of `clean`, because another
/// test's `clean` would interfere.
async fn cleans_up_after_a_killed_controller(docker: &Docker) {
    let mut controller = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "docker::to_be_killed", "--ignored", "--nocapture"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(controller.stdout.take().unwrap());
    let line = output.lines().map(Result::unwrap).find(|line| line.starts_with("paused in ")).unwrap();
    let run_id = line.trim_start_matches("paused in ").to_string();
    let kept = docker.clean(&CleanOptions::default()).await.kept;
    assert!(kept.iter().any(|run| run.run_id == run_id), "it lives: {kept:?}");
    controller.kill().unwrap();
    controller.wait().unwrap();

    let engine = bare_engine().await;
    let agent = format!("redjepsen-{run_id}-agent");
    let mut state = None;
    for _ in 0..100 {
        state = engine.inspect_container(&agent, None).await.unwrap().state;
        if state.as_ref().is_some_and(|state| state.running == Some(false)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let state = state.unwrap();
    assert!(state.running == Some(false) && state.exit_code == Some(0), "the agent healed and ended: {state:?}");
    let removed = docker.clean(&CleanOptions::default()).await.removed;
    assert!(removed.iter().any(|run| run.run_id == run_id), "{removed:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the controller that another test kills"]
async fn to_be_killed() {
    let docker = engine().await;
    let cluster = start(&docker, spec("killed", 1, 1, &["/bin/cat"])).await.unwrap();
    for member in ["c0", "n0"] {
        assert!(pause(&cluster, member).await.unwrap().observed);
    }
    println!("paused in {}", cluster.run_id());
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_takes_the_dead_and_leaves_the_living() {
    let _turn = turns::cleaning_docker();
    let docker = engine().await;
    let living = start(&docker, spec("living", 1, 0, &["/bin/cat"])).await.unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let mut spec = spec("dead", 1, 1, &["/bin/cat"]);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let start_ticks = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
    spec.owner = Owner { pid: child.id(), start_ticks, ..Owner::current() };
    let dead = start(&docker, spec.clone()).await.unwrap();
    let elsewhere = Owner { host: "elsewhere".to_string(), ..Owner::current() };
    spec = ClusterSpec { run_id: run_id("elsewhere"), nodes: 1, clients: 0, owner: elsewhere, ..spec };
    let elsewhere = start(&docker, spec).await.unwrap();

    let removed = async |all: bool| {
        let cleaned = docker.clean(&CleanOptions { all, ..CleanOptions::default() }).await;
        eprintln!("{cleaned:?}");
        cleaned.removed.into_iter().map(|run| run.run_id).collect::<Vec<_>>()
    };
    let ids = [living.run_id(), dead.run_id(), elsewhere.run_id()];
    assert!(removed(false).await.iter().all(|run| !ids.contains(&run.as_str())), "all three controllers may live");
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = removed(false).await;
    assert!(gone.contains(&dead.run_id().to_string()) && gone.iter().all(|run| run != living.run_id()), "{gone:?}");
    assert!(dead.member_states().await.unwrap().iter().all(|state| state.text == "removed"));
    assert!(elsewhere.member_states().await.unwrap().iter().all(|state| state.running));
    elsewhere.stop().await.unwrap();
    assert!(living.member_states().await.unwrap().iter().all(|state| state.running));
    living.stop().await.unwrap();
    dead.stop().await.expect("nothing to do");
    cleans_up_after_a_killed_controller(&docker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_that_fail_say_why_and_leave_nothing() {
    let _turn = turns::docker();
    let docker = engine().await;
    kit::fails_with_a_reason(async |spec| start(&docker, spec).await, assert_gone).await;
    let other = start(&docker, spec("other", 1, 0, &["/bin/cat"])).await.unwrap();
    let taken = other.describe().subnet;
    let late = ClusterSpec { subnet: Some(taken), ..spec("fails", 1, 1, &["/bin/cat"]) };
    let run_id = late.run_id.clone();
    let error = start(&docker, late).await.err().expect("must fail").to_string();
    assert!(!error.contains('\n') && error.contains(&taken.to_string()) && error.contains("--subnet"), "{error}");
    assert_gone(&run_id).await;
    other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_given_up_can_be_removed() {
    let _turn = turns::docker();
    let docker = engine().await;
    let spec = ClusterSpec { client: ClientCommand::BuiltIn, ..spec("given-up", 2, 1, &["/bin/cat"]) };
    let run_id = spec.run_id.clone();
    for millis in [50, 300, 700] {
        let given_up = tokio::time::timeout(Duration::from_millis(millis), start(&docker, spec.clone())).await;
        eprintln!("given up after {millis} ms: {}", given_up.is_err());
        docker.remove_run(&run_id).await.unwrap();
        assert_gone(&run_id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn images_that_were_named_are_never_substituted() {
    let _turn = turns::docker();
    let docker = engine().await;
    let program: Option<std::path::PathBuf> = Some(env!("CARGO_BIN_EXE_redjepsen").into());
    let name = "localhost:1/redjepsen-test/nothing:1".to_string();
    for request in [
        ImageRequest { node: NodeSource::Named(name.clone()), program: program.clone(), ..ImageRequest::default() },
        ImageRequest {
            node: NodeSource::Default,
            program: program.clone(),
            client: ClientSource::Named(name.clone()),
            ..ImageRequest::default()
        },
    ] {
        let error = docker.prepare(&request, &mut |_| {}).await.unwrap_err().to_string();
        assert!(error.contains(&name) && !error.contains('\n'), "{error}");
    }
    let gone = ImageRequest { program: Some("/nowhere/redjepsen (deleted)".into()), ..ImageRequest::default() };
    let error = docker.prepare(&gone, &mut |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("start redjepsen again"), "{error}");
    let script = NodeSource::Program("/etc/passwd".into());
    let error = docker
        .prepare(&ImageRequest { node: script, program, ..ImageRequest::default() }, &mut |_| {})
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/etc/passwd"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_floods_or_ends_is_noticed() {
    let _turn = turns::docker();
    let docker = engine().await;
    // The image has only a shell, so the script uses no other programs.
    let script = "echo starting >&2; x=xxxxxxxxxxxxxxxx; \
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do x=$x$x; done; \
        read go; echo $x; echo fine; printf cut-off; exit 3";
    let cluster = start(&docker, spec("flood", 1, 1, &["/bin/sh", "-c", script])).await.unwrap();
    let mut client = cluster.start_client(0).await.unwrap();
    assert_eq!(next(&mut client).await, ClientOutput::Stderr(b"starting".to_vec()));
    client.stdin.write_all(b"go\n").await.unwrap();
    client.stdin.flush().await.unwrap();
    assert!(matches!(next(&mut client).await, ClientOutput::TooLong { start } if start.starts_with(b"xxx")));
    assert_eq!(next(&mut client).await, ClientOutput::Stdout(b"fine".to_vec()));
    assert_eq!(next(&mut client).await, ClientOutput::Stdout(b"cut-off".to_vec()));
    assert_eq!(next(&mut client).await, ClientOutput::Closed(None));
    assert!(state_once_ended(&cluster, "c0").await.contains("(3)"));
    // The same for a server that is killed by hand.
    let n0 = cluster.members().find(|member| member.name == "n0").unwrap();
    bare_engine().await.kill_container(n0.container.as_deref().unwrap(), None).await.unwrap();
    assert!(state_once_ended(&cluster, "n0").await.contains("(137)"));
    let seen = pause(&cluster, "n0").await.unwrap();
    assert!(!seen.observed && seen.text.contains("gone"), "{seen:?}");
    let logs = tempfile::tempdir().unwrap();
    cluster.collect_logs(logs.path()).await.unwrap();
    assert_eq!(std::fs::read_to_string(logs.path().join("c0/client.log")).unwrap(), "starting\n");
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn members_have_each_other_and_nobody_else_has_them() {
    let _turn = turns::docker();
    let docker = engine().await;
    // Shells alone can check whether a program listens.
    let script = r#"while read -r line; do if eval "$line" 2>/dev/null; then echo did; else echo failed; fi; done"#;
    let cluster = start(&docker, spec("kept-in", 1, 1, &["/bin/bash", "-c", script])).await.unwrap();
    let mut client = cluster.start_client(0).await.unwrap();
    let mut tried = async |command: String| {
        client.stdin.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        client.stdin.flush().await.unwrap();
        // A connection that is never answered may take minutes to fail.
        match tokio::time::timeout(Duration::from_secs(1), client.output.recv()).await {
            Ok(Some(ClientOutput::Stdout(said))) => said == b"did",
            Err(_) => false,
            other => panic!("{command}: {other:?}"),
        }
    };
    let connects_to = |address: &str| format!("exec 3<>/dev/tcp/{}", address.replace(':', "/"));
    let node = cluster.node_urls()[0].trim_start_matches("redis://").to_string();
    assert!(tried(connects_to(&node)).await);
    // Each capability is a bit: the client may only access other users' files.
    let capabilities = |mask: &str| {
        format!(
            "while read -r name value; do [[ $name = CapBnd: ]] && break; done </proc/self/status; (( 0x$value == {mask} ))"
        )
    };
    assert!(tried(capabilities("2")).await);
    let no_more =
        "while read -r name value; do [[ $name = NoNewPrivs: ]] && break; done </proc/self/status; (( value ))";
    assert!(tried(no_more.to_string()).await);

    // Its own folder is writable, as in a local cluster.
    assert!(tried("echo something > /redjepsen/file && echo more > /redjepsen/data/file".to_string()).await);

    // Users of this machine except root.
    let as_user = |user: u32| {
        let mut bash = std::process::Command::new("timeout");
        bash.args(["1", "bash", "-c", &connects_to(&node)]).stderr(std::process::Stdio::null());
        std::os::unix::process::CommandExt::uid(&mut bash, user).status().unwrap().success()
    };
    assert!(as_user(0));
    assert!(!as_user(65534));

    // A service of this machine, at the address that it has in the members' network.
    let service = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let machine = cluster.describe().subnet.hosts().next().unwrap();
    let service = format!("{machine}:{}", service.local_addr().unwrap().port());
    assert!(std::net::TcpStream::connect(&service).is_ok(), "it listens");
    assert!(!tried(connects_to(&service)).await);

    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_no_more_processes_than_it_may() {
    let _turn = turns::docker();
    let docker = engine().await;
    // Each process waits for the shell's own input, which stays empty.
    let script = "while read -r number; do for (( i = 0; i < number; i++ )); do (read -rt 9 <&3) & done 3<>/dev/tcp/$0/6379; \
        echo $number; done";
    let mut spec = spec("processes", 1, 1, &["/bin/bash", "-c", script]);
    let address = {
        let probe = start(&docker, ClusterSpec { run_id: run_id("where"), ..spec.clone() }).await.unwrap();
        let subnet = probe.describe().subnet;
        let url = probe.node_urls()[0].clone();
        probe.stop().await.unwrap();
        spec.subnet = Some(subnet);
        url.trim_start_matches("redis://").trim_end_matches(":6379").to_string()
    };
    if let ClientCommand::Own(own) = &mut spec.client {
        own.command.push(address);
    }
    let cluster = start(&docker, spec).await.unwrap();
    let mut client = cluster.start_client(0).await.unwrap();
    assert_eq!(say(&mut client, "20").await, "20");
    client.stdin.write_all(b"600\n").await.unwrap();
    client.stdin.flush().await.unwrap();
    loop {
        match next(&mut client).await {
            ClientOutput::Stderr(line) if String::from_utf8_lossy(&line).contains("fork: ") => break,
            ClientOutput::Stderr(_) => {}
            other => panic!("{other:?}"),
        }
    }
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_opens_no_more_files_and_writes_none_longer_than_it_may() {
    let _turn = turns::docker();
    let docker = engine().await;
    let script = "while read -r line; do echo $(ulimit -n) $(ulimit -f) $(ulimit -Hn) $(ulimit -Hf); done";
    let cluster = start(&docker, spec("limits", 1, 1, &["/bin/bash", "-c", script])).await.unwrap();
    let mut client = cluster.start_client(0).await.unwrap();
    client.stdin.write_all(b"how much\n").await.unwrap();
    client.stdin.flush().await.unwrap();
    // File lengths are in KiB.
    assert_eq!(next(&mut client).await, ClientOutput::Stdout(b"4096 262144 4096 262144".to_vec()));
    cluster.stop().await.unwrap();
}

/// Waits for the engine to notice that a member ended; it closes the streams slightly earlier.
async fn state_once_ended(cluster: &Cluster, member: &str) -> String {
    for _ in 0..200 {
        let states = cluster.member_states().await.unwrap();
        let state = states.into_iter().find(|state| state.name == member).unwrap();
        if !state.running {
            return state.text;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{member} still runs");
}

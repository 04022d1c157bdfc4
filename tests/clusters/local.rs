//! Clusters of programs on this machine. They need a redis-server, and a system that lets this user create namespaces.
//! Without those the tests fail: a skipped test proves nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use model::fault_kinds::FaultKind;
use model::topology::Persistence;
use system::cluster::{ClientOutput, ClientProcess, ClusterSpec, Local};
use system::faults::{Injection, Parameter, RedisCommand, RedisReply, Skew};
use tokio::io::AsyncWriteExt;

use crate::kit::{self, ask, command, heal, inject, members, next, say};
use crate::turns;

/// A client that reads lines `ADDRESS COMMAND`, sends each command to the Redis at that address, and prints the first
/// line of the answer. Bash can do that alone.
const REDIS_CLIENT: &str = "while read -r address command; do
    if exec 3<>/dev/tcp/$address/6379; then printf '%s\\r\\n' \"$command\" >&3; read -r reply <&3; echo \"${reply%?}\"; exec 3>&-
    else echo unreachable; fi; done 2>/dev/null";

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_redjepsen").into()
}

fn local() -> Local {
    Local::find(None, Some(program())).expect("these tests need a redis-server")
}

fn spec(test: &str, nodes: u32, clients: u32, argv: &[&str]) -> ClusterSpec {
    ClusterSpec { client: command(argv), ..kit::spec(&format!("test-{test}"), nodes, clients) }
}

/// Makes a client ask a node.
async fn via(process: &mut ClientProcess, url: &str, command: &str) -> String {
    let address = url.trim_start_matches("redis://").trim_end_matches(":6379");
    say(process, &format!("{address} {command}")).await
}

/// The processes of a run, found by their root directory, each with its network namespace.
fn processes_of(run_id: &str) -> Vec<(u32, PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let root = fs::read_link(entry.path().join("root")).unwrap_or_default();
        if root.to_string_lossy().contains(run_id) {
            found.push((pid, fs::read_link(entry.path().join("ns/net")).unwrap_or_default()));
        }
    }
    found
}

fn folder_of(run_id: &str) -> PathBuf {
    std::env::temp_dir().join(format!("redjepsen-run-{run_id}"))
}

/// Asserts that no process is left, and thus no namespace, since only processes keep namespaces alive.
fn assert_gone(run_id: &str, namespaces: &[PathBuf]) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = processes_of(run_id);
        let in_namespaces: Vec<_> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path().join("ns/net")).ok())
            .filter(|namespace| namespaces.contains(namespace))
            .collect();
        if left.is_empty() && in_namespaces.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{left:?} {in_namespaces:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_starts_answers_pauses_and_goes() {
    let _turn = turns::local();
    let began = Instant::now();
    let cluster = local().start(spec("whole", 5, 5, &["/bin/cat"])).await.unwrap();
    eprintln!("from nothing to all answering: {:?}", began.elapsed());
    let run_id = cluster.run_id().to_string();
    let described = cluster.describe();
    assert!(described.cluster == "local" && described.server.starts_with("redis "), "{described:?}");
    assert!(!described.kernel.is_empty() && described.engine.is_none(), "{described:?}");
    kit::answers_and_pauses(&cluster).await;

    cluster.stop_clients().await.unwrap();
    for state in cluster.member_states().await.unwrap() {
        assert_eq!(state.running, !state.name.starts_with('c'), "{state:?}");
    }

    let running = processes_of(&run_id);
    assert_eq!(running.len(), 7, "the sandbox and six servers: {running:?}");
    let began = Instant::now();
    cluster.stop().await.unwrap();
    eprintln!("stopped in {:?}", began.elapsed());
    cluster.stop().await.expect("a second stop does no harm");
    assert_gone(&run_id, &running.into_iter().map(|(_, namespace)| namespace).collect::<Vec<_>>());
    assert!(!folder_of(&run_id).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_comes_back_with_what_it_persisted() {
    let _turn = turns::local();
    kit::comes_back_with_what_it_persisted(async |spec| local().start(spec).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_belong_together_get_over_the_loss_of_a_primary_and_leave_nothing() {
    let _turn = turns::local();
    for (name, nodes, topology) in crate::groups::topologies() {
        let began = Instant::now();
        let cluster = local().start(ClusterSpec { topology, ..spec(name, nodes, 0, &["/bin/cat"]) }).await.unwrap();
        eprintln!("{name} ready after {:?}", began.elapsed());
        let run_id = cluster.run_id().to_string();
        crate::groups::get_over_the_loss_of_the_primary(&cluster).await;
        let running = processes_of(&run_id);
        cluster.stop().await.unwrap();
        assert_gone(&run_id, &running.into_iter().map(|(_, namespace)| namespace).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_family_of_faults_reaches_the_members() {
    let _turn = turns::local();
    let spec = ClusterSpec {
        persistence: Persistence::Everysec,
        preload: true,
        server: None,
        upgrades: Vec::new(),
        needs_ifeq: None,
        network_faults: true,
        ..spec("faults", 2, 1, &["/bin/bash", "-c", REDIS_CLIENT])
    };
    let cluster = local().start(spec).await.unwrap();
    let (n0, n1) = (&cluster.node_urls()[0], &cluster.node_urls()[1]);
    let mut client = cluster.start_client(0).await.unwrap();
    assert_eq!(via(&mut client, n0, "SET lock 1 PX 5000").await, "+OK");

    let pairs = vec![("c0".to_string(), "n0".to_string())];
    let seen = inject(&cluster, 0, Injection::on_links(FaultKind::Partition, pairs)).await;
    eprintln!("cut: {seen:?}");
    client.stdin.write_all(format!("{} PING\n", &n0[8..n0.len() - 5]).as_bytes()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(300), client.output.recv()).await.is_err(), "it is cut off");
    ask(&cluster, n0, RedisCommand::Ping).await.expect("the others are not");
    heal(&cluster, 0).await;
    assert_eq!(next(&mut client).await, ClientOutput::Stdout(b"+PONG".to_vec()), "the packet that was sent again");

    let ahead = Parameter::Skew(Skew::Jump { ms: 10_000 });
    let seen = inject(&cluster, 1, Injection::on_members(FaultKind::Clock, members(&["n0"])).with(ahead)).await;
    eprintln!("skewed: {seen:?}");
    let lock = ask(&cluster, n0, RedisCommand::Exists("lock".to_string())).await;
    assert_eq!(lock, Ok(RedisReply::Count(0)), "it expired early");
    heal(&cluster, 1).await;

    assert_eq!(via(&mut client, n1, "SET lock 1").await, "+OK");
    let seen = inject(&cluster, 2, Injection::on_members(FaultKind::PowerLoss, members(&["n1"]))).await;
    eprintln!("without power: {seen:?}");
    cluster.restart_server("n1").await.unwrap();
    heal(&cluster, 2).await;
    inject(&cluster, 3, Injection::on_members(FaultKind::Flush, members(&["n0", "n1"]))).await;
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn members_look_like_machines_of_their_own() {
    let _turn = turns::local();
    let script = "sleep 60 & sleep 60 & read go; echo $$; cat /proc/sys/kernel/hostname; ls /redjepsen; ls -d /proc/[0-9]* | wc -l; pwd; \
        cat /proc/sys/net/ipv4/tcp_rto_max_ms 2>/dev/null || echo none; read end";
    let cluster = local().start(spec("machines", 1, 2, &["/bin/bash", "-c", script])).await.unwrap();
    // Kept open, since a client exits when its stdin ends.
    let mut clients = Vec::new();
    for (number, name) in [(0, "c0"), (1, "c1")] {
        let mut client = cluster.start_client(number).await.unwrap();
        assert_eq!(say(&mut client, "go").await, "1", "the first process of its namespace");
        let mut lines = Vec::new();
        for _ in 0..5 {
            match next(&mut client).await {
                ClientOutput::Stdout(line) => lines.push(String::from_utf8(line).unwrap()),
                other => panic!("{other:?}"),
            }
        }
        let here = std::env::current_dir().unwrap().display().to_string();
        assert_eq!(lines[..2], [name.to_string(), "data".to_string()]);
        assert!(lines[2].parse::<u32>().unwrap() <= 6, "it sees its own processes alone: {lines:?}");
        assert_eq!(lines[3], here, "paths in its command mean what they say");
        assert!(["1000", "none"].contains(&lines[4].as_str()), "{lines:?}");
        clients.push(client);
    }
    // However the process ends, its children end with it.
    let count = processes_of(cluster.run_id()).len();
    inject(&cluster, 0, Injection::on_members(FaultKind::Kill, members(&["c0"]))).await;
    assert!(processes_of(cluster.run_id()).len() <= count - 3);
    // The agent sees the end at once; the kernel tells the process's parent slightly later.
    let noted = async {
        while !cluster.member_states().await.unwrap().iter().any(|state| state.text == "Exited (137)") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), noted).await.expect("how it ended is noted");
    cluster.stop().await.unwrap();
}

/// A client that runs each input line as a command, and says whether it succeeded.
const OBEDIENT: &str =
    r#"while read -r line; do if eval "$line" </dev/null >/dev/null 2>&1; then echo did; else echo failed; fi; done"#;

/// A command that connects to a socket with a path.
fn connects_to(path: &Path) -> String {
    format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'", path.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_its_members_and_its_own_files_and_nothing_else_of_this_machine() {
    let _turn = turns::local();
    // A socket beside the sources and a socket among the temporary files, where a client's program may be.
    let [beside, temporary] = [env!("CARGO_TARGET_TMPDIR").into(), std::env::temp_dir()];
    let folders = [beside, temporary].map(|place| tempfile::tempdir_in(place).unwrap());
    let sockets = folders.each_ref().map(|folder| folder.path().join("socket"));
    let _listeners = sockets.each_ref().map(|socket| std::os::unix::net::UnixListener::bind(socket).unwrap());
    fs::write(folders[1].path().join("program"), "").unwrap();
    // The same listener under other names.
    let linked = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::os::unix::fs::symlink(folders[0].path(), linked.path().join("folder")).unwrap();
    fs::hard_link(&sockets[0], sockets[0].with_file_name("hard")).unwrap();
    let renamed = sockets[0].with_file_name("renamed");
    let _renamed = std::os::unix::net::UnixListener::bind(sockets[0].with_file_name("first")).unwrap();
    fs::rename(sockets[0].with_file_name("first"), &renamed).unwrap();
    for socket in &sockets {
        assert!(Command::new("sh").args(["-c", &connects_to(socket)]).status().unwrap().success(), "it listens");
    }
    let cluster = local().start(spec("kept-in", 1, 1, &["/bin/bash", "-c", OBEDIENT])).await.unwrap();
    let mut client = cluster.start_client(0).await.unwrap();

    let node = cluster.node_urls()[0].trim_start_matches("redis://").replace(':', "/");
    let program = folders[1].path().join("program").display().to_string();
    let mark = format!("redjepsen-test-{}", std::process::id());
    let python = |text: &str| format!("python3 -c '{text}'");
    for command in [
        python("import socket; a, b = socket.socketpair(); a.send(b\"x\"); assert b.recv(1) == b\"x\""),
        python(
            "import asyncio, multiprocessing.pool; asyncio.run(asyncio.sleep(0)); multiprocessing.pool.ThreadPool(2)",
        ),
        python(
            "import resource as r; assert r.getrlimit(r.RLIMIT_NOFILE)[1] <= 4096 and r.getrlimit(r.RLIMIT_CORE) == (0, 0)",
        ),
        "echo something > /redjepsen/file && head -c 1000000 /dev/zero > /redjepsen/data/more".to_string(),
        format!("exec 3<>/dev/tcp/{node} && echo PING >&3 && read -r reply <&3 && test ${{reply%?}} = +PONG"),
        "echo something > /redjepsen/data/file && cat /redjepsen/data/file".to_string(),
        format!("echo something > /tmp/{mark} && grep something /tmp/{mark}"),
        format!("cat {program} && echo changed > {program}"),
        "python3 -c 'import tempfile; tempfile.TemporaryFile()'".to_string(),
        "echo something > /dev/shm/file && head -c 8 /dev/urandom && echo nothing > /dev/null".to_string(),
        "sleep 60 & kill $!".to_string(),
        "grep ^root /etc/passwd".to_string(),
        // Each capability is a bit: the client may only read other users' files.
        "grep 'CapBnd:.*0000000000000004' /proc/self/status".to_string(),
        "grep 'NoNewPrivs:.*1' /proc/self/status".to_string(),
    ] {
        assert_eq!(say(&mut client, &command).await, "did", "{command}");
    }
    let of_another_member = folder_of(cluster.run_id()).join("n0").display().to_string();
    for command in [
        format!("echo something > /etc/{mark}"),
        "test -w /proc/sys/kernel/core_pattern".to_string(),
        "test -w /proc/sysrq-trigger".to_string(),
        "test -w /sys/kernel/mm/transparent_hugepage/enabled".to_string(),
        "ls -l /dev | grep ^b".to_string(),
        "mknod /redjepsen/data/disk b 8 0".to_string(),
        "mount -t tmpfs none /redjepsen/data".to_string(),
        "umount /tmp".to_string(),
        "chroot / true".to_string(),
        "unshare --user true".to_string(),
        "ip link set eth0 down".to_string(),
        format!("kill -0 {}", std::process::id()),
        "exec 3<>/dev/tcp/192.0.2.1/80".to_string(),
        format!("ls {of_another_member}"),
        "ls /run | grep docker".to_string(),
        connects_to("/var/run/docker.sock".as_ref()),
        connects_to(&sockets[0]),
        connects_to(&sockets[1]),
        // Whatever its name, and whatever network its listener is in: a client cannot make such a socket.
        connects_to(&linked.path().join("folder/socket")),
        connects_to(&renamed),
        connects_to(&sockets[0].with_file_name("hard")),
        python("import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)"),
        python("import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"),
        python("import socket; socket.socket(40, socket.SOCK_STREAM)"),
        "rm /dev/stdout".to_string(),
        "echo something > /dev/file".to_string(),
        "ln -s /tmp/evil /dev/evil".to_string(),
        "rm /dev/null".to_string(),
        "head -c 300M /dev/zero > /redjepsen/fill".to_string(),
        "head -c 300M /dev/zero > /tmp/fill".to_string(),
        python("open(\"/dev/zero\"); bytearray(5 << 30)"),
        python("held = [open(\"/dev/null\") for _ in range(5000)]"),
    ] {
        assert_eq!(say(&mut client, &command).await, "failed", "{command}");
    }
    // The write is refused. If this checkout is among the temporary files, it succeeds in the client's own /tmp.
    let beside_sources = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&mark);
    let answer = if beside_sources.starts_with(std::env::temp_dir()) { "did" } else { "failed" };
    assert_eq!(say(&mut client, &format!("echo something > '{}'", beside_sources.display())).await, answer);
    cluster.stop().await.unwrap();
    for own in [std::env::temp_dir().join(&mark), beside_sources] {
        assert!(!own.exists(), "what it wrote there was its own");
    }
    assert_eq!(fs::read_to_string(program).unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_runs_wild_is_killed_and_the_machine_stays_usable() {
    let _turn = turns::alone();
    let memory = "python3 -c 'import os, time; os.fork(); os.fork(); held = bytearray(700 << 20); time.sleep(60)'";
    for (wild, why) in [("f() { f | f & }; f; sleep 60", "processes and threads"), (memory, "MiB of memory")] {
        let cluster = local().start(spec("wild", 1, 2, &["/bin/bash", "-c", OBEDIENT])).await.unwrap();
        let mut calm = cluster.start_client(1).await.unwrap();
        let mut client = cluster.start_client(0).await.unwrap();
        client.stdin.write_all(format!("{wild}\n").as_bytes()).await.unwrap();
        client.stdin.flush().await.unwrap();
        let mut said = String::new();
        loop {
            match next(&mut client).await {
                ClientOutput::Stderr(line) => said.push_str(&String::from_utf8_lossy(&line)),
                ClientOutput::Closed(_) => break,
                _ => {}
            }
        }
        assert!(said.contains("redjepsen killed this client: it ") && said.contains(why), "{said}");
        assert_eq!(say(&mut calm, "true").await, "did", "the other one goes on");
        cluster.stop().await.unwrap();
    }
}

/// A client that runs wild in its first operation.
const WILD: &str = r#"read -r hello
echo '{"type":"ready","protocol":1,"name":"wild 1","capabilities":[]}'
read -r invoke
case $1 in
processes) f() { f | f & }; f; sleep 60 ;;
files) exec python3 -c 'held = []
while True: held.append(open("/dev/null"))' ;;
memory) exec python3 -c 'import os, time; os.fork(); os.fork(); held = bytearray(700 << 20); time.sleep(60)' ;;
esac
"#;

#[test]
fn a_run_whose_clients_run_wild_is_unknown_says_why_and_leaves_nothing_whoever_runs_it() {
    let _turn = turns::alone();
    for someone in [Someone::with_rights(), Someone::without_rights()] {
        let client = someone.file("wild.sh", WILD);
        // Enough time to fill the memory on a busy machine.
        let flags = "--workload single --nemesis none --time-limit 20s --acquire-timeout 20s --clients 2 --client-cmd";
        for (wild, why) in [
            ("processes", "redjepsen killed this client: it had "),
            ("files", "Too many open files"),
            ("memory", "MiB of memory"),
        ] {
            let (code, text) = someone.run(&[], &format!("{flags} 'bash {client} {wild}'"));
            let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(code, Some(2), "{wild}: {text}");
            assert!(in_one_line.contains(why), "{wild}: {text}");
            assert_eq!(someone.left(), Vec::<String>::new(), "{wild}: {text}");
        }
        // The machine still works.
        let (code, text) = someone.run(&[], "--workload single --nemesis none --time-limit 2s --seed 3");
        assert_eq!(code, Some(0), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_at_once_do_not_see_each_other() {
    let _turn = turns::local();
    let client = ["/bin/bash", "-c", REDIS_CLIENT];
    let local = local();
    let (one, other) = tokio::join!(local.start(spec("one", 2, 1, &client)), local.start(spec("other", 2, 1, &client)));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.node_urls(), other.node_urls(), "the same addresses, in networks of their own");
    let url = &one.node_urls()[0];
    let mut client = one.start_client(0).await.unwrap();
    assert_eq!(via(&mut client, url, "SET lock 1").await, "+OK");
    assert_eq!(ask(&one, url, RedisCommand::Dbsize).await, Ok(RedisReply::Count(1)));
    assert_eq!(ask(&other, url, RedisCommand::Dbsize).await, Ok(RedisReply::Count(0)));
    inject(&one, 0, Injection::on_members(FaultKind::Pause, members(&["n0", "c0"]))).await;
    let mut client = other.start_client(0).await.unwrap();
    assert_eq!(via(&mut client, url, "PING").await, "+PONG");
    one.stop().await.unwrap();
    assert_eq!(via(&mut client, url, "PING").await, "+PONG", "it lives on");
    other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_ends_with_the_last_hold_on_it() {
    let _turn = turns::local();
    let cluster = local().start(spec("orphan", 1, 1, &["/bin/cat"])).await.unwrap();
    let run_id = cluster.run_id().to_string();
    inject(&cluster, 0, Injection::on_members(FaultKind::Pause, members(&["c0", "n0"]))).await;
    cluster.agent.close().await;
    assert_gone(&run_id, &[]);
    assert!(cluster.member_states().await.is_err());
    assert!(folder_of(&run_id).exists());
    drop(cluster);
    assert!(!folder_of(&run_id).exists(), "the files go with the cluster, stopped or not");

    let local = local();
    let given_up = local.start(spec("given-up", 3, 1, &["/bin/cat"]));
    let _ = tokio::time::timeout(Duration::from_millis(30), given_up).await;
    let run_id = spec("given-up", 3, 1, &[]).run_id;
    local.remove_run(&run_id).await;
    assert_gone(&run_id, &[]);
    assert!(!folder_of(&run_id).exists());
}

#[test]
fn a_killed_controller_leaves_nothing_but_its_folder_which_clean_removes() {
    let _turn = turns::cleaning();
    let mut controller = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "local::to_be_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(controller.stdout.take().unwrap());
    let line = output.lines().map(Result::unwrap).find(|line| line.starts_with("paused in ")).unwrap();
    let run_id = line.trim_start_matches("paused in ").to_string();
    let running = processes_of(&run_id);
    assert_eq!(running.len(), 4, "the sandbox, n0, store, c0: {running:?}");
    let clean = || {
        let output = Command::new(program()).arg("clean").output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.contains(&run_id)).collect::<String>()
    };
    assert!(clean().starts_with("kept"), "it lives");

    let began = Instant::now();
    controller.kill().unwrap();
    controller.wait().unwrap();
    assert_gone(&run_id, &running.into_iter().map(|(_, namespace)| namespace).collect::<Vec<_>>());
    eprintln!("gone {:?} after the controller was killed", began.elapsed());
    assert!(folder_of(&run_id).exists());
    assert!(clean().starts_with("removed"));
    assert!(!folder_of(&run_id).exists());
    assert_eq!(clean(), "");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the controller that another test kills"]
async fn to_be_killed() {
    let cluster = local().start(spec("killed", 1, 1, &["/bin/cat"])).await.unwrap();
    inject(&cluster, 0, Injection::on_members(FaultKind::Pause, members(&["c0", "n0"]))).await;
    println!("paused in {}", cluster.run_id());
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_that_fail_say_why_and_leave_nothing() {
    let _turn = turns::local();
    let is_gone = async |run_id: &str| {
        assert_gone(run_id, &[]);
        assert!(!folder_of(run_id).exists());
    };
    kit::fails_with_a_reason(async |spec| local().start(spec).await, is_gone).await;
}

/// Runs the program with its own store; returns its exit code and output.
fn run(configure: impl FnOnce(&mut Command), arguments: &str) -> (Option<i32>, String, tempfile::TempDir) {
    let store = tempfile::tempdir().unwrap();
    // Accessible to whatever user the program runs as.
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(program());
    command.args(shlex::split(&format!("run {arguments}")).unwrap()).arg("--store").arg(store.path());
    configure(command.stdin(Stdio::null()));
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.code(), text, store)
}

#[test]
fn a_run_says_what_it_ran_on() {
    let _turn = turns::local();
    let (code, text, store) = run(|_| {}, "--cluster local --nemesis none --time-limit 5s --seed 1");
    assert_eq!(code, Some(0), "{text}");
    let facts = fs::read_to_string(store.path().join("latest/facts.json")).unwrap();
    assert!(["\"local\"", "\"redis ", "\"kernel\""].iter().all(|word| facts.contains(word)), "{facts}");
    assert!(store.path().join("latest/n4/redis.log").exists());
}

/// A workload with this resource and lock, and the words that every report about one of its fault-free runs contains.
fn other_resource(store: &std::path::Path, kind: &str, fencing: &str, base: &str) -> String {
    let (_, file) = model::scenario::catalogue::WORKLOADS.iter().find(|(name, _)| *name == base).unwrap();
    let file = file.replace("kind = \"register\"", &format!("kind = \"{kind}\""));
    let lines = file
        .lines()
        .map(|line| if line.starts_with("fencing") { format!("fencing = \"{fencing}\"") } else { line.into() });
    let path = store.join(format!("{kind}-{fencing}.toml"));
    fs::write(&path, lines.collect::<Vec<String>>().join("\n")).unwrap();
    path.display().to_string()
}

#[test]
fn counters_and_lists_are_kept_under_every_fencing() {
    let _turn = turns::local();
    let folder = tempfile::tempdir().unwrap();
    for (kind, end, words) in [("counter", "add up to", "after "), ("list", "end with", " were acknowledged")] {
        for (fencing, base) in
            [("compare-and-set", "redlock-guarded"), ("token", "fenced"), ("token-reads", "fenced-reads")]
        {
            let workload = other_resource(folder.path(), kind, fencing, base);
            let flags =
                format!("-v --cluster local --nemesis none --time-limit 2s --seed 5 --keys 2 --workload {workload}");
            let (code, text, _store) = run(|_| {}, &flags);
            assert_eq!(code, Some(0), "{text}");
            let resource = text.lines().find(|line| line.starts_with("  resource")).unwrap_or_default();
            assert!(resource.contains(&format!("the 2 {kind}s {end}")) && resource.contains(words), "{text}");
        }
    }
}

#[test]
fn a_list_ends_short_of_what_was_acknowledged() {
    let _turn = turns::local();
    let flags = "--cluster local --nemesis pause --workload list --ttl 400ms --time-limit 6s --seed 1";
    let (code, text, store) = run(|_| {}, flags);
    assert_eq!(code, Some(1), "{text}");
    let results = fs::read_to_string(store.path().join("latest/results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    let number = |name: &str| results["keys"][0][name].as_u64().unwrap();
    assert!(number("lost") > 0, "{text}");
    assert_eq!(number("amount") + number("lost"), number("acknowledged") + number("unacknowledged"), "{text}");
    // The verdict is the same if the history is checked as one of another program, which has only the identities of values.
    let check = Command::new(program()).arg("check").arg(store.path().join("latest")).args(["--model", "rmw"]).output();
    assert_eq!(check.unwrap().status.code(), Some(1));
}

#[test]
fn a_folder_for_temporary_files_that_is_not_there_is_named_with_a_remedy() {
    let _turn = turns::local();
    let nowhere = |command: &mut Command| {
        command.env("TMPDIR", "/nowhere/tmp");
    };
    let (code, text, _store) = run(nowhere, "--cluster local --nemesis none --time-limit 2s --seed 3");
    assert_eq!(code, Some(255), "{text}");
    let words =
        "the folder /nowhere/tmp for temporary files does not exist; create it, or set TMPDIR to an existing folder";
    assert!(text.contains(words) && !text.contains("is gone"), "{text}");
    // A simulated run needs no redis-server.
    let (code, text, _store) = run(nowhere, "--cluster sim --nemesis none --time-limit 2s --seed 3");
    assert_eq!(code, Some(0), "{text}");
}

/// A user who runs the program: the user who runs the tests, or a user without any privileges.
struct Someone {
    /// A folder with a copy of the program, since only its owner may have access to the built program.
    place: tempfile::TempDir,
    user: Option<u32>,
}

impl Someone {
    fn with_rights() -> Someone {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(program(), place.path().join("redjepsen")).unwrap();
        for (name, mode) in [("store", 0o777), ("tmp", 0o777)] {
            fs::create_dir(place.path().join(name)).unwrap();
            fs::set_permissions(place.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        Someone { place, user: None }
    }

    /// If these tests run as root, changes to the user nobody.
    fn without_rights() -> Someone {
        let user = rustix::process::geteuid().is_root().then_some(65534);
        Someone { user, ..Someone::with_rights() }
    }

    /// A file that the program may read. Returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.place.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Makes a run on a local cluster, started through other commands. Returns its exit code and its whole output.
    fn run(&self, prefix: &[&str], flags: &str) -> (Option<i32>, String) {
        let program = self.place.path().join("redjepsen").display().to_string();
        let mut words: Vec<String> = prefix.iter().map(|word| (*word).to_string()).collect();
        words.extend([program, "run".into(), "--cluster".into(), "local".into()]);
        words.extend(shlex::split(flags).unwrap());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("--store").arg(self.place.path().join("store"));
        command.env("TMPDIR", self.place.path().join("tmp")).current_dir("/").stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let output = command.output().unwrap();
        (output.status.code(), [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat())
    }

    /// The leftovers of finished runs: temporary files and processes.
    fn left(&self) -> Vec<String> {
        let temporary = self.place.path().join("tmp");
        let files = fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.path().display().to_string());
        let text = temporary.display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(|process| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&text)
        });
        files.chain(processes.map(|process| process.display().to_string())).collect()
    }
}

#[test]
fn nobody_special_can_run_it() {
    let _turn = turns::local();
    let nobody = Someone::without_rights();
    let flags = "--workload single --nemesis pause --ttl 400ms --time-limit 5s --seed 4";
    let (code, text) = nobody.run(&[], flags);
    assert_eq!(code, Some(1), "{text}");
    // Clocks and packets too, although these faults need more than signals.
    let flags = "--nemesis clock,partition --ttl 400ms --time-limit 5s --seed 4";
    let (code, text) = nobody.run(&[], flags);
    assert!(matches!(code, Some(0 | 1)) && !text.contains(" 0 observed"), "{text}");

    // The kernel refuses this in a namespace where the user has no identity.
    let (code, text) = nobody.run(&["unshare", "--user"], flags);
    assert_eq!(code, Some(255), "{text}");
    let error = text.lines().last().unwrap();
    for words in ["a local cluster cannot run here: a user namespace", "--cluster docker", "as root"] {
        assert!(error.contains(words), "{text}");
    }
}

/// The command of a Python client that uses this repository's package.
fn with_package(client: &Path) -> String {
    format!("env PYTHONPATH=workloads/clients/python python3 -u {}", client.display())
}

#[test]
fn a_client_of_the_users_own_runs_as_it_is() {
    let _turn = turns::local();
    let flags = "-v --workload single --nemesis none --time-limit 3s --seed 10 \
        --client-cmd 'python3 -u workloads/clients/python/client.py'";
    let (code, text, store) = run(|_| {}, flags);
    assert_eq!(code, Some(0), "{text}");
    assert!(fs::read_to_string(store.path().join("latest/history.jsonl")).unwrap().contains("python-example 1"));
    for kind in ["counter", "list"] {
        let workload = other_resource(store.path(), kind, "none", "single");
        let (code, text, _store) = run(|_| {}, &flags.replace("--workload single", &format!("--workload {workload}")));
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(&format!("the {kind} k0 ends")), "{text}");
    }
    // If a client writes a value that is not a counter, the run is inconclusive, and the report shows the value.
    let careless = "import runpy\nfrom redjepsen.resource import Resource\n\
        Resource.updated = lambda self, text, new: new\n\
        runpy.run_path('workloads/clients/python/client.py', run_name='__main__')\n";
    let path = store.path().join("careless.py");
    fs::write(&path, careless).unwrap();
    let workload = other_resource(store.path(), "counter", "none", "single");
    let flags = flags.replace("--workload single", &format!("--workload {workload}"));
    let (code, text, _store) =
        run(|_| {}, &flags.replace("python3 -u workloads/clients/python/client.py", &with_package(&path)));
    // The terminal breaks long lines.
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == Some(2) && in_one_line.contains("which is not a counter;"), "{text}");
}

/// A lock object that takes every thread for the holder lets two clients in without any fault. With one process per client, this
/// would stay hidden.
#[test]
fn a_lock_object_that_does_not_know_its_threads_apart_is_found() {
    let _turn = turns::local();
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clusters/clients/shared_lock.py");
    let client = with_package(Path::new(client));
    let flags = |nemesis: &str, more: &str| {
        format!(
            "--workload single --nemesis {nemesis} --clients 4 --time-limit 4s --seed 7 --client-cmd '{client}{more}'"
        )
    };
    let (code, text, store) = run(|_| {}, &flags("shared-lock", ""));
    assert_eq!(code, Some(1), "{text}");
    // On a busy machine, the text adds that members did not run all the time.
    assert!(["without any fault", "without a fault, though"].iter().any(|words| text.contains(words)), "{text}");
    let history = fs::read_to_string(store.path().join("latest/history.jsonl")).unwrap();
    assert!(history.contains(r#""clients":4,"threads":2"#), "the header says who shares a process");
    for (nemesis, more) in [("shared-lock", " --own-count"), ("none", "")] {
        let (code, text, _store) = run(|_| {}, &flags(nemesis, more));
        assert_eq!(code, Some(0), "{nemesis}{more}: {text}");
    }
}

/// A client without an event loop does not list `block` among its capabilities, so the run is refused.
#[test]
fn a_client_that_cannot_do_what_the_run_asks_for_is_one_clear_line() {
    let _turn = turns::local();
    let ours = "python3 -u workloads/clients/python/client.py";
    let flags = format!("--workload single --nemesis blocked-loop --time-limit 3s --seed 7 --client-cmd '{ours}'");
    let (code, text, _store) = run(|_| {}, &flags);
    assert_eq!(code, Some(255), "{text}");
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line.contains("needs the capability `block`, but the client's `ready` does not list it"), "{text}");
}

#[test]
fn what_cannot_be_had_is_one_clear_line() {
    let _turn = turns::local();
    let nowhere = |command: &mut Command| {
        command.env("PATH", "/nowhere").env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    };
    for (flags, code, words) in [
        ("--cluster local", 255, ["no redis-server on PATH", "--server ./FILE"]),
        ("", 255, ["no place to run a cluster", "--server ./FILE"]),
        ("--cluster docker", 255, ["no Docker engine answers", "/nowhere/docker.sock"]),
        ("--cluster local --redis-server /bin/cat", 255, ["/bin/cat", "not a Redis server"]),
        ("--cluster local --redis-server /nowhere/redis", 255, ["/nowhere/redis", "No such file"]),
        ("--cluster local --image redis:7", 254, ["--image", "--cluster local"]),
        ("--cluster local --keep", 254, ["--keep", "--cluster local"]),
        ("--cluster docker --client-cmd cat", 254, ["--client-image", "--cluster local"]),
    ] {
        let (exit, text, store) = run(nowhere, flags);
        assert_eq!(exit, Some(code), "{flags}: {text}");
        assert!(words.iter().all(|word| text.contains(word)) && text.lines().count() == 1, "{flags}: {text}");
        assert!(!store.path().join("latest").exists(), "nothing was begun");
    }
    // Without an engine, this machine's own programs are used.
    let no_engine = |command: &mut Command| {
        command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    };
    let (code, text, _store) = run(no_engine, "--nemesis none --time-limit 3s --seed 3");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("the cluster runs on this machine"), "{text}");
}

#[test]
fn a_run_on_an_installed_server_shows_the_version_that_the_server_says() {
    let _turn = turns::local();
    let path = kit::install_newer_server();
    assert!(path.starts_with("valkey:9.1.2: ") && path.trim().ends_with("/valkey-server"), "{path}");
    let only_installed = |command: &mut Command| {
        command.env("PATH", "/nowhere");
    };
    let flags = "--cluster local --server valkey:9.1 --workload single --nemesis none --time-limit 2s --seed 1";
    let (code, text, store) = run(only_installed, flags);
    assert_eq!(code, Some(0), "{text}");
    let read = |name: &str| fs::read_to_string(store.path().join("latest").join(name)).unwrap();
    assert!(read("results.json").contains("\"valkey 9.1.2\""), "{}", read("results.json"));
    assert!(read("report.html").contains("valkey 9.1.2"));
    assert!(read("scenario.toml").contains("server = \"valkey:9.1\""), "{}", read("scenario.toml"));
}

/// A lock of commands that this machine's own server lacks, and one of its renewals that leaves the TTL out.
#[test]
fn a_lock_of_newer_commands_runs_on_a_server_that_has_them_and_is_refused_on_others() {
    let _turn = turns::alone();
    kit::install_newer_server();
    let play = |workload: &str, server: &str| {
        run(
            |_| {},
            &format!("--cluster local{server} --workload {workload} --nemesis dead-after-long-work --ttl 1s --seed 1"),
        )
    };
    let (code, text, _store) = play("single-ifeq", "");
    assert_eq!(code, Some(255), "{text}");
    for words in ["workload single-ifeq needs a server with `SET … IFEQ`", "redis 7.", "--server valkey:9.1, after"] {
        assert!(text.contains(words), "{text}");
    }
    let (code, text, _store) = play("single-ifeq", " --server valkey:9.1");
    assert_eq!(code, Some(0), "{text}");
    let (code, text, store) = play("single-ifeq-without-px", " --server valkey:9.1");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("RJ025"), "{text}");
    let commands = fs::read_to_string(store.path().join("latest/commands.jsonl")).unwrap();
    assert!(commands.contains("\"IFEQ\""), "{commands}");
}

/// A node that takes 3 s to restart is healed after the time limit; the run then shows that its clients continue.
#[test]
fn a_run_outlasts_its_time_limit_after_a_late_heal() {
    let _turn = turns::local();
    let folder = tempfile::tempdir().unwrap();
    let server = folder.path().join("slow-redis-server");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] || { [ ! -e started ] || sleep 3; : > started; }\nexec redis-server \"$@\"\n";
    fs::write(&server, script).unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    let scenario =
        "--cluster local --workload redlock-guarded --nemesis kill-node --ttl 400ms --time-limit 6s --seed 1";
    let (code, text, store) = run(|_| {}, &format!("{scenario} --redis-server {}", server.display()));
    assert_eq!(code, Some(0), "{text}");
    let log = fs::read_to_string(store.path().join("latest/redjepsen.log")).unwrap();
    assert!(log.contains("continuing after a late heal"), "{log}");
}

//! Tests doctor against servers that each test starts, in place of a user's servers.

mod kit;
mod redis_server;

use std::thread::sleep;
use std::time::{Duration, Instant};

use doctor::{Ability, Kind, Mode, Name, Role, Seen, Shape, Suits, Verdict, Weight};
use kit::*;
use redis::Value;
use redis_server::{Redis, certificates, free_port};
use remote::{Access, Tls};

const SAFE: &[&str] = &["save \"\"", "appendonly yes", "appendfsync always"];
const SECRET: &str = "hunter2-hunter2";

#[tokio::test(flavor = "multi_thread")]
async fn plain_server_is_described_and_left_as_it_was() {
    let redis = Redis::start(&["save \"\""]);
    redis.ask(&[], "SET mine 1");
    let before = redis.state(&[]);
    let diagnosis = asked(&request(&[redis.url()]), None).await;
    assert_eq!(redis.state(&[]), before);
    assert_eq!((diagnosis.verdict, diagnosis.shape), (Verdict::LosesLocks, Shape::Single));
    let server = &diagnosis.observations.servers[0];
    assert_eq!((server.kind, server.role, server.mode), (Kind::Redis, Role::Primary, Mode::Standalone));
    assert_eq!((&server.translated, &server.varies), (&Seen::Known(false), &Seen::Known(false)));
    assert!(server.missing_rules.is_empty(), "{:?}", server.missing_rules);
    for ability in [Ability::SetNxPx, Ability::Get, Ability::Pttl, Ability::Del, Ability::Pexpire, Ability::Eval] {
        assert_eq!(server.abilities[&ability], Seen::Known(String::new()), "{ability:?}");
    }
    for ability in [Ability::Evalsha, Ability::Publish, Ability::Subscribe, Ability::Wait] {
        assert!(server.abilities[&ability].is_known(), "{ability:?}: {:?}", server.abilities[&ability]);
    }
    assert!(matches!(server.abilities[&Ability::KeyspaceEvents], Seen::Refused(_)));
    assert!(Name::ALL.iter().all(|name| server.names[name].is_known()));
    let clock = server.clock.unwrap();
    assert!(clock.ahead_us.unsigned_abs() <= clock.within_us + 1000, "{clock:?}");
    assert!(finding(&diagnosis, "no-persistence").unwrap().sentence.contains("writes no data to disk"));
    assert!(diagnosis.observations.took_ms < 1000, "{}", diagnosis.observations.took_ms);
    let single = &diagnosis.locks[0];
    assert_eq!((single.kind.as_str(), single.suits), ("single", Suits::WithCondition));
    assert!(single.libraries.iter().any(|fit| fit.library == "redis-py Lock"), "{single:?}");
    assert_eq!(diagnosis.locks[1].suits, Suits::WillNot);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_found_on_a_server_that_syncs() {
    let redis = Redis::start(SAFE);
    let diagnosis = asked(&request(&[redis.url()]), Some(30)).await;
    assert_eq!((diagnosis.verdict, &diagnosis.findings[..]), (Verdict::NothingFound, &[][..]));
    assert_eq!(diagnosis.locks[0].suits, Suits::Works);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_read_from_a_real_server() {
    for (line, id, part) in [
        ("appendfsync everysec", "late-sync", "everysec"),
        ("appendfsync no", "late-sync", "half a minute"),
        ("maxmemory 100mb\nmaxmemory-policy allkeys-lru", "eviction", "allkeys-lru"),
        ("maxmemory 1mb", "memory-full", "refuses new locks"),
        ("appendonly no\nsave 900 1", "no-persistence", "no append-only file"),
    ] {
        let redis = Redis::start(&[SAFE, &[line][..]].concat());
        let diagnosis = asked(&request(&[redis.url()]), None).await;
        let ids: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.check.as_str()).collect();
        assert!(ids.contains(&id), "{line}: {ids:?}");
        assert!(finding(&diagnosis, id).unwrap().sentence.contains(part), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn password_is_used_and_never_shown() {
    let redis = Redis::start(&[SAFE, &["requirepass hunter2-hunter2"][..]].concat());
    let plain = request(&[redis.url()]);
    let diagnosis = asked(&plain, None).await;
    assert_eq!(diagnosis.verdict, Verdict::NotReached);
    let why = diagnosis.observations.servers[0].unreached.clone().unwrap();
    assert!(why.contains("asks for a password") && why.contains("REDISCLI_AUTH"), "{why}");

    let diagnosis = asked(&with_password(plain.clone(), None, "hunter2-hunter3"), None).await;
    assert!(diagnosis.observations.servers[0].unreached.as_ref().unwrap().contains("rejects the password"));
    assert_silent(&diagnosis, "hunter2-hunter3");

    let authentic = format!("AUTH {SECRET}");
    let before = redis.state(&[&authentic]);
    let diagnosis = asked(&with_password(plain, None, SECRET), None).await;
    assert_eq!(redis.state(&[&authentic]), before);
    assert_eq!(diagnosis.verdict, Verdict::NothingFound);
    assert_silent(&diagnosis, SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_repeats_its_arguments_reveals_no_password() {
    let url = fake(|words| match words {
        "" => String::new(),
        words => format!("-ERR unknown command, with args beginning with: '{words}', '{SECRET}'\r\n"),
    });
    let diagnosis = asked(&with_password(request(&[url]), Some("app"), SECRET), None).await;
    assert!(finding(&diagnosis, "least-commands").is_some());
    assert_silent(&diagnosis, SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn narrow_user_is_told_which_rules_are_missing() {
    let user = "user app on >hunter2-hunter2 +set +get +pttl +del ~redjepsen:*";
    let redis = Redis::start(&[SAFE, &[user][..]].concat());
    let before = redis.state(&[]);
    let diagnosis = asked(&with_password(request(&[redis.url()]), Some("app"), SECRET), None).await;
    let kept = |state: &[String]| -> Vec<String> {
        // The server logs each refused question. Doctor cannot avoid this, and the page says so.
        state.iter().filter(|line| !line.starts_with("ACL LOG")).cloned().collect()
    };
    assert_eq!(kept(&redis.state(&[])), kept(&before));
    assert_eq!(diagnosis.verdict, Verdict::CouldNotTell);
    let server = &diagnosis.observations.servers[0];
    for ability in Ability::LEAST {
        assert!(server.abilities[ability].is_known(), "{ability:?}");
    }
    for ability in [Ability::Eval, Ability::Pexpire, Ability::Wait, Ability::Publish, Ability::KeyspaceEvents] {
        assert_eq!(server.abilities[&ability], Seen::Forbidden, "{ability:?}");
    }
    assert!(finding(&diagnosis, "unseen").unwrap().sentence.contains("appendonly, appendfsync"));
    assert!(finding(&diagnosis, "least-commands").is_none() && finding(&diagnosis, "refused-commands").is_none());
    for rule in ["+info", "+config|get", "+eval", "+wait", "+time", "+subscribe"] {
        assert!(diagnosis.missing_rules.contains(rule), "{rule} is not in {:?}", diagnosis.missing_rules);
    }
    assert_silent(&diagnosis, SECRET);

    // With the suggested rules, nothing is hidden any more. A refused command hides if its channel is refused too.
    let mut rules = diagnosis.missing_rules;
    for _ in 0..3 {
        let words: Vec<&str> = rules.iter().map(String::as_str).collect();
        assert_eq!(redis.ask(&[], &format!("ACL SETUSER app {}", words.join(" "))), Value::Okay);
        let diagnosis = asked(&with_password(request(&[redis.url()]), Some("app"), SECRET), None).await;
        assert!(finding(&diagnosis, "unseen").is_none(), "{:?}", diagnosis.findings);
        rules = diagnosis.missing_rules;
        if rules.is_empty() {
            return;
        }
    }
    panic!("still missing: {rules:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn user_without_the_least_commands_is_told_so() {
    let redis = Redis::start(&["user app on nopass +get ~redjepsen:*"]);
    let diagnosis = asked(&with_password(request(&[redis.url()]), Some("app"), "any"), None).await;
    let sentence = &finding(&diagnosis, "least-commands").unwrap().sentence;
    assert!(sentence.contains("SET NX PX, PTTL and DEL"), "{sentence}");
    assert_eq!(diagnosis.locks[0].suits, Suits::WillNot);
}

/// Waits until the server's answer contains this.
fn wait_for(redis: &Redis, command: &str, part: &str) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = format!("{:?}", redis.ask(&[], command));
        if answer.contains(part) {
            return;
        }
        assert!(Instant::now() < until, "{command}: {answer}");
        sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_group_is_followed_and_its_times_compared() {
    let primary = Redis::start(&["save \"\"", "repl-diskless-sync-delay 0"]);
    let of_primary = format!("replicaof 127.0.0.1 {}", primary.port);
    let replica = Redis::start(&["save \"\"", &of_primary]);
    wait_for(&primary, "INFO replication", "state=online");
    let watches = format!(
        "sentinel monitor lock 127.0.0.1 {} 2\nsentinel down-after-milliseconds lock 5000\nsentinel failover-timeout lock 60000",
        primary.port
    );
    let sentinels: Vec<Redis> = (0..3).map(|_| Redis::start_at(free_port(), &[&watches], true)).collect();
    for sentinel in &sentinels {
        wait_for(sentinel, "INFO sentinel", "slaves=1,sentinels=3");
    }
    let urls: Vec<String> = sentinels.iter().map(Redis::url).collect();
    let mut to_sentinels = request(&urls);
    to_sentinels.sentinel = Some("lock".to_string());
    // A password is not sent to Sentinels that do not ask for it.
    let diagnosis = asked(&to_sentinels, Some(30)).await;
    assert_eq!(diagnosis.shape, Shape::Sentinel);
    let roles: Vec<Role> = diagnosis.observations.servers.iter().map(|server| server.role).collect();
    assert_eq!(roles, [Role::Sentinel, Role::Sentinel, Role::Sentinel, Role::Primary, Role::Replica]);
    let found = finding(&diagnosis, "failover-loses-locks").unwrap();
    assert!(found.sentence.contains("after 5 s, when a lock of 30 s has up to 25 s left"), "{}", found.sentence);
    assert_eq!(found.weight, Weight::Loses);
    assert!(finding(&diagnosis, "no-min-replicas").is_some() && finding(&diagnosis, "few-sentinels").is_none());
    let primary_seen = &diagnosis.observations.servers[3];
    assert_eq!(primary_seen.abilities[&Ability::Wait], Seen::Known("1 replica has the write".to_string()));
    assert_eq!((diagnosis.locks[2].kind.as_str(), diagnosis.locks[2].suits), ("failover", Suits::WithCondition));

    let shorter = asked(&to_sentinels, Some(3)).await;
    assert_eq!(finding(&shorter, "failover-loses-locks").unwrap().weight, Weight::Note);
    // Doctor recognizes this without --sentinel, and from the primary.
    assert_eq!(asked(&request(&urls[..1]), None).await.shape, Shape::Sentinel);
    let from_primary = asked(&request(&[primary.url()]), None).await;
    assert_eq!(from_primary.shape, Shape::Replicated);
    assert!(finding(&from_primary, "watched").is_some());
    // A replica alone leads to its primary.
    let from_replica = asked(&request(&[replica.url()]), None).await;
    assert!(from_replica.observations.servers.iter().any(|server| server.role == Role::Primary));
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_the_servers_is_not_needed_by_open_sentinels() {
    let primary = Redis::start(&[SAFE, &["requirepass hunter2-hunter2"][..]].concat());
    let watches =
        format!("sentinel monitor lock 127.0.0.1 {} 1\nsentinel auth-pass lock hunter2-hunter2", primary.port);
    let sentinel = Redis::start_at(free_port(), &[&watches], true);
    let mut request = with_password(request(&[sentinel.url()]), None, SECRET);
    request.sentinel = Some("lock".to_string());
    let diagnosis = asked(&request, None).await;
    assert_eq!(diagnosis.observations.servers[1].role, Role::Primary, "{:?}", diagnosis.observations);
    assert!(finding(&diagnosis, "few-sentinels").is_some() && finding(&diagnosis, "no-replica").is_some());
    assert_silent(&diagnosis, SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_is_followed_and_each_primary_tried() {
    let nodes: Vec<Redis> =
        (0..3).map(|_| Redis::start(&["cluster-enabled yes", "cluster-node-timeout 5000"])).collect();
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        assert_eq!(node.ask(&[], &format!("CLUSTER ADDSLOTSRANGE {slots}")), Value::Okay);
    }
    for node in &nodes[1..] {
        nodes[0].ask(&[], &format!("CLUSTER MEET 127.0.0.1 {}", node.port));
    }
    nodes.iter().for_each(|node| wait_for(node, "CLUSTER INFO", "cluster_state:ok"));
    let before: Vec<_> = nodes.iter().map(|node| node.state(&[])).collect();
    let diagnosis = asked(&request(&[nodes[1].url()]), Some(30)).await;
    assert_eq!(nodes.iter().map(|node| node.state(&[])).collect::<Vec<_>>(), before);
    assert_eq!((diagnosis.shape, diagnosis.observations.servers.len()), (Shape::Cluster, 3));
    for server in &diagnosis.observations.servers {
        assert_eq!(server.abilities[&Ability::SetNxPx], Seen::Known(String::new()), "{}", server.address);
        assert_eq!(server.abilities[&Ability::Del], Seen::Known(String::new()), "{}", server.address);
    }
    assert!(finding(&diagnosis, "announced-address").is_none() && finding(&diagnosis, "cluster-down").is_none());
    assert!(finding(&diagnosis, "no-replica").unwrap().sentence.contains("3 primaries"));
    assert_eq!((diagnosis.locks[3].kind.as_str(), diagnosis.locks[3].suits), ("cluster", Suits::WithCondition));
}

#[tokio::test(flavor = "multi_thread")]
async fn address_that_clients_cannot_reach_is_named() {
    let node = Redis::start(&["cluster-enabled yes", "cluster-announce-ip 10.255.255.1"]);
    assert_eq!(node.ask(&[], "CLUSTER ADDSLOTSRANGE 0 16383"), Value::Okay);
    wait_for(&node, "CLUSTER INFO", "cluster_state:ok");
    let diagnosis = asked(&request(&[node.url()]), None).await;
    let sentence = &finding(&diagnosis, "announced-address").unwrap().sentence;
    assert!(sentence.contains(&format!("{} announces 10.255.255.1:{}", node.address(), node.port)), "{sentence}");
    assert_eq!(diagnosis.observations.servers[0].abilities[&Ability::SetNxPx], Seen::Known(String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_with_certificates_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path();
    certificates(files);
    let at = |name: &str| files.join(name);
    let port = free_port();
    let lines = format!(
        "tls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\nrequirepass hunter2-hunter2",
        at("server.pem").display(),
        at("server.key").display(),
        at("ca.pem").display()
    );
    let _redis = Redis::start_at(port, &[SAFE, &[lines.as_str()][..]].concat(), false);
    let of = |tls: Tls| {
        let access = Access { tls, ..Access::default() };
        with_password(doctor::Request { access, ..request(&[format!("rediss://127.0.0.1:{port}")]) }, None, SECRET)
    };
    let client = Some((at("client.pem"), at("client.key")));
    let whole = Tls { ca: Some(at("ca.pem")), client: client.clone(), insecure: false };
    let diagnosis = asked(&of(whole), None).await;
    assert_eq!(diagnosis.verdict, Verdict::NothingFound);
    assert_silent(&diagnosis, SECRET);
    let any = Tls { ca: None, client, insecure: true };
    assert_eq!(asked(&of(any), None).await.verdict, Verdict::NothingFound);
    let stranger = Tls { ca: Some(at("server.pem")), client: None, insecure: false };
    let diagnosis = asked(&of(stranger), None).await;
    assert!(diagnosis.observations.servers[0].unreached.as_ref().unwrap().contains("certificate is rejected"));
    let without = Tls { ca: Some(at("ca.pem")), client: None, insecure: false };
    let diagnosis = asked(&of(without), None).await;
    assert!(diagnosis.observations.servers[0].unreached.as_ref().unwrap().contains("--cert"), "{diagnosis:?}");
    let plain = with_password(request(&[format!("redis://127.0.0.1:{port}")]), None, SECRET);
    let why = asked(&plain, None).await.observations.servers[0].unreached.clone().unwrap();
    assert!(why.contains("rediss://"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_connections_and_changing_servers_are_noticed() {
    let (one, other) = (Redis::start(SAFE), Redis::start(SAFE));
    let through = forwarded(vec![one.port]);
    let diagnosis = asked(&request(&[format!("redis://127.0.0.1:{through}")]), None).await;
    assert!(finding(&diagnosis, "translated").is_some() && finding(&diagnosis, "different-servers").is_none());
    assert_eq!(diagnosis.verdict, Verdict::NothingFound);
    let balanced = forwarded(vec![one.port, other.port]);
    let diagnosis = asked(&request(&[format!("redis://127.0.0.1:{balanced}")]), None).await;
    assert!(finding(&diagnosis, "different-servers").is_some());
    assert_eq!(diagnosis.verdict, Verdict::LosesLocks);
}

/// A port whose connections lead to these ports in turn.
fn forwarded(ports: Vec<u16>) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (stream, to) in listener.incoming().zip(ports.into_iter().cycle()) {
            let (Ok(here), Ok(there)) = (stream, std::net::TcpStream::connect(("127.0.0.1", to))) else { return };
            for (mut from, mut to) in [(here.try_clone().unwrap(), there.try_clone().unwrap()), (there, here)] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn command_that_a_proxy_closes_the_connection_for_is_the_one_that_is_blamed() {
    let url = fake(|words| match words.split(' ').next().unwrap_or_default() {
        "EVAL" | "" => String::new(),
        "SET" if words.contains(" b NX") => "$-1\r\n".to_string(),
        "SET" => "+OK\r\n".to_string(),
        "GET" => "$1\r\na\r\n".to_string(),
        "PTTL" => ":2000\r\n".to_string(),
        "DEL" | "PEXPIRE" => ":1\r\n".to_string(),
        _ => "-ERR unknown command\r\n".to_string(),
    });
    let diagnosis = asked(&request(&[url]), None).await;
    let abilities = &diagnosis.observations.servers[0].abilities;
    assert!(matches!(&abilities[&Ability::Eval], Seen::Refused(why) if why.contains("closed")), "{abilities:?}");
    assert!(Ability::LEAST.iter().all(|ability| abilities[ability].is_known()), "{abilities:?}");
    assert!(abilities[&Ability::Pexpire].is_known());
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_none_are_not_waited_for() {
    let closed = free_port();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let web = fake(|words| match words {
        "" => String::new(),
        _ => "HTTP/1.1 400 Bad Request\r\n\r\n".to_string(),
    });
    let silent = format!("redis://{}", silent.local_addr().unwrap());
    let diagnosis = asked(&request(&[format!("redis://127.0.0.1:{closed}"), silent, web]), None).await;
    assert_eq!(diagnosis.verdict, Verdict::NotReached);
    let whys: Vec<&str> =
        diagnosis.observations.servers.iter().map(|server| server.unreached.as_deref().unwrap()).collect();
    assert!(
        whys[0].contains("refused") && whys[1].contains("in time") && whys[2].contains("Redis protocol"),
        "{whys:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn five_servers_are_voters_and_one_server_twice_is_not() {
    let servers: Vec<Redis> = (0..5).map(|_| Redis::start(SAFE)).collect();
    let mut urls: Vec<String> = servers.iter().map(Redis::url).collect();
    let diagnosis = asked(&request(&urls), Some(10)).await;
    assert_eq!((diagnosis.shape, diagnosis.verdict), (Shape::Independent(5), Verdict::NothingFound));
    assert_eq!(diagnosis.locks[1].suits, Suits::Works);
    urls[4] = format!("redis://localhost:{}", servers[0].port);
    let diagnosis = asked(&request(&urls), None).await;
    assert!(finding(&diagnosis, "same-server").is_some(), "{:?}", diagnosis.findings);
}

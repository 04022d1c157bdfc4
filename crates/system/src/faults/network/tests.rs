//! Every fault, on a bridge with members in network namespaces. Each test creates its own namespaces, so this machine is not
//! affected.

mod sandbox;

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use sandbox::{Sandbox, in_sandbox};

use super::capture::{Frames, PacketSocket};
use super::*;
use model::fault_kinds::ErrorReply;
use model::history::{CallEffect, Command};

const NAME: &str = "redjepsen-test";

fn both(sandbox: &Sandbox, a: usize, b: usize) -> Vec<Pair> {
    vec![(sandbox.address(a), sandbox.address(b)), (sandbox.address(b), sandbox.address(a))]
}

fn open(sandbox: &Sandbox) -> Network {
    Network::open(sandbox.bridge(), NAME).unwrap()
}

fn assert_observed(seen: &Seen) {
    assert!(seen.observed, "{seen:?}");
    assert!(seen.effect_us.unwrap() <= seen.took_us, "{seen:?}");
}

#[test]
fn a_cut_and_its_heal_are_seen_and_are_so() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        let mut early = sandbox.connection(0, 1);
        assert!(early.round_trip().is_ok());
        let seen = network.inject(1, &both(sandbox, 0, 1), Effect::Drop).unwrap();
        assert_observed(&seen);
        assert_eq!(seen.text, "2 of 2 links cut");
        assert!(early.round_trip().is_err(), "established connections as well");
        assert!(sandbox.connect(0, 1).is_err());
        assert!(sandbox.connects(0, 2), "others are not concerned");
        assert!(sandbox.connects(2, 1));
        assert_eq!(network.in_effect(), [1]);

        let seen = network.heal(1).unwrap();
        assert_observed(&seen);
        assert_eq!(seen.text, "2 of 2 links open again");
        assert!(sandbox.connects(0, 1));
        assert!(early.read_what_was_lost().is_ok(), "TCP sends again what was lost");
        assert!(network.in_effect().is_empty());
    });
}

#[test]
fn one_way_means_one_way() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let mut connection = sandbox.connection(0, 1);
        assert_observed(&network.inject(1, &[(sandbox.address(1), sandbox.address(0))], Effect::Drop).unwrap());
        connection.client.write_all(b"x").unwrap();
        assert_eq!(connection.server.read(&mut [0; 8]).unwrap(), 1, "there");
        connection.server.write_all(b"y").unwrap();
        assert_eq!(connection.client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock, "and not back");
        assert_observed(&network.heal(1).unwrap());
        assert_eq!(connection.read_what_was_lost().unwrap(), 1);
    });
}

#[test]
fn healing_one_fault_leaves_the_others() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        assert_observed(&network.inject(1, &both(sandbox, 0, 1), Effect::Drop).unwrap());
        assert_observed(
            &network.inject(2, &[both(sandbox, 0, 1), both(sandbox, 0, 2)].concat(), Effect::Drop).unwrap(),
        );
        let hidden = network.inject(3, &both(sandbox, 0, 1), Effect::Lose { percent: 10 }).unwrap();
        assert!(!hidden.observed, "{hidden:?}");
        assert_eq!(hidden.text, "0 of 0 links lose packets; 2 hidden by a cut");
        let again = network.inject(2, &both(sandbox, 0, 1), Effect::Drop).unwrap_err();
        assert_eq!(again.to_string(), "the network fault 2 is in effect already");

        let seen = network.heal(2).unwrap();
        assert_observed(&seen);
        assert_eq!(seen.text, "2 of 2 links open again; 2 still broken by another fault");
        assert!(sandbox.connects(0, 2));
        assert!(sandbox.connect(0, 1).is_err());
        assert!(network.heal(3).unwrap().observed);
        assert!(sandbox.connect(0, 1).is_err());
        assert_observed(&network.heal(1).unwrap());
        assert!(sandbox.connects(0, 1));
        assert_eq!(network.heal(1).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_member_that_is_gone_is_told_and_holds_up_nothing() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        sandbox.end(2);
        let pairs = [both(sandbox, 0, 1), both(sandbox, 0, 2)].concat();
        let seen = network.inject(1, &pairs, Effect::Drop).unwrap();
        assert_observed(&seen);
        assert_eq!(seen.text, format!("2 of 2 links cut; {} is gone", sandbox.address(2)));
        let seen = network.heal(1).unwrap();
        assert_observed(&seen);
        assert_eq!(seen.text, format!("2 of 2 links open again; {} is gone", sandbox.address(2)));

        let seen = network.inject(1, &both(sandbox, 0, 2), Effect::Drop).unwrap();
        assert!(!seen.observed, "nothing was observed: {seen:?}");
        assert!(network.heal(1).unwrap().observed, "and nothing is left to be healed");
    });
}

/// Probes all links of a member. Calls `meanwhile` between the first probes and the next, and hides the bridge's ports until
/// then.
fn sight_while(sandbox: &Sandbox, meanwhile: impl Fn()) -> Sight {
    let goal = Goal::Passes { within: IN_TIME, probes: 1, all: false };
    let goals = [both(sandbox, 0, 1), both(sandbox, 0, 2)].concat().into_iter().map(|pair| (pair, goal)).collect();
    let first = Cell::new(true);
    let bridge = || {
        let mut found = links::bridge(sandbox.bridge())?;
        if first.take() {
            found.ports.clear();
        } else {
            meanwhile();
            found = links::bridge(sandbox.bridge())?;
        }
        Ok(found)
    };
    observe(&mut Prober::open().unwrap(), bridge, &goals).unwrap()
}

#[test]
fn a_member_that_is_killed_and_comes_back_meanwhile_is_looked_at_again() {
    in_sandbox(3, |sandbox| {
        let sight = sight_while(sandbox, || {
            sandbox.end(2);
            sandbox.start(2);
        });
        assert_eq!(sight.tell("open", ""), "4 of 4 links open");
    });
}

#[test]
fn a_member_that_is_killed_meanwhile_is_gone() {
    in_sandbox(3, |sandbox| {
        let sight = sight_while(sandbox, || sandbox.end(2));
        assert_eq!(sight.tell("open", ""), format!("2 of 2 links open; {} is gone", sandbox.address(2)));
    });
}

#[test]
fn a_cut_that_does_not_cut_is_told_as_such() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        network.table.pretend = true;
        let seen = network.inject(1, &both(sandbox, 0, 1), Effect::Drop).unwrap();
        assert!(!seen.observed, "{seen:?}");
        assert_eq!(seen.effect_us, None);
        let (a, b) = (sandbox.address(0), sandbox.address(1));
        let said = format!("0 of 2 links cut; not {a} to {b}: packets pass, {b} to {a}: packets pass");
        assert_eq!(seen.text, said);
        for effect in [Effect::Lose { percent: 50 }, Effect::Delay { ms: 20, jitter_ms: 0 }, Effect::Reset] {
            network.heal(1).unwrap();
            let seen = network.inject(1, &both(sandbox, 0, 1), effect.clone()).unwrap();
            assert!(!seen.observed, "{effect:?}: {seen:?}");
        }
    });
}

#[test]
fn a_table_that_was_deleted_by_hand_comes_back_with_the_next_change() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        network.table.disown();
        assert_observed(&network.inject(1, &both(sandbox, 0, 1), Effect::Drop).unwrap());
        sandbox.run(&format!("nft delete table bridge {NAME}"));
        assert!(sandbox.connects(0, 1));
        assert_observed(&network.inject(2, &both(sandbox, 0, 2), Effect::Drop).unwrap());
        assert!(sandbox.connect(0, 1).is_err());
        sandbox.run(&format!("nft delete table bridge {NAME}"));
        assert_observed(&network.heal(2).unwrap());
        assert_observed(&network.heal(1).unwrap());
        sandbox.run(&format!("! nft list table bridge {NAME}"));
        assert!(network.close().is_ok(), "a table that is not there needs no deleting");
    });
}

#[test]
fn nobody_else_takes_the_table_away_and_it_goes_with_its_owner() {
    in_sandbox(2, |sandbox| {
        let mut table = NftTable::open(NAME).unwrap();
        let faults = BTreeMap::from([(
            1,
            InjectedFault { effect: Effect::Drop, pairs: both(sandbox, 0, 1).into_iter().collect() },
        )]);
        table.apply(&faults).unwrap();
        sandbox.run(&format!("! nft delete table bridge {NAME}"));
        assert!(sandbox.connect(0, 1).is_err());
        // Like a kill of the agent: its sockets close, and nothing else happens.
        drop(table);
        assert!(sandbox.connects(0, 1));
        assert!(left_over_tables().unwrap().is_empty());

        let mut table = NftTable::open(NAME).unwrap();
        table.disown();
        table.apply(&faults).unwrap();
        drop(table);
        assert_eq!(left_over_tables().unwrap(), [NAME], "on older kernels it stays");
        drop(NftTable::open(NAME).unwrap());
        assert!(left_over_tables().unwrap().is_empty(), "the next run of that name clears it away");
    });
}

#[test]
fn nft_shows_the_rules_as_they_are_meant() {
    in_sandbox(3, |sandbox| {
        let mut table = NftTable::open(NAME).unwrap();
        let (a, b, c) = (sandbox.address(0), sandbox.address(1), sandbox.address(2));
        let faults = [
            (3, InjectedFault { effect: Effect::Drop, pairs: [(a, b)].into() }),
            (4, InjectedFault { effect: Effect::Lose { percent: 30 }, pairs: [(a, c)].into() }),
            (5, InjectedFault { effect: Effect::Lose { percent: 100 }, pairs: [(c, a)].into() }),
            (6, InjectedFault { effect: Effect::Delay { ms: 50, jitter_ms: 5 }, pairs: [(a, c)].into() }),
            (7, InjectedFault { effect: Effect::Reset, pairs: [(b, c)].into() }),
        ];
        table.apply(&faults.into()).unwrap();
        let listed = sandbox.run(&format!("nft --stateless list table bridge {NAME}"));
        let rules: Vec<_> = listed.lines().map(str::trim).filter(|line| line.starts_with("ip ")).collect();
        insta::assert_snapshot!(rules.join("\n"), @r#"
        ip saddr . ip daddr @f3 counter drop comment "fault 3: drop"
        ip saddr . ip daddr @f4 numgen random mod 100 < 30 counter drop comment "fault 4: lose 30 %"
        ip saddr . ip daddr @f5 counter drop comment "fault 5: lose 100 %"
        ip saddr . ip daddr @f6 counter drop comment "fault 6: delay 50 ms, jitter 5 ms"
        ip saddr . ip daddr @f7 ip protocol tcp counter drop comment "fault 7: reset"
        "#);
        assert!(listed.contains("10.99.0.1 . 10.99.0.2") && !listed.contains("10.99.0.2 . 10.99.0.1"), "{listed}");
        // More links than fit in one message.
        let many = (0..60).flat_map(|a| (0..60).map(move |b| ([10, 0, 0, a].into(), [10, 0, 1, b].into()))).collect();
        table.apply(&BTreeMap::from([(u32::MAX, InjectedFault { effect: Effect::Drop, pairs: many })])).unwrap();
        let listed = sandbox.run(&format!("nft list table bridge {NAME}"));
        assert_eq!(listed.matches(" . 10.0.1.").count(), 3600);
    });
}

#[test]
fn a_heal_that_does_not_heal_is_told_and_can_be_tried_again() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        assert_observed(&network.inject(1, &both(sandbox, 0, 1), Effect::Drop).unwrap());
        sandbox.run("nft add table bridge other");
        sandbox.run("nft add chain bridge other forward '{ type filter hook forward priority 0; policy drop; }'");
        let seen = network.heal(1).unwrap();
        assert!(!seen.observed, "{seen:?}");
        assert!(seen.text.contains("no packet passed in time"), "{seen:?}");
        assert_eq!(network.in_effect(), [1]);
        sandbox.run("nft delete table bridge other");
        assert_observed(&network.heal(1).unwrap());
        assert!(network.in_effect().is_empty());
    });
}

#[test]
fn only_our_table_is_made_and_removed() {
    in_sandbox(2, |sandbox| {
        sandbox.run("nft add table bridge other; nft add table bridge redjepsen-elder; nft add table ip redjepsen-ip");
        let network = open(sandbox);
        assert_eq!(left_over_tables().unwrap(), ["redjepsen-elder"], "no fault, no table");
        drop(network);
        let mut network = open(sandbox);
        network.inject(1, &both(sandbox, 0, 1), Effect::Drop).unwrap();
        assert_eq!(left_over_tables().unwrap(), ["redjepsen-elder", NAME]);
        network.close().unwrap();
        assert!(sandbox.connects(0, 1));
        assert_eq!(left_over_tables().unwrap(), ["redjepsen-elder"]);
        delete_left_over_table("redjepsen-elder").unwrap();
        delete_left_over_table("redjepsen-elder").unwrap();
        assert!(left_over_tables().unwrap().is_empty());
        sandbox.run("nft list table bridge other && nft list table ip redjepsen-ip");

        let mut network = open(sandbox);
        network.inject(1, &both(sandbox, 0, 1), Effect::Delay { ms: 20, jitter_ms: 0 }).unwrap();
        drop(network);
        assert!(sandbox.connects(0, 1));
        assert!(left_over_tables().unwrap().is_empty());
    });
}

#[test]
fn what_is_missing_is_named() {
    in_sandbox(1, |sandbox| {
        let wrong = |bridge: &str| Network::open(bridge, NAME).err().unwrap().to_string();
        assert_eq!(wrong("br-none"), "there is no network device `br-none`");
        assert_eq!(wrong("lo"), "the network device `lo` is no bridge");
        sandbox.run(&format!("ip link set {} down", sandbox.bridge()));
        assert_eq!(wrong(sandbox.bridge()), format!("the bridge `{}` is down", sandbox.bridge()));
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let pairs = both(sandbox, 0, 1);
        let effects = [
            Effect::Lose { percent: 0 },
            Effect::Lose { percent: 101 },
            Effect::Delay { ms: 0, jitter_ms: 0 },
            Effect::Delay { ms: 10, jitter_ms: 11 },
            Effect::Delay { ms: u64::MAX, jitter_ms: u64::MAX },
        ];
        for effect in effects {
            assert_eq!(
                network.inject(1, &pairs, effect.clone()).unwrap_err().kind(),
                ErrorKind::InvalidInput,
                "{effect:?}"
            );
        }
        assert!(network.inject(1, &[], Effect::Drop).is_err());
        assert!(network.inject(1, &[(sandbox.address(0), sandbox.address(0))], Effect::Drop).is_err());
        assert!(network.in_effect().is_empty());
    });
}

#[test]
fn loss_loses_about_its_share() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        let seen = network.inject(1, &both(sandbox, 0, 1), Effect::Lose { percent: 30 }).unwrap();
        assert_observed(&seen);
        assert!(seen.text.starts_with("2 of 2 links lose packets; "), "{seen:?}");
        let passed = sandbox.datagrams(0, 1, 1000);
        assert!((620..=780).contains(&passed), "{passed} of 1000 passed");
        assert_eq!(sandbox.datagrams(0, 2, 200), 200);
        assert_observed(&network.heal(1).unwrap());
        assert_eq!(sandbox.datagrams(0, 1, 200), 200);

        assert_observed(&network.inject(2, &both(sandbox, 0, 1), Effect::Lose { percent: 100 }).unwrap());
        assert!(sandbox.connect(0, 1).is_err());
        assert_observed(&network.heal(2).unwrap());
        let rare = network.inject(3, &both(sandbox, 0, 1), Effect::Lose { percent: 2 }).unwrap();
        assert_observed(&rare);
    });
}

#[test]
fn a_delay_is_as_long_as_it_should_be() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        let (mut slow, mut quick) = (sandbox.connection(0, 1), sandbox.connection(0, 2));
        let effect = Effect::Delay { ms: 50, jitter_ms: 0 };
        let seen = network.inject(1, &[(sandbox.address(0), sandbox.address(1))], effect.clone()).unwrap();
        assert_observed(&seen);
        println!("{seen:?}");
        let mut times: Vec<_> = (0..20).map(|_| slow.round_trip().unwrap()).collect();
        times.sort_unstable();
        println!("a round trip with one link of 50 ms: p50 {:?}, p90 {:?}", times[10], times[18]);
        assert!(times[0] >= Duration::from_millis(50), "{times:?}");
        // The fastest round trip counts, since the machine may be busy.
        assert!(times[0] < Duration::from_millis(60), "{times:?}");
        assert!(quick.fastest_round_trip() < Duration::from_millis(25));
        let seen = network.heal(1).unwrap();
        assert_observed(&seen);
        assert!(slow.fastest_round_trip() < Duration::from_millis(25));
    });
}

#[test]
fn large_payloads_survive_a_delay_with_jitter() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let mut connection = sandbox.connection(0, 1);
        let effect = Effect::Delay { ms: 10, jitter_ms: 8 };
        assert_observed(&network.inject(1, &both(sandbox, 0, 1), effect).unwrap());
        let payload: Vec<u8> = (0..400_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut sender = connection.client.try_clone().unwrap();
        let sent = payload.clone();
        let writer = std::thread::spawn(move || sender.write_all(&sent));
        let mut received = vec![0; payload.len()];
        connection.server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        connection.server.read_exact(&mut received).unwrap();
        writer.join().unwrap().unwrap();
        assert!(received == payload);
        println!("{} segments were sent again", sandbox.tcp_counter(0, "RetransSegs"));
        assert_eq!(sandbox.tcp_counter(1, "InErrs"), 0, "wrong checksums");
    });
}

#[test]
fn frames_that_are_read_late_still_tell_when_they_came() {
    in_sandbox(2, |sandbox| {
        let mut connection = sandbox.connection(0, 1);
        let accept_all = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0xffff }];
        let socket = PacketSocket::open(Frames::BothWays, &accept_all).unwrap();
        for byte in [b"a", b"b"] {
            connection.client.write_all(byte).unwrap();
            connection.server.read_exact(&mut [0]).unwrap();
            thread::sleep(Duration::from_millis(30));
        }
        let mut buffer = [0; 2048];
        let mut seen = Vec::new();
        while let Some(received) = socket.receive(&mut buffer).unwrap() {
            seen.push(received.seen.expect("the kernel stamps every frame"));
        }
        let (first, last) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
        assert!(*last - *first >= Duration::from_millis(30), "{seen:?}");
    });
}

#[test]
fn each_of_two_delays_tells_of_its_own_packets() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        let mut connection = sandbox.connection(0, 1);
        let effect = Effect::Delay { ms: 5, jitter_ms: 0 };
        assert_observed(&network.inject(1, &[(sandbox.address(0), sandbox.address(1))], effect.clone()).unwrap());
        assert_observed(&network.inject(2, &[(sandbox.address(0), sandbox.address(2))], effect).unwrap());
        for _ in 0..50 {
            connection.client.write_all(b"held").unwrap();
            connection.server.read_exact(&mut [0; 4]).unwrap();
        }
        let held = |seen: &Seen| {
            let told = seen.text.split_once("; ").and_then(|(_, told)| told.strip_suffix(" packets were held"));
            told.and_then(|number| number.parse::<u64>().ok()).unwrap_or_else(|| panic!("{seen:?}"))
        };
        // The other order would report everything carried so far. Probes in either direction are held, too.
        let idle = held(&network.heal(2).unwrap());
        let busy = held(&network.heal(1).unwrap());
        assert!(busy >= 50 && idle < 50, "{busy} on the way that was used, {idle} on the other");
    });
}

#[test]
fn what_waits_is_delivered_when_the_delay_heals() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let mut connection = sandbox.connection(0, 1);
        let effect = Effect::Delay { ms: 30_000, jitter_ms: 0 };
        let seen = network.inject(1, &[(sandbox.address(0), sandbox.address(1))], effect.clone()).unwrap();
        assert_observed(&seen);
        connection.client.write_all(b"late").unwrap();
        assert_eq!(connection.server.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let healed = Instant::now();
        let seen = network.heal(1).unwrap();
        assert_observed(&seen);
        assert!(seen.text.contains("packets were held"), "{seen:?}");
        assert_eq!(connection.server.read(&mut [0; 8]).unwrap(), 4);
        assert!(healed.elapsed() < Duration::from_millis(500), "not by TCP's own repetition");
    });
}

#[test]
fn what_waits_is_lost_when_the_way_is_cut() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let link = [(sandbox.address(0), sandbox.address(1))];
        assert_observed(&network.inject(1, &link, Effect::Delay { ms: 30_000, jitter_ms: 0 }).unwrap());
        let receiver = sandbox.receive(1);
        sandbox.send(0, &receiver, 3);
        assert_observed(&network.inject(2, &link, Effect::Drop).unwrap());
        assert!(network.heal(1).unwrap().observed);
        assert_observed(&network.heal(2).unwrap());
        assert_eq!(sandbox.count(&receiver), 0);
        sandbox.send(0, &receiver, 3);
        assert_eq!(sandbox.count(&receiver), 3);
    });
}

#[test]
fn delays_and_losses_add_up() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let mut connection = sandbox.connection(0, 1);
        let link = [(sandbox.address(0), sandbox.address(1))];
        assert_observed(&network.inject(1, &link, Effect::Delay { ms: 30, jitter_ms: 0 }).unwrap());
        assert_observed(&network.inject(2, &link, Effect::Delay { ms: 20, jitter_ms: 0 }).unwrap());
        assert!(connection.round_trip().unwrap() >= Duration::from_millis(50));
        assert_observed(&network.heal(1).unwrap());
        let once = connection.fastest_round_trip();
        assert!(once >= Duration::from_millis(20) && once < Duration::from_millis(45), "{once:?}");
        assert_observed(&network.inject(3, &link, Effect::Lose { percent: 50 }).unwrap());
        let passed = sandbox.datagrams(0, 1, 400);
        assert!((130..=270).contains(&passed), "{passed} of 400 passed");
        assert_observed(&network.heal(3).unwrap());
        assert_observed(&network.heal(2).unwrap());
        assert_eq!(sandbox.datagrams(0, 1, 100), 100);
    });
}

#[test]
fn a_reset_breaks_connections_at_both_ends() {
    in_sandbox(3, |sandbox| {
        let mut network = open(sandbox);
        let (mut broken, mut other) = (sandbox.connection(0, 1), sandbox.connection(0, 2));
        assert!(broken.round_trip().is_ok());
        // Both ends are idle, so the observed segment was provoked.
        let seen = network.inject(1, &both(sandbox, 0, 1), Effect::Reset).unwrap();
        assert_observed(&seen);
        assert_eq!(seen.text, "2 of 2 links reset connections");
        broken.client.write_all(b"x").unwrap();
        assert_eq!(broken.client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(broken.server.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(sandbox.connect(0, 1).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(sandbox.datagrams(0, 1, 50), 50, "only TCP");
        assert!(other.round_trip().is_ok());
        let seen = network.heal(1).unwrap();
        assert_observed(&seen);
        assert!(seen.text.contains("segments were answered by RST"), "{seen:?}");
        assert!(sandbox.connects(0, 1));
    });
}

#[test]
fn a_reset_of_one_way_breaks_the_connection_too() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let mut broken = sandbox.connection(0, 1);
        assert_observed(&network.inject(1, &[(sandbox.address(1), sandbox.address(0))], Effect::Reset).unwrap());
        // The data arrives; its acknowledgement is dropped.
        broken.client.write_all(b"x").unwrap();
        assert_eq!(broken.client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert!(sandbox.connect(0, 1).is_err());
        assert_observed(&network.heal(1).unwrap());
        assert!(sandbox.connects(0, 1));
    });
}

#[test]
fn five_members_are_parted_quickly() {
    in_sandbox(5, |sandbox| {
        let mut network = open(sandbox);
        let halves = [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)];
        let halves: Vec<_> = halves.iter().flat_map(|(a, b)| both(sandbox, *a, *b)).collect();
        let all: Vec<_> = (0..5).flat_map(|a| (0..a).flat_map(move |b| both(sandbox, a, b))).collect();
        for (name, pairs) in [("two and three", halves), ("each alone", all)] {
            let (mut injected, mut healed) = (Vec::new(), Vec::new());
            for fault in 0..11 {
                let seen = network.inject(fault, &pairs, Effect::Drop).unwrap();
                assert_observed(&seen);
                injected.push((seen.took_us, seen.effect_us));
                let seen = network.heal(fault).unwrap();
                assert_observed(&seen);
                healed.push((seen.took_us, seen.effect_us));
            }
            injected.sort_unstable();
            healed.sort_unstable();
            println!("{name}, {} links: cut {:?}, healed {:?} (µs)", pairs.len(), injected[5], healed[5]);
            assert!(injected[5].0 < 200_000 && healed[5].0 < 200_000, "{injected:?} {healed:?}");
        }
    });
}

fn call(action: CallEffect, nth: Option<u32>) -> Effect {
    let command = Command::Named("SET".to_string());
    Effect::Command(CommandWatch {
        effect: action,
        command,
        nth,
        key: None,
        error: None,
        writing: BTreeSet::new(),
        chosen: Vec::new(),
    })
}

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

/// The data that arrives within the time that a member waits for another.
fn arrives(end: &mut std::net::TcpStream) -> io::Result<String> {
    let mut bytes = [0; 1000];
    end.read(&mut bytes).map(|length| String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// Sends one command and returns its reply.
fn asks(connection: &mut sandbox::SandboxConnection, command: &[u8]) -> io::Result<String> {
    connection.client.write_all(command)?;
    arrives(&mut connection.server)?;
    connection.server.write_all(b"+OK\r\n")?;
    arrives(&mut connection.client)
}

fn until_it_strikes(network: &Network, fault: u32) {
    let began = Instant::now();
    while network.strike(fault, false).is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "fault {fault} strikes");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_reply_is_held_on_one_connection_and_arrives_when_it_is_healed() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let mut early = sandbox.connect_to_redis(0, 1);
        assert_eq!(asks(&mut early, SET).unwrap(), "+OK\r\n");
        let armed = network.inject(1, &both(sandbox, 0, 1), call(CallEffect::HoldReply, Some(2))).unwrap();
        assert!(armed.observed && armed.text == "2 of 2 links watched", "{armed:?}");
        let mut late = sandbox.connect_to_redis(0, 1);
        assert_eq!(asks(&mut late, SET).unwrap(), "+OK\r\n", "the first");
        assert_eq!(network.strike(1, false), Err(None));
        assert_eq!(
            asks(&mut early, SET).unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "the second, on another connection"
        );
        until_it_strikes(&network, 1);
        assert_eq!(network.strike(1, false).map(|(strike, _)| (strike.nth, strike.key)), Ok((2, "k".to_string())));
        assert_eq!(asks(&mut late, SET).unwrap(), "+OK\r\n", "the third");

        let seen = network.heal(1).unwrap();
        assert_observed(&seen);
        assert_eq!(seen.text, "2 of 2 links open again; it fired once");
        assert_eq!(arrives(&mut early.client).unwrap(), "+OK\r\n");
        assert_eq!(asks(&mut early, SET).unwrap(), "+OK\r\n", "as if nothing had been");
    });
}

#[test]
fn a_request_is_held_and_a_reply_is_lost() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let mut connection = sandbox.connect_to_redis(0, 1);
        network.inject(1, &both(sandbox, 0, 1), call(CallEffect::HoldRequest, Some(1))).unwrap();
        connection.client.write_all(SET).unwrap();
        until_it_strikes(&network, 1);
        assert_eq!(arrives(&mut connection.server).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_observed(&network.heal(1).unwrap());
        assert_eq!(arrives(&mut connection.server).unwrap().as_bytes(), SET);

        network.inject(2, &both(sandbox, 0, 1), call(CallEffect::LoseReply, Some(1))).unwrap();
        assert_eq!(asks(&mut connection, SET).unwrap_err().kind(), ErrorKind::WouldBlock);
        until_it_strikes(&network, 2);
        assert_observed(&network.heal(2).unwrap());
        assert_eq!(arrives(&mut connection.client).unwrap_err().kind(), ErrorKind::ConnectionReset, "never arrives");
        assert_eq!(arrives(&mut connection.server).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(asks(&mut sandbox.connect_to_redis(0, 1), SET).unwrap(), "+OK\r\n");
    });
}

#[test]
fn a_reset_after_a_command_and_one_of_an_idle_connection_leave_others_alone() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let (mut broken, mut other) = (sandbox.connect_to_redis(0, 1), sandbox.connect_to_redis(0, 1));
        network.inject(1, &both(sandbox, 0, 1), call(CallEffect::ResetAfter, Some(1))).unwrap();
        broken.client.write_all(SET).unwrap();
        assert_eq!(arrives(&mut broken.server).unwrap().as_bytes(), SET, "it was applied");
        broken.server.write_all(b"+OK\r\n").unwrap();
        assert_eq!(arrives(&mut broken.client).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(arrives(&mut broken.server).unwrap_err().kind(), ErrorKind::ConnectionReset);
        until_it_strikes(&network, 1);
        assert_eq!(asks(&mut other, SET).unwrap(), "+OK\r\n");
        assert_observed(&network.heal(1).unwrap());

        let mut idle = sandbox.connect_to_redis(0, 1);
        let chosen = (sandbox.address(0), idle.client.local_addr().unwrap().port(), sandbox.address(1));
        for (fault, action) in [(2, CallEffect::CutConnection), (3, CallEffect::ResetConnection)] {
            let Effect::Command(of_any) = call(action, Some(0)) else { unreachable!() };
            let effect = Effect::Command(CommandWatch { chosen: vec![chosen], ..of_any });
            network.inject(fault, &both(sandbox, 0, 1), effect).unwrap();
            network.provoke(fault, &[chosen]).unwrap();
            until_it_strikes(&network, fault);
            assert_eq!(asks(&mut other, SET).unwrap(), "+OK\r\n");
            if action == CallEffect::CutConnection {
                idle.server.write_all(b"+new\r\n").unwrap();
                assert_eq!(arrives(&mut idle.client).unwrap_err().kind(), ErrorKind::WouldBlock);
            }
            assert_observed(&network.heal(fault).unwrap());
            if action == CallEffect::CutConnection {
                assert!(idle.read_what_was_lost().is_ok(), "TCP sends it again");
            }
        }
        assert_eq!(arrives(&mut idle.client).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(arrives(&mut idle.server).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(asks(&mut other, SET).unwrap(), "+OK\r\n");
    });
}

#[test]
fn a_connection_that_is_closed_after_a_command_ends_for_its_client_as_if_the_server_had() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let (mut closed, mut other) = (sandbox.connect_to_redis(0, 1), sandbox.connect_to_redis(0, 1));
        network.inject(1, &both(sandbox, 0, 1), call(CallEffect::CloseAfter, Some(1))).unwrap();
        closed.client.write_all(SET).unwrap();
        assert_eq!(arrives(&mut closed.server).unwrap().as_bytes(), SET, "it was applied");
        closed.server.write_all(b"+OK\r\n").unwrap();
        assert_eq!(closed.client.read(&mut [0; 8]).unwrap(), 0, "the end, and no error");
        assert_eq!(arrives(&mut closed.server).unwrap_err().kind(), ErrorKind::ConnectionReset);
        until_it_strikes(&network, 1);
        let began = Instant::now();
        while closed.client.write_all(SET).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(10), "nobody is there");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(asks(&mut other, SET).unwrap(), "+OK\r\n");
        assert_observed(&network.heal(1).unwrap());
        assert_eq!(asks(&mut sandbox.connect_to_redis(0, 1), SET).unwrap(), "+OK\r\n");
    });
}

#[test]
fn a_refused_command_gets_an_error_and_its_connection_goes_on_after_the_heal() {
    const BUSY: usize = 300_000;
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let (mut refused, mut other) = (sandbox.connect_to_redis(0, 1), sandbox.connect_to_redis(0, 1));
        assert_eq!(asks(&mut refused, SET).unwrap(), "+OK\r\n");
        let Effect::Command(watch) = call(CallEffect::Refuse, Some(1)) else { unreachable!() };
        let effect = Effect::Command(CommandWatch { error: Some(ErrorReply::Oom), ..watch });
        network.inject(1, &both(sandbox, 0, 1), effect).unwrap();
        refused.client.write_all(SET).unwrap();
        let error = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        assert_eq!(arrives(&mut refused.client).unwrap(), error);
        assert_eq!(arrives(&mut refused.server).unwrap(), "\n".repeat(SET.len()));
        until_it_strikes(&network, 1);
        assert_eq!(asks(&mut other, SET).unwrap(), "+OK\r\n", "the second");
        assert_eq!(asks(&mut refused, SET).unwrap(), "+OK\r\n", "the third");
        let seen = network.heal(1).unwrap();
        assert_observed(&seen);
        assert!(seen.text.ends_with("; it fired once"), "{seen:?}");
        assert!(network.in_effect().is_empty());

        // Also with the largest segments, in both directions.
        let (mut client, mut server) = (refused.client.try_clone().unwrap(), refused.server.try_clone().unwrap());
        let sent: Vec<u8> = (0..BUSY).map(|at| (at % 251) as u8).collect();
        for (from, to) in [(&mut server, &mut client), (&mut refused.client, &mut refused.server)] {
            thread::scope(|scope| {
                scope.spawn(|| from.write_all(&sent).unwrap());
                let mut got = vec![0; BUSY];
                to.read_exact(&mut got).unwrap();
                assert!(got == sent);
            });
        }
        network.close().unwrap();
        assert_eq!(asks(&mut other, SET).unwrap(), "+OK\r\n");
        assert_eq!(asks(&mut refused, SET).unwrap_err().kind(), ErrorKind::ConnectionReset, "nobody follows it");
    });
}

#[test]
fn a_disarmed_fault_lets_its_command_pass() {
    in_sandbox(2, |sandbox| {
        let mut network = open(sandbox);
        let mut connection = sandbox.connect_to_redis(0, 1);
        network.inject(1, &both(sandbox, 0, 1), call(CallEffect::HoldReply, None)).unwrap();
        assert_eq!(network.strike(1, true), Err(None));
        assert_eq!(asks(&mut connection, SET).unwrap(), "+OK\r\n");
        assert_eq!(network.strike(1, false), Err(None));
        assert_eq!(network.heal(1).unwrap().text, "2 of 2 links open again; it fired 0 times");
    });
}

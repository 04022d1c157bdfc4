//! The plan of a run, drawn from its seed: every operation and every fault.
//!
//! A pure function of the scenario, and the only place that draws random numbers for a run. The same scenario and seed give the
//! same plan on every machine (ChaCha is specified to the bit). The real run is not deterministic: the machine decides how many
//! of the planned operations happen, and how they interleave.

mod faults;
mod script;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

pub use faults::{PlannedFault, quiet};
pub use script::{Action, PlannedStep};

use crate::history::{Function, ResourceKind};
use crate::scenario::{OperationMix, Scenario};
use base::units::{LengthError, millis};

/// The faults and the first operations of a run, as saved in `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub seed: u64,
    pub faults: Vec<PlannedFault>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub script: Vec<PlannedStep>,
    /// For each client, the first operations that fit into the time limit if the lock is always free, at most [`MOST_LISTED`]. A
    /// client that completes more operations continues with the next ones that [`Operations`] draws.
    pub operations: Vec<Vec<PlannedOperation>>,
}

/// The plan lists at most this many operations per client. The seed determines all of them, and a client that never waits may
/// complete thousands per second.
const MOST_LISTED: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedOperation {
    /// The kind of operation, if the workload mixes several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f: Option<Function>,
    pub key: String,
    /// The value to write, unique in the run.
    pub value: String,
    /// How long the holder thinks between read and write, in milliseconds.
    pub hold_ms: u64,
    /// How long the client waits before this operation, in milliseconds.
    pub think_ms: u64,
}

/// The seed of the run with this number, counted from 0, in a series that begins with the seed `first`. The largest seed is
/// followed by 0.
pub fn seed_after(first: u64, number: u64) -> u64 {
    first.wrapping_add(number)
}

/// Why no plan can be made for a scenario.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{0}")]
    Length(#[from] LengthError),
    #[error("{0}")]
    Nemesis(String),
}

/// The endless, seeded stream of a client's operations.
pub struct Operations {
    rng: ChaCha8Rng,
    client: u32,
    next: u64,
    keys: u32,
    hold_ms: (u64, u64),
    /// Think times are drawn uniformly from 0 to twice their mean.
    longest_think_ms: u64,
    mix: Option<OperationMix>,
}

impl Plan {
    /// Draws the plan. Fails if the nemesis's lengths make no sense or no fault fits into the time limit.
    pub fn draw(scenario: &Scenario) -> Result<Plan, PlanError> {
        faults::fits(scenario)?;
        let time_limit_ms = millis(scenario.time_limit);
        let operations = (0..scenario.clients)
            .map(|client| {
                let mut left = time_limit_ms as i64;
                let stream = Operations::of(scenario, client)?;
                Ok(stream
                    .take_while(|operation| {
                        let fits = left > 0;
                        // An operation counts as at least a millisecond, so that this ends.
                        left -= (operation.hold_ms + operation.think_ms).max(1) as i64;
                        fits
                    })
                    .take(MOST_LISTED)
                    .collect())
            })
            .collect::<Result<_, PlanError>>()?;
        Ok(Plan { seed: scenario.seed, faults: faults::draw(scenario)?, script: script::plan(scenario)?, operations })
    }
}

impl Operations {
    /// The operations of one client, beginning with its first.
    pub fn of(scenario: &Scenario, client: u32) -> Result<Operations, PlanError> {
        let (low, high) = scenario.hold.resolve(scenario.ttl)?;
        let mean_think_ms = 1000.0 * f64::from(scenario.clients) / scenario.rate;
        Ok(Operations {
            rng: stream(scenario.seed, u64::from(client)),
            client,
            next: 0,
            // A script uses only one lock.
            keys: if scenario.nemesis.script.is_empty() { scenario.keys } else { 1 },
            hold_ms: (millis(low), millis(high)),
            longest_think_ms: (2.0 * mean_think_ms) as u64,
            mix: match scenario.workload.resource.kind {
                ResourceKind::Replicated => Some(scenario.workload.operations.unwrap_or(OperationMix::UNLOCKED)),
                _ => scenario.workload.operations,
            },
        })
    }

    /// Draws the next of the mixed functions; None, without a draw, if the workload mixes none.
    fn draw_function(&mut self) -> Option<Function> {
        let weights = self.mix?.weights();
        let whole: u32 = weights.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.rng.random_range(0..whole.max(1));
        let chosen = weights.into_iter().find(|(_, weight)| {
            let here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        chosen.map(|(f, _)| f)
    }
}

impl Iterator for Operations {
    type Item = PlannedOperation;

    fn next(&mut self) -> Option<PlannedOperation> {
        let operation = PlannedOperation {
            f: self.draw_function(),
            key: format!("k{}", self.rng.random_range(0..self.keys.max(1))),
            value: format!("c{}:{}", self.client, self.next),
            hold_ms: self.rng.random_range(self.hold_ms.0..=self.hold_ms.1),
            think_ms: self.rng.random_range(0..=self.longest_think_ms),
        };
        self.next += 1;
        Some(operation)
    }
}

fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::Phase;
    use crate::nemesis::{Argument, Fault, OneOf, Target, TargetSpec};
    use crate::scenario::{Options, catalogue};
    use std::collections::HashSet;
    use std::path::Path;

    fn scenario(nemesis: &str, seed: u64) -> Scenario {
        let (nemesis_name, nemesis) = catalogue::nemesis(nemesis).unwrap();
        let plain = Options::default().scenario("redlock", "none", seed, Path::new("")).unwrap();
        let hold = "0.01ttl..0.1ttl".parse().unwrap();
        let [ttl, time_limit, acquire_timeout] = [1, 12, 4].map(Duration::from_secs);
        Scenario {
            nemesis_name,
            nemesis,
            clients: 3,
            keys: 2,
            ttl,
            time_limit,
            acquire_timeout,
            hold,
            rate: 1.0,
            ..plain
        }
    }

    #[track_caller]
    fn refuses(plan: Result<Plan, PlanError>, expected: &str) {
        let error = plan.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    /// A scenario of another workload, on that workload's own nodes.
    fn of(workload: &str, scenario: Scenario) -> Scenario {
        let (workload_name, workload) = catalogue::workload(workload).unwrap();
        Scenario { workload_name, nodes: workload.nodes, workload, ..scenario }
    }

    #[test]
    fn the_same_seed_gives_the_same_plan() {
        let plan = Plan::draw(&scenario("pause", 7)).unwrap();
        assert_eq!(plan, Plan::draw(&scenario("pause", 7)).unwrap());
        assert_ne!(plan, Plan::draw(&scenario("pause", 8)).unwrap());
        // A change here breaks the promise that a seed repeats its plan. It needs a good reason, stated in docs/guide.md.
        insta::assert_snapshot!("plan_of_seed_7", serde_json::to_string_pretty(&plan).unwrap());
    }

    #[test]
    fn values_are_unique_and_everything_lies_in_its_bounds() {
        let scenario = scenario("pause-node", 3);
        let plan = Plan::draw(&scenario).unwrap();
        let mut values = HashSet::new();
        for operation in plan.operations.iter().flatten() {
            assert!(values.insert(&operation.value), "{} twice", operation.value);
            assert!((10..=100).contains(&operation.hold_ms));
            assert!(["k0", "k1"].contains(&operation.key.as_str()));
        }
        assert!(!plan.faults.is_empty());
        for fault in &plan.faults {
            let TargetSpec::Members(who) = &fault.what.whom else { panic!("{}", fault.what) };
            assert!(matches!(who.0[..], [Target::Node(0..5)]), "any node is drawn: {who}");
            assert!((1500..=2500).contains(&fault.lasts_ms));
            assert!(fault.at_ms >= 1500 && fault.at_ms + fault.lasts_ms <= 12_000 - 1500, "quiet before and after");
        }
        for pair in plan.faults.windows(2) {
            assert!(pair[0].at_ms + pair[0].lasts_ms < pair[1].at_ms, "one heals before the next begins");
        }
    }

    #[test]
    fn a_plan_lists_no_more_operations_than_anyone_would_read() {
        let mut busy = scenario("none", 7);
        (busy.hold, busy.rate) = ("0s".parse().unwrap(), 1e6);
        let plan = Plan::draw(&busy).unwrap();
        assert!(plan.operations.iter().all(|operations| operations.len() == MOST_LISTED));
        assert_eq!(plan.operations[1][..], Operations::of(&busy, 1).unwrap().take(MOST_LISTED).collect::<Vec<_>>()[..]);
        busy.rate = 0.5;
        assert!(Plan::draw(&busy).unwrap().operations.iter().all(|operations| operations.len() < 10));
    }

    #[test]
    fn functions_are_drawn_by_their_weights_and_only_where_they_are_mixed() {
        let mut mixed = of("register-sentinel", scenario("none", 7));
        let drawn = |scenario: &Scenario, number| {
            let operations: Vec<PlannedOperation> = Operations::of(scenario, 0).unwrap().take(number).collect();
            let of = |f| operations.iter().filter(|operation| operation.f == Some(f)).count();
            (of(Function::Read), of(Function::Write), of(Function::Cas))
        };
        let (reads, writes, cas) = drawn(&mixed, 4000);
        assert_eq!(reads + writes + cas, 4000);
        assert!((1800..2200).contains(&reads) && (850..1150).contains(&writes), "{reads} {writes} {cas}");
        mixed.workload.operations = Some(OperationMix { read: 0, cas: 0, write: 3, ..OperationMix::UNLOCKED });
        assert_eq!(drawn(&mixed, 100), (0, 100, 0));
        assert_eq!(drawn(&scenario("none", 7), 100), (0, 0, 0));
        let locked = of("perfect-shared", scenario("none", 7));
        let shared =
            Operations::of(&locked, 0).unwrap().take(3000).filter(|one| one.f == Some(Function::Shared)).count();
        assert!((1900..2100).contains(&shared), "{shared}");
    }

    #[test]
    fn clients_and_faults_draw_from_streams_of_their_own() {
        let few = Plan::draw(&scenario("pause", 7)).unwrap();
        let mut more = scenario("pause", 7);
        more.clients = 9;
        more.rate = 3.0;
        let more = Plan::draw(&more).unwrap();
        assert_eq!(few.faults, more.faults);
        assert_eq!(few.operations[2], more.operations[2]);
    }

    /// A scenario whose nemesis is this script.
    fn scripted(steps: &[&str]) -> Scenario {
        let mut scenario = scenario("none", 7);
        scenario.nemesis.script = steps.iter().map(|step| step.parse().unwrap()).collect();
        scenario
    }

    #[test]
    fn a_script_is_planned_with_its_breakpoints_and_what_it_leaves_is_healed() {
        let steps =
            ["start client:0 to read", "pause node", "go client:0 to before-write", "go client:0", "wait 1.5ttl"];
        let plan = Plan::draw(&scripted(&steps)).unwrap();
        assert_eq!(plan, Plan::draw(&scripted(&steps)).unwrap());
        let Action::Start { breakpoints, stops: true, .. } = &plan.script[0].action else {
            panic!("{:?}", plan.script)
        };
        assert_eq!(breakpoints[..], [Phase::Read, Phase::BeforeWrite], "named when the operation begins");
        let Action::Inject { fault: 0, what: Fault { whom: TargetSpec::Members(who), .. } } = &plan.script[1].action
        else {
            panic!()
        };
        assert!(matches!(who.0[..], [Target::Node(0..5)]), "any node is drawn: {who}");
        assert_eq!(plan.script[4].action, Action::Wait { ms: 1500 });
        assert_eq!(plan.script[5].action, Action::Heal { faults: vec![0] });
        assert_eq!(plan.script.len(), 6);
    }

    #[test]
    fn a_script_that_cannot_be_played_is_refused_with_the_step() {
        for (steps, expected) in [
            (
                &["start client:3"][..],
                "step 1 of the nemesis, `start client:3`: there is no client:3; with --clients 3, the last client is client:2",
            ),
            (&["go client:0"], "does not wait at a breakpoint"),
            (&["start client:0", "go client:0"], "does not wait at a breakpoint"),
            (&["start client:0 to read", "go client:0 to acquired"], "past that phase"),
            (&["await client:0 end"], "has not been started"),
            (&["heal pause client:0"], "step 1 of the nemesis, `heal pause client:0`: no earlier step"),
            (&["pause client:0", "heal pause client:0", "heal pause client:0"], "step 3"),
            (&["pause node:7"], "the lock has 5 nodes"),
            (
                &["await primary changes within 1ttl"],
                "step 1 of the nemesis, `await primary changes within 1ttl`: the lock's nodes",
            ),
            (&["partition primary from nodes"], "target `primary`"),
        ] {
            refuses(Plan::draw(&scripted(steps)), expected);
        }
    }

    #[test]
    fn a_client_stands_at_a_breakpoint_for_a_ttl_only_where_steps_say_so() {
        let kept = |steps: &[&str]| {
            let plan = Plan::draw(&scripted(&[&["start client:0 to read"], steps, &["go client:0"]].concat())).unwrap();
            plan.script.iter().any(|step| matches!(step.action, Action::Go { kept: true, .. }))
        };
        assert!(kept(&["wait 0.6ttl", "wait 0.4ttl"]));
        let fault = "hold reply to write client:0 from nodes";
        assert!(kept(&[fault, &format!("await {fault} within 1ttl")]));
        assert!(!kept(&["wait 0.9ttl"]));
        assert!(!kept(&["start client:1", "await client:1 end"]), "that is not to take so long");
        assert!(!kept(&["go client:0 to before-write"]));
        assert!(!kept(&["wait 0.6ttl", "go client:0 to before-write", "wait 0.6ttl"]), "at one of them");
    }

    #[test]
    fn readers_are_in_scripts_of_locks_that_are_taken_for_reading_and_of_no_others() {
        let steps = ["start client:0 as reader to read", "go client:0"];
        refuses(
            Plan::draw(&scripted(&steps)),
            "needs a lock with a read mode, but the `[operations]` of workload redlock do not list `shared`",
        );
        let plan = Plan::draw(&of("perfect-shared", scripted(&steps))).unwrap();
        assert!(matches!(plan.script[0].action, Action::Start { reads: true, .. }));
    }

    #[test]
    fn a_step_that_a_refused_lock_may_end_is_planned_so() {
        let plan = Plan::draw(&scripted(&["start client:0 to read or end within 0.2ttl", "go client:0"])).unwrap();
        assert!(matches!(plan.script[0].action, Action::Start { within_ms: 200, or_end: true, stops: true, .. }));
        let plan = Plan::draw(&scripted(&["start client:0 to read", "go client:0"])).unwrap();
        assert!(matches!(plan.script[0].action, Action::Start { within_ms: 11_000, or_end: false, .. }));
    }

    #[test]
    fn a_scenario_is_refused_for_a_lock_that_it_is_not_about() {
        let on = |nemesis, workload: &str, nodes: u32| {
            Plan::draw(&Scenario { nodes, clients: 6, keys: 1, ..of(workload, scenario(nemesis, 7)) })
        };
        on("one-node-down", "redlock", 3).unwrap();
        on("one-node-down", "etcd", 3).unwrap();
        on("hung-holder", "single", 1).unwrap();
        for (nemesis, workload, nodes, expected) in [
            ("hung-holder", "perfect", 0, "needs a lock that other clients take over from a holder that hangs"),
            (
                "one-node-down",
                "single",
                1,
                "needs a lock on at least 3 independent nodes, but workload single has 1 node",
            ),
            ("one-node-down", "redlock", 2, "has 2 nodes"),
            ("one-node-down", "replicated", 3, "has a primary and its replicas"),
        ] {
            refuses(on(nemesis, workload, nodes), expected);
        }
    }

    #[test]
    fn a_script_is_about_one_key() {
        let keys = |scenario: &Scenario| {
            let operations = (0..3).flat_map(|client| Operations::of(scenario, client).unwrap().take(50));
            operations.map(|operation| operation.key).collect::<HashSet<_>>().len()
        };
        assert_eq!(keys(&scripted(&["start client:0"])), 1);
        assert_eq!(keys(&scenario("pause", 7)), 2);
    }

    #[test]
    fn primaries_are_for_nodes_that_have_one() {
        let on = |workload: &str, steps: &[&str]| Plan::draw(&Scenario { keys: 1, ..of(workload, scripted(steps)) });
        let steps = ["partition primary from replica", "await primary changes within 2ttl"];
        for workload in ["replicated", "cluster"] {
            let plan = on(workload, &steps).unwrap();
            assert_eq!(plan.script[1].action, Action::AwaitPrimary { within_ms: 2000 });
        }
        on("replicated", &["partition primary from sentinels"]).unwrap();
        refuses(on("cluster", &["partition primary from sentinels"]), "target `sentinels`");
    }

    #[test]
    fn keys_are_lost_where_they_are_not_copies() {
        let hit = |workload: &str, fault: &str| {
            let plan = Plan::draw(&Scenario { keys: 1, ..of(workload, scripted(&[fault])) }).unwrap();
            let Action::Inject { what, .. } = plan.script.into_iter().next().unwrap().action else { panic!("{fault}") };
            what.to_string()
        };
        // A replica refuses these commands.
        for fault in ["evict", "flush"] {
            for who in ["node", "minority", "majority", "nodes"] {
                assert_eq!(hit("cluster", &format!("{fault} {who}")), format!("{fault} primary"));
                assert_eq!(hit("replicated", &format!("{fault} {who}")), format!("{fault} primary"));
                assert!(!hit("redlock", &format!("{fault} {who}")).contains("primary"), "{fault} {who}");
            }
            assert_eq!(hit("cluster", &format!("{fault} node:1")), format!("{fault} node:1"), "as it was asked for");
        }
        assert!(!hit("cluster", "kill minority").contains("primary"), "it kills copies as well");
    }

    #[test]
    fn a_strike_is_awaited_of_a_fault_in_effect_and_on_redis() {
        let fault = "hold reply to 2nd SET client:0 from majority";
        let plan = Plan::draw(&scripted(&["wait 1ms", fault, &format!("await {fault} within 2ttl")])).unwrap();
        assert_eq!(plan.script[2].action, Action::AwaitStrike { fault: 0, within_ms: 2000, or_go_on: false });
        let Action::Inject { what, .. } = &plan.script[1].action else { panic!("{plan:?}") };
        let (TargetSpec::Links(sides), Argument::Command(command)) = (&what.whom, &what.with) else { panic!("{what}") };
        assert_eq!((command.nth, sides[0].other.0.len()), (Some(2), 3), "a majority is drawn: {what}");

        for steps in [&[&format!("await {fault}")[..]][..], &[fault, "heal all", &format!("await {fault}")]] {
            refuses(Plan::draw(&scripted(steps)), "no earlier step injects that fault");
        }
        refuses(Plan::draw(&scripted(&["hold reply to SET client:9 from nodes"])), "there is no client:9");
        let on = |workload: &str, fault: &str| Plan::draw(&of(workload, scripted(&[fault])));
        for (workload, to, what) in [("etcd", "nodes", "node"), ("postgres", "resource", "resource")] {
            refuses(
                on(workload, &format!("hold request write clients to {to}")),
                &format!("the {what} of lock {workload} does not speak Redis's protocol"),
            );
        }
        on("etcd", "hold request write clients to resource").unwrap();
    }

    #[test]
    fn of_several_keys_the_plan_says_which_is_meant_and_a_script_means_none() {
        let on = |workload: &str, keys: u32, fault: &str| {
            let mut scenario = of(workload, scenario("pause", 7));
            scenario.nemesis.faults[0].fault = OneOf(vec![fault.parse().unwrap()]);
            Scenario { keys, time_limit: Duration::from_secs(60), ..scenario }
        };
        for (workload, fault) in
            [("single", "pause voter"), ("cluster", "pause primary"), ("cluster", "partition primary from replica")]
        {
            let plan = Plan::draw(&on(workload, 3, fault)).unwrap();
            let keys: HashSet<&str> = plan.faults.iter().filter_map(|fault| fault.key.as_deref()).collect();
            assert_eq!(keys, ["k0", "k1", "k2"].into(), "{fault}: each is meant at some time");
            let one = Plan::draw(&on(workload, 1, fault)).unwrap();
            assert!(one.faults.iter().all(|fault| fault.key.is_none()), "{fault}");
            let mut script = on(workload, 3, fault);
            script.nemesis.script = vec![fault.parse().unwrap()];
            refuses(Plan::draw(&script), "ambiguous with 3 keys");
            script.keys = 1;
            Plan::draw(&script).unwrap();
        }
        // One fault uses the holder's key; the others have one primary for all keys.
        for (workload, fault) in
            [("cluster", "partition holder from primary"), ("replicated", "pause primary"), ("cluster", "pause node")]
        {
            let mut scenario = on(workload, 3, fault);
            let plan = Plan::draw(&scenario).unwrap();
            assert!(!plan.faults.is_empty() && plan.faults.iter().all(|fault| fault.key.is_none()), "{fault}");
            scenario.nemesis.script = vec![fault.parse().unwrap()];
            Plan::draw(&scenario).unwrap();
        }
        let mut awaited = on("cluster", 3, "pause node");
        awaited.nemesis.script = vec!["await primary changes within 1ttl".parse().unwrap()];
        refuses(Plan::draw(&awaited), "step 1");
    }

    #[test]
    fn where_there_are_no_nodes_none_is_hit() {
        let on = |step: &str| Plan::draw(&of("perfect", scripted(&[step])));
        for step in ["pause client", "kill holder", "partition clients from resource", "clock client +1ttl"] {
            on(step).unwrap();
        }
        for who in ["node", "node:0", "nodes", "minority", "majority", "voter", "primary"] {
            refuses(on(&format!("pause {who}")), &format!("target `{who}` needs nodes, but workload perfect has none"));
        }
        for step in ["partition one", "partition halves", "partition majorities-ring", "partition bridge requests"] {
            refuses(on(step), "a shape needs nodes, but workload perfect has none");
        }
        refuses(on("partition clients from sentinels"), "has no Sentinels");
    }

    #[test]
    fn a_fault_between_members_that_never_talk_is_refused() {
        let on = |workload: &str, fault: &str| Plan::draw(&of(workload, scripted(&[fault])));
        for workload in ["redlock", "etcd", "replicated"] {
            on(workload, "partition client:0 from node:1").unwrap();
            refuses(
                on(workload, "partition client:0 from client:1"),
                "clients never talk to each other, so this fault does nothing",
            );
        }
        for fault in ["partition node:0 from node:1", "delay 50ms node:0 to node:1", "partition nodes from resource"] {
            refuses(on("redlock", fault), "the nodes of workload redlock never talk to each other");
        }
        on("replicated", "partition node:0 from node:1").unwrap();
        on("etcd", "partition node:0 from node:1").unwrap();
    }

    #[test]
    fn partitions_by_name_cut_whom_they_say() {
        for seed in 0..50 {
            for (shape, cut_off) in [("one", 3), ("minority", 6), ("majority", 9), ("majorities-ring", 6)] {
                let mut scenario = scripted(&[&format!("partition {shape}")]);
                scenario.seed = seed;
                let pairs = pairs_cut(&scenario);
                assert_eq!(pairs.len(), cut_off, "{shape}: {pairs:?}");
            }
            for shape in ["halves", "bridge"] {
                let mut scenario = scripted(&[&format!("partition {shape}")]);
                scenario.seed = seed;
                let pairs = pairs_cut(&scenario);
                let nodes: HashSet<u32> = pairs.iter().map(|(_, node)| *node).collect();
                assert_eq!(nodes.len(), if shape == "halves" { 5 } else { 4 }, "{shape}: {pairs:?}");
                let all = pairs.iter().filter(|(client, _)| *client == pairs[0].0).count();
                assert!((2..=3).contains(&all), "each client keeps about half of the nodes: {pairs:?}");
            }
        }
    }

    /// Every pair of client and node that a script's first step cuts off from each other.
    fn pairs_cut(scenario: &Scenario) -> Vec<(u32, u32)> {
        let plan = Plan::draw(scenario).unwrap();
        let Action::Inject { what: Fault { whom: TargetSpec::Links(parts), .. }, .. } = &plan.script[0].action else {
            panic!()
        };
        let mut pairs = Vec::new();
        for part in parts {
            for one in &part.one.0 {
                for node in &part.other.0 {
                    let Target::Node(node) = node else { panic!("{part:?}") };
                    match one {
                        Target::Client(client) => pairs.push((*client, *node)),
                        Target::Clients => pairs.extend((0..scenario.clients).map(|client| (client, *node))),
                        other => panic!("{other}"),
                    }
                }
            }
        }
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn a_nemesis_that_cannot_be_planned_is_refused() {
        let refused = |change: fn(&mut Scenario), expected: &str| {
            let mut scenario = scenario("pause", 7);
            change(&mut scenario);
            refuses(Plan::draw(&scenario), expected);
        };
        refused(|s| s.time_limit = Duration::from_secs(4), "--time-limit 4s is too short for nemesis `pause`");
        refused(|s| s.nemesis.faults[0].lasts = "4ttl".parse().unwrap(), "always be in effect");
        refused(|s| s.nemesis.faults[0].lasts = "0s".parse().unwrap(), "allows a fault without a length");
        fn pause(who: &str) -> OneOf {
            OneOf(vec![format!("pause {who}").parse().unwrap()])
        }
        refused(|s| s.nemesis.faults[0].fault = pause("primary"), "the nodes of workload redlock are independent");
        refused(
            |s| {
                s.workload = catalogue::workload("etcd").unwrap().1;
                s.nemesis.faults[0].fault = pause("voter");
            },
            "lock etcd is stored in a database",
        );
        refused(
            |s| s.nemesis.faults[0].fault = pause("client:3"),
            "there is no client:3; with --clients 3, the last client is client:2",
        );
        refused(|s| s.nemesis.faults[0].fault = pause("node:5"), "the lock has 5 nodes");
        refused(
            |s| {
                s.nodes = 2;
                s.nemesis.faults[0].fault = pause("minority");
            },
            "fault `pause minority` of the nemesis: a minority needs at least 3 nodes, but workload redlock has 2. Use --nodes 3 if the \
             lock supports it, or `--nemesis \"partition clients from nodes\"` to cut off all nodes",
        );
        refused(
            |s| {
                s.nodes = 1;
                s.nemesis.faults[0].fault = OneOf(vec!["partition bridge".parse().unwrap()]);
            },
            "fault `partition bridge` of the nemesis: 3 clients and 1 node are too few for two halves and a bridge. Use --nodes 3 if \
             the lock supports it, or `--nemesis \"partition clients from nodes\"`",
        );
    }
}

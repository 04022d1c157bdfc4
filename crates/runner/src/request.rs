//! The cluster that a scenario's run needs, and the header of its history.

use std::time::SystemTime;

use super::{RunnerError, servers};
use model::history::{FORMAT, Header};
use model::plan::{Action, Plan};
use model::scenario::Scenario;
use model::topology::{ClusterKind, InstalledClient, redis_config};
use system::cluster::{ClientCommand, ClientSource, ClusterSpec, NodeSource, Owner, PlatformRequest, START_OF_TIME};

/// Determines if a cluster stays up after the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepCluster {
    No,
    /// The user wants to inspect it.
    ForUser,
    /// Only if it can be reset, and if the run ended normally.
    ForNextRun,
}

/// The cluster that a run needs. Runs with equal requests can share it if it can be [reset](ClusterSpec::can_be_reset).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClusterRequest {
    pub platform: PlatformRequest,
    /// Without the run's id.
    pub spec: ClusterSpec,
}

impl ClusterRequest {
    /// The request for a scenario. `installed` is the client of its workload, if it has one.
    pub fn of(
        scenario: &Scenario,
        installed: Option<InstalledClient>,
        keep: KeepCluster,
    ) -> Result<ClusterRequest, RunnerError> {
        let kind = match (scenario.cluster_kind(), keep) {
            (kind, KeepCluster::ForUser) => {
                if let Some((kind, why)) = kind.named().and_then(|kind| Some((kind, kind.not_kept?))) {
                    let text = format!("--keep cannot be used with --cluster {}: {why}", kind.name);
                    return Err(RunnerError::request(text));
                }
                ClusterKind::DOCKER
            }
            (kind, _) => kind,
        };
        let seed = if kind.may_be_simulated() { scenario.seed } else { 0 };
        let cluster = &scenario.cluster;
        let node = match (&cluster.existing, &cluster.image, &cluster.redis_server, &cluster.server) {
            (Some(servers), ..) => NodeSource::Existing(servers.clone()),
            (_, Some(image), ..) => NodeSource::Named(image.clone()),
            (_, _, Some(program), _) => NodeSource::Program(program.clone()),
            (.., Some(server)) if !kind.is_simulated() => NodeSource::Program(servers::program_of(server)?),
            _ => NodeSource::Default,
        };
        let mut spec = cluster_spec(scenario, installed)?;
        if !kind.is_simulated() {
            for (server, program) in &mut spec.upgrades {
                if cluster.existing.is_some() {
                    let text =
                        format!("a server that already runs cannot be upgraded to {server}; leave out its address");
                    return Err(RunnerError::request(text));
                }
                *program = Some(servers::program_of(server)?);
            }
        }
        let source = match &spec.client {
            ClientCommand::BuiltIn => ClientSource::Runtime,
            ClientCommand::Own(own) => own.image.clone().map_or(ClientSource::Runtime, ClientSource::Named),
            ClientCommand::Installed(client) => match &client.image {
                Some(image) => ClientSource::Named(image.clone()),
                None => ClientSource::Installed(client.clone()),
            },
        };
        let platform = PlatformRequest { kind, node, program: spec.program, client: source, seed };
        Ok(ClusterRequest { platform, spec })
    }
}

/// The cluster of a scenario, without the run's id and wherever it is. `installed` is the client of the scenario's workload, if it
/// has one.
pub(super) fn cluster_spec(
    scenario: &Scenario,
    installed: Option<InstalledClient>,
) -> Result<ClusterSpec, RunnerError> {
    let client = match (&scenario.client, installed) {
        (Some(own), _) => ClientCommand::Own(own.clone()),
        (None, Some(client)) => ClientCommand::Installed(client),
        (None, None) => ClientCommand::BuiltIn,
    };
    let lock = &scenario.workload.lock;
    let needs_ifeq = lock.needs_ifeq() && client == ClientCommand::BuiltIn;
    Ok(ClusterSpec {
        run_id: String::new(),
        nodes: scenario.nodes,
        program: lock.program(),
        server: scenario.cluster.server.clone(),
        upgrades: scenario.nemesis.upgrades().into_iter().map(|server| (server, None)).collect(),
        needs_ifeq: needs_ifeq.then(|| scenario.workload_name.clone()),
        topology: scenario.workload.topology.clone(),
        clients: scenario.clients,
        threads: scenario.threads,
        client,
        subnet: scenario.cluster.subnet,
        owner: Owner::current(),
        persistence: scenario.persistence,
        config: config_lines(scenario)?,
        preload: scenario.nemesis.needs_preload(),
        network_faults: scenario.nemesis.touches_the_network(),
    })
}

fn config_lines(scenario: &Scenario) -> Result<Vec<Vec<String>>, RunnerError> {
    let lines = scenario.workload.redis_config.iter().map(|line| redis_config::parse(line));
    lines.collect::<Result<_, _>>().map_err(RunnerError::request)
}

/// The header of a run's history. `simulated` is true if its time is virtual.
pub(super) fn header(scenario: &Scenario, plan: &Plan, simulated: bool) -> Header {
    let script_steps = u32::try_from(plan.script.len()).unwrap_or(u32::MAX);
    Header {
        format: FORMAT,
        redjepsen: env!("CARGO_PKG_VERSION").to_string(),
        workload: scenario.workload_name.clone(),
        nemesis: scenario.nemesis_name.clone(),
        seed: scenario.seed,
        clients: scenario.clients,
        threads: scenario.threads,
        nodes: scenario.nodes,
        keys: scenario.keys,
        ttl_ms: scenario.ttl.as_millis() as u64,
        expires: scenario.workload.lock.expires(),
        steals: scenario.workload.lock.about().steals,
        acquire_timeout_ms: Some(longest_acquire_timeout(scenario, plan)),
        least_hold_ms: scenario.hold.resolve(scenario.ttl).ok().map(|(shortest, _)| shortest.as_millis() as u64),
        permits: scenario.workload.permits,
        longest_gap_ms: scenario.in_ms(scenario.workload.longest_gap),
        longest_overrun_ms: scenario.in_ms(scenario.workload.longest_overrun),
        waits_by_wall_clock: scenario.workload.waits_by.can_be_set(),
        lost_within_ms: scenario.in_ms(scenario.workload.lost_within),
        time_limit_ms: scenario.time_limit.as_millis() as u64,
        resource: scenario.workload.resource.kind,
        claims: scenario.workload.claims_of_a_run(),
        faults_expected: scenario.nemesis.injects(),
        script_steps,
        progress: scenario.nemesis.progress,
        outlives: scenario.nemesis.outlives,
        simulated,
        // By the clock of the run's members.
        started: humantime::format_rfc3339_seconds(if simulated {
            SystemTime::UNIX_EPOCH + START_OF_TIME
        } else {
            SystemTime::now()
        })
        .to_string(),
    }
}

/// The longest acquire timeout in milliseconds: a script may set other timeouts than the scenario.
fn longest_acquire_timeout(scenario: &Scenario, plan: &Plan) -> u64 {
    let scripted = plan.script.iter().map(|step| match step.action {
        Action::Start { acquire_timeout_ms, .. } => acquire_timeout_ms,
        _ => 0,
    });
    scripted.chain([scenario.acquire_timeout.as_millis() as u64]).max().unwrap_or_default()
}

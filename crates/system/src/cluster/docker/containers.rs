//! How the container of each kind of member is configured.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, EndpointIpamConfig, EndpointSettings, HostConfig, HostConfigLogConfig, Mount, MountType,
    NetworkingConfig, ResourcesUlimits,
};

use super::images::Images;
use super::labels_of;
use super::made::RUNTIME_PROGRAM;
use super::network::RunNetwork;
use super::upload::Upload;
use crate::cluster::back_off::SHORT_BACK_OFF;
use crate::cluster::spec::{ClientCommand, ClusterSpec, Member};
use crate::faults::clock::ENVIRONMENT;
use base::members::{AGENT, Role};
use model::topology::Persistence;
use model::topology::server::Server;

/// A member whose container is about to be created.
#[derive(Clone, Debug)]
pub struct Plan {
    pub member: Member,
    pub upload: Upload,
    pub body: ContainerCreateBody,
}

/// The capabilities with which images' entrypoints change the owner of their folders to the server's user, and become this user.
const SERVER_CAPABILITIES: [&str; 6] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETPCAP", "SETUID"];
/// A client's mounted files may have any owner.
const CLIENT_CAPABILITIES: [&str; 1] = ["DAC_OVERRIDE"];

/// Limits for a client's container: a client that runs wild must fail only its run, not harm the machine. As in local clusters.
const MOST_TASKS: i64 = 500;
const MOST_MEMORY: i64 = 2 << 30;
/// Limits for each process of a client: open files, and the size of a file. An engine cannot limit the total size of all files on
/// every file system.
const MOST_OF_A_PROCESS: [(&str, i64); 2] = [("nofile", 4096), ("fsize", 256 << 20)];

/// Plans all members of a cluster, the agent first. Addresses are assigned in the order nodes, Sentinels, the resource, clients.
pub fn plan(spec: &ClusterSpec, images: &Images, network: &RunNetwork, short_rto: bool) -> Vec<Plan> {
    let mut plans: Vec<Plan> = (spec.members(network.subnet).into_iter())
        .map(|member| {
            let upload = Upload {
                own: member.role == Role::Client,
                data: member.server.as_ref().is_some_and(|server| server.data),
                files: member.server.iter().flat_map(|server| server.files.clone()).collect(),
                preload: spec.preloads(member.role),
            };
            let mut body = member.server.as_ref().map_or_else(|| client(spec, images), |of| server(images, of));
            if upload.preload {
                let preloaded = ENVIRONMENT.map(|(name, value)| format!("{name}={value}"));
                body.env.get_or_insert_default().extend(preloaded);
            }
            let host = body.host_config.get_or_insert_default();
            host.network_mode = Some(network.id.clone());
            host.security_opt = Some(vec!["no-new-privileges".to_string()]);
            host.cap_drop = Some(vec!["ALL".to_string()]);
            let capabilities = if member.role.is_server() { &SERVER_CAPABILITIES[..] } else { &CLIENT_CAPABILITIES };
            host.cap_add = Some(capabilities.iter().map(|capability| (*capability).to_string()).collect());
            if short_rto {
                // The engine applies sysctls only when it creates a container.
                host.sysctls = Some(SHORT_BACK_OFF.map(|(name, value)| (name.to_string(), value.to_string())).into());
            }
            body.networking_config = Some(on_network(network, &member));
            body.hostname = Some(member.name.clone());
            body.labels = Some(labels_of(spec, member.role.word()));
            Plan { member, upload, body }
        })
        .collect();
    let mut body = agent(spec, images);
    body.labels = Some(labels_of(spec, Role::Agent.word()));
    // The agent is first, since all other members wait until it has adopted them.
    plans.insert(0, Plan { member: Member::agent(), upload: Upload::default(), body });
    plans
}

/// A server, from any image that runs its program. The image's entrypoint is kept.
fn server(images: &Images, server: &Server) -> ContainerCreateBody {
    let image = images.of(server.program);
    ContainerCreateBody {
        image: Some(image.image.id.clone()),
        cmd: Some(image.command.iter().chain(&server.arguments).cloned().collect()),
        user: server.program.user().map(str::to_string),
        env: Some(server.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        // With this driver, the server's log can be collected, whatever the engine's default is.
        host_config: Some(HostConfig { log_config: Some(log("json-file")), ..Default::default() }),
        ..Default::default()
    }
}

fn client(spec: &ClusterSpec, images: &Images) -> ContainerCreateBody {
    let own_image = || images.client.as_ref().unwrap_or(&images.runtime).id.clone();
    let mounted = |source: &str, target: &str| Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string()),
        target: Some(target.to_string()),
        read_only: Some(true),
        ..Default::default()
    };
    let (image, argv, mounts): (_, _, Vec<Mount>) = match &spec.client {
        ClientCommand::BuiltIn => {
            let argv = vec![RUNTIME_PROGRAM.to_string(), "client".to_string()];
            (images.runtime.id.clone(), argv, Vec::new())
        }
        ClientCommand::Own(own) => {
            let mounts = own.mounts.iter().map(|mount| mounted(&mount.source, &mount.target));
            (own_image(), own.command.clone(), mounts.collect())
        }
        ClientCommand::Installed(client) => {
            // An image made from this machine's files already contains the folders.
            let folders =
                client.folders.iter().filter(|_| client.image.is_some()).map(|folder| folder.to_string_lossy());
            (own_image(), client.command.clone(), folders.map(|folder| mounted(&folder, &folder)).collect())
        }
    };
    let mut body = with_stdio(image, argv);
    let host = body.host_config.get_or_insert_default();
    host.mounts = Some(mounts);
    host.pids_limit = Some(MOST_TASKS);
    host.memory = Some(MOST_MEMORY);
    let limit = |(name, most): (&str, i64)| ResourcesUlimits {
        name: Some(name.to_string()),
        soft: Some(most),
        hard: Some(most),
    };
    host.ulimits = Some(MOST_OF_A_PROCESS.map(limit).into());
    if let ClientCommand::Installed(client) = &spec.client {
        body.env = Some(client.environment.iter().map(|(name, value)| format!("{name}={value}")).collect());
    }
    body
}

/// The agent sees the engine's processes and network, and gets only the capabilities that the run's faults need.
fn agent(spec: &ClusterSpec, images: &Images) -> ContainerCreateBody {
    let mut body = with_stdio(images.runtime.id.clone(), vec![RUNTIME_PROGRAM.to_string(), AGENT.to_string()]);
    let host = body.host_config.get_or_insert_default();
    host.pid_mode = Some("host".to_string());
    host.network_mode = Some("host".to_string());
    // An engine that remaps users refuses the host's namespaces to remapped containers.
    host.userns_mode = Some("host".to_string());
    host.cap_drop = Some(vec!["ALL".to_string()]);
    let mut capabilities = vec!["KILL", "SYS_PTRACE", "NET_ADMIN"];
    if spec.network_faults {
        // The agent captures delayed frames and sends them again.
        capabilities.push("NET_RAW");
    }
    if spec.persistence != Persistence::None {
        // A power loss truncates files, even those of a server that runs as its own user.
        capabilities.push("DAC_OVERRIDE");
    }
    host.cap_add = Some(capabilities.into_iter().map(str::to_string).collect());
    body
}

/// A process whose stdio redjepsen uses. The controller reads all its output, so the engine keeps no log.
fn with_stdio(image: String, argv: Vec<String>) -> ContainerCreateBody {
    let mut argv = argv.into_iter();
    ContainerCreateBody {
        image: Some(image),
        entrypoint: Some(argv.by_ref().take(1).collect()),
        cmd: Some(argv.collect()),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        stdin_once: Some(true),
        tty: Some(false),
        host_config: Some(HostConfig { log_config: Some(log("none")), ..Default::default() }),
        ..Default::default()
    }
}

fn log(driver: &str) -> HostConfigLogConfig {
    HostConfigLogConfig { typ: Some(driver.to_string()), config: None }
}

fn on_network(network: &RunNetwork, member: &Member) -> NetworkingConfig {
    let endpoint = EndpointSettings {
        ipam_config: (member.address)
            .map(|address| EndpointIpamConfig { ipv4_address: Some(address.to_string()), ..Default::default() }),
        aliases: Some(vec![member.name.clone()]),
        ..Default::default()
    };
    NetworkingConfig { endpoints_config: Some(HashMap::from([(network.id.clone(), endpoint)])) }
}

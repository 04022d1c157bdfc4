//! Asks the servers in two rounds: first the addresses that the user named, then the addresses that these servers announce.

mod info;
mod sentinel;
mod server;
mod slots;
mod trial;

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::connection::Dialer;
use crate::observations::{Observations, Seen, Server};
use crate::request::Request;
use remote::{Address, RequestError};
use server::Task;

/// The share of the time for the first round.
const FIRST_ROUND: f64 = 0.6;

/// At most this many announced addresses are asked.
const MOST_ANNOUNCED: usize = 32;

/// Observes all servers. The error is about the request; a server that cannot be reached is an observation.
pub async fn observe(request: &Request) -> Result<Observations, RequestError> {
    let began = Instant::now();
    let tls = request.access.connector(&request.addresses)?;
    let own = format!("{}{}:", request.prefix, random()?);
    let probe = format!("{own}none");
    let limit = |part: f64| -> Instant { began + Duration::from_secs_f64(request.limit.as_secs_f64() * part) };
    let dialer = Dialer { request, tls: tls.as_ref(), probe: &probe, until: limit(FIRST_ROUND) };

    let named = request.addresses.iter().map(|address| Task { address: address.clone(), announced_by: None });
    let named: Vec<Task> = named.collect();
    let mut servers = join_all(named.iter().map(|task| server::look_at(dialer, task, &own))).await;

    let mut announced = announced(&named, &servers);
    let not_asked = announced.len().saturating_sub(MOST_ANNOUNCED) as u64;
    announced.truncate(MOST_ANNOUNCED);
    let dialer = Dialer { until: limit(0.97), ..dialer };
    let found = join_all(announced.iter().map(|task| server::look_at(dialer, task, &own))).await;
    for server in found {
        // It is the same server as at an address that the user named.
        let known = server.run_id.is_some() && servers.iter().any(|other| other.run_id == server.run_id);
        if !known {
            servers.push(server);
        }
    }
    let left_keys = servers.iter_mut().map(|server| std::mem::take(&mut server.left_keys)).sum();
    Ok(Observations { servers, took_ms: began.elapsed().as_millis() as u64, left_keys, not_asked })
}

/// Sixteen random hexadecimal digits, unique to this run of doctor.
fn random() -> Result<String, RequestError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| RequestError::new(format!("cannot get random numbers from the system: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The announced addresses that were not asked yet, each with the first server that announces it.
fn announced(asked: &[Task], servers: &[Server]) -> Vec<Task> {
    let mut known: BTreeSet<String> = servers.iter().map(|server| server.address.clone()).collect();
    let mut found = Vec::new();
    for (task, server) in asked.iter().zip(servers) {
        for text in announced_by(server) {
            let Some((host, port)) = host_and_port(&text) else { continue };
            // A Sentinel's own database has no number, and a cluster has only number 0.
            let address = Address { user: task.address.user.clone(), ..task.address.beside(&host, port) };
            if known.insert(address.to_string()) {
                found.push(Task { address, announced_by: Some(server.address.clone()) });
            }
        }
    }
    found
}

fn announced_by(server: &Server) -> Vec<String> {
    let mut found = Vec::new();
    if let Seen::Known(groups) = &server.groups {
        for group in groups {
            found.push(group.primary.clone());
            found.extend(group.replicas.iter().cloned());
        }
    }
    if let Seen::Known(view) = &server.cluster {
        found.extend(view.shards.iter().flat_map(|shard| shard.addresses.iter().cloned()));
    } else {
        found.extend(server.primary.clone());
        let replicas = server.replicas.known().into_iter().flatten();
        found.extend(replicas.map(|replica| replica.address.clone()));
    }
    found
}

fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some((host.to_string(), port.parse().ok().filter(|port| *port > 0)?))
}

/// An address as text, with brackets around an IPv6 host.
fn joined(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

//! A ZooKeeper ensemble as a client sees it: one session. Every request has a time limit, and none is retried.
//!
//! The session moves to another server if its server does not answer. If a request gets no answer, its session is closed and
//! never used again, and the servers remove the nodes it made.
//!
//! Written by hand, although the crate zookeeper-client (0.11.2, MIT, maintained) would do. For six of ZooKeeper's requests, that
//! crate adds 41 crates to 253, among them a second async runtime with its own reactor and threads. The tests pause and starve
//! clients, so a client's pings must depend only on its own runtime.

mod session;
mod wire;

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

use self::session::Session;
use self::wire::{Trouble, ZooKeeperRequest, created, names};
use model::locks::NoAnswer;
use model::locks::zookeeper::{Contest, OwnNode};

/// The prefix of node names, before their number.
const PREFIX: &str = "n-";

pub struct ZookeeperServers {
    /// `ADDRESS:PORT` of all servers.
    servers: Vec<String>,
    /// Index of the server that a new session tries first. It changes each time, since that server may be at fault.
    first: AtomicUsize,
    /// Time limit of one request.
    limit: Duration,
    /// How long the servers keep a silent session.
    ttl: Duration,
    session: Mutex<Option<Session>>,
}

impl ZookeeperServers {
    /// Creates a client of the servers at these `zookeeper://` URLs. It connects at the first request, and tries index `first`
    /// first.
    pub fn new(urls: &[String], first: usize, limit: Duration, ttl: Duration) -> Result<ZookeeperServers, String> {
        let address = |url: &String| {
            let address = url.strip_prefix("zookeeper://").map(str::to_string);
            address.ok_or_else(|| format!("{url}: expected zookeeper://ADDRESS:PORT"))
        };
        let servers: Vec<String> = urls.iter().map(address).collect::<Result<_, _>>()?;
        if servers.is_empty() {
            return Err("lock zookeeper needs nodes".into());
        }
        Ok(ZookeeperServers { servers, first: AtomicUsize::new(first), limit, ttl, session: Mutex::default() })
    }

    /// Sends one request on the session. Keeps the session only if an answer came.
    async fn ask<T, F>(&self, request: impl FnOnce(Session) -> F) -> Result<T, NoAnswer>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let mut slot = self.session.lock().await;
        let session = match slot.take() {
            Some(session) => session,
            None => {
                let first = self.first.fetch_add(1, Ordering::Relaxed);
                self.bounded(Session::open(&self.servers, first, self.ttl)).await?
            }
        };
        let answer = self.bounded(request(session.clone())).await?;
        *slot = Some(session);
        Ok(answer)
    }

    async fn bounded<T>(&self, request: impl Future<Output = Result<T, Trouble>>) -> Result<T, NoAnswer> {
        match timeout(self.limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(NoAnswer(error.to_string())),
            Err(_) => Err(NoAnswer(format!("no answer within {}", humantime::format_duration(self.limit)))),
        }
    }
}

impl Contest for ZookeeperServers {
    async fn contenders(&self, key: &str) -> Result<Vec<i64>, NoAnswer> {
        let request = ZooKeeperRequest::Children(format!("/{key}"));
        let names = self.ask(async move |session| match session.ask(request).await {
            // The parent node does not exist: no client has ever acquired the lock.
            Err(Trouble::NoNode) => Ok(Vec::new()),
            other => names(other?),
        });
        let number = |name: &String| name.strip_prefix(PREFIX)?.parse().ok();
        Ok(names.await?.iter().filter_map(number).collect())
    }

    async fn enter(&self, key: &str) -> Result<OwnNode, NoAnswer> {
        let (parent, path) = (format!("/{key}"), format!("/{key}/{PREFIX}"));
        self.ask(async move |session| {
            let own = ZooKeeperRequest::CreateNumbered(path.clone());
            let made = match session.ask(own.clone()).await {
                // The node was certainly not created, so the request can be sent again.
                Err(Trouble::NoNode) => match session.ask(ZooKeeperRequest::CreateLasting(parent)).await {
                    Ok(_) | Err(Trouble::NodeExists) => session.ask(own).await?,
                    Err(trouble) => return Err(trouble),
                },
                other => other?,
            };
            let (made, zxid) = created(made)?;
            let number = made.strip_prefix(&path).and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| Trouble::Other(format!("a node {made} without a number")))?;
            Ok(OwnNode { number, zxid: u64::try_from(zxid).unwrap_or(0), ttl: session.timeout() })
        })
        .await
    }

    async fn leave(&self, key: &str, number: i64) -> Result<(), NoAnswer> {
        let request = ZooKeeperRequest::Delete(format!("/{key}/{PREFIX}{number:010}"));
        self.ask(async move |session| match session.ask(request).await {
            Ok(_) | Err(Trouble::NoNode) => Ok(()),
            Err(trouble) => Err(trouble),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_their_urls() {
        let servers = |urls: &[&str]| {
            let urls: Vec<String> = urls.iter().map(|url| url.to_string()).collect();
            ZookeeperServers::new(&urls, 0, Duration::from_secs(1), Duration::from_secs(1)).map(|found| found.servers)
        };
        assert_eq!(servers(&["zookeeper://a:2181", "zookeeper://b:2181"]).unwrap(), ["a:2181", "b:2181"]);
        assert!(servers(&["redis://a:6379"]).unwrap_err().contains("expected zookeeper://"));
        assert!(servers(&[]).is_err());
    }
}

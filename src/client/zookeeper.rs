//! A ZooKeeper ensemble as a client sees it: one session, every request bounded in time, nothing retried.
//!
//! The library moves the session to another server where one does not answer. A session on which a request brought no answer
//! is closed and never used again, and the servers remove what it had made.

use std::future::Future;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::locks::NoAnswer;
use crate::locks::zookeeper::{Contest, Entry};

/// What nodes are called, before their number.
const PREFIX: &str = "n-";

pub struct ZookeeperServers {
    /// `ADDRESS:PORT` of all servers, with commas.
    servers: String,
    /// How long one request may take.
    limit: Duration,
    /// How long a session is to live without a word.
    ttl: Duration,
    session: Mutex<Option<Client>>,
}

impl ZookeeperServers {
    /// Servers at these `zookeeper://` URLs; connects at the first request.
    pub fn new(urls: &[String], limit: Duration, ttl: Duration) -> Result<ZookeeperServers, String> {
        let address = |url: &String| {
            let address = url.strip_prefix("zookeeper://").map(str::to_string);
            address.ok_or_else(|| format!("{url}: expected zookeeper://ADDRESS:PORT"))
        };
        let servers: Vec<String> = urls.iter().map(address).collect::<Result<_, _>>()?;
        if servers.is_empty() {
            return Err("lock zookeeper needs nodes".into());
        }
        Ok(ZookeeperServers { servers: servers.join(","), limit, ttl, session: Mutex::default() })
    }

    /// One request on the session, which is kept only when there was an answer.
    async fn ask<T, F>(&self, request: impl FnOnce(Client) -> F) -> Result<T, NoAnswer>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut slot = self.session.lock().await;
        let session = match slot.take() {
            Some(session) => session,
            None => {
                let connector = Client::connector().with_session_timeout(self.ttl);
                self.bounded(connector.connect(&self.servers)).await?
            }
        };
        let answer = self.bounded(request(session.clone())).await?;
        *slot = Some(session);
        Ok(answer)
    }

    async fn bounded<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, NoAnswer> {
        match timeout(self.limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(NoAnswer(error.to_string())),
            Err(_) => Err(NoAnswer(format!("no answer within {}", humantime::format_duration(self.limit)))),
        }
    }
}

impl Contest for ZookeeperServers {
    async fn contenders(&self, key: &str) -> Result<Vec<i64>, NoAnswer> {
        let path = format!("/{key}");
        let names = self.ask(async move |session| match session.list_children(&path).await {
            // Nobody has ever taken it.
            Err(Error::NoNode) => Ok(Vec::new()),
            other => other,
        });
        let number = |name: &String| name.strip_prefix(PREFIX)?.parse().ok();
        Ok(names.await?.iter().filter_map(number).collect())
    }

    async fn enter(&self, key: &str) -> Result<Entry, NoAnswer> {
        let (parent, path) = (format!("/{key}"), format!("/{key}/{PREFIX}"));
        self.ask(async move |session| {
            let lasting = CreateMode::Persistent.with_acls(Acls::anyone_all());
            let own = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let (made, number) = match session.create(&path, b"", &own).await {
                // Certainly not made, so it can be asked for again.
                Err(Error::NoNode) => match session.create(&parent, b"", &lasting).await {
                    Ok(_) | Err(Error::NodeExists) => session.create(&path, b"", &own).await?,
                    Err(error) => return Err(error),
                },
                other => other?,
            };
            let zxid = u64::try_from(made.czxid).unwrap_or(0);
            Ok(Entry { number: number.into_i64(), zxid, ttl: session.session_timeout() })
        })
        .await
    }

    async fn leave(&self, key: &str, number: i64) -> Result<(), NoAnswer> {
        let path = format!("/{key}/{PREFIX}{number:010}");
        self.ask(async move |session| match session.delete(&path, None).await {
            Err(Error::NoNode) => Ok(()),
            other => other,
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
            ZookeeperServers::new(&urls, Duration::from_secs(1), Duration::from_secs(1)).map(|found| found.servers)
        };
        assert_eq!(servers(&["zookeeper://a:2181", "zookeeper://b:2181"]).unwrap(), "a:2181,b:2181");
        assert!(servers(&["redis://a:6379"]).unwrap_err().contains("expected zookeeper://"));
        assert!(servers(&[]).is_err());
    }
}

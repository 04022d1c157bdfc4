//! etcd as a client sees it: its v3 API as JSON over HTTP. Every request has a time limit, and none is retried.
//!
//! A request goes to one server. If this server does not answer, the next request goes to the next server. This is not a retry:
//! the lock decides how to treat a missing answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use model::locks::NoAnswer;
use model::locks::etcd::{Lease, Leases};

pub struct EtcdServers {
    client: Client,
    /// `http://` URLs of all servers.
    urls: Vec<String>,
    /// Index of the server to ask.
    current: AtomicUsize,
}

impl EtcdServers {
    /// Creates a client of the servers at these URLs. It asks the server at index `first` first. `limit` is the time limit of one
    /// request.
    pub fn new(urls: &[String], first: usize, limit: Duration) -> Result<EtcdServers, String> {
        if urls.is_empty() {
            return Err("lock etcd needs nodes".into());
        }
        // One connection; the library closes it when a request fails or is cancelled.
        let client = Client::builder()
            .timeout(limit)
            .connect_timeout(limit)
            .pool_max_idle_per_host(1)
            .retry(reqwest::retry::never())
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        let client = client.build().map_err(|error| error.to_string())?;
        Ok(EtcdServers { client, urls: urls.to_vec(), current: AtomicUsize::new(first % urls.len()) })
    }

    /// Sends one request to the current server. After a failure, the next server becomes the current one.
    async fn ask(&self, path: &str, body: &Value) -> Result<EtcdReply, NoAnswer> {
        let current = self.current.load(Ordering::Relaxed);
        let url = self.urls.get(current).map(String::as_str).unwrap_or_default();
        let answer = self.ask_at(url, path, body).await;
        if answer.is_err() {
            self.current.store((current + 1) % self.urls.len(), Ordering::Relaxed);
        }
        answer
    }

    async fn ask_at(&self, url: &str, path: &str, body: &Value) -> Result<EtcdReply, NoAnswer> {
        let failed = |error: reqwest::Error| NoAnswer(format!("{url}: {}", in_words(&error)));
        let response = self.client.post(format!("{url}{path}")).json(body).send().await.map_err(failed)?;
        let status = response.status();
        let content: Value = response.json().await.map_err(failed)?;
        if status == StatusCode::OK {
            return Ok(EtcdReply::Done(content));
        }
        let text = content.get("message").and_then(Value::as_str).unwrap_or("no reason");
        match status {
            StatusCode::NOT_FOUND => Ok(EtcdReply::NotFound),
            _ => Err(NoAnswer(format!("{url} answers {status}: {text}"))),
        }
    }
}

/// A server's answer.
enum EtcdReply {
    Done(Value),
    /// The lease or key that the request names does not exist.
    NotFound,
}

impl EtcdReply {
    fn done(self) -> Result<Value, NoAnswer> {
        match self {
            EtcdReply::Done(content) => Ok(content),
            EtcdReply::NotFound => Err(NoAnswer("not found".into())),
        }
    }
}

impl Leases for EtcdServers {
    async fn grant(&self, ttl: Duration) -> Result<Lease, NoAnswer> {
        // etcd accepts only whole seconds; round up.
        let seconds = ttl.as_millis().div_ceil(1000) as u64;
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": seconds.to_string() })).await?.done()?;
        let (id, ttl) = (number(&answer, "/ID")?, number(&answer, "/TTL")?);
        Ok(Lease { id, ttl: Duration::from_secs(u64::try_from(ttl).unwrap_or(0)) })
    }

    async fn exists(&self, key: &str) -> Result<bool, NoAnswer> {
        let body = json!({ "key": STANDARD.encode(key), "count_only": true });
        let answer = self.ask("/v3/kv/range", &body).await?.done()?;
        // etcd leaves out numbers that are 0.
        Ok(answer.get("count").is_some())
    }

    async fn create(&self, key: &str, lease: i64) -> Result<Option<u64>, NoAnswer> {
        let key = STANDARD.encode(key);
        let body = json!({
            "compare": [{ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" }],
            "success": [{ "request_put": { "key": key, "value": "", "lease": lease.to_string() } }],
        });
        let answer = self.ask("/v3/kv/txn", &body).await?.done()?;
        if answer.get("succeeded") != Some(&Value::Bool(true)) {
            return Ok(None);
        }
        let revision = number(&answer, "/header/revision")?;
        u64::try_from(revision)
            .map(Some)
            .map_err(|_| NoAnswer(format!("etcd answered with the invalid revision {revision}")))
    }

    async fn revoke(&self, lease: i64) -> Result<(), NoAnswer> {
        let mut last = NoAnswer(String::new());
        // The request names this one lease, so sending it to another server as well does no harm.
        for _ in &self.urls {
            match self.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() })).await {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A 64-bit number, which etcd writes as a string in JSON.
fn number(answer: &Value, pointer: &str) -> Result<i64, NoAnswer> {
    let text = answer.pointer(pointer).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| NoAnswer(format!("no number at {pointer} of {answer}")))
}

/// The innermost error: the outer error says only what was attempted.
fn in_words(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_as_text() {
        let answer = json!({ "header": { "revision": "34" }, "TTL": 1 });
        assert_eq!(number(&answer, "/header/revision").unwrap(), 34);
        for missing in ["/TTL", "/ID", "/header"] {
            assert!(number(&answer, missing).is_err(), "{missing}");
        }
    }

    #[tokio::test]
    async fn after_a_failure_the_next_server_is_asked() {
        // No server listens on these ports.
        let urls = ["http://127.0.0.1:1".to_string(), "http://127.0.0.1:2".to_string()];
        let servers = EtcdServers::new(&urls, 1, Duration::from_millis(500)).unwrap();
        assert!(servers.exists("k").await.unwrap_err().to_string().contains("127.0.0.1:2"));
        assert!(servers.exists("k").await.unwrap_err().to_string().contains("127.0.0.1:1"));
        assert!(EtcdServers::new(&[], 0, Duration::from_millis(500)).is_err());
    }
}

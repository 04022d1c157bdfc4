//! The requests that a lock may make to a Redis node.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;

/// The results of several simultaneous requests, in their order. `join_all` does the same, but polls all of them whenever one is
/// answered.
pub(super) async fn all<R: Future>(requests: impl IntoIterator<Item = R>) -> Vec<R::Output> {
    requests.into_iter().collect::<FuturesOrdered<R>>().collect().await
}

/// One Redis node. Each request is one command or one script, so it happens entirely or not at all, and the implementation limits
/// its time. No request is ever repeated automatically.
pub trait Node: Send + Sync {
    /// `SET key value NX PX ttl`: true if the key was absent and is now set.
    fn set_if_absent(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// `SETNX key value`: the same, without expiry.
    fn set_for_ever_if_absent(&self, key: &str, value: &str)
    -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// As [`Node::set_if_absent`], and if it sets the key, atomically `INCR counter`. Returns the new count; `None` if
    /// the key was there.
    fn set_if_absent_and_count(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
        counter: &str,
    ) -> impl Future<Output = Result<Option<u64>, RequestError>> + Send;

    /// Atomically sets the key to a value that begins with its rank, unless the key holds a value of the same or a higher rank.
    /// Returns whether it did, and the previous value of the key.
    fn set_if_outranks(
        &self,
        key: &str,
        value: &str,
        rank: u32,
        ttl: Duration,
    ) -> impl Future<Output = Result<(bool, Option<String>), RequestError>> + Send;

    /// `PEXPIRE key ttl`: true if the key existed.
    fn expire(&self, key: &str, ttl: Duration) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// Atomically sets the key to expire in `ttl` from now if it holds the value: true if it did.
    fn expire_if_equals(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// `GET key`.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<String>, RequestError>> + Send;

    /// `INCR key`: the new number.
    fn increment(&self, key: &str) -> impl Future<Output = Result<u64, RequestError>> + Send;

    /// Atomically sets the key to the number unless the key holds a greater number.
    fn raise(&self, key: &str, number: u64) -> impl Future<Output = Result<(), RequestError>> + Send;

    /// `DEL key`: true if the key existed.
    fn delete(&self, key: &str) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// Atomically deletes the key if it holds the value: true if it did.
    fn delete_if_equals(&self, key: &str, value: &str) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// `SET key value IFEQ value`, with `PX ttl` if there is a TTL; without one the key never expires. Returns true if the key held the
    /// value.
    fn set_if_equals(
        &self,
        key: &str,
        value: &str,
        ttl: Option<Duration>,
    ) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// Deletes the key by this command if it holds the value: whether it did; `None` if the server lacks the command.
    fn delete_by(
        &self,
        command: CompareAndDelete,
        key: &str,
        value: &str,
    ) -> impl Future<Output = Result<Option<bool>, RequestError>> + Send;

    /// `WAIT replicas`: how many replicas acknowledged all writes of the previous request, within the time limit of a request.
    fn wait_for(&self, replicas: u32) -> impl Future<Output = Result<u32, RequestError>> + Send;
}

/// A command that deletes a key if it holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareAndDelete {
    /// `DELIFEQ key value`, of Valkey.
    Delifeq,
    /// `DELEX key IFEQ value`, of Redis.
    Delex,
}

/// Why a request got no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The node certainly did not execute it: nothing was sent, or the server refused it.
    #[error("refused: {0}")]
    NotDone(String),
    /// The node may have executed it, may still do so, or never will.
    #[error("no answer within {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// The connection broke with the request in flight: as uncertain as a timeout.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// The server's answer leaves its effect open, such as the error of a script that may have written before.
    #[error("answered: {0}")]
    InDoubt(String),
}

/// Why a request to a system other than Redis got no usable answer. The system may still have executed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

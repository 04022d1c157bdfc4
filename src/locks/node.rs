//! What a lock may ask of one Redis node.

use std::future::Future;
use std::time::Duration;

/// One Redis node. Each request is one command or one script, so it happens as a whole or not at all, and is bounded in
/// time by the implementation. None is ever repeated by itself.
pub trait Node: Send + Sync {
    /// `SET key value NX PX ttl`: whether the key was absent and is now set.
    fn set_if_absent(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// `SETNX key value`: the same for ever.
    fn set_for_ever_if_absent(&self, key: &str, value: &str)
    -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// As [`Node::set_if_absent`], and where it sets the key, atomically `INCR counter`: the number that it came to, none
    /// where the key was there.
    fn set_if_absent_and_count(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
        counter: &str,
    ) -> impl Future<Output = Result<Option<u64>, RequestError>> + Send;

    /// Sets the key to a value that begins with its rank, unless the key holds one of the same or a higher rank, atomically:
    /// whether it did, and what the key held before.
    fn set_if_outranks(
        &self,
        key: &str,
        value: &str,
        rank: u32,
        ttl: Duration,
    ) -> impl Future<Output = Result<(bool, Option<String>), RequestError>> + Send;

    /// `PEXPIRE key ttl`: whether the key was there.
    fn expire(&self, key: &str, ttl: Duration) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// Lets the key live for `ttl` from now if it holds the value, atomically: whether it did.
    fn expire_if_equals(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// `GET key`.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<String>, RequestError>> + Send;

    /// `INCR key`: the number that it came to.
    fn increment(&self, key: &str) -> impl Future<Output = Result<u64, RequestError>> + Send;

    /// Sets the key to the number unless it holds a greater one, atomically.
    fn raise(&self, key: &str, number: u64) -> impl Future<Output = Result<(), RequestError>> + Send;

    /// `DEL key`: whether it was there.
    fn delete(&self, key: &str) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// Deletes the key if it holds the value, atomically: whether it did.
    fn delete_if_equals(&self, key: &str, value: &str) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// `WAIT replicas`: how many replicas acknowledged, in as much time as a request may take, all that was written by the
    /// request before this one.
    fn wait_for(&self, replicas: u32) -> impl Future<Output = Result<u32, RequestError>> + Send;
}

/// Why a request brought no answer that could be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It certainly was not carried out: nothing was sent, or the server refused it.
    #[error("refused: {0}")]
    NotDone(String),
    /// It may have been carried out, may yet be, or never will.
    #[error("no answer within {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// The connection broke with the request under way: as uncertain as a timeout.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
}

/// Why a request to another system than Redis brought no answer that could be used. It may have been carried out all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

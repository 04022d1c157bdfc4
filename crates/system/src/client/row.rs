//! A row of a PostgreSQL database that is both the resource and the lock, in one transaction.
//!
//! A client that has selected the row FOR UPDATE holds it until the transaction ends, and its write takes effect with the commit.
//! So no client can write without the lock. If a holder stops for too long, the server ends its transaction and discards its
//! uncommitted changes. The lock's TTL is the time for which the server lets a transaction be idle.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row};

use super::clock::ClientClock;
use super::protocol::{FromClient, Hello, Invoke, PhaseMessage};
use super::{Phases, fail, info};
use model::history::Phase;
use model::locks::{Clock, NotAcquired, RequestError};

pub struct RowLock {
    config: Config,
    /// Time limit of one request, not counting a wait for the row.
    limit: Duration,
    ttl: Duration,
    /// Bounds of the wait between attempts.
    retry_delay: (Duration, Duration),
    clock: ClientClock,
    /// A session without an open transaction.
    session: Mutex<Option<Session>>,
}

/// A connection. Dropping it closes it, and the server then rolls back uncommitted changes.
struct Session {
    client: Client,
    /// The task that reads and writes. The library alone would first wait for the answers to all pending requests.
    _traffic: JoinSet<()>,
}

impl RowLock {
    /// Connects at once, so that wrong settings are noticed early.
    pub async fn connect(hello: &Hello, clock: ClientClock) -> Result<RowLock, String> {
        let (url, ttl) = (&hello.resource.url, hello.lock.ttl_ms);
        let mut config: Config = url.parse().map_err(|error| format!("{url}: {error}"))?;
        config.user("postgres").dbname("postgres");
        config.options(format!("-c idle_in_transaction_session_timeout={ttl}"));
        let lock = RowLock {
            config,
            limit: hello.lock.node_timeout(),
            ttl: hello.lock.ttl(),
            retry_delay: hello.lock.retry_delay()?,
            clock,
            session: Mutex::default(),
        };
        let session = lock.new_session().await.map_err(|error| format!("resource {url}: {error}"))?;
        *lock.session.lock().await = Some(session);
        Ok(lock)
    }

    /// The value of a key, read without its lock; None if the key is empty.
    pub async fn read(&self, key: &str) -> Result<Option<String>, RequestError> {
        let session = self.take_session().await?;
        let value = session.value(key, "", self.limit).await?;
        *self.session.lock().await = Some(session);
        Ok(value)
    }

    /// Performs one read-modify-write; returns the message that answers it.
    pub async fn rmw(&self, invoke: &Invoke, new: &str, phases: &Phases<'_>) -> anyhow::Result<FromClient> {
        phases.report(Phase::Acquiring, |_| {}).await?;
        let within = Duration::from_millis(invoke.acquire_timeout_ms);
        let session = match self.acquire(&invoke.key, within).await {
            Ok(session) => session,
            Err(error) => return Ok(fail(invoke, "not-acquired", error)),
        };
        let validity_ms = u64::try_from(self.ttl.as_millis()).ok();
        phases.report(Phase::Acquired, |phase| phase.validity_ms = validity_ms).await?;
        let old = match session.value(&invoke.key, "", self.limit).await {
            Ok(old) => old,
            // Nothing was written, whatever happened to the read.
            Err(error) => return lost(invoke, error, phases).await,
        };
        phases.report(Phase::Read, |phase| phase.value = Some(old.clone())).await?;
        tokio::time::sleep(Duration::from_millis(invoke.hold_ms)).await;
        phases.report(Phase::BeforeWrite, |_| {}).await?;
        if let Err(error) = session.set(&invoke.key, new, self.limit).await {
            // The write will never be committed, whether or not it reached the server.
            return lost(invoke, error, phases).await;
        }
        // The commit also ends the lock, so the release begins before the write is acknowledged.
        phases.report(Phase::Releasing, |_| {}).await?;
        match session.commit(self.limit).await {
            Ok(()) => {}
            Err(error @ RequestError::Timeout(_)) => return Ok(info(invoke, "timeout", error)),
            Err(error) => return Ok(info(invoke, "connection-lost", error)),
        }
        phases.report(Phase::Written, |_| {}).await?;
        phases.report(Phase::Released, |_| {}).await?;
        *self.session.lock().await = Some(session);
        Ok(FromClient::Ok { id: invoke.id, old: Some(old), new: Some(new.to_string()), count: None, text: None })
    }

    /// A session whose transaction holds the row. Tries for up to `within`.
    async fn acquire(&self, key: &str, within: Duration) -> Result<Session, NotAcquired> {
        let deadline = self.clock.now() + within;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let left = deadline.saturating_sub(self.clock.now());
            match self.attempt(key, left).await {
                Ok(session) => return Ok(session),
                Err(error) => {
                    let pause = self.clock.draw(self.retry_delay);
                    if self.clock.now() + pause >= deadline {
                        return Err(NotAcquired { within, attempts, last: error.to_string() });
                    }
                    self.clock.sleep(pause).await;
                }
            }
        }
    }

    /// Tries once, and waits this long for the row. If the attempt fails, it drops the session and holds nothing.
    async fn attempt(&self, key: &str, wait: Duration) -> Result<Session, RequestError> {
        let session = self.take_session().await?;
        // A row that does not exist can't be locked.
        let insert = "insert into registers (key) values ($1) on conflict do nothing";
        session.ask(insert, &[&key], self.limit).await?;
        let begin = format!("begin; set local lock_timeout = {}", wait.as_millis().max(1));
        session.run(&begin, self.limit).await?;
        session.value(key, "for update", wait + self.limit).await?;
        Ok(session)
    }

    async fn take_session(&self) -> Result<Session, RequestError> {
        let kept = self.session.lock().await.take();
        match kept.filter(|session| !session.client.is_closed()) {
            Some(session) => Ok(session),
            None => self.new_session().await,
        }
    }

    async fn new_session(&self) -> Result<Session, RequestError> {
        match timeout(self.limit, self.config.connect(NoTls)).await {
            Ok(Ok((client, connection))) => {
                // The next request on the session learns how the connection ended.
                let mut traffic = JoinSet::new();
                traffic.spawn(async move { drop(connection.await) });
                Ok(Session { client, _traffic: traffic })
            }
            Ok(Err(error)) => Err(RequestError::NotDone(format!("can't connect: {}", in_words(&error)))),
            Err(_) => {
                Err(RequestError::NotDone(format!("can't connect within {}", humantime::format_duration(self.limit))))
            }
        }
    }
}

/// The answer of a holder whose transaction ended before it sent its commit: certainly nothing was written.
async fn lost(invoke: &Invoke, error: RequestError, phases: &Phases<'_>) -> anyhow::Result<FromClient> {
    let text = format!("the transaction is over: {error}");
    phases.report(Phase::Lost, |phase: &mut PhaseMessage| phase.text = Some(text.clone())).await?;
    Ok(fail(invoke, "lock-lost", text))
}

impl Session {
    /// The value of a key. `clause` says how to lock the row.
    async fn value(&self, key: &str, clause: &str, limit: Duration) -> Result<Option<String>, RequestError> {
        let rows = self.ask(&format!("select value from registers where key = $1 {clause}"), &[&key], limit).await?;
        match rows.first() {
            None => Ok(None),
            Some(row) => row.try_get(0).map_err(|error| RequestError::NotDone(in_words(&error))),
        }
    }

    async fn set(&self, key: &str, value: &str, limit: Duration) -> Result<(), RequestError> {
        self.ask("update registers set value = $2 where key = $1", &[&key, &value], limit).await.map(|_| ())
    }

    async fn commit(&self, limit: Duration) -> Result<(), RequestError> {
        self.run("commit", limit).await
    }

    async fn ask(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, RequestError> {
        answered(timeout(limit, self.client.query(statement, values)).await, limit)
    }

    async fn run(&self, statements: &str, limit: Duration) -> Result<(), RequestError> {
        answered(timeout(limit, self.client.batch_execute(statements)).await, limit)
    }
}

fn answered<T>(
    outcome: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    limit: Duration,
) -> Result<T, RequestError> {
    match outcome {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            Err(RequestError::NotDone("held by another client".to_string()))
        }
        Ok(Err(error)) if error.as_db_error().is_some() => Err(RequestError::NotDone(in_words(&error))),
        Ok(Err(error)) => Err(RequestError::ConnectionLost(in_words(&error))),
        Err(_) => Err(RequestError::Timeout(limit)),
    }
}

/// The server's own message, which the library keeps in the source of its error.
fn in_words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{}: {}", said.severity(), said.message()),
        None => error.to_string(),
    }
}

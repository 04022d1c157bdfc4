//! An endless script occupies the servers' only thread, and SCRIPT KILL ends it.
//!
//! Until the script has run longer than a threshold of Redis, the server reads no commands. The fault sets this threshold, so an
//! earlier heal waits until it has passed. The script writes nothing; otherwise no command could end it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::{Act, ActOutcome, Order, at_servers, configure, undo_at_servers};
use crate::faults::async_host::AsyncHost;
use crate::faults::injection::Parameter;
use crate::faults::probe::{connect, observed};
use crate::faults::wire::Observation;
use base::machine::Machine;
use base::members::sentinel_name;

/// Time limit on one server. A heal also waits until the server reads again.
const LIMIT: Duration = Duration::from_secs(1);
/// How long a server may give no answers. The heal must finish before the controller stops waiting for it.
const LONGEST_SILENCE: Duration = Duration::from_secs(3);
/// A server that does not answer for this long is occupied: a free server answers within a millisecond.
const SILENT: Duration = Duration::from_millis(50);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long a connection waits for the script's end.
const FOR_GOOD: Duration = Duration::from_secs(24 * 60 * 60);

/// No group has more Sentinels than this.
const MOST_SENTINELS: u32 = 9;

/// Lua that neither ends nor writes.
const ENDLESS: &str = "while true do end";
/// In milliseconds. Since Redis 7, this is an alias of `busy-reply-threshold`; before, it was the only name.
const THRESHOLD: &str = "lua-time-limit";
/// Redis's default, in milliseconds.
const DEFAULT_THRESHOLD: u64 = 5000;

pub(super) struct Busy;

#[async_trait]
impl Act for Busy {
    async fn inject(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        let Parameter::Length { ms, jitter_ms: 0 } = order.injection.with else {
            return Err("`busy` takes one length, not a range".to_string());
        };
        let longest = LONGEST_SILENCE.as_millis();
        if !(1..=longest).contains(&u128::from(ms)) {
            return Err(format!(
                "`busy` for {ms} ms before the first BUSY: expected 1 to {longest} ms, since a script can be ended only after \
                 the first BUSY"
            ));
        }
        if (0..MOST_SENTINELS).any(|number| host.now().runs(&sentinel_name(number))) {
            return Err(
                    "Sentinels end such a script themselves once they consider its server down, so `busy` would not last until \
                     its heal; use `pause primary`"
                        .to_string(),
                );
        }
        at_servers(host, order, |machine, name, url| occupy(machine, name, url, ms)).await
    }

    async fn heal(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        // If a server died meanwhile, its script is gone with it.
        undo_at_servers(host, order, release).await
    }
}

/// Starts the script, and observes that the server answers other clients not at all, or with BUSY.
async fn occupy(machine: Arc<dyn Machine>, name: &str, url: String, threshold_ms: u64) -> Observation {
    observed(name, LIMIT, async {
        let mut asker = connect(&machine, &url, LIMIT).await?;
        let mut busy = connect(&machine, &url, FOR_GOOD).await?;
        configure(&mut busy, THRESHOLD, threshold_ms).await?;
        let (ended, mut end) = oneshot::channel();
        // The task keeps the connection until the script has ended.
        tokio::spawn(async move {
            let answer = cmd("EVAL").arg(ENDLESS).arg(0).query_async::<()>(&mut busy).await;
            // Nothing receives this once the fault was observed.
            let _ = ended.send(answer);
        });
        let ordered = Instant::now();
        loop {
            let answer = timeout(SILENT, ping(&mut asker)).await;
            if let Ok(answer) = end.try_recv() {
                return answer.map(|()| (false, "the script has ended".to_string()));
            }
            match answer {
                Err(_) => {
                    return Ok((
                        true,
                        format!("its script runs, and the server has not answered for {} ms", SILENT.as_millis()),
                    ));
                }
                Ok(Err(error)) if is(&error, "BUSY") => {
                    let ms = ordered.elapsed().as_millis();
                    return Ok((true, format!("its script runs, and the server answers BUSY after {ms} ms")));
                }
                Ok(Err(error)) => return Err(error),
                // The server has not read the script yet.
                Ok(Ok(())) => sleep(LOOK_AGAIN).await,
            }
        }
    })
    .await
}

/// Ends the script once the server reads commands again, and observes that it answers.
async fn release(machine: Arc<dyn Machine>, name: &str, url: String) -> Observation {
    observed(name, LONGEST_SILENCE + LIMIT, async {
        let ordered = Instant::now();
        let mut server = connect(&machine, &url, LONGEST_SILENCE + LIMIT).await?;
        let ended = match cmd("SCRIPT").arg("KILL").query_async::<()>(&mut server).await {
            Ok(()) => "redjepsen ended its script",
            Err(error) if is(&error, "NOTBUSY") => "its script no longer runs",
            Err(error) => return Err(error),
        };
        loop {
            match ping(&mut server).await {
                Ok(()) => break,
                Err(error) if is(&error, "BUSY") => sleep(LOOK_AGAIN).await,
                Err(error) => return Err(error),
            }
        }
        let ms = ordered.elapsed().as_millis();
        configure(&mut server, THRESHOLD, DEFAULT_THRESHOLD).await?;
        Ok((true, format!("{ended}, and the server answers, {ms} ms after the order")))
    })
    .await
}

async fn ping(server: &mut MultiplexedConnection) -> Result<(), RedisError> {
    cmd("PING").query_async(server).await
}

/// True if the server's answer is this error.
fn is(error: &RedisError, code: &str) -> bool {
    error.code() == Some(code)
}

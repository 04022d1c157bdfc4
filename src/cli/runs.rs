//! `redjepsen runs`: runs of a suite, one after the other in one process, so that they can share a cluster.
//!
//! A [`Request`] a line on standard input, and for each a line on standard output with the run's exit code, once its folder
//! is complete and where its cluster is left up for the next one. Where it is not, this process ends with the run and as
//! [`run`](super::run) does: so whatever goes wrong with a run costs no other one, and nothing outlives what it went wrong in.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::run::Place;
use super::{Exit, Failure, print, understood};

/// One run that is to be made.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The arguments of `redjepsen run`.
    pub arguments: Vec<String>,
    /// Whether the next run stands on the same ground, so that it can have this one's cluster.
    pub more: bool,
}

pub async fn runs() -> Result<Exit, Failure> {
    let mut place = Place::new(false)?;
    let outcome = AssertUnwindSafe(one_after_the_other(&mut place)).catch_unwind().await;
    // Also where a report came to grief over its run, whose cluster stands by then.
    let cleared = place.clear_away().await;
    let outcome = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    outcome.and_then(|exit| cleared.map(|()| exit))
}

/// Until a run leaves no cluster up, nothing more is asked for, or the user wants the end.
async fn one_after_the_other(place: &mut Place) -> Result<Exit, Failure> {
    let mut interrupt = place.interrupt();
    let mut requests = BufReader::new(tokio::io::stdin()).lines();
    let mut exit = Exit::Valid;
    loop {
        let line = tokio::select! {
            biased;
            _ = interrupt.wait_for(|wanted| *wanted) => return Ok(exit),
            line = requests.next_line() => line.map_err(Failure::could_not_run)?,
        };
        let Some(line) = line else { return Ok(exit) };
        let Request { arguments, more } = serde_json::from_str(&line).map_err(|error| {
            Failure::arguments(format!("standard input: {error} in `{line}`; `redjepsen suite` starts this command"))
        })?;
        let flags = understood(&arguments).map_err(Failure::arguments)?;
        let words = [&["run".to_string()], &arguments[..]].concat();
        exit = place.make(&flags, &flags.scenario()?, &words, more).await?.exit;
        if !place.has_cluster() {
            return Ok(exit);
        }
        print(format!("{}\n", exit as u8))?;
    }
}

//! Blocked event loops: faults that a client carries out and reports itself.
//!
//! The client says `blocked`, blocks its event loop, and says `unblocked`. Both messages are recorded when they are read
//! ([`Block`]).

use std::time::Duration;

use tokio::time::timeout;

use super::Run;
use super::block::Block;
use super::messages::ClientHost;
use super::nemesis::InEffect;
use crate::client::protocol::ToClient;
use crate::faults::{Injection, Parameter};
use model::history::FaultStep;

/// Time limit for a client's message that it is about to block its event loop. Also the limit for its message after the block.
const WORD_LIMIT: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Asks a client to block its event loop, and waits until it says that it does.
    pub(super) async fn block(&self, fault: &InEffect, injection: &Injection) -> Result<(), String> {
        let (host, asked) = self.to_be_blocked(injection)?;
        let event = self.event(fault, FaultStep::Inject, false, String::new());
        let recorder = self.recorder.clone();
        host.expect_block(Block::new(recorder, event, asked));
        let ms = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
        host.send(&ToClient::Block { ms }).await.map_err(|broken| broken.text)?;
        let begun = host.until_block(Block::began);
        match timeout(WORD_LIMIT, begun).await {
            Ok(_) => Ok(()),
            Err(_) => {
                host.forget_block();
                Err("the client did not report that it blocks its event loop".to_string())
            }
        }
    }

    /// Waits until the client says that its event loop is no longer blocked; the error says that it did not.
    pub(super) async fn until_unblocked(&self, injection: &Injection) -> Result<(), String> {
        let (host, asked) = self.to_be_blocked(injection)?;
        let over = host.until_block(|block| block.is_over().then_some(()));
        let over = timeout(asked + WORD_LIMIT, over).await;
        host.forget_block();
        over.map_err(|_| "the client did not report that its event loop goes on".to_string())
    }

    /// Stops recording the client's messages about its event loop.
    pub(super) fn give_up_block(&self, injection: &Injection) {
        if let Ok((host, _)) = self.to_be_blocked(injection) {
            host.forget_block();
        }
    }

    fn to_be_blocked(&self, injection: &Injection) -> Result<(&ClientHost, Duration), String> {
        let (Parameter::Length { ms, .. }, [member]) = (&injection.with, &injection.members[..]) else {
            return Err("only one client at a time can block its event loop, for a fixed time".to_string());
        };
        let host = self.hosts().iter().find(|host| host.name() == *member);
        host.map(|host| (&**host, Duration::from_millis(*ms))).ok_or_else(|| format!("{member} is not a client"))
    }
}

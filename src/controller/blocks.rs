//! Blocked event loops: faults that a client does to itself, and tells of.
//!
//! The client says `blocked`, blocks its event loop, and says `unblocked`. What it says is recorded where it is read,
//! before anything that it says later: whoever was blocked until then did nothing before.

use std::time::Duration;

use tokio::time::timeout;

use super::messages::Host;
use super::nemesis::InEffect;
use super::Run;
use crate::client::protocol::ToClient;
use crate::faults::{Injection, Parameter};
use crate::history::{Body, FaultStep, NemesisEvent, SharedRecorder};

/// How long a client may take to say that it is about to block its event loop, and after that time that it has.
const WORD_LIMIT: Duration = Duration::from_secs(2);

/// A block that a process was asked for.
pub(super) struct Block {
    recorder: SharedRecorder,
    /// What is recorded of it, but for the step and what was seen.
    event: NemesisEvent,
    asked: Duration,
    /// When it began, by the client's clock.
    began: Option<u64>,
    is_over: bool,
    /// What the process said between the two.
    meanwhile: u32,
}

impl Block {
    /// The process says that its event loop is about to be blocked, or that it was.
    pub fn said(&mut self, begins: bool, mono_ns: u64) {
        match (begins, self.began) {
            (true, None) => {
                self.began = Some(mono_ns);
                let text = format!("it says that it blocks its event loop for {} ms", self.asked.as_millis());
                self.record(FaultStep::Injected, true, text);
            }
            (false, Some(began)) if !self.is_over => {
                self.is_over = true;
                let lasted = Duration::from_nanos(mono_ns.saturating_sub(began));
                let text = match self.meanwhile {
                    0 => format!("it says that its event loop was blocked for {} ms", lasted.as_millis()),
                    times => format!("it was heard of {times} times though it said that its event loop was blocked"),
                };
                self.record(FaultStep::Heal, false, String::new());
                self.record(FaultStep::Healed, self.meanwhile == 0 && lasted >= self.asked, text);
            }
            // It was not asked for that.
            _ => self.meanwhile += 1,
        }
    }

    /// The process says something else.
    pub fn heard(&mut self) {
        if self.began.is_some() && !self.is_over {
            self.meanwhile += 1;
        }
    }

    fn record(&self, step: FaultStep, observed: bool, text: String) {
        let aftermath_ns = (step == FaultStep::Healed).then_some(0);
        let event = NemesisEvent { step, observed, aftermath_ns, text, ..self.event.clone() };
        // If the history can't be written, whoever appends next says so.
        let _ = self.recorder.append(Body::Nemesis(event));
    }
}

impl Run<'_> {
    /// Asks a client to block its event loop, and waits until it says that it does.
    pub(super) async fn block(&self, fault: &InEffect, injection: &Injection) -> Result<(), String> {
        let (host, asked) = self.to_be_blocked(injection)?;
        let event = self.event(fault, FaultStep::Inject, false, String::new());
        let recorder = self.recorder.clone();
        host.expect_block(Block { recorder, event, asked, began: None, is_over: false, meanwhile: 0 });
        let ms = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
        host.send(&ToClient::Block { ms }).await.map_err(|broken| broken.text)?;
        let begun = host.until_block(|block| block.began);
        match timeout(WORD_LIMIT, begun).await {
            Ok(_) => Ok(()),
            Err(_) => {
                host.forget_block();
                Err("the client did not say that it blocks its event loop".to_string())
            }
        }
    }

    /// Waits until the client says that its event loop is no longer blocked. The error says that it did not.
    pub(super) async fn until_unblocked(&self, injection: &Injection) -> Result<(), String> {
        let (host, asked) = self.to_be_blocked(injection)?;
        let over = host.until_block(|block| block.is_over.then_some(()));
        let over = timeout(asked + WORD_LIMIT, over).await;
        host.forget_block();
        over.map_err(|_| "the client did not say that its event loop goes on".to_string())
    }

    /// Nothing more is recorded of what the client says of its event loop.
    pub(super) fn give_up_block(&self, injection: &Injection) {
        if let Ok((host, _)) = self.to_be_blocked(injection) {
            host.forget_block();
        }
    }

    fn to_be_blocked(&self, injection: &Injection) -> Result<(&Host, Duration), String> {
        let (Parameter::Length { ms, .. }, [member]) = (&injection.with, &injection.members[..]) else {
            return Err("one client at a time blocks its event loop, for one length of time".to_string());
        };
        let host = self.hosts().iter().find(|host| host.name() == *member);
        host.map(|host| (&**host, Duration::from_millis(*ms))).ok_or_else(|| format!("{member} is no client"))
    }
}

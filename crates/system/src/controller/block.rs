//! A process's messages about its blocked event loop. They are recorded when they are read, before any later message of the
//! process. Otherwise a later message would seem to come from a process that was still blocked.

use std::time::Duration;

use model::history::{Body, FaultStep, NemesisEvent, SharedRecorder};

pub(super) struct Block {
    recorder: SharedRecorder,
    /// The event to record, without its step and observation.
    event: NemesisEvent,
    asked: Duration,
    /// When the block began, by the client's clock.
    began: Option<u64>,
    is_over: bool,
    /// How many messages the process sent during the block.
    meanwhile: u32,
}

impl Block {
    /// A block about which the process has said nothing yet.
    pub fn new(recorder: SharedRecorder, event: NemesisEvent, asked: Duration) -> Block {
        Block { recorder, event, asked, began: None, is_over: false, meanwhile: 0 }
    }

    /// When the block began, by the client's clock; None if it has not begun.
    pub fn began(&self) -> Option<u64> {
        self.began
    }

    /// True if the process has said that the block is over.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Handles the process's message that its event loop is about to be blocked, or was blocked.
    pub fn said(&mut self, begins: bool, mono_ns: u64) {
        match (begins, self.began) {
            (true, None) => {
                self.began = Some(mono_ns);
                let text =
                    format!("the client reports that it blocks its event loop for {} ms", self.asked.as_millis());
                self.record(FaultStep::Injected, true, text);
            }
            (false, Some(began)) if !self.is_over => {
                self.is_over = true;
                let lasted = Duration::from_nanos(mono_ns.saturating_sub(began));
                let text = match self.meanwhile {
                    0 => format!("the client reports that its event loop was blocked for {} ms", lasted.as_millis()),
                    times => {
                        format!("the client sent {times} messages, although it reports that its event loop was blocked")
                    }
                };
                self.record(FaultStep::Heal, false, String::new());
                self.record(FaultStep::Healed, self.meanwhile == 0 && lasted >= self.asked, text);
            }
            // The controller did not ask for this message.
            _ => self.meanwhile += 1,
        }
    }

    /// Counts any other message of the process.
    pub fn heard(&mut self) {
        if self.began.is_some() && !self.is_over {
            self.meanwhile += 1;
        }
    }

    fn record(&self, step: FaultStep, observed: bool, text: String) {
        let aftermath_ns = (step == FaultStep::Healed).then_some(0);
        let event = NemesisEvent { step, observed, aftermath_ns, text, ..self.event.clone() };
        // If the history can't be written, the next writer reports it.
        let _ = self.recorder.append(Body::Nemesis(event));
    }
}

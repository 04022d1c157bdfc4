//! What a process says of a blocked event loop. It is recorded where it is read, before anything that the process says
//! later: whoever was blocked until then did nothing before.

use std::time::Duration;

use model::history::{Body, FaultStep, NemesisEvent, SharedRecorder};

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
    /// Nothing is said of it yet.
    pub fn new(recorder: SharedRecorder, event: NemesisEvent, asked: Duration) -> Block {
        Block { recorder, event, asked, began: None, is_over: false, meanwhile: 0 }
    }

    /// When it began, by the client's clock, if it has.
    pub fn began(&self) -> Option<u64> {
        self.began
    }

    /// Whether the process has said that it is over.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The process says that its event loop is about to be blocked, or that it was.
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

//! A node and a clock for the locks' own tests: scripted answers, time that moves only when something takes time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Clock, Node, RequestError};

/// What a fake node answers to one `set_if_absent`.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Set { after_ms: u64 },
    Taken,
    Silent,
}

pub struct FakeNode {
    answers: Mutex<VecDeque<Answer>>,
    deleted: Mutex<Vec<String>>,
    clock: FakeClock,
}

impl FakeNode {
    pub const TIMEOUT_MS: u64 = 50;

    pub fn new(answers: &[Answer], clock: FakeClock) -> FakeNode {
        FakeNode { answers: Mutex::new(answers.iter().copied().collect()), deleted: Mutex::default(), clock }
    }

    /// The marks whose deletion was asked for, in order.
    pub fn deleted(&self) -> Vec<String> {
        self.deleted.lock().unwrap().clone()
    }
}

impl Node for FakeNode {
    async fn set_if_absent(&self, _: &str, _: &str, _: Duration) -> Result<bool, RequestError> {
        let answer = self.answers.lock().unwrap().pop_front().expect("no answer scripted for this request");
        match answer {
            Answer::Set { after_ms } => {
                self.clock.sleep(Duration::from_millis(after_ms)).await;
                Ok(true)
            }
            Answer::Taken => Ok(false),
            Answer::Silent => {
                let timeout = Duration::from_millis(Self::TIMEOUT_MS);
                self.clock.sleep(timeout).await;
                Err(RequestError::Timeout(timeout))
            }
        }
    }

    async fn delete_if_equals(&self, _: &str, mark: &str) -> Result<bool, RequestError> {
        self.deleted.lock().unwrap().push(mark.to_string());
        Ok(true)
    }
}

#[derive(Clone, Default)]
pub struct FakeClock(Arc<Mutex<Duration>>);

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, length: Duration) {
        *self.0.lock().unwrap() += length;
    }

    fn draw(&self, (low, _): (Duration, Duration)) -> Duration {
        low
    }
}

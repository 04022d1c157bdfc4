//! A place in the order of events, and the open operations there.
//!
//! Both searches use it: depth-first moves forward and back, breadth-first only forward.

use super::problem::{Event, Open, Problem};

pub struct Cursor<'a> {
    pub problem: &'a Problem,
    /// The next event.
    pub at: usize,
    /// The open operations; the last one returns first.
    pub open: Vec<Open>,
    /// Classes with indeterminate operations that can be used, in order.
    pub live: Vec<u32>,
    /// For each class, how many indeterminate operations can be used.
    pub available: Vec<u32>,
}

impl<'a> Cursor<'a> {
    pub fn new(problem: &'a Problem) -> Cursor<'a> {
        let available = vec![0; problem.classes.len()];
        Cursor { problem, at: 0, open: Vec::new(), live: Vec::new(), available }
    }

    pub fn event(&self) -> Option<Event> {
        self.problem.events.get(self.at).copied()
    }

    /// Moves past the next event.
    pub fn forward(&mut self) {
        match self.problem.events[self.at] {
            Event::Invoke(open) => self.add(open),
            Event::Return(_) => {
                self.open.pop();
            }
            Event::Available(class) => {
                if self.available[class as usize] == 0 {
                    self.revive(class);
                }
                self.available[class as usize] += 1;
            }
            Event::Retire(class) => self.live.retain(|live| *live != class),
        }
        self.at += 1;
    }

    /// Moves back to an earlier event.
    pub fn back_to(&mut self, at: usize) {
        while self.at > at {
            self.at -= 1;
            match self.problem.events[self.at] {
                Event::Invoke(open) => self.open.retain(|other| other.place != open.place),
                Event::Return(open) => self.add(open),
                Event::Available(class) => {
                    self.available[class as usize] -= 1;
                    if self.available[class as usize] == 0 {
                        self.live.retain(|live| *live != class);
                    }
                }
                Event::Retire(class) => self.revive(class),
            }
        }
    }

    fn add(&mut self, open: Open) {
        let at = self.open.partition_point(|other| other.completed > open.completed);
        self.open.insert(at, open);
    }

    fn revive(&mut self, class: u32) {
        let at = self.live.partition_point(|live| *live < class);
        self.live.insert(at, class);
    }
}

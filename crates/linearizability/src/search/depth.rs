//! Depth-first: fast if there is a legal order, because it needs to find only one.
//!
//! Failed configurations are remembered, so that none is tried again. Configurations being tried are on a stack, so a valid
//! history takes hardly any memory.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::bits::Bits;
use super::config::{Config, FastHasher};
use super::cursor::Cursor;
use super::moves::{Move, advance, attempt, choices, close};
use super::problem::{Event, Problem};
use super::watch::{Stopped, Watch};
use crate::model::{Effect, Model};

/// A choice: the event, and the move. None lets the operation return, which is settled.
pub type Choice = (u32, Option<Move>);

/// The result, and how far any order came: the event of the return that no order passed.
pub struct SearchOutcome {
    pub legal: bool,
    pub furthest: usize,
    /// The choices that lead to the end.
    pub choices: Vec<Choice>,
}

struct Frame<S, B> {
    at: u32,
    /// The next choice: 0 lets the operation return, higher numbers are moves.
    next: u32,
    /// True if the operation may return without a move.
    may_return: bool,
    config: Config<S, B>,
    /// The choice that led here.
    made: Choice,
}

type Failed<S, B> = HashSet<(u32, bool, Config<S, B>), BuildHasherDefault<FastHasher>>;

pub struct Depth<'a, M: Model, B> {
    model: &'a M,
    cursor: Cursor<'a>,
    stack: Vec<Frame<M::State, B>>,
    failed: Failed<M::State, B>,
    furthest: usize,
    bytes: usize,
}

impl<'a, M: Model, B: Bits> Depth<'a, M, B> {
    pub fn new(model: &'a M, problem: &'a Problem) -> Self {
        let mut search = Depth {
            model,
            cursor: Cursor::new(problem),
            stack: Vec::new(),
            failed: Failed::default(),
            furthest: 0,
            bytes: 0,
        };
        let config = Config::new(model.initial(), problem.slots);
        search.enter(config, (0, None), true);
        search
    }

    /// Continues the search until there is an answer, or the watch stops it.
    pub fn run(&mut self, watch: &mut Watch) -> Result<SearchOutcome, Stopped> {
        while let Some(frame) = self.stack.last_mut() {
            self.cursor.back_to(frame.at as usize);
            let Some(Event::Return(target)) = self.cursor.event() else {
                let choices = self.stack.iter().skip(1).map(|frame| frame.made).collect();
                return Ok(SearchOutcome { legal: true, furthest: self.furthest, choices });
            };
            watch.look(self.bytes, self.furthest)?;
            let choice = frame.next;
            frame.next += 1;
            let settled = frame.config.settled.has(target.slot);
            if choice == 0 {
                if settled && frame.may_return {
                    let mut config = frame.config.clone();
                    let made = (frame.at, None);
                    close(self.model, &self.cursor, &mut config, target);
                    self.cursor.forward();
                    self.enter(config, made, true);
                }
                continue;
            }
            let is_read = self.cursor.problem.classes[target.class as usize].effect == Effect::Nothing;
            if settled && (is_read || !target.lasting) || choice as usize > choices(&self.cursor) {
                self.leave();
                continue;
            }
            let Some((movement, mut config)) = attempt(self.model, &self.cursor, &frame.config, choice as usize - 1)
            else {
                continue;
            };
            let made = (frame.at, Some(movement));
            if choice == 1 {
                close(self.model, &self.cursor, &mut config, target);
                self.cursor.forward();
                self.enter(config, made, true);
            } else {
                let may_return = config.settled.has(target.slot) && !settled;
                self.enter(config, made, may_return);
            }
        }
        Ok(SearchOutcome { legal: false, furthest: self.furthest, choices: Vec::new() })
    }

    fn enter(&mut self, mut config: Config<M::State, B>, made: Choice, may_return: bool) {
        advance(self.model, &mut self.cursor, &mut config);
        self.furthest = self.furthest.max(self.cursor.at);
        let key = (self.cursor.at as u32, may_return, config);
        if !self.failed.is_empty() && self.failed.contains(&key) {
            return;
        }
        let (at, may_return, config) = key;
        self.bytes += size_of::<Frame<M::State, B>>() + config.bytes();
        self.stack.push(Frame { at, next: 0, may_return, config, made });
    }

    fn leave(&mut self) {
        if let Some(frame) = self.stack.pop() {
            self.bytes -= size_of::<Frame<M::State, B>>();
            self.failed.insert((frame.at, frame.may_return, frame.config));
        }
    }
}

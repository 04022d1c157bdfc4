//! The steps of a script with a fault at a command: how the client gets there, the fault, and what follows.

use super::aim::{FaultPoint, Place, Strike};
use super::commands::{RenewalMode, When};

/// Waits until a lock that is not renewed has expired.
const RUNS_OUT: &str = "wait 1.1ttl";

/// A script's main clients are the first three. Clients that only hold the other permits come after them.
pub(super) const CLIENTS: u32 = 3;

/// How many other clients hold the remaining permits. None if there would be too many to start.
pub(super) fn others(permits: u32) -> Option<u32> {
    const MOST: u32 = 10;
    permits.checked_sub(1).filter(|others| *others <= MOST)
}

pub(super) struct Steps {
    pub steps: Vec<String>,
    upkeep: RenewalMode,
}

impl Steps {
    pub fn new(upkeep: RenewalMode) -> Steps {
        Steps { steps: Vec::new(), upkeep }
    }

    pub fn add<const N: usize>(&mut self, steps: [&str; N]) {
        self.steps.extend(steps.map(str::to_string));
    }

    pub fn arm(&mut self, aim: &FaultPoint) {
        self.steps.push(aim.fault());
    }

    pub fn await_strike(&mut self, aim: &FaultPoint, within: &str) {
        self.steps.push(format!("await {} within {within}", aim.fault()));
    }

    pub fn heal(&mut self, aim: &FaultPoint) {
        self.steps.push(format!("heal {}", aim.fault()));
    }

    /// Adapts these steps to a lock with several permits. Other clients hold all permits but one, so the lock behaves like one
    /// with a single permit. A holder gets no further than `acquired`, since a semaphore does not protect the work after it.
    pub fn beside(&mut self, others: u32) {
        let others: Vec<u32> = (CLIENTS..CLIENTS + others).collect();
        if others.is_empty() {
            return;
        }
        self.steps.iter_mut().for_each(|step| *step = step.replace("to before-write", "to acquired"));
        self.steps.splice(0..0, others.iter().map(|client| format!("start client:{client} to acquired")));
        self.steps.extend(others.iter().map(|client| format!("go client:{client}")));
        self.steps.extend(others.iter().map(|client| format!("await client:{client} end")));
    }

    /// A scenario with one fault: how the client gets there, the fault, and what follows.
    pub fn of_one(&mut self, aim: &FaultPoint) {
        match aim.strike {
            _ if aim.sent.when == When::Waiting => self.of_waiting(aim),
            Strike::Cancel if aim.sent.when == When::Releasing => self.of_a_release(aim),
            Strike::Cancel | Strike::GivenUp => self.abandoned_acquire(aim),
            Strike::Overtaken => self.stale_renewal(aim),
            _ => {
                self.begin(aim.sent.when, &[aim]);
                self.strike_and_after(aim);
            }
        }
    }

    /// The client no longer wants the lock when the reply comes. Another client must acquire the lock soon, and then no third
    /// client beside it. The late reply might be mistaken for another client's.
    fn abandoned_acquire(&mut self, aim: &FaultPoint) {
        self.leaves(aim);
        self.add([
            "await client:0 end within 0.2ttl or go on",
            "start client:1 giving up after 0.2ttl",
            "expect client:1 acquired within 0.25ttl",
            "await client:1 end",
            "await client:0 end",
            "start client:1 to before-write",
            "start client:0 giving up after 0.2ttl",
            "await client:0 end within 0.4ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:0 end",
        ]);
    }

    /// The client no longer wants the lock, and asks again while another client holds it. Only then does the first reply come,
    /// which does not answer the second request.
    pub fn and_asks_again(&mut self, aim: &FaultPoint) {
        self.leaves_early(aim);
        self.add([
            RUNS_OUT,
            "start client:1 to before-write or end giving up after 0.6ttl within 0.8ttl",
            "start client:0 to acquiring giving up after 0.3ttl",
            "go client:0",
            "wait 0.1ttl",
        ]);
        self.heal(aim);
        self.add([
            "await client:0 end within 0.35ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:0 end",
        ]);
    }

    /// The client has to wait, because another client holds the lock. It asks again when the lock is free and acquires it, but
    /// no longer wants it when the reply comes. Another client must acquire the lock soon.
    pub fn at_a_later_attempt(&mut self, aim: &FaultPoint) {
        self.add([
            "start client:1 to before-write",
            "start client:0 to acquiring giving up after 0.7ttl",
            "go client:0",
            "wait 0.1ttl",
            // The client sends no further request until the lock is free.
            "pause client:0",
            "go client:1",
            "await client:1 end",
        ]);
        self.arm(aim);
        self.add(["heal pause client:0"]);
        self.await_strike(aim, "0.6ttl");
        if aim.strike == Strike::Cancel {
            self.add(["cancel client:0"]);
        }
        self.add(["await client:0 end within 0.8ttl or go on"]);
        self.heal(aim);
        self.add([
            "await client:0 end within 0.2ttl or go on",
            "start client:1 giving up after 0.2ttl",
            "expect client:1 acquired within 0.25ttl",
            "await client:1 end",
            "await client:0 end",
        ]);
    }

    /// The client leaves before the reply: it is cancelled, or its time limit ends. Then the reply comes.
    fn leaves(&mut self, aim: &FaultPoint) {
        self.leaves_early(aim);
        self.heal(aim);
    }

    /// The client leaves, and the reply has not come yet.
    fn leaves_early(&mut self, aim: &FaultPoint) {
        if aim.strike == Strike::Cancel {
            self.begin(aim.sent.when, &[aim]);
            self.await_strike(aim, "2ttl");
            self.add(["cancel client:0", "await client:0 end within 0.2ttl or go on"]);
        } else {
            self.add(["start client:0 to acquiring giving up after 0.2ttl"]);
            self.arm(aim);
            self.add(["go client:0"]);
            self.await_strike(aim, "2ttl");
            // Some clients have time limits of their own, which end by then.
            self.add(["await client:0 end within 0.3ttl or go on", "wait 0.3ttl"]);
        }
    }

    /// The holder releases the lock while its renewal is still on the way. A renewal that arrives later belongs to no holder.
    fn stale_renewal(&mut self, aim: &FaultPoint) {
        self.begin(aim.sent.when, &[aim]);
        self.await_strike(aim, "2ttl");
        self.add(["go client:0", "await client:0 end within 0.1ttl or go on"]);
        self.heal(aim);
        self.add([
            "await client:0 end",
            "start client:1 to before-write giving up after 0.6ttl",
            "wait 0.3ttl",
            "start client:2 giving up after 0.2ttl",
            "await client:2 end within 0.35ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:2 end",
        ]);
    }

    /// The client that the fault hit releases the lock before it expires. Then it acquires the lock again and works for longer
    /// than the TTL. The lock must be renewed as usual, and no other client may acquire it.
    pub fn and_the_next_hold(&mut self, aim: &FaultPoint) {
        if matches!(aim.strike, Strike::Cancel | Strike::GivenUp) {
            self.leaves(aim);
        } else {
            self.begin(aim.sent.when, &[aim]);
            self.await_strike(aim, "2ttl");
            let Course { before, lasts, after } = aim.course();
            self.steps.extend(before);
            if lasts {
                self.add(["wait 0.2ttl"]);
            }
            self.heal(aim);
            self.steps.extend(after.into_iter().filter(|step| *step != RUNS_OUT));
            if self.is_kept(aim.sent.when) {
                self.add(["go client:0"]);
            }
        }
        self.add([
            "await client:0 end",
            "start client:0 to before-write or end giving up after 1ttl within 1.2ttl",
            "wait 1.3ttl",
            "start client:1 giving up after 0.2ttl",
            "await client:1 end within 0.4ttl or go on",
            "go client:0",
            "await client:0 end",
            "await client:1 end",
        ]);
    }

    /// Like `cancelled-release`: a client that closes the waiting connection may ask again on another one.
    fn of_a_release(&mut self, aim: &FaultPoint) {
        self.begin(aim.sent.when, &[aim]);
        self.await_strike(aim, "1ttl");
        self.add([
            "cancel client:0",
            "await client:0 end within 0.4ttl",
            "start client:1 giving up after 0.2ttl",
            "expect client:1 acquired within 0.25ttl",
            "await client:1 end",
            "start client:1 to before-write",
        ]);
        self.heal(aim);
        self.add([
            "start client:2 giving up after 0.2ttl",
            "await client:2 end within 0.35ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:2 end",
        ]);
    }

    /// The client goes to the phase before its command, the script arms the faults, and the client goes on.
    pub fn begin(&mut self, when: When, aims: &[&FaultPoint]) {
        match when {
            When::Taking | When::Waiting => self.add(["start client:0 to acquiring giving up after 2ttl"]),
            // No command of an earlier hold is still on its way.
            When::Holding if self.is_kept(when) => self.add(["wait 1ttl", "start client:0 to read"]),
            When::Holding => self.add(["start client:0 to read"]),
            When::Releasing => self.add(["start client:0 to releasing"]),
        }
        aims.iter().for_each(|aim| self.arm(aim));
        if !self.is_kept(when) {
            self.add(["go client:0"]);
        }
    }

    /// True if the script stops the holder and the fault hits a renewal in the background. A client that extends its lock
    /// itself, or asks for it, does so while it works.
    fn is_kept(&self, when: When) -> bool {
        when == When::Holding && self.upkeep == RenewalMode::InTheBackground
    }

    /// Waits for the fault to hit, and adds all steps after that.
    pub fn strike_and_after(&mut self, aim: &FaultPoint) {
        self.await_strike(aim, "2ttl");
        self.goes_wrong(aim);
        if aim.strike == Strike::Kill {
            return self.add(["start client:1", "await client:1 end"]);
        }
        self.observe(aim);
    }

    /// The effect at the command.
    fn goes_wrong(&mut self, aim: &FaultPoint) {
        let Course { before, lasts, after } = aim.course();
        self.steps.extend(before);
        if !lasts {
            self.heal(aim);
        }
        self.steps.extend(after);
    }

    /// Another client has its turn, and the first one goes on.
    fn observe(&mut self, aim: &FaultPoint) {
        let (strike, when) = (aim.strike, aim.sent.when);
        // A client that extends its lock itself works for longer than a TTL.
        let to = if self.upkeep == RenewalMode::ByItsHolder { "read" } else { "before-write" };
        self.steps.push(format!("start client:1 to {to} or end giving up after 0.6ttl within 0.8ttl"));
        let lasts = aim.course().lasts;
        if lasts && !self.is_kept(when) {
            self.heal(aim);
        }
        match strike {
            Strike::Pause => self.add(["heal pause client:0"]),
            Strike::Block => self.add(["heal block client:0 for 1.3ttl"]),
            _ => {}
        }
        if self.is_kept(when) {
            // This comes before a late reply, which may say that the lock is lost.
            self.add(["go client:0", "await client:0 end within 0.05ttl or go on"]);
            if lasts {
                self.heal(aim);
            }
        }
        self.add(["await client:0 end within 0.35ttl or go on"]);
        if when == When::Releasing {
            self.add(["start client:2 giving up after 0.2ttl", "await client:2 end within 0.35ttl or go on"]);
        }
        self.add(["go client:1", "await client:1 end"]);
        if when == When::Releasing {
            self.add(["await client:2 end"]);
        }
        self.add(["await client:0 end"]);
        match strike {
            Strike::ClockBack => self.add(["heal clock client:0 -3ttl"]),
            Strike::ClockForward => self.add(["heal clock client:0 +3ttl"]),
            // A lock that was set by a fast clock lives for longer.
            Strike::NodeClock => return self.steps.push(format!("heal clock {} +2ttl", aim.node())),
            _ => {}
        }
        self.reacquire();
    }

    /// The client that the fault hit must be able to acquire the lock again. Its first attempt may find that its connection is
    /// closed.
    fn reacquire(&mut self) {
        self.add([
            "start client:0 giving up after 2ttl",
            "await client:0 end within 3ttl or go on",
            "start client:0 giving up after 2ttl",
            "expect client:0 acquired within 3ttl",
            "await client:0 end",
        ]);
    }

    /// A waiter must acquire the lock after its release, whatever happened to its own or another client's request. A request
    /// that waits at the server is answered only then.
    fn of_waiting(&mut self, aim: &FaultPoint) {
        self.add(["start client:1 to before-write", "start client:0 to acquiring giving up after 4ttl"]);
        if aim.strike == Strike::Idle {
            self.add(["go client:0", "wait 0.2ttl"]);
            self.arm(aim);
        } else {
            self.arm(aim);
            self.add(["go client:0"]);
        }
        if aim.strike == Strike::NodeRestartSynced {
            return self.of_waiting_at_a_node(aim);
        }
        self.steps.push(format!("await {} within 0.2ttl or go on", aim.fault()));
        // Another client waits behind it, in case it leaves.
        let leaves = matches!(aim.strike, Strike::Kill | Strike::Cancel | Strike::Idle);
        if leaves {
            self.add(["start client:2 giving up after 4ttl", "wait 0.1ttl"]);
        }
        self.add(["go client:1", "await client:1 end"]);
        self.await_strike(aim, "0.5ttl");
        match aim.strike {
            Strike::Kill => self.add(["kill client:0"]),
            Strike::Cancel => self.add(["cancel client:0"]),
            _ => {}
        }
        // A heal is confirmed by a command that passes, and a dead client sends none.
        let is_dead = aim.strike == Strike::Kill;
        if !is_dead {
            self.heal(aim);
        }
        match leaves {
            true => self.add(["expect client:2 acquired within 2ttl", "await client:2 end"]),
            // A client that asks after the release must not sleep until the TTL ends.
            false if aim.strike == Strike::LateRequest => self.add(["expect client:0 acquired within 0.9ttl"]),
            false => self.add(["expect client:0 acquired within 2ttl"]),
        }
        if aim.strike == Strike::Idle {
            self.add(["expect client:0 acquired within 2ttl"]);
        }
        if is_dead {
            self.add(["heal kill client:0"]);
            self.heal(aim);
        } else {
            self.add(["await client:0 end"]);
        }
    }

    /// The holder cannot release the lock. It expires at a node that was restarted.
    fn of_waiting_at_a_node(&mut self, aim: &FaultPoint) {
        self.await_strike(aim, "0.4ttl");
        self.steps.push(format!("kill {}", aim.node()));
        self.add(["go client:1", "await client:1 end within 0.2ttl or go on"]);
        self.steps.push(format!("heal kill {}", aim.node()));
        self.heal(aim);
        self.add(["expect client:0 acquired within 2ttl", "await client:0 end", "await client:1 end"]);
    }
}

/// The steps after the fault hits the command.
struct Course {
    before: Vec<String>,
    /// True if the fault lasts until another client holds the lock. Otherwise it is healed between `before` and `after`.
    lasts: bool,
    after: Vec<String>,
}

impl FaultPoint {
    fn course(&self) -> Course {
        let (holding, node) = (self.sent.when == When::Holding, self.node());
        let runs_out = || vec![RUNS_OUT.to_string()];
        let (before, lasts, mut after) = match self.strike {
            // The lock expires before the TTL that the late request asks for has passed. Some libraries rely on that later
            // time.
            Strike::LateRequest if holding => (vec![], true, vec!["wait 0.7ttl".to_string()]),
            Strike::LateReply | Strike::LateRequest => (vec![], true, runs_out()),
            Strike::LostReply => (vec![], true, vec![]),
            Strike::Reset | Strike::Close | Strike::Idle => (vec![], false, vec![]),
            Strike::Pause => (vec!["pause client:0".to_string()], false, runs_out()),
            Strike::Block => (vec!["block client:0 for 1.3ttl".to_string()], false, runs_out()),
            Strike::Cancel | Strike::GivenUp | Strike::Overtaken => (vec![], true, vec![]),
            Strike::Refused => {
                let refusal = format!("refuse-writes {}", self.at);
                (vec![refusal.clone()], false, vec!["wait 0.1ttl".to_string(), format!("heal {refusal}")])
            }
            Strike::Kill => (vec!["kill client:0".to_string(), "heal kill client:0".to_string()], false, vec![]),
            // A client that measures time by this clock finds that none has passed, and renews its lock much later.
            Strike::ClockBack => (vec!["clock client:0 -3ttl".to_string()], !holding, runs_out()),
            Strike::ClockForward => (vec!["clock client:0 +3ttl".to_string()], false, vec![]),
            Strike::NodePause => {
                let after = [runs_out(), vec![format!("heal pause {node}")]].concat();
                (vec![format!("pause {node}")], false, after)
            }
            Strike::NodeRestart | Strike::NodeRestartSynced => {
                (vec![format!("kill {node}"), format!("heal kill {node}")], false, vec![])
            }
            Strike::NodeClock => (vec![format!("clock {node} +2ttl")], false, vec![]),
        };
        // By then a live lock is renewed, and any other lock has expired.
        if holding
            && matches!(
                self.strike,
                Strike::Reset | Strike::Close | Strike::LostReply | Strike::ClockForward | Strike::Refused
            )
        {
            after.extend(runs_out());
        }
        Course { before, lasts, after }
    }

    fn fault(&self) -> String {
        let (command, at) = (self.command(), self.at);
        match self.strike {
            Strike::LateRequest | Strike::Refused | Strike::Overtaken => {
                format!("hold request {command} client:0 to {at}")
            }
            Strike::Cancel if self.sent.when == When::Releasing => format!("hold request {command} client:0 to {at}"),
            Strike::LostReply | Strike::NodeRestart | Strike::NodeRestartSynced => {
                format!("lose reply to {command} client:0 from {at}")
            }
            Strike::Reset => format!("reset after {command} client:0 and {at}"),
            Strike::Idle => format!("reset connection of {} client:0 and {at}", self.sent.name),
            Strike::Close => format!("close after {command} client:0 and {at}"),
            _ => format!("hold reply to {command} client:0 from {at}"),
        }
    }

    /// The node that has the fault, if it is a fault of a node.
    fn node(&self) -> String {
        match self.at {
            Place::All => "node:0".to_string(),
            Place::Node(node) => format!("node:{node}"),
        }
    }
}

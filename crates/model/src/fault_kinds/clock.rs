//! `clock`: a member's wall clock is ahead or behind, runs fast or slow, or flickers. Its monotonic clock stays true.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnData, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "clock",
    what: "A member's wall clock shows another time or runs at another rate",
    phrase: Phrase::new(&["clock"], Form::Members(Takes::ClockChange), "clock WHO +2ttl", "clock node:2 +2ttl"),
    allowed: Allowed::Roles(&[Role::Client, Role::Node, Role::Sentinel], "the resource does not depend on a clock"),
    needs: Needs { process: true, preload: true, ..Needs::NOTHING },
    does: Does {
        data: OnData::InDoubt,
        wall_clock: true,
        rules_out: RulesOut::Nothing("a history does not record a member's wall clock"),
        ..Does::NOTHING
    },
    says: Says {
        name: "clock",
        done: "skewed",
        how: "wall clock",
        verb: "set the clock of",
        holder: "its holder's clock was wrong",
        client: "a client's clock was wrong",
        node: "a node's clock was wrong",
        lasts: true,
    },
    blame: Blame { client: 2, node: 1 },
    colour: (0xa0, 0xe3, 0xe9),
    drawn: Drawn::phrase("clock {member} {change}"),
};

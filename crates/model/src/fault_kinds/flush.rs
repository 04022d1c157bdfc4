//! `flush`: a server loses all its keys. Nothing undoes that.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnData, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "flush",
    what: "A server loses all its keys",
    phrase: Phrase::new(&["flush"], Form::Members(Takes::Nothing), "flush WHO", "flush node"),
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can lose their keys"),
    needs: Needs { process: true, redis: true, ..Needs::NOTHING },
    does: Does { data: OnData::Lost, rules_out: RulesOut::OldValues, ..Does::NOTHING },
    says: Says {
        name: "flush",
        done: "flushed",
        how: "FLUSHALL",
        verb: "flush",
        holder: "nodes lost their keys",
        client: "nodes lost their keys",
        node: "nodes lost their keys",
        lasts: false,
    },
    blame: Blame { client: 1, node: 1 },
    colour: (0xd0, 0xb8, 0x9c),
    drawn: Drawn::phrase("flush {nodes}"),
};

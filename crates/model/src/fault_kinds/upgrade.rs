//! `upgrade`: a Redis server ends by SIGTERM, and another server program takes its place, with its address and its files. The heal
//! starts the first program again.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, OnData, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "upgrade",
    what: "A node restarts as another server program, and later as its own again",
    phrase: Phrase::new(
        &["upgrade"],
        Form::Members(Takes::Server),
        "upgrade WHO to valkey:9.1",
        "upgrade node:0 to valkey:9.1",
    ),
    allowed: Allowed::Roles(&[Role::Node], "`upgrade` works only on nodes"),
    needs: Needs { redis: true, ..Needs::PROCESS },
    does: Does {
        restarts: true,
        data: OnData::Lost,
        silences: true,
        rules_out: RulesOut::Nothing("the other server answers"),
        ..Does::NOTHING
    },
    says: Says {
        name: "upgrade",
        done: "upgraded",
        how: "by a restart as another server program",
        verb: "upgrade",
        holder: "its holder was upgraded",
        client: "a client was upgraded",
        node: "a node was upgraded",
        lasts: true,
    },
    blame: Blame { client: 3, node: 1 },
    colour: (0xd9, 0xc8, 0x9a),
    drawn: None,
};

//! `shutdown`: a Redis server ends by SIGTERM, as in a rolling restart; the heal starts it again. Before it ends, it writes what it
//! is configured to keep.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, Phrase, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "shutdown",
    what: "SIGTERM to a Redis server, which writes its data, ends, and restarts later",
    phrase: Phrase::new(&["shutdown"], Form::Members(Takes::Nothing), "shutdown WHO", "shutdown node:0"),
    allowed: Allowed::Roles(&[Role::Node], "`shutdown` works only on nodes; use `kill` for other members"),
    needs: Needs { redis: true, ..Needs::PROCESS },
    does: Does::ENDS,
    says: Says {
        name: "shutdown",
        done: "shut down",
        how: "SIGTERM",
        verb: "shut down",
        holder: "its holder was shut down",
        client: "a client was shut down",
        node: "a node was shut down",
        lasts: true,
    },
    blame: Blame { client: 3, node: 1 },
    colour: (0xe6, 0xb9, 0xa2),
    drawn: None,
};

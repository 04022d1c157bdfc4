//! `reconfigure`: a client restarts with another list of nodes, as in a deployment that adds or removes nodes. The heal restarts it
//! with all nodes.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "reconfigure",
    what: "A client restarts with another list of nodes, and later with all nodes",
    phrase: Phrase::new(
        &["reconfigure"],
        Form::Members(Takes::Nodes),
        "reconfigure WHO to node:0,node:1",
        "reconfigure client:0 to node:0,node:1,node:2",
    ),
    allowed: Allowed::Roles(&[Role::Client], "only a client has a list of nodes"),
    needs: Needs::PROCESS,
    does: Does {
        restarts: true,
        rules_out: RulesOut::Nothing("a history does not record which nodes a client asks"),
        ..Does::NOTHING
    },
    says: Says {
        name: "reconfiguration",
        done: "reconfigured",
        how: "by a restart with another list of nodes",
        verb: "reconfigure",
        holder: "its holder had another list of nodes",
        client: "a client had another list of nodes",
        node: "a node left a client's list",
        lasts: true,
    },
    blame: Blame { client: 0, node: 0 },
    colour: (0xb3, 0xd6, 0xc2),
    drawn: None,
};

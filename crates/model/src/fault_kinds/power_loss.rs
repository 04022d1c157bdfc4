//! `power-loss`: a kill that also loses the data in a node's files that were not synced.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, Phrase, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "power-loss",
    what: "A kill that also loses what the member had not synced to its files",
    phrase: Phrase::new(&["power-loss"], Form::Members(Takes::Nothing), "power-loss WHO", "power-loss voter"),
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can lose power"),
    needs: Needs { process: true, preload: true, redis: true, ..Needs::NOTHING },
    does: Does::ENDS,
    says: Says {
        name: "power loss",
        done: "powered off",
        how: "SIGKILL, and unsynced data is gone",
        verb: "take the power from",
        holder: "a node lost power",
        client: "a node lost power",
        node: "a node lost power",
        lasts: true,
    },
    blame: Blame { client: 3, node: 1 },
    colour: (0xd9, 0x9a, 0xb8),
    drawn: Drawn::phrase("power-loss {nodes}"),
};

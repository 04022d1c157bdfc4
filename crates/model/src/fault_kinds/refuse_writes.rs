//! `refuse-writes`: a server wants more replicas for a write than there are, so that it answers every write with an error.
//!
//! That is what a primary does whose replicas are gone, and it stands for all the other errors that a server may answer with: a full
//! disk, no memory, a role that it has lost. Reading goes on, and keys expire.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "refuse-writes",
    what: "A server answers every write with an error",
    phrase: Phrase {
        words: &["refuse-writes"],
        form: Form::Members(Takes::Nothing),
        usage: "refuse-writes WHO",
        example: "refuse-writes node:0",
    },
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can refuse writes"),
    needs: Needs { process: true, redis: true, ..Needs::NOTHING },
    // What is refused is as good as not answered.
    does: Does { silences: true, rules_out: RulesOut::Writes, ..Does::NOTHING },
    says: Says {
        name: "refusal of writes",
        done: "made to refuse writes",
        how: "min-replicas-to-write",
        verb: "refuse writes on",
        holder: "a node refused writes",
        client: "a node refused writes",
        node: "a node refused writes",
        lasts: true,
    },
    blame: Blame { client: 2, node: 1 },
    colour: (0xc9, 0xb6, 0xd8),
    drawn: None,
};

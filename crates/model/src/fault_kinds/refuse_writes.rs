//! `refuse-writes`: a server requires more replicas for a write than it has, so it answers every write with an error.
//!
//! A primary that has lost its replicas behaves like this. The fault stands for all other errors that a server may answer with: a
//! full disk, no memory, a lost role. Reads work, and keys expire.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "refuse-writes",
    what: "A server answers every write with an error",
    phrase: Phrase::new(&["refuse-writes"], Form::Members(Takes::Nothing), "refuse-writes WHO", "refuse-writes node:0"),
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can refuse writes"),
    needs: Needs { process: true, redis: true, ..Needs::NOTHING },
    // For a lock, a refused request is as good as an unanswered one.
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

//! `hook`: the user's own commands disturb servers that redjepsen does not own, and undo it. Without a command, a person does it.
//!
//! redjepsen runs the commands where the controller runs, with the user's environment; the agent has no part in it. A hook may do
//! anything to the lock's nodes, so the history excuses them as for a failover. Only its own evidence shows that it did something.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, OnData, Phrase, RulesOut, Says};

pub(super) static DEF: FaultDef = FaultDef {
    id: "hook",
    what: "The user's own command disturbs servers that already run",
    phrase: Phrase { words: &["hook"], form: Form::Hook, usage: "hook NAME", example: "hook by-hand" },
    allowed: Allowed::All,
    needs: Needs::NOTHING,
    does: Does {
        data: OnData::InDoubt,
        silences: true,
        rules_out: RulesOut::Nothing("only its own `seen`, or a new primary, shows its effect"),
        ..Does::NOTHING
    },
    says: Says {
        name: "hook",
        done: "disturbed by a hook",
        how: "by the user's own command",
        verb: "disturb",
        holder: "a hook disturbed the nodes",
        client: "a hook disturbed the nodes",
        node: "a hook disturbed the nodes",
        lasts: true,
    },
    blame: Blame { client: 1, node: 1 },
    colour: (0xd9, 0xc2, 0xa3),
    drawn: None,
};

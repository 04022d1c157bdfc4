//! `pause background`: in each process of a client, all threads but the first stop, such as a thread that renews a lock.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, OnProcess, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "pause-background",
    what: "All threads of a client except the first are stopped",
    phrase: Phrase::new(
        &["pause background"],
        Form::Members(Takes::Nothing),
        "pause background WHO",
        "pause background client:0",
    ),
    allowed: Allowed::Roles(&[Role::Client], "only clients have background threads to pause"),
    needs: Needs::PROCESS,
    does: Does {
        process: OnProcess::StopsInPart,
        silences: true,
        rules_out: RulesOut::Nothing("the first thread of the process goes on"),
        ..Does::NOTHING
    },
    says: Says {
        name: "background pause",
        done: "paused but for the first thread",
        how: "ptrace",
        verb: "pause the background threads of",
        holder: "its holder's background threads were paused",
        client: "a client's background threads were paused",
        node: "a node's background threads were paused",
        lasts: true,
    },
    blame: Blame { client: 0, node: 0 },
    colour: (0xa0, 0xb1, 0xe9),
    drawn: None,
};

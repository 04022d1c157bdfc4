//! `pause`: every process of a member is stopped, as under SIGSTOP, in a long garbage collection, or on a machine that swaps.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnProcess, Phrase, RulesOut, Says, Takes};

pub(super) static DEF: FaultDef = FaultDef {
    id: "pause",
    what: "SIGSTOP to every process of the member, later SIGCONT",
    phrase: Phrase::new(&["pause"], Form::Members(Takes::Nothing), "pause WHO", "pause holder"),
    allowed: Allowed::All,
    needs: Needs::PROCESS,
    does: Does { process: OnProcess::Stops, silences: true, rules_out: RulesOut::Acts, ..Does::NOTHING },
    says: Says {
        name: "pause",
        done: "paused",
        how: "SIGSTOP",
        verb: "pause",
        holder: "its holder was paused",
        client: "a client was paused",
        node: "a node was paused",
        lasts: true,
    },
    blame: Blame { client: 0, node: 0 },
    colour: (0xa0, 0xb1, 0xe9),
    drawn: Drawn::phrase("pause {member}"),
};

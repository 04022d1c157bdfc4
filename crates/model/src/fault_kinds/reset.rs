//! `reset`: connections between members are reset.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnPackets, Phrase, RulesOut, Says, Takes};

pub(super) static DEF: FaultDef = FaultDef {
    id: "reset",
    what: "Connections between members are reset",
    phrase: Phrase::new(&["reset"], Form::Links(Takes::Nothing), "reset A and B", "reset client and node"),
    allowed: Allowed::All,
    needs: Needs::NOTHING,
    does: Does { packets: OnPackets::Disturbed, silences: true, rules_out: RulesOut::AnswersAcross, ..Does::NOTHING },
    says: Says {
        name: "reset",
        done: "reset",
        how: "connections reset",
        verb: "reset connections of",
        holder: "connections were reset",
        client: "connections were reset",
        node: "connections were reset",
        lasts: true,
    },
    blame: Blame { client: 2, node: 2 },
    colour: (0xc2, 0xe0, 0xa6),
    drawn: Drawn::phrase("reset {client} and {server}"),
};

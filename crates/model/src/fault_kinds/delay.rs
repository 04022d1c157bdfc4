//! `delay`: packets between members are held back, and none overtakes another.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnPackets, Phrase, RulesOut, Says, Takes};

pub(super) static DEF: FaultDef = FaultDef {
    id: "delay",
    what: "Packets between members arrive late",
    phrase: Phrase::new(&["delay"], Form::Links(Takes::Length), "delay 50ms A to B", "delay 50ms client:0 to resource"),
    allowed: Allowed::All,
    needs: Needs::NOTHING,
    does: Does {
        packets: OnPackets::Disturbed,
        silences: true,
        rules_out: RulesOut::SoonAnswersAcross,
        ..Does::NOTHING
    },
    says: Says {
        name: "delay",
        done: "delayed",
        how: "packets held back",
        verb: "delay packets of",
        holder: "packets were delayed",
        client: "packets were delayed",
        node: "packets were delayed",
        lasts: true,
    },
    blame: Blame { client: 2, node: 2 },
    colour: (0xc2, 0xe0, 0xa6),
    drawn: Drawn::phrase("delay {length} {one-way}"),
};

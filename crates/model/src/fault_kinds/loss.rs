//! `loss`: a percentage of the packets between members is dropped at random.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnPackets, Phrase, RulesOut, Says, Takes};

pub(super) static DEF: FaultDef = FaultDef {
    id: "loss",
    what: "A part of the packets between members is dropped",
    phrase: Phrase::new(&["loss"], Form::Links(Takes::Percent), "loss 30% A and B", "loss 30% clients and nodes"),
    allowed: Allowed::All,
    needs: Needs::NOTHING,
    does: Does {
        packets: OnPackets::Disturbed,
        silences: true,
        rules_out: RulesOut::Nothing("a packet that arrives may simply not be one of the dropped packets"),
        ..Does::NOTHING
    },
    says: Says {
        name: "loss",
        done: "losing packets",
        how: "packets dropped at random",
        verb: "lose packets of",
        holder: "packets were lost",
        client: "packets were lost",
        node: "packets were lost",
        lasts: true,
    },
    blame: Blame { client: 2, node: 2 },
    colour: (0xc2, 0xe0, 0xa6),
    drawn: Drawn::phrase("loss 30% {client} and {server}"),
};

//! `partition`: packets between members are dropped.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnPackets, Phrase, RulesOut, Says};

pub(super) static DEF: FaultDef = FaultDef {
    id: "partition",
    what: "Packets between members are dropped",
    phrase: Phrase::new(&["partition"], Form::Partition, "partition A from B", "partition client:0 from node:0,node:1"),
    allowed: Allowed::All,
    needs: Needs::NOTHING,
    does: Does { packets: OnPackets::Cut, silences: true, rules_out: RulesOut::AnswersAcross, ..Does::NOTHING },
    says: Says {
        name: "partition",
        done: "cut off",
        how: "packets dropped",
        verb: "cut off",
        holder: "the network was partitioned",
        client: "the network was partitioned",
        node: "the network was partitioned",
        lasts: true,
    },
    blame: Blame { client: 3, node: 3 },
    colour: (0xe9, 0xdc, 0xa0),
    drawn: Some(Drawn { phrase: "partition {client} from {server}", of_roles: Some("partition primary from replica") }),
};

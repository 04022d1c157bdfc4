//! `failover`: an operator makes a replica the primary. Nothing undoes that.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnData, Phrase, RulesOut, Says, Takes};

pub(super) static DEF: FaultDef = FaultDef {
    id: "failover",
    what: "An operator makes a replica the primary",
    phrase: Phrase::new(&["failover"], Form::Members(Takes::Promotion), "failover primary", "failover primary"),
    allowed: Allowed::Primary("only `primary` can be replaced by its replica"),
    needs: Needs { roles: true, ..Needs::NOTHING },
    does: Does {
        data: OnData::InDoubt,
        silences: true,
        rules_out: RulesOut::Nothing("operations of clients do not show which node is the primary"),
        ..Does::NOTHING
    },
    says: Says {
        name: "failover",
        done: "replaced as the primary",
        how: "on an operator's command",
        verb: "replace",
        holder: "a replica was promoted to primary",
        client: "a replica was promoted to primary",
        node: "a replica was promoted to primary",
        lasts: false,
    },
    blame: Blame { client: 1, node: 1 },
    colour: (0xc6, 0xb0, 0xe6),
    drawn: Drawn::phrase("failover primary"),
};

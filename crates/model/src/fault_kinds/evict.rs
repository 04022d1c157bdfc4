//! `evict`: a server's memory is limited to nothing, so that it evicts its keys.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, OnData, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "evict",
    what: "A server loses keys for lack of memory",
    phrase: Phrase::new(&["evict"], Form::Members(Takes::Nothing), "evict WHO", "evict majority"),
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can evict keys"),
    needs: Needs { process: true, redis: true, ..Needs::NOTHING },
    does: Does {
        data: OnData::Lost,
        rules_out: RulesOut::Nothing("a server chooses which keys it evicts, and when"),
        ..Does::NOTHING
    },
    says: Says {
        name: "eviction",
        done: "made to evict keys",
        how: "maxmemory",
        verb: "evict the keys of",
        holder: "nodes evicted keys",
        client: "nodes evicted keys",
        node: "nodes evicted keys",
        lasts: true,
    },
    blame: Blame { client: 1, node: 1 },
    colour: (0xd0, 0xb8, 0x9c),
    drawn: Drawn::phrase("evict {nodes}"),
};

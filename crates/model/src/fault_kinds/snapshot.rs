//! `snapshot`: a server forks and writes a snapshot, again and again. It forgets nothing, but does not answer while it forks.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "snapshot",
    what: "A server forks and writes a snapshot, again and again",
    phrase: Phrase::new(&["snapshot"], Form::Members(Takes::Nothing), "snapshot WHO", "snapshot node:0"),
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can write snapshots"),
    needs: Needs { process: true, redis: true, ..Needs::NOTHING },
    // The duration of a fork depends on the server's memory and its machine.
    does: Does {
        silences: true,
        rules_out: RulesOut::Nothing("a server answers while its child process saves"),
        ..Does::NOTHING
    },
    says: Says {
        name: "snapshot",
        done: "made to write snapshots",
        how: "BGSAVE",
        verb: "write snapshots of",
        holder: "nodes wrote snapshots",
        client: "nodes wrote snapshots",
        node: "nodes wrote snapshots",
        lasts: true,
    },
    blame: Blame { client: 4, node: 4 },
    colour: (0xb0, 0xcf, 0xc4),
    drawn: Drawn::phrase("snapshot {nodes}"),
};

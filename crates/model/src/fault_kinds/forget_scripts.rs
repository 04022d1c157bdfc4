//! `forget-scripts`: a server forgets the scripts that were loaded into it. Nothing undoes that.
//!
//! Servers also lose scripts when they restart or when another server takes their place. Here everything else stays: keys,
//! connections, time. A client that sends only a script's digest receives NOSCRIPT, and must send the script itself.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "forget-scripts",
    what: "A server forgets the scripts that clients loaded",
    phrase: Phrase::new(
        &["forget-scripts"],
        Form::Members(Takes::Nothing),
        "forget-scripts WHO",
        "forget-scripts node:0",
    ),
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can forget scripts"),
    needs: Needs { process: true, redis: true, ..Needs::NOTHING },
    // No key is touched, and a client that sends the script receives its answer.
    does: Does { rules_out: RulesOut::Nothing("a library may send its script with every call"), ..Does::NOTHING },
    says: Says {
        name: "loss of scripts",
        done: "made to forget scripts",
        how: "SCRIPT FLUSH",
        verb: "forget scripts of",
        holder: "a node had forgotten its scripts",
        client: "a node had forgotten its scripts",
        node: "a node had forgotten its scripts",
        lasts: false,
    },
    blame: Blame { client: 4, node: 3 },
    colour: (0xd8, 0xcf, 0xa4),
    drawn: None,
};

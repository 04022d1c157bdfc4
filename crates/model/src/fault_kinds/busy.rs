//! `busy`: a server runs a script that does not end, so it does not answer. After a while it answers BUSY.
//!
//! Its process, its kernel's TCP and its clocks go on, so keys expire and connections are accepted. A server reads nothing while
//! a script runs, not even the command that ends the script, until the script has run longer than `busy-reply-threshold`. From
//! then on it answers BUSY and obeys SCRIPT KILL. So the fault sets that threshold.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "busy",
    what: "A script that does not end keeps a server busy",
    phrase: Phrase::new(&["busy"], Form::Members(Takes::Length), "busy WHO 0.5ttl", "busy node:0 0.5ttl"),
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can be kept busy"),
    needs: Needs { process: true, redis: true, ..Needs::NOTHING },
    does: Does { silences: true, rules_out: RulesOut::Answers, ..Does::NOTHING },
    says: Says {
        name: "endless script",
        done: "kept busy",
        how: "a script that does not end",
        verb: "keep a script running on",
        holder: "a node was busy with a script",
        client: "a node was busy with a script",
        node: "a node was busy with a script",
        lasts: true,
    },
    blame: Blame { client: 2, node: 0 },
    colour: (0xe9, 0xc4, 0xa0),
    drawn: None,
};

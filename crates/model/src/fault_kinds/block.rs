//! `block`: a client blocks its own event loop, as a long computation or a blocking call in a coroutine does.
//!
//! It differs from a pause. After SIGCONT a runtime may run its timers before it reads waiting input; after a long computation it
//! may do the reverse. And threads beside the loop keep running. A client does it when the client protocol asks, and reports when
//! it begins and when it is over; it must answer nothing in between. The agent has no part in it.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, OnProcess, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "block",
    what: "A client blocks its own event loop, as the client protocol asks",
    phrase: Phrase::new(&["block"], Form::Members(Takes::For), "block WHO for 1.3ttl", "block holder for 1.3ttl"),
    allowed: Allowed::Roles(&[Role::Client], "only a client has an event loop that it can block"),
    needs: Needs { by_client: true, ..Needs::PROCESS },
    does: Does { process: OnProcess::Stops, silences: true, rules_out: RulesOut::Acts, ..Does::NOTHING },
    says: Says {
        name: "blocked event loop",
        done: "blocked",
        how: "by its own event loop",
        verb: "block",
        holder: "its holder's event loop was blocked",
        client: "a client's event loop was blocked",
        node: "a node was blocked",
        lasts: true,
    },
    blame: Blame { client: 0, node: 0 },
    colour: (0xb8, 0xa6, 0xdd),
    drawn: None,
};

//! `kill`: every process of a member ends at once; the heal starts it again. Data that it had handed to the kernel survive.

use super::{Allowed, Blame, Does, Drawn, FaultDef, Form, Needs, Phrase, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "kill",
    what: "SIGKILL to every process of the member, which restarts later",
    phrase: Phrase::new(&["kill"], Form::Members(Takes::Nothing), "kill WHO", "kill node"),
    allowed: Allowed::Roles(
        &[Role::Client, Role::Node, Role::Sentinel],
        "the resource is not under test and must survive",
    ),
    needs: Needs::PROCESS,
    does: Does::ENDS,
    says: Says {
        name: "kill",
        done: "killed",
        how: "SIGKILL",
        verb: "kill",
        holder: "its holder was killed",
        client: "a client was killed",
        node: "a node was killed",
        lasts: true,
    },
    blame: Blame { client: 3, node: 1 },
    colour: (0xe9, 0xa4, 0xa0),
    drawn: Drawn::phrase("kill {member}"),
};

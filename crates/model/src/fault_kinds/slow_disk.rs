//! `slow-disk`: each sync of a node's append-only file takes this much longer, as on a disk that other programs keep busy.

use super::{Allowed, Blame, Does, FaultDef, Form, Needs, Phrase, RulesOut, Says, Takes};
use base::members::Role;

pub(super) static DEF: FaultDef = FaultDef {
    id: "slow-disk",
    what: "Syncing a server's append-only file takes longer",
    phrase: Phrase::new(&["slow-disk"], Form::Members(Takes::Length), "slow-disk WHO 200ms", "slow-disk node:0 200ms"),
    allowed: Allowed::Roles(&[Role::Node], "only nodes of the lock can have a slow disk"),
    needs: Needs { process: true, preload: true, redis: true, ..Needs::NOTHING },
    // A server that syncs before it answers keeps all clients waiting meanwhile, but works in between.
    does: Does {
        silences: true,
        rules_out: RulesOut::Nothing("a server that replies before it writes to its disk is not slower"),
        ..Does::NOTHING
    },
    says: Says {
        name: "slow disk",
        done: "slowed at each sync",
        how: "each sync waits",
        verb: "slow down the disk of",
        holder: "a node's disk was slow",
        client: "a node's disk was slow",
        node: "a node's disk was slow",
        lasts: true,
    },
    blame: Blame { client: 2, node: 2 },
    colour: (0xb8, 0xc4, 0xcc),
    // The agent would refuse it where nodes store nothing on disk, and in virtual time.
    drawn: None,
};

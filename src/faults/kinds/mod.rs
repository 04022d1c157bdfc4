//! What the agent does for each kind of fault: inject it, see it, heal it. One file a kind, of the name that its declaration has in
//! `fault_kinds`; all are made of the primitives of a [`Host`](super::host::Host), so that they do the same everywhere.
//!
//! Most are one of two shapes: something is done to members ([`ToMembers`]), or to links ([`ToLinks`]). Whatever else a kind takes
//! is an [`Act`] of its own.

mod busy;
mod call;
mod clock;
mod delay;
mod evict;
mod failover;
mod flush;
mod forget_scripts;
mod kill;
mod loss;
mod partition;
mod pause;
mod pause_background;
mod power_loss;
mod refuse_writes;
mod reset;
mod slow_disk;
mod snapshot;

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};

use super::async_host::AsyncHost;
use super::host::MemberAction;
use super::injection::{Injection, Parameter};
use super::network::Effect;
use super::wire::{Observation, Struck};
use crate::fault_kinds::FaultKind;
use crate::machine::Machine;

/// Every kind has its line here, unless clients do it to themselves; a test finds one that has none.
static ALL: [&dyn Act; 18] = [
    &pause::ACT,
    &kill::ACT,
    &power_loss::ACT,
    &clock::ACT,
    &partition::ACT,
    &loss::ACT,
    &delay::ACT,
    &reset::ACT,
    &evict::ACT,
    &flush::ACT,
    &failover::ACT,
    &call::ACT,
    &pause_background::ACT,
    &snapshot::ACT,
    &busy::ACT,
    &slow_disk::ACT,
    &refuse_writes::ACT,
    &forget_scripts::ACT,
];

/// What was seen, or why nothing was done. What is not observed may be in effect all the same, and is healed like any other.
pub(super) type Seen = Result<Observation, String>;

/// A fault that was ordered.
#[derive(Clone)]
pub(super) struct Order {
    /// Its number.
    pub fault: u32,
    pub injection: Injection,
    /// Those of its members that another fault of its kind still hits, at its heal.
    pub still_held: Vec<String>,
}

/// Does something to the server of each member, by its commands.
async fn at_servers<'o, F: Future<Output = Observation>>(
    host: &AsyncHost,
    order: &'o Order,
    act: impl Fn(Arc<dyn Machine>, &'o str, String) -> F,
) -> Seen {
    Ok(Observation::all(at_each(host, order.injection.members.iter(), act).await?))
}

/// Undoes that, where no other fault of the kind still wants it: what was done to a server that died meanwhile is gone with it.
async fn undo_at_servers<'o, F: Future<Output = Observation>>(
    host: &AsyncHost,
    order: &'o Order,
    undo: impl Fn(Arc<dyn Machine>, &'o str, String) -> F,
) -> Seen {
    let free = order.injection.members.iter().filter(|name| !order.still_held.contains(name));
    let seen = at_each(host, free.filter(|name| host.now().runs(name)), undo).await?;
    let seen = if seen.is_empty() { Observation::nothing_to_undo() } else { Observation::all(seen) };
    Ok(seen.besides(&order.still_held))
}

/// All at once: a server that is slow keeps no other one waiting.
async fn at_each<'o, F: Future<Output = Observation>>(
    host: &AsyncHost,
    names: impl Iterator<Item = &'o String>,
    act: impl Fn(Arc<dyn Machine>, &'o str, String) -> F,
) -> Result<Vec<Observation>, String> {
    let doing = names.map(|name| Ok(act(host.machine(), name, host.url_of(name)?)));
    Ok(join_all(doing.collect::<Result<Vec<_>, String>>()?).await)
}

/// What the agent does for a kind of fault.
pub(super) trait Act: Sync {
    fn kind(&self) -> FaultKind;

    /// Brings it about, and observes that it is there.
    fn inject<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen>;

    /// Undoes it, and observes that it is undone. Called again until that was observed, so it must be harmless twice.
    fn heal<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen>;

    /// Whether it has struck, and where. If `disarm`, it strikes no more, whatever the answer. Only for faults at a command.
    fn strike<'a>(
        &'a self,
        _host: &'a AsyncHost,
        order: &'a Order,
        _disarm: bool,
    ) -> BoxFuture<'a, Result<Struck, String>> {
        let refused = format!("fault {} is not at a command", order.fault);
        Box::pin(async { Err(refused) })
    }
}

/// What the agent does for this kind.
pub(super) fn act_of(kind: FaultKind) -> Result<&'static dyn Act, String> {
    ALL.into_iter().find(|act| act.kind() == kind).ok_or_else(|| format!("the agent cannot inject `{kind}`"))
}

/// Something is done to each member, and undone.
struct ToMembers {
    kind: FaultKind,
    /// `None` for a parameter that makes no sense.
    inject: fn(&Parameter) -> Option<MemberAction>,
    heal: MemberAction,
    /// Whether a member stays as it is while another fault of this kind hits it.
    shared: bool,
}

impl Act for ToMembers {
    fn kind(&self) -> FaultKind {
        self.kind
    }

    fn inject<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(async move {
            let action = (self.inject)(&order.injection.with).ok_or_else(|| order.makes_no_sense())?;
            host.each(&order.injection.members, action).await
        })
    }

    fn heal<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(async move {
            let held: &[String] = if self.shared { &order.still_held } else { &[] };
            let free: Vec<String> =
                order.injection.members.iter().filter(|member| !held.contains(member)).cloned().collect();
            host.each(&free, self.heal).await.map(|seen| seen.besides(held))
        })
    }
}

/// Links have an effect until the heal.
struct ToLinks {
    kind: FaultKind,
    /// `None` for a parameter that makes no sense.
    effect: fn(&Parameter) -> Option<Effect>,
}

impl Act for ToLinks {
    fn kind(&self) -> FaultKind {
        self.kind
    }

    fn inject<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(async move {
            let effect = (self.effect)(&order.injection.with).ok_or_else(|| order.makes_no_sense())?;
            host.change_links(order.fault, &order.injection.links, effect).await
        })
    }

    fn heal<'a>(&'a self, host: &'a AsyncHost, order: &'a Order) -> BoxFuture<'a, Seen> {
        Box::pin(host.restore_links(order.fault))
    }
}

impl Order {
    fn makes_no_sense(&self) -> String {
        format!("`{}` makes no sense with {:?}", self.injection.kind, self.injection.with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_kind_has_one_act_and_the_guide_tells_of_it() {
        let guide = include_str!("../../../docs/faults.md");
        for kind in FaultKind::ALL.iter().filter(|kind| !kind.needs.by_client) {
            assert_eq!(ALL.iter().filter(|act| act.kind() == *kind).count(), 1, "{kind}: see `faults/kinds/mod.rs`");
            let usage = kind.phrase.usage;
            assert!(guide.contains(&format!("`{usage}`")), "docs/faults.md says nothing of `{usage}`");
        }
    }
}

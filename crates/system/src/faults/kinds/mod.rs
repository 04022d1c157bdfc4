//! The agent's actions for each kind of fault: inject it, observe it, heal it. All are made of the primitives of a
//! [`Host`](super::host::Host), so they do the same on every host.
//!
//! Most kinds have one of three forms: actions on members ([`ToMembers`]), on links ([`ToLinks`]), or by commands of servers
//! ([`ToServers`]). Every other kind has its own [`Act`]. A kind that is more than a primitive has its own file, with the name of
//! its declaration in `fault_kinds`.

mod busy;
mod call;
mod evict;
mod failover;
mod flush;
mod forget_scripts;
mod refuse_writes;
mod snapshot;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError, cmd};

use super::async_host::AsyncHost;
use super::host::MemberAction;
use super::injection::{Injection, Parameter};
use super::network::Effect;
use super::wire::{Observation, Struck};
use base::machine::Machine;
use model::fault_kinds::FaultKind;

/// Every kind has its line here, unless clients or the controller carry it out; a test finds missing kinds.
static ALL: [(FaultKind, &dyn Act); 20] = [
    (FaultKind::Pause, &ToMembers { inject: |_| Some(MemberAction::Stop), heal: MemberAction::Continue, shared: true }),
    // The code that started the member restarts it; the heal checks that it runs.
    (
        FaultKind::Kill,
        &ToMembers { inject: |_| Some(MemberAction::Kill), heal: MemberAction::VerifyRunning, shared: false },
    ),
    (
        FaultKind::Shutdown,
        &ToMembers { inject: |_| Some(MemberAction::ShutDown), heal: MemberAction::VerifyRunning, shared: false },
    ),
    // The controller starts the other program, and at the heal the member's own.
    (
        FaultKind::Upgrade,
        &ToMembers { inject: |_| Some(MemberAction::ShutDown), heal: MemberAction::VerifyRunning, shared: false },
    ),
    (
        FaultKind::PowerLoss,
        &ToMembers { inject: |_| Some(MemberAction::LosePower), heal: MemberAction::VerifyRunning, shared: false },
    ),
    (
        FaultKind::Clock,
        &ToMembers {
            inject: |with| match with {
                Parameter::Skew(skew) => Some(MemberAction::Skew(*skew)),
                _ => None,
            },
            heal: MemberAction::RestoreClock,
            shared: true,
        },
    ),
    (
        FaultKind::SlowDisk,
        &ToMembers {
            inject: |with| match *with {
                Parameter::Length { ms, jitter_ms } => Some(MemberAction::SlowDisk { ms, jitter_ms }),
                _ => None,
            },
            heal: MemberAction::RestoreDisk,
            shared: true,
        },
    ),
    (
        FaultKind::PauseBackground,
        &ToMembers {
            inject: |_| Some(MemberAction::StopBackground),
            heal: MemberAction::ContinueBackground,
            shared: true,
        },
    ),
    (FaultKind::Partition, &ToLinks(|_| Some(Effect::Drop))),
    (FaultKind::Reset, &ToLinks(|_| Some(Effect::Reset))),
    (
        FaultKind::Loss,
        &ToLinks(|with| match *with {
            Parameter::Percent(percent) => Some(Effect::Lose { percent }),
            _ => None,
        }),
    ),
    (
        FaultKind::Delay,
        &ToLinks(|with| match *with {
            Parameter::Length { ms, jitter_ms } => Some(Effect::Delay { ms, jitter_ms }),
            _ => None,
        }),
    ),
    (FaultKind::Evict, &evict::ACT),
    (FaultKind::Flush, &flush::ACT),
    (FaultKind::ForgetScripts, &forget_scripts::ACT),
    (FaultKind::RefuseWrites, &refuse_writes::ACT),
    (FaultKind::Busy, &busy::Busy),
    (FaultKind::Snapshot, &snapshot::Snapshot),
    (FaultKind::Failover, &failover::Failover),
    (FaultKind::Call, &call::Call),
];

/// The observation, or why the fault was not injected. A fault that was not observed may still be in effect, and is healed like
/// any other.
pub(super) type ActOutcome = Result<Observation, String>;

/// A fault that was ordered.
#[derive(Clone)]
pub(super) struct Order {
    /// Its number.
    pub fault: u32,
    pub injection: Injection,
    /// At the heal: those of its members that another fault of its kind still hits.
    pub still_held: Vec<String>,
}

/// Runs commands on the server of each member.
async fn at_servers<'o, F: Future<Output = Observation>>(
    host: &AsyncHost,
    order: &'o Order,
    act: impl Fn(Arc<dyn Machine>, &'o str, String) -> F,
) -> ActOutcome {
    Ok(Observation::all(at_each(host, order.injection.members.iter(), act).await?))
}

/// Undoes the fault on servers that no other fault of its kind still hits. If a server died meanwhile, the fault is gone with it.
async fn undo_at_servers<'o, F: Future<Output = Observation>>(
    host: &AsyncHost,
    order: &'o Order,
    undo: impl Fn(Arc<dyn Machine>, &'o str, String) -> F,
) -> ActOutcome {
    let free = order.injection.members.iter().filter(|name| !order.still_held.contains(name));
    let seen = at_each(host, free.filter(|name| host.now().runs(name)), undo).await?;
    let seen = if seen.is_empty() { Observation::nothing_to_undo() } else { Observation::all(seen) };
    Ok(seen.besides(&order.still_held))
}

/// Runs `act` on all servers at once: a slow server does not delay the others.
async fn at_each<'o, F: Future<Output = Observation>>(
    host: &AsyncHost,
    names: impl Iterator<Item = &'o String>,
    act: impl Fn(Arc<dyn Machine>, &'o str, String) -> F,
) -> Result<Vec<Observation>, String> {
    let doing = names.map(|name| Ok(act(host.machine(), name, host.url_of(name)?)));
    Ok(join_all(doing.collect::<Result<Vec<_>, String>>()?).await)
}

/// The agent's actions for a kind of fault.
#[async_trait]
pub(super) trait Act: Sync {
    /// Injects the fault, and observes its effect.
    async fn inject(&self, host: &AsyncHost, order: &Order) -> ActOutcome;

    /// Undoes the fault, and observes this. It is called again until that was observed, so repeating it must do no harm.
    async fn heal(&self, host: &AsyncHost, order: &Order) -> ActOutcome;

    /// Says whether the fault has fired, and where. If `disarm`, it fires no more, whatever the answer. Only for faults at a command.
    async fn strike(&self, _host: &AsyncHost, order: &Order, _disarm: bool) -> Result<Struck, String> {
        Err(format!("fault {} is not at a command", order.fault))
    }
}

/// The agent's actions for this kind.
pub(super) fn act_of(kind: FaultKind) -> Result<&'static dyn Act, String> {
    let act = ALL.iter().find(|(of, _)| *of == kind);
    act.map(|(_, act)| *act).ok_or_else(|| format!("the agent cannot inject `{kind}`"))
}

/// An action on each member, and the action that undoes it.
struct ToMembers {
    /// `None` for an invalid parameter.
    inject: fn(&Parameter) -> Option<MemberAction>,
    heal: MemberAction,
    /// True if a member stays affected while another fault of this kind hits it.
    shared: bool,
}

#[async_trait]
impl Act for ToMembers {
    async fn inject(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        let action = (self.inject)(&order.injection.with).ok_or_else(|| order.makes_no_sense())?;
        host.each(&order.injection.members, action).await
    }

    async fn heal(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        // A member that was started anew may have been killed again meanwhile.
        let held = order.still_held.iter().filter(|member| self.shared || !host.now().runs(member));
        let held: Vec<String> = held.cloned().collect();
        let free: Vec<String> =
            order.injection.members.iter().filter(|member| !held.contains(member)).cloned().collect();
        host.each(&free, self.heal).await.map(|seen| seen.besides(&held))
    }
}

/// Links have this effect until the heal; `None` for an invalid parameter.
struct ToLinks(fn(&Parameter) -> Option<Effect>);

#[async_trait]
impl Act for ToLinks {
    async fn inject(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        let effect = (self.0)(&order.injection.with).ok_or_else(|| order.makes_no_sense())?;
        host.change_links(order.fault, &order.injection.links, effect).await
    }

    async fn heal(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        host.restore_links(order.fault).await
    }
}

/// Commands on the server of each member, as an operator would use them.
struct ToServers {
    inject: AtServer,
    heal: Undo,
}

/// An action on one server, given the machine that connects, the member's name, and the server's URL.
type AtServer = for<'n> fn(Arc<dyn Machine>, &'n str, String) -> BoxFuture<'n, Observation>;

/// How to undo the action.
enum Undo {
    By(AtServer),
    /// Nothing can be undone, for this reason.
    Nothing(&'static str),
}

#[async_trait]
impl Act for ToServers {
    async fn inject(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        at_servers(host, order, self.inject).await
    }

    async fn heal(&self, host: &AsyncHost, order: &Order) -> ActOutcome {
        match self.heal {
            Undo::By(undo) => undo_at_servers(host, order, undo).await,
            Undo::Nothing(why) => Ok(Observation::of(true, format!("{}: {why}", order.injection.members.join(", ")))),
        }
    }
}

/// One section of a server's INFO.
async fn info(server: &mut MultiplexedConnection, section: &str) -> Result<String, RedisError> {
    cmd("INFO").arg(section).query_async(server).await
}

async fn configure(server: &mut MultiplexedConnection, setting: &str, value: impl ToString) -> Result<(), RedisError> {
    cmd("CONFIG").arg("SET").arg(setting).arg(value.to_string()).query_async(server).await
}

async fn configured<T: FromRedisValue>(server: &mut MultiplexedConnection, setting: &str) -> Result<T, RedisError> {
    let (_, value): (String, T) = cmd("CONFIG").arg("GET").arg(setting).query_async(server).await?;
    Ok(value)
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
        let guide = include_str!("../../../../../docs/faults.md");
        for kind in FaultKind::ALL.iter().filter(|kind| kind.is_by_the_agent()) {
            assert_eq!(ALL.iter().filter(|(of, _)| of == kind).count(), 1, "{kind}: see `faults/kinds/mod.rs`");
            let usage = kind.phrase.usage;
            assert!(guide.contains(&format!("`{usage}`")), "docs/faults.md says nothing of `{usage}`");
        }
    }
}

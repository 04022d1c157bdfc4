//! Builds a client's lock on the servers that the controller names.

use std::sync::Arc;

use super::clock::ClientClock;
use super::control::Control;
use super::etcd::EtcdServers;
use super::first_asked;
use super::protocol::Hello;
use super::redis_mail::RedisMail;
use super::redis_node::RedisNode;
use super::zookeeper::ZookeeperServers;
use base::machine::Machine;
use model::locks::Lock;
use model::locks::etcd::{self, Etcd};
use model::locks::perfect::{self, Perfect};
use model::locks::zookeeper::{self, Zookeeper};

/// Builds the lock that the controller names; the error says what is missing or unknown.
pub fn lock(hello: &Hello, control: &Arc<Control>, machine: &Arc<dyn Machine>) -> Result<Lock<ClientClock>, String> {
    #[cfg(debug_assertions)]
    let hello = &Hello { lock: model::locks::mutants::settings(&hello.lock), ..hello.clone() };
    let settings = &hello.lock;
    let limit = settings.node_timeout();
    let (clock, ttl) = (ClientClock::new(hello, machine), settings.ttl());
    let first = first_asked(hello);
    match settings.name.as_str() {
        name if name == etcd::ABOUT.name => {
            let leases = EtcdServers::new(&settings.nodes, first, limit)?;
            Lock::elsewhere(Etcd { leases, clock: clock.clone(), ttl }, settings, clock)
        }
        name if name == zookeeper::ABOUT.name => {
            let contest = ZookeeperServers::new(&settings.nodes, first, limit, ttl)?;
            Lock::elsewhere(Zookeeper { contest, clock: clock.clone() }, settings, clock)
        }
        name if name == perfect::ABOUT.name => {
            Lock::elsewhere(Perfect { grantor: Arc::clone(control) }, settings, clock)
        }
        _ => {
            let mail = RedisMail::new(&settings.nodes, limit, machine)?;
            Lock::from_settings(settings, RedisNode::of_lock(settings, first, machine)?, clock, mail)
        }
    }
}

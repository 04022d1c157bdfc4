//! Processes the replies of servers and Sentinels.

use std::net::SocketAddrV4;

use super::Sentinel;
use super::failover::{Failover, Stage};
use super::instance::{Asked, Id, Instance, ServerRole, Turned};
use super::links::HELLO_PERIOD;
use crate::reply::Reply;

impl Sentinel {
    pub(super) fn heard(&mut self, id: Id, asked: Asked, reply: &Reply) {
        match asked {
            Asked::Ping => self.heard_pong(id, reply),
            Asked::Info => {
                if let Reply::Bulk(text) = reply {
                    self.heard_info(id, &String::from_utf8_lossy(text));
                }
            }
            Asked::Down => self.heard_judgement(id, reply),
            Asked::Nothing => {}
        }
    }

    fn heard_pong(&mut self, id: Id, reply: &Reply) {
        let now = self.now;
        let instance = self.get_mut(id);
        let good = match reply {
            Reply::Status(text) => text == "PONG",
            Reply::Error(text) => text.starts_with("LOADING") || text.starts_with("MASTERDOWN"),
            _ => false,
        };
        if good {
            instance.available = now;
            instance.unanswered = None;
        }
        instance.last_pong = now;
    }

    fn heard_judgement(&mut self, id: Id, reply: &Reply) {
        let now = self.now;
        let Reply::Array(parts) = reply else { return };
        let [Reply::Integer(down), Reply::Bulk(leader), Reply::Integer(epoch)] = &parts[..] else { return };
        let instance = self.get_mut(id);
        instance.last_said = now;
        instance.says_down = *down == 1;
        if leader != b"*" {
            instance.leader = Some((String::from_utf8_lossy(leader).into_owned(), *epoch as u64));
        }
    }

    /// Handles the hello message of another Sentinel, with the primary that it knows.
    pub(super) fn heard_hello(&mut self, text: &str) {
        let words: Vec<&str> = text.split(',').collect();
        let [ip, port, id, epoch, group, primary_ip, primary_port, config_epoch] = words[..] else { return };
        if group != self.config.group || id == self.config.id {
            return;
        }
        let address = |ip: &str, port: &str| Some(SocketAddrV4::new(ip.parse().ok()?, port.parse().ok()?));
        let (Some(address), Some(primary)) = (address(ip, port), address(primary_ip, primary_port)) else { return };
        let (Ok(epoch), Ok(config_epoch)) = (epoch.parse::<u64>(), config_epoch.parse::<u64>()) else { return };
        let known = self.sentinels.iter().position(|other| other.id == id && other.address == address);
        let number = match known {
            Some(number) => number,
            None => {
                // The Sentinel has moved, or another Sentinel has its address.
                for number in (0..self.sentinels.len()).rev() {
                    let other = &self.sentinels[number];
                    if other.id == id || other.address == address {
                        self.cut(Id::Sentinel(number));
                        self.sentinels.remove(number);
                    }
                }
                self.sentinels.push(Instance::new(ServerRole::Sentinel, address, id, self.now));
                self.save();
                self.sentinels.len() - 1
            }
        };
        self.sentinels[number].last_hello = self.now;
        if epoch > self.current_epoch {
            self.current_epoch = epoch;
            self.save();
        }
        if config_epoch > self.config_epoch {
            self.config_epoch = config_epoch;
            if primary != self.primary.address {
                self.switch_to(primary);
            }
            self.save();
        }
    }

    fn heard_info(&mut self, id: Id, text: &str) {
        let now = self.now;
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let is_replica = field("role") == Some("slave");
        let instance = self.get_mut(id);
        instance.informed = Some(now);
        if let Some(run_id) = field("run_id") {
            instance.id = run_id.to_string();
        }
        let reported = if is_replica { ServerRole::Replica } else { ServerRole::Primary };
        if reported != instance.reported {
            instance.reported = reported;
            instance.reported_since = now;
            instance.follows_since = now;
        }
        if is_replica {
            let host = field("master_host").and_then(|host| host.parse().ok());
            let port = field("master_port").and_then(|port| port.parse().ok());
            let follows = host.zip(port).map(|(host, port)| SocketAddrV4::new(host, port));
            if follows != instance.follows {
                instance.follows = follows;
                instance.follows_since = now;
            }
            instance.link_up = field("master_link_status") == Some("up");
            let seconds = field("master_link_down_since_seconds").and_then(|text| text.parse::<i64>().ok());
            instance.link_down = if instance.link_up { 0 } else { seconds.unwrap_or(0) * 1000 };
            instance.priority = field("slave_priority").and_then(|text| text.parse().ok()).unwrap_or(100);
            instance.offset = field("slave_repl_offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        } else if id == Id::Primary {
            self.discover(text);
        }
        if self.tilt.is_none() {
            self.draw_conclusions(id);
        }
    }

    /// Adds the replicas that the primary names.
    fn discover(&mut self, text: &str) {
        for line in text.lines().filter(|line| line.starts_with("slave") && line.contains("ip=")) {
            let part = |name: &str| line.split([',', ':']).find_map(|part| part.strip_prefix(name));
            let address =
                part("ip=").and_then(|ip| ip.parse().ok()).zip(part("port=").and_then(|port| port.parse().ok()));
            let Some(address) = address.map(|(ip, port)| SocketAddrV4::new(ip, port)) else { continue };
            if self.replicas.iter().all(|replica| replica.address != address) {
                self.replicas.push(Instance::new(ServerRole::Replica, address, "", self.now));
                self.save();
            }
        }
    }

    /// Acts on the role that a replica reports.
    fn draw_conclusions(&mut self, id: Id) {
        let Id::Replica(number) = id else { return };
        let now = self.now;
        let replica = self.replicas[number].clone();
        let primary = self.primary.address;
        if replica.reported == ServerRole::Primary {
            if replica.promoted && self.failover.stage == Stage::WaitPromotion {
                self.config_epoch = self.failover.epoch;
                self.failover.stage = Failover::TURNING;
                self.failover.changed = now;
                self.hurry_hellos();
                self.save();
            } else if !replica.promoted {
                let wait = 4 * HELLO_PERIOD;
                let long_enough = now - replica.reported_since > wait && replica.was_up_for(wait, now);
                if long_enough && self.primary_looks_sane() {
                    self.turn(id, Some(primary));
                }
            }
            return;
        }
        let promoted = self.replicas.iter().find(|other| other.promoted).map(|other| other.address);
        if replica.follows != Some(primary) && !(self.failover.is_running() && replica.follows == promoted) {
            let wait = self.config.failover_timeout.as_millis() as i64;
            let long_enough = now - replica.follows_since > wait && replica.was_up_for(wait, now);
            if long_enough && self.primary_looks_sane() {
                self.turn(id, Some(primary));
            }
        }
        let replica = &mut self.replicas[number];
        if replica.turned == Turned::Told && replica.follows == promoted {
            replica.turned = Turned::Following;
        }
        if replica.turned == Turned::Following && replica.link_up {
            replica.turned = Turned::Done;
        }
    }

    fn primary_looks_sane(&self) -> bool {
        let primary = &self.primary;
        let fresh = primary.informed.is_some_and(|then| self.now - then < 2 * self.info_period(Id::Primary));
        primary.reported == ServerRole::Primary
            && primary.down_since.is_none()
            && self.agreed_down_since.is_none()
            && fresh
    }
}

//! Makes sure that newly started members are running, known to the agent, and answering.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};

use super::cluster::Cluster;
use super::error::{ClusterError, one_line};
use super::parts::MemberHandle;
use super::spec::Member;
use crate::faults::{RedisCommand, RedisReply, Scope, UNREACHED};
use base::members::Role;
use model::topology::Roles;

/// Time limit for a server's start. Redis answers within a tenth of a second. A JVM takes seconds, and so does a database that
/// must first be created. A loaded machine gets more time.
const READY_LIMIT: Duration = Duration::from_secs(40);
/// How long a container's kernel may be silent before a firewall is suspected. It answers as soon as it has a network.
const SILENT_LIMIT: Duration = Duration::from_secs(10);
/// An error shows at most this many lines of a log, and about this many characters of whole lines.
const LAST_LINES: u32 = 8;
const LAST_CHARACTERS: usize = 2000;
/// Time limit of one question to a server that may not be listening yet.
const PROBE_LIMIT: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// How often, and at which interval, to check whether a process that the agent did not find has ended.
const LAST_LOOKS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Cluster {
    /// Waits until all members are ready, `at_once` at a time. Returns the servers' own names and versions.
    pub async fn make_all_ready(&self, at_once: usize) -> Result<String, ClusterError> {
        stream::iter(&self.handles).map(Ok).try_for_each_concurrent(at_once, |handle| self.make_ready(handle)).await?;
        self.settle_roles(READY_LIMIT).await.map_err(|reason| ClusterError::NotReady {
            member: "the group of nodes".to_string(),
            seconds: READY_LIMIT.as_secs(),
            reason: match self.firewall_between_members() {
                Some(hint) => format!("{reason}; if it keeps failing, {hint}"),
                None => reason,
            },
            log: String::new(),
        })?;
        let server = self.server_version().await?;
        self.make_sure_of_ifeq(&server).await?;
        Ok(server)
    }

    /// Tries on each node whether it has `SET … IFEQ`, if the lock needs that. The key is absent, and IFEQ creates none.
    async fn make_sure_of_ifeq(&self, server: &str) -> Result<(), ClusterError> {
        let Some(workload) = &self.needs_ifeq else { return Ok(()) };
        let key = self.named_for_clients("trial");
        for url in self.node_urls() {
            let words = ["SET", &key, "redjepsen", "IFEQ", "redjepsen", "PX", "1"].map(str::to_string).to_vec();
            let answer = self.agent.redis(&url, RedisCommand::Words(words), PROBE_LIMIT).await;
            // Any other answer says nothing: a replica refuses all writes.
            if answer.is_err_and(|error| error.to_string().contains("syntax error")) {
                let (workload, server) = (workload.clone(), server.to_string());
                let install = ", after `redjepsen install --servers valkey:9.1`";
                return Err(ClusterError::NoIfeq { workload, server, install });
            }
        }
        Ok(())
    }

    /// Waits until every node's role is settled and all agree on it. After `limit`, the error says what was missing.
    pub async fn settle_roles(&self, limit: Duration) -> Result<Option<Roles>, String> {
        let began = Instant::now();
        loop {
            match self.settled_roles().await {
                Err(_) if began.elapsed() < limit => sleep(LOOK_AGAIN).await,
                settled => return settled,
            }
        }
    }

    /// Adds the servers' name and version to the description.
    pub fn called(mut self, server: &str) -> Cluster {
        self.description.server += server;
        self
    }

    /// Makes sure that a newly started member is running, known to the agent, and answering.
    pub async fn make_ready(&self, handle: &MemberHandle) -> Result<(), ClusterError> {
        if handle.member.role == Role::Agent {
            return Ok(());
        }
        self.adopt(handle).await?;
        if handle.member.role.is_server() { self.wait_until_ready(handle).await } else { Ok(()) }
    }

    /// Registers a member's process with the agent, so that faults can reach it.
    async fn adopt(&self, handle: &MemberHandle) -> Result<(), ClusterError> {
        let name = &handle.member.name;
        let before = self.running_pid(handle).await?;
        if let Err(source) = self.agent.adopt(name, before, Scope::Namespace, handle.member.address).await {
            // Most likely the process has just ended. The next lines notice this, and their error explains more.
            for _ in 0..LAST_LOOKS {
                self.running_pid(handle).await?;
                sleep(LOOK_AGAIN).await;
            }
            return Err(ClusterError::Agent { doing: format!("take hold of {name}"), source });
        }
        // If the PID has changed by now, the agent might hold a foreign process that reuses the first PID.
        let after = self.running_pid(handle).await?;
        if before == after { Ok(()) } else { Err(self.died(handle, "its process was replaced".to_string()).await) }
    }

    async fn running_pid(&self, handle: &MemberHandle) -> Result<u32, ClusterError> {
        match self.backend.running_pid(&handle.member).await? {
            Ok(pid) => Ok(pid),
            Err(state) => Err(self.died(handle, state).await),
        }
    }

    async fn wait_until_ready(&self, handle: &MemberHandle) -> Result<(), ClusterError> {
        let began = Instant::now();
        let mut heard = began;
        loop {
            let Err(reason) = self.is_ready(&handle.member).await else { return Ok(()) };
            if !reason.ends_with(UNREACHED) {
                heard = Instant::now();
            } else if self.backend.firewall().is_some() && heard.elapsed() > SILENT_LIMIT {
                self.running_pid(handle).await?;
                let address = handle.member.address.map(|address| address.to_string()).unwrap_or_default();
                return Err(ClusterError::Firewall { member: handle.member.name.clone(), address });
            }
            if began.elapsed() > READY_LIMIT {
                // If the server has ended, its end explains more.
                self.running_pid(handle).await?;
                let (member, log) = (handle.member.name.clone(), self.last_words(handle).await);
                return Err(ClusterError::NotReady { member, seconds: READY_LIMIT.as_secs(), reason, log });
            }
            if began.elapsed() > PROBE_LIMIT {
                self.running_pid(handle).await?;
            }
            sleep(ASK_AGAIN).await;
        }
    }

    /// The firewall to check if members do not reach each other although the agent reaches all of them. None if this machine's
    /// firewall does not see the cluster's network.
    pub fn firewall_between_members(&self) -> Option<&'static str> {
        self.backend.firewall()
    }

    /// Asks a server once whether it is usable, with a limit of one second; an error says why it is not.
    pub async fn is_ready(&self, member: &Member) -> Result<(), String> {
        let Some(url) = member.url() else {
            return Err(format!("{} is not a server", member.name));
        };
        match self.agent.redis(&url, RedisCommand::Ping, PROBE_LIMIT).await {
            Ok(RedisReply::Pong) => Ok(()),
            Ok(other) => Err(format!("the answer to PING is {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn died(&self, handle: &MemberHandle, state: String) -> ClusterError {
        // A client's last output may still be in transit.
        if !handle.member.role.is_server() && handle.log.text().is_empty() {
            sleep(LOOK_AGAIN).await;
        }
        let mut log = self.last_words(handle).await;
        if log.is_empty() && !handle.member.role.is_server() {
            log = "; it wrote nothing to standard error, so run its command by hand".to_string();
        }
        ClusterError::MemberDied { member: handle.member.name.clone(), state, log }
    }

    /// The end of a member's log, for the single line of an error.
    async fn last_words(&self, handle: &MemberHandle) -> String {
        let text = self.log_of(handle, Some(LAST_LINES)).await.unwrap_or_default();
        match last_lines(&String::from_utf8_lossy(&text)) {
            none if none.is_empty() => none,
            lines => format!("; its log ends with: {lines}"),
        }
    }

    async fn server_version(&self) -> Result<String, ClusterError> {
        let failed = |source| ClusterError::Agent { doing: "ask for the server's version".to_string(), source };
        let mut versions = Vec::new();
        // All nodes run the same program, so one node is enough.
        for url in self.node_urls().into_iter().take(1).chain([self.resource_url()]) {
            let version = match self.agent.redis(&url, RedisCommand::Version, PROBE_LIMIT).await.map_err(failed)? {
                RedisReply::Version(version) => version,
                other => format!("{other:?}"),
            };
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        Ok(versions.join(", "))
    }
}

/// The last lines of a log, joined into one line. No line is cut: a server's message makes sense only as a whole.
fn last_lines(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().rev().map(one_line).filter(|line| !line.is_empty()).take(LAST_LINES as usize) {
        let so_far: usize = lines.iter().map(String::len).sum();
        if !lines.is_empty() && so_far + line.len() > LAST_CHARACTERS {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.join(" | ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, empty, split};

    use super::super::lines::{ClientProcess, Log};
    use super::super::parts::agent_on;
    use super::*;
    use crate::faults::AgentError;

    const ONE_WAY: Duration = Duration::from_millis(3);
    /// The time that the members' clock shows when the run begins.
    const AT_START: Duration = Duration::from_secs(100);

    /// An agent as a task that answers only questions about its clock.
    async fn serve(stream: DuplexStream, began: Instant) {
        let (orders, mut answers) = split(stream);
        let mut orders = BufReader::new(orders).lines();
        while let Some(order) = orders.next_line().await.unwrap() {
            sleep(ONE_WAY).await;
            let order: Value = serde_json::from_str(&order).unwrap();
            if order["order"] == "clock" {
                let mono_ns = (AT_START + began.elapsed()).as_nanos() as u64;
                let answer = json!({ "id": order["id"], "answer": { "Ok": mono_ns } });
                sleep(ONE_WAY).await;
                answers.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
    }

    #[test]
    fn a_servers_last_message_is_told_whole() {
        let fatal = "\n*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***\nReading the configuration file, at line 2\n\
                     >>> 'appendonly maybe'\nargument must be 'yes' or 'no'\n";
        let told = "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) *** | Reading the configuration file, at line 2 | >>> \
                    'appendonly maybe' | argument must be 'yes' or 'no'";
        assert_eq!(last_lines(fatal), told);
        let long = "x".repeat(3 * LAST_CHARACTERS);
        assert_eq!(last_lines(&format!("before\n{long}\n")), long, "a long line is not cut");
        assert_eq!(last_lines(&format!("{long}\nafter\n")), "after", "half a line would tell nothing");
        assert_eq!(last_lines(" \n\n"), "");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_may_be_a_task_and_its_time_virtual() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let began = Instant::now();
        tokio::spawn(serve(theirs, began));
        let (answers, orders) = split(ours);
        let agent = agent_on(ClientProcess::over(orders, answers, empty(), Log::default()));
        let bound = agent.clock_bound(began).await.unwrap();
        assert_eq!(bound.mono_at_start_ns, AT_START.as_nanos() as i64);
        assert_eq!(bound.error_ns, ONE_WAY.as_nanos() as u64);
        let asked = Instant::now();
        assert!(matches!(agent.heal_all().await, Err(AgentError::Timeout(limit)) if limit == asked.elapsed()));
    }
}

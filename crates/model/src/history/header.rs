//! The configuration of a run: the first line of a history, and types that it shares with workloads and nemeses.

use serde::{Deserialize, Serialize};

/// The version of the file format: this build writes it, and reads no newer one.
pub const FORMAT: u32 = 1;

/// The configuration of a run: enough to check the history without the run folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    /// The version of redjepsen that wrote the history.
    pub redjepsen: String,
    pub workload: String,
    pub nemesis: String,
    pub seed: u64,
    pub clients: u32,
    /// How many clients are threads or tasks of one process: the first this many clients share one process, the next share
    /// another.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    pub nodes: u32,
    pub keys: u32,
    /// The lock's time to live, in milliseconds. For a lock that never expires, the unit of time for the run.
    pub ttl_ms: u64,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub expires: bool,
    /// True if a client may, by design, acquire the lock from its holder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steals: bool,
    /// How many clients may hold the lock at once.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub permits: u32,
    /// How long an attempt to acquire the lock may wait, in milliseconds; the longest if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire_timeout_ms: Option<u64>,
    /// The shortest time for which a client was asked to hold the lock, in milliseconds; None if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_hold_ms: Option<u64>,
    /// The longest time for which a free and requested lock may stay free, in milliseconds, if the workload states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_ms: Option<u64>,
    /// How much later than its limit a call may end, in milliseconds, if the workload states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_overrun_ms: Option<u64>,
    /// True if the library measures its limits by the wall clock, so that a changed clock explains a long wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_by_wall_clock: bool,
    /// The time within which the library must report a lost lock to its holder, in milliseconds, if the workload states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_within_ms: Option<u64>,
    /// How long clients were to be kept busy, in milliseconds.
    pub time_limit_ms: u64,
    /// The kind of resource that the lock protects. Histories from before this field are of registers.
    #[serde(default)]
    pub resource: ResourceKind,
    /// The properties that decide the verdict; others are only reported.
    pub claims: Vec<Claim>,
    /// True if the nemesis was meant to inject faults. If so, a run without faults proves nothing.
    pub faults_expected: bool,
    /// The number of steps of the nemesis's script; 0 if it has none.
    #[serde(default)]
    pub script_steps: u32,
    /// How many updates should be acknowledged while faults were in effect.
    #[serde(default)]
    pub progress: Progress,
    /// At least one fault must outlast this while a client holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlives: Option<Outlives>,
    /// True if the run was simulated: servers, network, processes and time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// Start of the run by the wall clock, RFC 3339, for people.
    pub started: String,
}

/// For serde: the default of a number, which is not written.
pub fn one() -> u32 {
    1
}

pub fn is_one(number: &u32) -> bool {
    *number == 1
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// The ids of claims. Histories and workload files contain them, so they must not change. `checker/properties` has the rest of
/// each claim.
macro_rules! claims {
    ($($(#[$attribute:meta])? $claim:ident = $name:literal),* $(,)?) => {
        /// A property that a workload's lock must have, by its id.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Claim {
            $(
                #[doc = concat!("See `checker/properties`: ", $name, ".")]
                $(#[$attribute])?
                $claim,
            )*
        }

        impl Claim {
            /// All claims, in the order of reports.
            pub const ALL: &[Claim] = &[$(Claim::$claim),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Claim::$claim => $name),*
                }
            }
        }
    };
}

claims! {
    Updates = "updates",
    MutualExclusion = "mutual exclusion",
    Tokens = "tokens",
    Liveness = "liveness",
    Amounts = "amounts",
    #[serde(rename = "promises")] Timeouts = "promises",
    Releases = "releases",
    Ownership = "ownership",
    Losses = "losses",
    Grants = "grants",
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// One value per key, each written value unique in the run, in its own Redis.
    #[default]
    Register,
    /// A register with a number beside the value: each holder writes a number one greater than it read.
    Counter,
    /// A list of every value so far: each holder appends its own value and writes the list back.
    List,
    /// A register on the nodes themselves, which replicate it, without a lock. Clients use reads, writes and compare-and-sets.
    Replicated,
    /// A register in a row of the database that also stores the lock.
    Row,
    /// None: clients take the lock, think, and release it.
    None,
}

/// How many updates a nemesis permits while its faults are in effect; the gates check this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// Some updates must be acknowledged meanwhile, or the run proves nothing.
    #[default]
    Some,
    /// No update is acknowledged meanwhile: no client can hold the lock.
    None,
    /// Any number of updates may be acknowledged.
    Any,
}

/// The time that a fault must outlast in order to prove anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlives {
    /// The time to live of a lock that was held when the fault began, counted from the acquisition.
    Ttl,
}

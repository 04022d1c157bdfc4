//! What was run: the first line of a history, and the words that it shares with workloads and nemeses.

use serde::{Deserialize, Serialize};

/// The version of the file format that this build writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// What was run: enough to check the history without the run folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    /// The version of redjepsen that wrote the history.
    pub redjepsen: String,
    pub workload: String,
    pub nemesis: String,
    pub seed: u64,
    pub clients: u32,
    /// How many clients are threads or tasks of one process: the first so many of one, the next of another.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    pub nodes: u32,
    pub keys: u32,
    /// The lock's time to live, in milliseconds. For one that never runs out, the length that the run counts in.
    pub ttl_ms: u64,
    /// Whether the lock runs out by itself.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub expires: bool,
    /// Whether the lock may be taken from its holder, by its design.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steals: bool,
    /// How many clients may hold the lock at once.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub permits: u32,
    /// How long an attempt to get the lock may wait, in milliseconds; the longest if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire_timeout_ms: Option<u64>,
    /// The shortest time for which a client was told to hold the lock, in milliseconds; None if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_hold_ms: Option<u64>,
    /// The longest time for which a free lock that is requested may stay free, in milliseconds, if the workload says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_ms: Option<u64>,
    /// How much later than its limit a call may end, in milliseconds, if the workload says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_overrun_ms: Option<u64>,
    /// Whether the library measures its limits by the wall clock, so that a clock that was set explains a long wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_by_wall_clock: bool,
    /// Within which time a holder is told that its lock is gone, in milliseconds, if the workload says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_within_ms: Option<u64>,
    /// How long clients were to be kept busy, in milliseconds.
    pub time_limit_ms: u64,
    /// What the lock protects. Histories from before this field are of registers.
    #[serde(default)]
    pub resource: ResourceKind,
    /// The properties that decide the verdict; the others are reported only.
    pub claims: Vec<Claim>,
    /// Whether the nemesis was to inject faults; if so, a run without any proves nothing.
    pub faults_expected: bool,
    /// How many steps the nemesis's script has; 0 if it has none.
    #[serde(default)]
    pub script_steps: u32,
    /// Whether updates were to be acknowledged while faults were in effect.
    #[serde(default)]
    pub progress: Progress,
    /// What at least one fault must outlast while somebody holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlives: Option<Outlives>,
    /// Whether the run was simulated: servers, network, processes and time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// Start of the run by the wall clock, RFC 3339, for people.
    pub started: String,
}

/// For serde: what a number that is left out stands for, and when it need not be written.
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

/// The ids of claims, which histories and workloads keep. `checker/properties` has all else of each.
macro_rules! claims {
    ($($(#[$attribute:meta])? $claim:ident = $name:literal),* $(,)?) => {
        /// A property that a workload's lock is held to, by its id.
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
            /// All of them, in the order in which reports tell them.
            pub const ALL: &[Claim] = &[$(Claim::$claim),*];

            /// Its name, for people.
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

/// What the lock protects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// One value per key, each written value unique in the run, in its own Redis.
    #[default]
    Register,
    /// A register with a number beside the value: each holder writes back one more than it read.
    Counter,
    /// A list of every value so far: each holder writes back what it read with its own value at the end.
    List,
    /// A register on the nodes themselves, which replicate it, without a lock: reads, writes and compare-and-sets.
    Replicated,
    /// A register in a row of the database that also keeps the lock.
    Row,
    /// None: clients take the lock, think, and release it.
    None,
}

/// How much work a nemesis leaves possible while its faults are in effect; the gates check this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// Some updates must be acknowledged meanwhile, or the run shows nothing.
    #[default]
    Some,
    /// None is acknowledged meanwhile: nobody can have the lock.
    None,
    /// There may be some or none.
    Any,
}

/// What a fault must outlast in order to show anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlives {
    /// The time to live of a lock that was held when the fault began, counted from the acquisition.
    Ttl,
}

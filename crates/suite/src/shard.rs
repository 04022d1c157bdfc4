//! The part of a suite that one machine runs, and how the machine learns which part it runs. [`balance`](super::balance)
//! assigns the cells.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use base::words::quoted;

/// The part of a suite that one machine runs: shard `index` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub index: u32,
    pub of: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    /// The environment names the shard.
    Auto,
    This(Shard),
}

/// A suite has at most this many shards.
const MOST_SHARDS: u32 = 1000;

/// redjepsen's own variables, which win over all others: the shard from 1 or as `I/N`, its index from 0, and the number of
/// shards.
const OWN: [&str; 3] = ["REDJEPSEN_SHARD", "REDJEPSEN_SHARD_INDEX", "REDJEPSEN_SHARDS"];

/// A system that runs a job several times and passes each copy its number in the environment.
pub struct Launcher {
    pub name: &'static str,
    pub index: &'static str,
    pub count: Count,
}

/// How a launcher numbers its jobs.
pub enum Count {
    /// Numbers begin with this value. The variable has the number of jobs.
    From(u32, &'static str),
    /// Numbers begin with 0. No variable has the number of jobs.
    Unsaid,
    /// Numbers go in even steps from the first variable to the second. The third has the number of jobs.
    Steps([&'static str; 3]),
}

/// The launchers whose own variables are supported. Others, such as a GitHub matrix or a Swarm service, need a line in the job
/// that sets redjepsen's variables.
pub const LAUNCHERS: [Launcher; 5] = [
    Launcher { name: "GitLab CI", index: "CI_NODE_INDEX", count: Count::From(1, "CI_NODE_TOTAL") },
    Launcher { name: "CircleCI", index: "CIRCLE_NODE_INDEX", count: Count::From(0, "CIRCLE_NODE_TOTAL") },
    Launcher {
        name: "Buildkite",
        index: "BUILDKITE_PARALLEL_JOB",
        count: Count::From(0, "BUILDKITE_PARALLEL_JOB_COUNT"),
    },
    Launcher { name: "Kubernetes", index: "JOB_COMPLETION_INDEX", count: Count::Unsaid },
    Launcher {
        name: "Slurm",
        index: "SLURM_ARRAY_TASK_ID",
        count: Count::Steps(["SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT"]),
    },
];

/// Why the environment does not name a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--shard auto: {0}; set `REDJEPSEN_SHARD=2/4` or pass `--shard 2/4`")]
pub struct EnvironmentError(String);

/// The shard in the environment, and the variables that name it. `variable` returns the value of a variable.
pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<(Shard, String), EnvironmentError> {
    let environment = Environment { variable };
    environment.shard().map_err(EnvironmentError)
}

/// The variables of a process.
struct Environment<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Environment<'_> {
    fn shard(&self) -> Result<(Shard, String), String> {
        if let Some(own) = self.own()? {
            return Ok(own);
        }
        let mut found: Option<(Shard, String)> = None;
        let mut uncounted = None;
        for launcher in &LAUNCHERS {
            match self.of(launcher)? {
                Named::Nothing => {}
                Named::IndexOnly(said) => uncounted = Some(said),
                Named::Shard(shard, said) => match &found {
                    Some((other, before)) if *other != shard => {
                        return Err(format!("{before} means {other}, but {said} means {shard}"));
                    }
                    _ => found = Some((shard, said)),
                },
            }
        }
        match (found, uncounted) {
            (Some(found), _) => Ok(found),
            (None, Some(said)) => {
                Err(format!("{said} gives the part, but nothing gives the number of parts; set REDJEPSEN_SHARDS"))
            }
            (None, None) => {
                let others = LAUNCHERS.iter().map(|launcher| launcher.index);
                let names: Vec<&str> = OWN.into_iter().chain(others).collect();
                Err(format!(
                    "nothing says which part this is; redjepsen looked for these variables: {}",
                    names.join(", ")
                ))
            }
        }
    }

    /// The shard in redjepsen's own variables. None if they are not set, or only have the number of parts.
    fn own(&self) -> Result<Option<(Shard, String)>, String> {
        let [shard, index, count] = OWN;
        let mut of = self.number(count)?;
        let mut named = Vec::new();
        if let Some(text) = self.text(shard) {
            let whole = text.contains('/').then(|| text.parse::<Shard>()).transpose();
            if let Some(whole) = whole.map_err(|error| format!("{shard}: {error}"))? {
                if let Some(other) = of.filter(|of| *of != whole.of) {
                    return Err(format!("{shard}={text} and {count}={other} contradict each other"));
                }
                (of, named) = (Some(whole.of), vec![(whole.index, format!("{shard}={text}"))]);
            } else if let Some(number) = self.number(shard)? {
                named.push((number, format!("{shard}={text}")));
            }
        }
        if let Some(from_0) = self.number(index)? {
            named.push((from_0.saturating_add(1), format!("{index}={from_0}")));
        }
        let [(number, said), others @ ..] = &named[..] else { return Ok(None) };
        if let Some((_, other)) = others.iter().find(|(other, _)| other != number) {
            return Err(format!("{said} and {other} contradict each other ({index} counts from 0)"));
        }
        let Some(of) = of else {
            return Err(format!("{said} gives the part, but not the number of parts; set {count}"));
        };
        let said = if said.contains('/') { said.clone() } else { format!("{said}, {count}={of}") };
        self.checked(*number, of, &said).map(|shard| Some((shard, said)))
    }

    fn of(&self, launcher: &Launcher) -> Result<Named, String> {
        let Launcher { name, index, count } = launcher;
        let Some(number) = self.number(index)? else { return Ok(Named::Nothing) };
        let of_ours = self.number(OWN[2])?;
        let said = format!("{index}={number} ({name})");
        let (number, of) = match count {
            Count::From(first, count) => {
                let Some(number) = number.checked_sub(*first) else {
                    return Err(format!("{said} is impossible: it counts from {first}"));
                };
                (number, self.number(count)?.map(|of| (of, format!("{count}={of}"))))
            }
            Count::Unsaid => (number, None),
            Count::Steps(variables) => {
                let of = self.steps(number, variables).map_err(|reason| format!("{said}: {reason}"))?;
                (of.0, Some((of.1, format!("{}={}", variables[2], of.1))))
            }
        };
        let (of, said) = match (of, of_ours) {
            (Some((of, counted)), Some(other)) if of != other => {
                return Err(format!("{}={other} and {counted} of {name} contradict each other", OWN[2]));
            }
            (Some((of, counted)), _) => (of, format!("{said}, {counted}")),
            (None, Some(of)) => (of, format!("{said}, {}={of}", OWN[2])),
            (None, None) => return Ok(Named::IndexOnly(said)),
        };
        self.checked(number.saturating_add(1), of, &said).map(|shard| Named::Shard(shard, said))
    }

    /// The index from 0 and the length of an array whose indexes have even steps.
    fn steps(&self, number: u32, variables: &[&str; 3]) -> Result<(u32, u32), String> {
        let [least, most, of] = *variables;
        let of_array = [self.number(least)?, self.number(most)?, self.number(of)?];
        let [Some(least), Some(most), Some(of)] = of_array else {
            return Err(format!("{least}, {most} and {of} must all be set"));
        };
        let refused = Err(format!(
            "an array of {of} from {least} to {most} has no even steps, so the position of a task is ambiguous"
        ));
        if of <= 1 {
            return if number == least && least == most { Ok((0, of)) } else { refused };
        }
        let Some((span, place)) = most.checked_sub(least).zip(number.checked_sub(least)) else { return refused };
        let step = span / (of - 1);
        if step == 0 || !span.is_multiple_of(of - 1) || !place.is_multiple_of(step) {
            refused
        } else {
            Ok((place / step, of))
        }
    }

    fn checked(&self, index: u32, of: u32, said: &str) -> Result<Shard, String> {
        format!("{index}/{of}").parse().map_err(|_| match of {
            1..=MOST_SHARDS => format!("{said} is impossible: there is no part {index} of {of}"),
            _ => format!("{said} is impossible: a suite has 1 to {MOST_SHARDS} parts"),
        })
    }

    /// The value of a variable. None if it is empty: launchers pass on unset variables as empty ones.
    fn text(&self, name: &str) -> Option<String> {
        (self.variable)(name).map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> Result<Option<u32>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let shown = quoted(&text);
        text.parse().map(Some).map_err(|_| format!("{name} is {shown}, which is not a number"))
    }
}

/// The content of a launcher's variables.
enum Named {
    Nothing,
    IndexOnly(String),
    Shard(Shard, String),
}

impl Shard {
    /// True if a suite can have this shard. A file may contain any numbers.
    pub fn is_possible(self) -> bool {
        (1..=self.of).contains(&self.index) && self.of <= MOST_SHARDS
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts.map(|(index, of)| Shard { index, of }) {
            Some(shard) if shard.is_possible() => Ok(shard),
            _ => Err(format!("`{text}` is not a shard; write `2/4` for the second of four")),
        }
    }
}

impl FromStr for ShardChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<ShardChoice, String> {
        match text {
            "auto" => Ok(ShardChoice::Auto),
            text => text.parse().map(ShardChoice::This).map_err(|error: String| {
                format!("{error}, or `auto` to read it from the environment of the CI or scheduler")
            }),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(variables: &[(&str, &str)]) -> Result<String, String> {
        let lookup = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_string());
        from_environment(&lookup).map(|(shard, _)| shard.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn each_launcher_says_which_part_this_is() {
        let slurm = |id, least, most, of| {
            vec![
                ("SLURM_ARRAY_TASK_ID", id),
                ("SLURM_ARRAY_TASK_MIN", least),
                ("SLURM_ARRAY_TASK_MAX", most),
                ("SLURM_ARRAY_TASK_COUNT", of),
            ]
        };
        for (variables, shard) in [
            (vec![("CI_NODE_INDEX", "2"), ("CI_NODE_TOTAL", "4")], "2/4"),
            (vec![("CIRCLE_NODE_INDEX", "0"), ("CIRCLE_NODE_TOTAL", "1")], "1/1"),
            (vec![("CIRCLE_NODE_INDEX", "3"), ("CIRCLE_NODE_TOTAL", "4")], "4/4"),
            (vec![("BUILDKITE_PARALLEL_JOB", "1"), ("BUILDKITE_PARALLEL_JOB_COUNT", "3")], "2/3"),
            (vec![("JOB_COMPLETION_INDEX", "1"), ("REDJEPSEN_SHARDS", "3")], "2/3"),
            (slurm("0", "0", "3", "4"), "1/4"),
            (slurm("4", "1", "4", "4"), "4/4"),
            (slurm("5", "1", "7", "4"), "3/4"),
            (slurm("7", "7", "7", "1"), "1/1"),
            (vec![("REDJEPSEN_SHARD", "2/4")], "2/4"),
            (vec![("REDJEPSEN_SHARD", "2/4"), ("REDJEPSEN_SHARDS", "4")], "2/4"),
            (vec![("REDJEPSEN_SHARD", " 2 "), ("REDJEPSEN_SHARDS", "4")], "2/4"),
            (vec![("REDJEPSEN_SHARD_INDEX", "0"), ("REDJEPSEN_SHARDS", "4")], "1/4"),
            (vec![("REDJEPSEN_SHARD_INDEX", "1"), ("REDJEPSEN_SHARD", "2"), ("REDJEPSEN_SHARDS", "4")], "2/4"),
            // redjepsen's own variables win over all others, whatever their values.
            (vec![("REDJEPSEN_SHARD", "2/4"), ("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "9")], "2/4"),
            (vec![("REDJEPSEN_SHARD", "2/4"), ("SLURM_ARRAY_TASK_ID", "x")], "2/4"),
            // An empty variable counts as not set. Nested launchers may name the same shard.
            (vec![("REDJEPSEN_SHARD", ""), ("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "2")], "1/2"),
            (vec![("JOB_COMPLETION_INDEX", "0"), ("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "2")], "1/2"),
        ] {
            assert_eq!(named(&variables), Ok(shard.to_string()), "{variables:?}");
        }
    }

    #[test]
    fn an_environment_that_names_no_part_is_refused_with_what_it_says() {
        for (variables, words) in [
            (
                vec![],
                &["redjepsen looked for these variables", "REDJEPSEN_SHARD, ", "SLURM_ARRAY_TASK_ID", "--shard 2/4"][..],
            ),
            // A GitLab job that is not parallel.
            (vec![("CI_NODE_TOTAL", "1")], &["redjepsen looked for these variables"]),
            (vec![("JOB_COMPLETION_INDEX", "1")], &["JOB_COMPLETION_INDEX=1 (Kubernetes)", "set REDJEPSEN_SHARDS"]),
            (vec![("CIRCLE_NODE_INDEX", "1")], &["CIRCLE_NODE_INDEX=1", "nothing gives the number of parts"]),
            (vec![("JOB_COMPLETION_INDEX", "3"), ("REDJEPSEN_SHARDS", "3")], &["there is no part 4 of 3"]),
            (vec![("CI_NODE_INDEX", "0"), ("CI_NODE_TOTAL", "3")], &["CI_NODE_INDEX=0", "counts from 1"]),
            (vec![("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "0")], &["a suite has 1 to 1000 parts"]),
            (vec![("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "1001")], &["a suite has 1 to 1000 parts"]),
            (vec![("CI_NODE_INDEX", "one"), ("CI_NODE_TOTAL", "3")], &["CI_NODE_INDEX is `one`", "not a number"]),
            (vec![("CI_NODE_INDEX", "-1"), ("CI_NODE_TOTAL", "3")], &["CI_NODE_INDEX is `-1`"]),
            (
                vec![("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "3"), ("REDJEPSEN_SHARDS", "4")],
                &["REDJEPSEN_SHARDS=4 and CI_NODE_TOTAL=3", "contradict"],
            ),
            (
                vec![
                    ("CI_NODE_INDEX", "1"),
                    ("CI_NODE_TOTAL", "3"),
                    ("CIRCLE_NODE_INDEX", "1"),
                    ("CIRCLE_NODE_TOTAL", "3"),
                ],
                &["CI_NODE_INDEX=1 (GitLab CI), CI_NODE_TOTAL=3 means 1/3", "means 2/3"],
            ),
            (vec![("SLURM_ARRAY_TASK_ID", "1")], &["SLURM_ARRAY_TASK_ID=1", "must all be set"]),
            (
                vec![
                    ("SLURM_ARRAY_TASK_ID", "1"),
                    ("SLURM_ARRAY_TASK_MIN", "0"),
                    ("SLURM_ARRAY_TASK_MAX", "4"),
                    ("SLURM_ARRAY_TASK_COUNT", "3"),
                ],
                &["an array of 3 from 0 to 4 has no even steps"],
            ),
            // A single task of an array that is rerun alone must not run the whole suite.
            (
                vec![
                    ("SLURM_ARRAY_TASK_ID", "2"),
                    ("SLURM_ARRAY_TASK_MIN", "2"),
                    ("SLURM_ARRAY_TASK_MAX", "2"),
                    ("SLURM_ARRAY_TASK_COUNT", "1"),
                    ("REDJEPSEN_SHARDS", "4"),
                ],
                &["REDJEPSEN_SHARDS=4 and SLURM_ARRAY_TASK_COUNT=1"],
            ),
            (vec![("REDJEPSEN_SHARD", "2")], &["REDJEPSEN_SHARD=2", "set REDJEPSEN_SHARDS"]),
            (vec![("REDJEPSEN_SHARD_INDEX", "2")], &["set REDJEPSEN_SHARDS"]),
            (vec![("REDJEPSEN_SHARD", "5/4")], &["REDJEPSEN_SHARD: `5/4` is not a shard"]),
            (vec![("REDJEPSEN_SHARD", "0"), ("REDJEPSEN_SHARDS", "4")], &["there is no part 0 of 4"]),
            (vec![("REDJEPSEN_SHARD", "{{.Task.Slot}}"), ("REDJEPSEN_SHARDS", "4")], &["`{{.Task.Slot}}`"]),
            (vec![("REDJEPSEN_SHARD", "2/4"), ("REDJEPSEN_SHARDS", "3")], &["contradict"]),
            (
                vec![("REDJEPSEN_SHARD", "1"), ("REDJEPSEN_SHARD_INDEX", "1"), ("REDJEPSEN_SHARDS", "4")],
                &["REDJEPSEN_SHARD=1 and REDJEPSEN_SHARD_INDEX=1", "counts from 0"],
            ),
            (vec![("REDJEPSEN_SHARDS", "many"), ("REDJEPSEN_SHARD", "1")], &["REDJEPSEN_SHARDS is `many`"]),
        ] {
            let error = named(&variables).expect_err(&format!("{variables:?}"));
            assert!(words.iter().all(|word| error.contains(word)), "{variables:?}: {error}");
        }
    }

    #[test]
    fn a_launcher_is_named_with_what_it_says() {
        let lookup = |name: &str| match name {
            "JOB_COMPLETION_INDEX" => Some("1".to_string()),
            "REDJEPSEN_SHARDS" => Some("3".to_string()),
            _ => None,
        };
        let (_, said) = from_environment(&lookup).unwrap();
        assert_eq!(said, "JOB_COMPLETION_INDEX=1 (Kubernetes), REDJEPSEN_SHARDS=3");
    }

    #[test]
    fn a_shard_is_a_part_of_a_whole_or_auto() {
        assert_eq!("2/4".parse(), Ok(ShardChoice::This(Shard { index: 2, of: 4 })));
        assert_eq!("auto".parse(), Ok(ShardChoice::Auto));
        for text in ["", "3/2", "0/2", "1/0", "1/1001", "2", "2/", "/4", "Auto", "-1/4"] {
            assert!(text.parse::<ShardChoice>().is_err(), "{text}");
        }
    }
}

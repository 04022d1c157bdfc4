//! Lists of values for options of a cell. There is one cell for each combination.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use base::units::{Length, LengthRange};
use model::scenario::Options;

/// Lists of values, each an option of `redjepsen run`.
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sweep {
    /// The lock's times to live, with commas
    #[arg(long, value_delimiter = ',', value_name = "LENGTHS", allow_hyphen_values = true)]
    pub ttl: Vec<Length>,
    /// Times between a holder's read and its write, with commas, such as 10ms..20ms,0.5ttl..0.6ttl
    #[arg(long, value_delimiter = ',', value_name = "RANGES", allow_hyphen_values = true)]
    pub hold: Vec<LengthRange>,
    /// Numbers of clients, with commas
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub clients: Vec<u32>,
    /// Numbers of nodes, with commas
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub nodes: Vec<u32>,
    /// Numbers of keys, with commas
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub keys: Vec<u32>,
    /// Operations per second, with commas
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub rate: Vec<f64>,
    /// How long operations may wait for the lock, with commas
    #[arg(long, value_delimiter = ',', value_name = "LENGTHS", allow_hyphen_values = true)]
    pub acquire_timeout: Vec<Length>,
    /// Images of the nodes, such as versions of a server, with commas
    #[arg(long, value_delimiter = ',', value_name = "IMAGES")]
    pub image: Vec<String>,
    /// Server programs of the nodes, with commas
    #[arg(long, value_delimiter = ',', value_name = "FILES")]
    pub redis_server: Vec<PathBuf>,
}

impl Sweep {
    /// The options of each combination; the first list changes slowest. Without any list, a single empty set of options.
    pub fn combinations(&self) -> Vec<Options> {
        let mut all = vec![Options::default()];
        each(&mut all, &self.ttl, |options, value| options.ttl = Some(*value));
        each(&mut all, &self.hold, |options, value| options.hold = Some(*value));
        each(&mut all, &self.clients, |options, value| options.clients = Some(*value));
        each(&mut all, &self.nodes, |options, value| options.nodes = Some(*value));
        each(&mut all, &self.keys, |options, value| options.keys = Some(*value));
        each(&mut all, &self.rate, |options, value| options.rate = Some(*value));
        each(&mut all, &self.acquire_timeout, |options, value| options.acquire_timeout = Some(*value));
        each(&mut all, &self.image, |options, value| options.image = Some(value.clone()));
        each(&mut all, &self.redis_server, |options, value| options.redis_server = Some(value.clone()));
        all
    }
}

fn each<T>(all: &mut Vec<Options>, values: &[T], set: impl Fn(&mut Options, &T)) {
    if values.is_empty() {
        return;
    }
    let of_one = |options: &Options| {
        let with = |value: &T| {
            let mut options = options.clone();
            set(&mut options, value);
            options
        };
        values.iter().map(with).collect::<Vec<_>>()
    };
    *all = all.iter().flat_map(of_one).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_multiplied() {
        assert_eq!(Sweep::default().combinations(), [Options::default()]);
        let sweep = Sweep {
            ttl: vec!["1s".parse().unwrap(), "2s".parse().unwrap()],
            clients: vec![2, 5, 9],
            ..Sweep::default()
        };
        let said: Vec<String> =
            sweep.combinations().iter().map(|options| format!("{:?}", options.to_flags())).collect();
        assert_eq!(said.len(), 6);
        assert_eq!(said[0], "[(\"ttl\", \"1s\"), (\"clients\", \"2\")]");
        assert_eq!(said[5], "[(\"ttl\", \"2s\"), (\"clients\", \"9\")]");
    }
}

//! Some of the options of a run, as flags of a command that chooses the others itself.

use std::ffi::OsString;
use std::marker::PhantomData;

use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use model::scenario::{Options, typed};

/// Which options a command takes.
pub trait Choice {
    /// The ids of the options, beside those that name servers that already run.
    const NAMES: &'static [&'static str];
    /// The value of an option that the user leaves out, for the help. None: the same as in `run`.
    const DEFAULT: Option<&'static str> = None;
}

/// The options that name servers that already run, and how redjepsen may use them.
const SERVERS: [&str; 11] = [
    "cluster",
    "server",
    "allow_writes",
    "allow_failover",
    "sentinel",
    "user",
    "password_file",
    "ca",
    "cert",
    "key",
    "insecure",
];

#[derive(Debug)]
pub struct Chosen<C> {
    pub options: Options,
    of: PhantomData<C>,
}

impl<C> Chosen<C> {
    /// The options as a user would type them after a command.
    pub fn typed(&self) -> String {
        typed(self.options.to_flags())
    }
}

fn of_a_run() -> Command {
    Options::augment_args(Command::new("run").no_binary_name(true))
}

/// The flags, with the help that fits this command.
fn flags<C: Choice>() -> impl Iterator<Item = Arg> {
    let is_chosen = |arg: &Arg| SERVERS.iter().chain(C::NAMES).any(|name| *name == arg.get_id().as_str());
    let chosen: Vec<Arg> = of_a_run().get_arguments().filter(|arg| is_chosen(arg)).cloned().collect();
    // The flags stand where the command names them, not where they stand in `run`.
    chosen.into_iter().map(|arg| arg.display_order(Resettable::Reset)).map(|arg| match C::DEFAULT {
        None => arg,
        Some(default) => {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let help = help.split(" [default").next().unwrap_or_default().to_string();
            arg.help(format!("{help} [default: {default}]")).long_help(Resettable::Reset)
        }
    })
}

impl<C: Choice> Args for Chosen<C> {
    fn augment_args(command: Command) -> Command {
        command.args(flags::<C>())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Choice> FromArgMatches for Chosen<C> {
    /// Reads the chosen flags once more as flags of a run: only a command with all options can fill [`Options`].
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given: Vec<OsString> = Vec::new();
        for flag in flags::<C>() {
            let values = matches.get_raw(flag.get_id().as_str()).into_iter().flatten();
            given.extend(values.map(|value| {
                let mut word = OsString::from(format!("--{}=", flag.get_long().unwrap_or_default()));
                word.push(value);
                word
            }));
        }
        let matches = of_a_run().try_get_matches_from(given)?;
        Ok(Chosen { options: Options::from_arg_matches(&matches)?, of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl Choice for Two {
        const NAMES: &'static [&'static str] = &["ttl", "redis_config"];
        const DEFAULT: Option<&'static str> = Some("the suite's");
    }

    fn read(words: &str) -> Result<Options, clap::Error> {
        let command = Chosen::<Two>::augment_args(Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(shlex::split(words).unwrap())?;
        Ok(Chosen::<Two>::from_arg_matches(&matches)?.options)
    }

    #[test]
    fn chosen_options_are_read_and_typed_like_those_of_a_run() {
        let words = "--ttl 2s --redis-config 'save 1 1' --redis-config 'appendonly yes' --server redis://a --server redis://b \
                     --allow-writes --user 'a b' --cert c.pem --key k.pem --insecure=false";
        let options = read(words).unwrap();
        assert_eq!(options.redis_config, ["save 1 1", "appendonly yes"]);
        assert_eq!(options.server, ["redis://a", "redis://b"]);
        assert_eq!((options.allow_writes, options.insecure), (Some(true), Some(false)));
        assert_eq!(read(&typed(options.to_flags())).unwrap(), options);
        assert_eq!(read("").unwrap(), Options::default());
    }

    #[test]
    fn other_options_and_wrong_values_are_refused() {
        for words in ["--clients 3", "--ttl x", "--cluster moon", "--cert c.pem", "--allow-writes=perhaps"] {
            assert!(read(words).is_err(), "{words}");
        }
    }

    #[test]
    fn all_named_options_exist() {
        let all = of_a_run();
        let is_there = |name: &str| all.get_arguments().any(|arg| arg.get_id().as_str() == name);
        for name in SERVERS.iter().chain(Two::NAMES) {
            assert!(is_there(name), "{name}");
        }
    }
}

//! A hook: the user's own commands, which disturb servers that redjepsen does not own, show the effect, and undo it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use base::units::Length;

/// The hook that needs no table: a person makes another node the primary.
pub const BY_HAND: &str = "by-hand";

/// The commands of a hook, each for `sh -c`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hook {
    /// Disturbs the servers. If None, a person does it, and the run waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inject: Option<String>,
    /// Succeeds only while the disturbance is in effect. If None, the disturbance is observed when another node is the primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// Undoes the disturbance. If None, it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal: Option<String>,
    /// Time limit for the effect after the injection began, and for its end after the heal began.
    pub within: Length,
}

impl Default for Hook {
    fn default() -> Hook {
        Hook { inject: None, seen: None, heal: None, within: Length::Absolute(Duration::from_secs(60)) }
    }
}

impl Hook {
    /// Its commands, each with its key in the table.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let all = [("inject", &self.inject), ("seen", &self.seen), ("heal", &self.heal)];
        all.into_iter().filter_map(|(key, command)| Some((key, command.as_ref()?)))
    }

    /// Checks that its parts make sense together, and that no file of a run gets a password from it.
    pub(super) fn check(&self) -> Result<(), String> {
        for (key, command) in self.commands() {
            if command.trim().is_empty() {
                return Err(format!("`{key}` is empty; leave it out"));
            }
            if has_password(command) {
                return Err(format!(
                    "`{key}` has a URL with a password, which would get into the files of the run; put the password into an \
                     environment variable"
                ));
            }
        }
        Ok(())
    }
}

/// True if the text has a URL such as `redis://user:password@host`. A variable such as `$PASSWORD` is not a password.
fn has_password(text: &str) -> bool {
    let hosts = text.split("://").skip(1).filter_map(|rest| rest.split(['/', ' ', '"', '\'']).next()?.rsplit_once('@'));
    hosts.filter_map(|(user, _)| user.split_once(':')).any(|(_, secret)| !secret.is_empty() && !secret.starts_with('$'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::Nemesis;

    #[test]
    fn a_password_in_a_url_is_found() {
        for text in ["redis-cli -u redis://:pw@h:1 PING", "x 'rediss://me:p@w@h'", "http://a b://u:p@h/x"] {
            assert!(has_password(text), "{text}");
        }
        for text in [
            "redis-cli -u redis://me@h:1 PING",
            "redis-cli -u \"redis://me:$PW@h\"",
            "curl http://h:80/a:b@c",
            "mail a:b@c",
        ] {
            assert!(!has_password(text), "{text}");
        }
    }

    fn read(faults: &str, hooks: &str) -> Result<Nemesis, String> {
        let faults =
            faults.split(',').map(|fault| format!("[[faults]]\nfault = \"{fault}\"\nevery = \"9s\"\nfor = \"1s\"\n"));
        let text = format!("description = \"d\"\nstory = \"s\"\n{}{hooks}", faults.collect::<String>());
        let nemesis: Nemesis = toml::from_str(&text).map_err(|error| error.to_string())?;
        nemesis.check().map(|()| nemesis)
    }

    #[test]
    fn a_hook_and_its_table_belong_together() {
        let nemesis = read("hook a", "[hooks.a]\ninject = \"x\"\nwithin = \"5s\"\n").unwrap();
        let hook = nemesis.hook("a").unwrap();
        assert_eq!((hook.inject.as_deref(), hook.seen, hook.within.to_string()), (Some("x"), None, "5s".to_string()));
        // A person needs no command.
        assert_eq!(read("hook by-hand", "").unwrap().hook(BY_HAND), Some(Hook::default()));
        assert_eq!(toml::from_str::<Nemesis>(&toml::to_string(&nemesis).unwrap()).unwrap(), nemesis);
        for (faults, hooks, words) in [
            ("hook a", "", "needs a table `[hooks.a]`"),
            ("hook by-hand", "[hooks.a]\ninject = \"x\"\n", "`[hooks.a]` is not used"),
            ("hook a", "[hooks.a]\ninject = \" \"\n", "hook a: `inject` is empty"),
            ("hook a", "[hooks.a]\nheal = \"redis-cli -u redis://:pw@h:1 PING\"\n", "`heal` has a URL with a password"),
            ("hook a", "[hooks.a]\nundo = \"x\"\n", "unknown field `undo`"),
        ] {
            let error = read(faults, hooks).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let twice = nemesis.clone().and(nemesis).unwrap_err().to_string();
        assert!(twice.contains("two nemeses have a table `[hooks.a]`"), "{twice}");
    }
}

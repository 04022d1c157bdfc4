//! The programs that a saved scenario may run on this machine. A run's folder may come from an unknown source, so without the
//! user's consent it runs only programs that come with redjepsen. A file that the user names on the command line (a workload, a
//! suite) is trusted as a Makefile is, and is not checked here.

use std::path::Path;

use super::{Library, Scenario, ScenarioError, WorkloadClient, catalogue, quoted};
use crate::topology::OwnClient;

/// The option with which a user trusts the programs of a saved scenario.
pub const TRUST: &str = "--trust";
/// A name is part of a path; file systems allow 255 bytes.
const LONGEST_NAME: usize = 120;

impl Scenario {
    /// The programs and images in it that do not come with redjepsen, each with its part in the run.
    pub fn programs_of_others(&self) -> Vec<String> {
        let mut others = Vec::new();
        match (&self.client, &self.workload.client) {
            (Some(own), _) => others.extend(own_client(own)),
            (None, Some(client)) if !comes_with_redjepsen(client) => others.extend(client.commands()),
            (None, _) => {}
        }
        let library = self.workload.library.as_ref().filter(|_| self.client.is_none());
        others.extend(library.and_then(another_version));
        for (name, hook) in &self.nemesis.hooks {
            others.extend(hook.commands().map(|(key, command)| format!("hook {name}, {key}: {command}")));
        }
        let cluster = &self.cluster;
        others.extend(cluster.redis_server.iter().map(|program| format!("server: {}", program.display())));
        others.extend(cluster.image.iter().map(|image| format!("image of the nodes: {image}")));
        others.extend(cluster.client_image.iter().map(|image| format!("image of the clients: {image}")));
        let existing = cluster.existing.iter().flat_map(|servers| &servers.addresses);
        others.extend(existing.map(|address| format!("server that gets your password and keys of the run: {address}")));
        others
    }

    /// Refuses a scenario that was saved with programs of others, before any other check.
    pub fn must_run_only_ours(&self, saved: &Path) -> Result<(), ScenarioError> {
        let others = self.programs_of_others();
        if others.is_empty() {
            return Ok(());
        }
        Err(ScenarioError(format!(
            "{} would start programs that do not come with this redjepsen:\n  {}\nThe run may have been saved by someone \
             else, so redjepsen started none of them. If you trust the run as you would trust a Makefile, add {TRUST}; or \
             name your own file: `redjepsen run --workload FILE`",
            saved.display(),
            others.join("\n  ")
        )))
    }

    /// The scenario's names become names of folders, so they must not lead elsewhere or contain control characters.
    pub(super) fn check_names(&self) -> Result<(), ScenarioError> {
        for (key, name) in [("workload_name", &self.workload_name), ("nemesis_name", &self.nemesis_name)] {
            let plain = name.chars().all(|c| c.is_alphanumeric() || "-_+. ".contains(c));
            if !plain || name.is_empty() || name.starts_with('.') || name.len() > LONGEST_NAME {
                let shown: String = name.escape_default().take(LONGEST_NAME).collect();
                return Err(ScenarioError(format!(
                    "`{key} = \"{shown}\"` is not a name; it has 1 to {LONGEST_NAME} letters, digits, blanks, `-`, `_`, `+` and, not at first, `.`"
                )));
            }
        }
        Ok(())
    }
}

impl WorkloadClient {
    /// The commands that install and run it, as in its file.
    pub fn commands(&self) -> Vec<String> {
        match self {
            WorkloadClient::Python(client) => {
                let here = |path: &Path| client.folder.as_deref().unwrap_or(Path::new("")).join(path);
                let requirements = client.requirements.iter().chain(&client.built_with);
                let install = requirements.map(|file| format!("installed by: pip, from {}", here(file).display()));
                let script = [here(&client.adapter).display().to_string()];
                let words = [&["python3".to_string()][..], &script, &client.arguments].concat();
                install.chain([line("client", &words)]).collect()
            }
            WorkloadClient::Command(client) => {
                let install = Some(&client.install).filter(|words| !words.is_empty());
                let install = install.map(|words| line("installed by", words));
                install.into_iter().chain([line("client", &client.command)]).collect()
            }
        }
    }
}

/// A version of a library without a hash in redjepsen: its name could choose any version that was ever published.
fn another_version(library: &Library) -> Option<String> {
    let pinned = library.instead_of.as_ref()?;
    let words = [&library.name, &library.version, pinned].map(|word| quoted(word).escape_default().to_string());
    let [name, version, pinned] = words;
    Some(format!("library: {name} in version {version} instead of the pinned {pinned}, without a hash"))
}

fn own_client(own: &OwnClient) -> Vec<String> {
    let image = own.image.iter().map(|image| format!("image of the clients: {image}"));
    [line("client", &own.command)].into_iter().chain(image).collect()
}

/// A command on one line: text after a line break in it must not look like another entry of the list.
fn line(what: &str, words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let visible = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    format!("{what}: {}", words.join(" ").chars().map(visible).collect::<String>())
}

/// True if it is exactly the client of an embedded workload.
fn comes_with_redjepsen(client: &WorkloadClient) -> bool {
    let known = |name: &str| catalogue::workload(name).ok().and_then(|(_, workload)| workload.client);
    client.folder().is_none() && catalogue::WORKLOADS.iter().any(|(name, _)| known(name).as_ref() == Some(client))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Options;
    use crate::topology::ExistingServers;

    fn of(workload: &str) -> Scenario {
        Options::default().scenario(workload, "none", 7, Path::new("")).unwrap()
    }

    fn refusal(change: impl FnOnce(&mut Scenario)) -> Option<String> {
        let mut scenario = of("redis-py");
        change(&mut scenario);
        scenario.must_run_only_ours(Path::new("there")).err().map(|error| error.to_string())
    }

    #[test]
    fn what_comes_with_redjepsen_needs_no_word_and_anything_else_does() {
        for (name, _) in catalogue::WORKLOADS {
            assert_eq!(of(name).programs_of_others(), Vec::<String>::new(), "{name}");
        }
        assert_eq!(refusal(|_| {}), None);
        // Another embedded workload's client also comes with redjepsen.
        assert_eq!(refusal(|scenario| scenario.workload.client = of("rslock").workload.client), None);
        let python = |change: fn(&mut super::super::PythonClient)| {
            refusal(|scenario| match &mut scenario.workload.client {
                Some(WorkloadClient::Python(client)) => change(client),
                other => panic!("{other:?}"),
            })
        };
        let refused = [
            (python(|client| client.folder = Some("/tmp/x".into())), "client: python3 /tmp/x/"),
            (python(|client| client.arguments.push("--evil; x".into())), "'--evil; x'"),
            (python(|client| client.requirements = Some("evil.txt".into())), "installed by: pip, from evil.txt"),
            (
                refusal(|s| {
                    let workload = s.workload.clone().with_library_version("redis-py", "7.0.1").unwrap();
                    s.workload = workload;
                }),
                "version 7.0.1 instead of the pinned ",
            ),
            (refusal(|s| s.cluster.redis_server = Some("/tmp/server".into())), "server: /tmp/server"),
            (refusal(|s| s.cluster.image = Some("evil/image".into())), "image of the nodes: evil/image"),
            (
                refusal(|s| {
                    let addresses = vec!["redis://evil".to_string()];
                    s.cluster.existing = Some(ExistingServers { addresses, allow_writes: true, ..Default::default() });
                }),
                "server that gets your password and keys of the run: redis://evil",
            ),
            (refusal(|s| s.cluster.client_image = Some("evil/image".into())), "image of the clients: evil/image"),
            (
                refusal(|s| {
                    s.client =
                        Some(OwnClient { command: vec!["./c".into()], image: None, mounts: vec![], folder: None })
                }),
                "client: ./c",
            ),
        ];
        for (error, expected) in refused {
            let error = error.unwrap_or_else(|| panic!("not refused: {expected}"));
            assert!(error.contains(expected) && error.contains("add --trust"), "{error}");
        }
    }

    #[test]
    fn names_are_names() {
        let named = |name: &str| {
            let workload_name = name.to_string();
            Scenario { workload_name, ..of("redis-py") }.check_names().map_err(|error| error.to_string())
        };
        for name in ["redlock", "mine_2", "pause+kill-node", "-", "my.lock", "ä b"] {
            assert_eq!(named(name), Ok(()));
        }
        for name in
            ["", ".", "..", "../x", "a/b", "a\\b", "x\u{1b}[2J", "a\u{202e}b", ".x", "a\nb", "a\0b", &"x".repeat(121)]
        {
            let error = named(name).unwrap_err();
            assert!(error.contains("is not a name") && !error.contains('\u{1b}'), "{error}");
        }
    }
}

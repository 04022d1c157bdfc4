//! Files that a package of redjepsen has besides the program: completions, manual pages, and the licences of all parts.

use std::fs;
use std::path::Path;

use clap::{Command, ValueEnum};

use super::console::{Exit, Failure, print};

/// tests/offline/licenses.rs generates this file, and checks that it matches the linked crates.
const LICENSES: &str = include_str!("../../licenses.txt");

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub fn completions(shell: Shell, command: &mut Command) -> Result<Exit, Failure> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(command.clone()), "redjepsen", &mut script);
    print(String::from_utf8_lossy(&script))?;
    Ok(Exit::Valid)
}

/// Writes `redjepsen.1`, `redjepsen-run.1` and so on.
pub fn man(folder: &Path, command: Command) -> Result<Exit, Failure> {
    let failed = |error| Failure::could_not_run(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(without_hidden(command).disable_help_subcommand(true), folder).map_err(failed)?;
    Ok(Exit::Valid)
}

pub fn licenses() -> Result<Exit, Failure> {
    print(LICENSES)?;
    Ok(Exit::Valid)
}

fn without_hidden(command: Command) -> Command {
    let mut shown = Command::new("redjepsen").version(env!("REDJEPSEN_VERSION"));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        shown = shown.after_help(after.clone());
    }
    let options = command.get_arguments().filter(|option| !option.is_hide_set()).cloned().collect::<Vec<_>>();
    let commands = command.get_subcommands().filter(|of| !of.is_hide_set()).cloned().collect::<Vec<_>>();
    shown.args(options).subcommands(commands)
}

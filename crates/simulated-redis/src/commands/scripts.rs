//! Commands that run scripts.

use super::*;
use crate::busy::ENDLESS;
use crate::script::Arguments;

pub(super) fn eval(server: &mut Server, connection: Connection, words: CommandWords<'_>) -> CommandResult {
    let count = number::integer(words[2]).ok_or(NOT_AN_INTEGER)?;
    let count = usize::try_from(count).map_err(|_| Reply::error("ERR Number of keys can't be negative"))?;
    let rest = &words[3..];
    if count > rest.len() {
        return Err(Reply::error("ERR Number of keys can't be greater than number of args"));
    }
    if words[1] == ENDLESS {
        return server.begin_endless(connection);
    }
    let (keys, others) = rest.split_at(count);
    server.data.followers = server.online();
    let reply = server.scripts.run(&mut server.data, words[1], Arguments { keys, others });
    server.publish();
    reply
}

pub(super) fn script(server: &mut Server, _: Connection, words: CommandWords<'_>) -> CommandResult {
    match &subcommand(words)[..] {
        "flush" => {
            server.scripts.forget();
            Ok(Reply::OK)
        }
        "kill" => server.kill_script(),
        _ => Err(unknown_subcommand(words)),
    }
}

//! Commands that run scripts.

use super::{Answer, NOT_AN_INTEGER, SYNTAX, is, subcommand, unknown_subcommand};
use crate::data::Words;
use crate::number;
use crate::process::Connection;
use crate::reply::Reply;
use crate::script::Arguments;
use crate::server::Server;

fn run(server: &mut Server, connection: Connection, words: Words<'_>, known: bool) -> Answer {
    let count = number::integer(words[2]).ok_or(NOT_AN_INTEGER)?;
    let count = usize::try_from(count).map_err(|_| Reply::error("ERR Number of keys can't be negative"))?;
    let rest = &words[3..];
    if count > rest.len() {
        return Err(Reply::error("ERR Number of keys can't be greater than number of args"));
    }
    let (keys, others) = rest.split_at(count);
    let database = server.clients.get(&connection).map_or(0, |client| client.database);
    let arguments = Arguments { keys, others, database };
    let reply = match known {
        true => server.scripts.run_known(&mut server.data, words[1], arguments),
        false => server.scripts.run(&mut server.data, words[1], arguments),
    };
    server.publish();
    reply
}

pub(super) fn eval(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    run(server, connection, words, false)
}

pub(super) fn evalsha(server: &mut Server, connection: Connection, words: Words<'_>) -> Answer {
    run(server, connection, words, true)
}

pub(super) fn script(server: &mut Server, _: Connection, words: Words<'_>) -> Answer {
    match &subcommand(words)[..] {
        "load" => server.scripts.load(words[2]).map(|digest| Reply::text(&digest)),
        "exists" => {
            let known = words[2..].iter().map(|digest| Reply::yes(server.scripts.knows(digest)));
            Ok(Reply::Array(known.collect()))
        }
        "flush" => {
            match &words[2..] {
                [] => {}
                [how] if is(how, "sync") || is(how, "async") => {}
                [_] => return Err(Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
                _ => return Err(SYNTAX),
            }
            server.scripts.forget();
            Ok(Reply::OK)
        }
        "kill" => Err(Reply::error("NOTBUSY No scripts in execution right now.")),
        _ => Err(unknown_subcommand(words)),
    }
}

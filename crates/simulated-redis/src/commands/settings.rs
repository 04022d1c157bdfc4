//! CONFIG. DEBUG is never allowed.

use super::glob::matches;
use super::{Answer, SYNTAX, subcommand, unknown_subcommand};
use crate::data::Words;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

pub(super) fn config(server: &mut Server, _: Connection, words: Words<'_>) -> Answer {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    match &subcommand(words)[..] {
        "get" => {
            let settings = server.data.settings.all();
            let meant =
                |name: &&str| words[2..].iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
            let pairs = settings.into_iter().filter(|(name, _)| meant(name));
            Ok(Reply::Map(pairs.flat_map(|(name, value)| [Reply::text(name), Reply::text(value)]).collect()))
        }
        "set" => {
            if !words.len().is_multiple_of(2) {
                return Err(SYNTAX);
            }
            let mut settings = server.data.settings.clone();
            for pair in words[2..].chunks_exact(2) {
                settings.set(&text(pair[0]), &text(pair[1])).map_err(Reply::failed)?;
            }
            let kept_file = server.data.settings.persistence.keeps_file();
            server.data.settings = settings;
            if server.data.settings.persistence.keeps_file() && !kept_file {
                server.data.propagation.wanted = true;
                server.rewrite_file();
            }
            server.evict();
            Ok(Reply::OK)
        }
        "resetstat" => {
            server.data.stats = crate::data::Stats::default();
            Ok(Reply::OK)
        }
        "rewrite" => {
            server.save_role();
            Ok(Reply::OK)
        }
        _ => Err(unknown_subcommand(words)),
    }
}

/// Refused before it gets here.
pub(super) fn debug(_: &mut Server, _: Connection, _: Words<'_>) -> Answer {
    Ok(Reply::Nothing)
}

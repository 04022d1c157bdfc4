//! Lua 5.1, with Redis's functions for scripts.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{BString, Either, Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};
use rustc_hash::FxBuildHasher;
use sha1_smol::Sha1;

use super::Arguments;
use super::convert::{to_lua, to_reply, to_word};
use crate::commands::replication::wait_in_script;
use crate::commands::{self, GROWS, Handler};
use crate::config::Config;
use crate::data::Data;
use crate::execute::OUT_OF_MEMORY;
use crate::reply::Reply;
use crate::version::Version;

const PRELUDE: &str = include_str!("prelude.lua");
/// Redis's name for a script in messages.
const CHUNK: &str = "@user_script";

/// A running Lua with compiled scripts.
pub(super) struct Engine {
    lua: Lua,
    /// Runs a compiled script so that an error contains its line.
    run: Function,
    /// The variables of scripts.
    around: Table,
    compiled: HashMap<Vec<u8>, Compiled, FxBuildHasher>,
    /// The data while a script runs; otherwise spare data.
    running: Arc<Mutex<Box<Data>>>,
}

struct Compiled {
    function: Function,
    /// A script's name: the SHA-1 of its text.
    digest: String,
}

impl Engine {
    pub fn new() -> mlua::Result<Engine> {
        let libraries = StdLib::STRING | StdLib::TABLE;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let spare = Config::new(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), 0);
        let running = Arc::new(Mutex::new(Box::new(Data::new(&spare))));
        let inside = Arc::clone(&running);
        let call = lua.create_function(move |lua, words: MultiValue| match call(&mut lock(&inside), &words) {
            Reply::Error(text) => Err(mlua::Error::external(Raised(text.into_owned()))),
            reply => to_lua(lua, &reply),
        })?;
        let describe = lua.create_function(describe)?;
        let prelude = lua.load(PRELUDE).set_name("=prelude");
        let (run, around) = prelude.call((call, describe))?;
        Ok(Engine { lua, run, around, compiled: HashMap::default(), running })
    }

    pub fn forget(&mut self) {
        self.compiled.clear();
    }

    pub fn count(&self) -> usize {
        self.compiled.len()
    }

    /// Compiles a script, unless it is already compiled.
    pub fn prepare(&mut self, text: &[u8]) -> Result<(), Reply> {
        if self.compiled.contains_key(text) {
            return Ok(());
        }
        let mode = mlua::ChunkMode::Text;
        let chunk = self.lua.load(text).set_name(CHUNK).set_mode(mode).set_environment(self.around.clone());
        let function = chunk.into_function().map_err(|error| {
            let text = match error {
                mlua::Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            Reply::failed(format!("ERR Error compiling script (new function): {text}"))
        })?;
        self.compiled.insert(text.to_vec(), Compiled { function, digest: Sha1::from(text).digest().to_string() });
        Ok(())
    }

    /// Runs a compiled script.
    pub fn run(&mut self, data: &mut Box<Data>, text: &[u8], arguments: Arguments<'_>) -> Result<Reply, Reply> {
        let failed = |error: mlua::Error| Reply::failed(format!("ERR {error}"));
        let script = self.compiled.get(text).ok_or(Reply::error("ERR the script is not compiled"))?;
        self.set("KEYS", arguments.keys).map_err(failed)?;
        self.set("ARGV", arguments.others).map_err(failed)?;
        self.exchange(data);
        let outcome = self.run.call::<(bool, Value)>(&script.function);
        self.exchange(data);
        match outcome.map_err(failed)? {
            (true, value) => Ok(to_reply(&value)),
            (false, error) => Err(failure(data.version, &error, &script.digest)),
        }
    }

    fn exchange(&self, data: &mut Box<Data>) {
        std::mem::swap(&mut *lock(&self.running), data);
    }

    fn set(&self, name: &str, words: &[&[u8]]) -> mlua::Result<()> {
        // Text goes straight into the table; Lua's own handle of a string costs more than the string.
        let words = words.iter().map(|word| match std::str::from_utf8(word) {
            Ok(text) => Either::Left(text),
            Err(_) => Either::Right(BString::from(*word)),
        });
        self.around.raw_set(name, self.lua.create_sequence_from(words)?)
    }
}

fn lock(running: &Mutex<Box<Data>>) -> MutexGuard<'_, Box<Data>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command that a script calls.
fn call(data: &mut Data, words: &MultiValue) -> Reply {
    let words: Option<Vec<Vec<u8>>> = words.iter().map(to_word).collect();
    let version = data.version;
    let Some(words) = words else {
        return version.says(
            "ERR Lua redis lib command arguments must be strings or integers",
            "ERR Command arguments must be strings or integers",
        );
    };
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let Some(name) = words.first() else {
        return version.says(
            "ERR Please specify at least one argument for this redis lib call",
            "ERR Please specify at least one argument for this call",
        );
    };
    let Some(command) = commands::find(version, name) else {
        return version.says("ERR Unknown Redis command called from script", "ERR Unknown command called from script");
    };
    let is_wait = command.name == "wait" && version.has_wait_in_scripts();
    if !is_wait && !matches!(command.run, Handler::Data(_)) {
        return version
            .says("ERR This Redis command is not allowed from script", "ERR This command is not allowed from script");
    }
    if !command.accepts(words.len()) {
        return version.says(
            "ERR Wrong number of args calling Redis command from script",
            "ERR Wrong number of args calling command from script",
        );
    }
    let Handler::Data(run) = command.run else { return wait_in_script(data, &words) };
    if let Some(refusal) = data.refuses(command) {
        return refusal;
    }
    if command.is(GROWS) && data.out_of_memory {
        return OUT_OF_MEMORY;
    }
    if data.cluster_slots.as_ref().is_some_and(|mine| !command.keys_in(&words).iter().all(|key| mine.has(key))) {
        return Reply::error("ERR Script attempted to access a non local key in a cluster node");
    }
    data.record(None, &words);
    data.call(run, &words)
}

/// A command's error on its way through Lua.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// Returns the text of a command's error; None for other errors.
fn raised(error: &Value) -> Option<String> {
    let Value::Error(error) = error else { return None };
    let mut error = &**error;
    while let mlua::Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    Some(error.downcast_ref::<Raised>().map_or_else(|| format!("ERR {error}"), |raised| raised.0.clone()))
}

fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(table)
}

/// Adds the place in the script to an error.
fn describe(lua: &Lua, error: Value) -> mlua::Result<Table> {
    const DEEPEST: usize = 64;
    let table = match (raised(&error), error) {
        (Some(text), _) => error_table(lua, text.as_bytes())?,
        (None, Value::Table(table)) => table,
        (None, other) => {
            let mut text = b"ERR ".to_vec();
            text.extend(to_word(&other).unwrap_or_else(|| other.to_string().unwrap_or_default().into_bytes()));
            error_table(lua, &text)?
        }
    };
    let line = (0..DEEPEST).find_map(|level| {
        lua.inspect_stack(level, |frame| {
            let ours = frame.source().source.is_some_and(|source| source == CHUNK);
            ours.then(|| frame.current_line()).flatten()
        })
        .flatten()
    });
    if let Some(line) = line {
        table.raw_set("line", line)?;
    }
    Ok(table)
}

/// Redis's answer to a failed script.
fn failure(version: Version, error: &Value, digest: &str) -> Reply {
    let Value::Table(table) = error else { return Reply::error("ERR the script failed") };
    let text = match table.raw_get::<Value>("err") {
        Ok(Value::String(text)) => text.to_string_lossy(),
        _ => "ERR unknown error".to_string(),
    };
    Reply::failed(match table.raw_get::<Option<usize>>("line") {
        Ok(Some(line)) if version.names_scripts() => format!("{text} script: {digest}, on {CHUNK}:{line}."),
        Ok(Some(line)) => format!("{text} script: on {CHUNK}:{line}."),
        _ => text,
    })
}

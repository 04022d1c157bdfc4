//! Scripts: the ones that are known by their digest, and the Lua that runs them.

mod convert;
mod engine;

use sha1_smol::Sha1;

use crate::data::Data;
use crate::keyspace::Table;
use crate::reply::Reply;

use engine::Engine;

/// The scripts of a server. Lua is started with the first one: most servers in a test of something else never need it.
#[derive(Default)]
pub(crate) struct Scripts {
    engine: Option<Engine>,
    /// Texts by their digests.
    known: Table<Vec<u8>>,
}

/// A script's keys and arguments.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub keys: &'a [&'a [u8]],
    pub others: &'a [&'a [u8]],
    pub database: usize,
}

impl Scripts {
    pub fn count(&self) -> usize {
        self.known.len()
    }

    pub fn knows(&self, digest: &[u8]) -> bool {
        self.known.contains_key(&digest.to_ascii_lowercase())
    }

    pub fn forget(&mut self) {
        self.known.clear();
        if let Some(engine) = &mut self.engine {
            engine.forget();
        }
    }

    /// Remembers a script and returns its digest, or says why it is none.
    pub fn load(&mut self, text: &[u8]) -> Result<String, Reply> {
        self.engine()?.prepare(text)?;
        let digest = digest(text);
        self.known.entry(digest.clone().into_bytes()).or_insert_with(|| text.to_vec());
        Ok(digest)
    }

    /// Runs the script of this digest.
    pub fn run_known(&mut self, data: &mut Box<Data>, digest: &[u8], arguments: Arguments<'_>) -> Result<Reply, Reply> {
        const UNKNOWN: Reply = Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        let text = self.known.get(&digest.to_ascii_lowercase()).ok_or(UNKNOWN)?.clone();
        self.run(data, &text, arguments)
    }

    /// Runs a script and remembers it.
    pub fn run(&mut self, data: &mut Box<Data>, text: &[u8], arguments: Arguments<'_>) -> Result<Reply, Reply> {
        if !self.engine()?.is_prepared(text) {
            self.load(text)?;
        }
        self.engine()?.run(data, text, arguments)
    }

    fn engine(&mut self) -> Result<&mut Engine, Reply> {
        if self.engine.is_none() {
            let failed = |error: mlua::Error| Reply::failed(format!("ERR Lua can't be started: {error}"));
            self.engine = Some(Engine::new().map_err(failed)?);
        }
        self.engine.as_mut().ok_or(Reply::error("ERR Lua can't be started"))
    }
}

/// A script's name: the SHA-1 of its text.
pub(crate) fn digest(text: &[u8]) -> String {
    Sha1::from(text).digest().to_string()
}

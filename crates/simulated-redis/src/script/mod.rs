//! Scripts, and Lua to run them.

mod convert;
mod engine;

use crate::data::Data;
use crate::reply::Reply;

use engine::Engine;

/// The scripts of a server. The first script starts Lua, because most servers in other tests never need it.
#[derive(Default)]
pub(crate) struct Scripts {
    engine: Option<Engine>,
}

/// A script's keys and arguments.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub keys: &'a [&'a [u8]],
    pub others: &'a [&'a [u8]],
}

impl Scripts {
    /// The number of cached scripts.
    pub fn count(&self) -> usize {
        self.engine.as_ref().map_or(0, Engine::count)
    }

    pub fn forget(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.forget();
        }
    }

    /// Runs a script and caches it.
    pub fn run(&mut self, data: &mut Box<Data>, text: &[u8], arguments: Arguments<'_>) -> Result<Reply, Reply> {
        if self.engine.is_none() {
            let failed = |error: mlua::Error| Reply::failed(format!("ERR Lua can't be started: {error}"));
            self.engine = Some(Engine::new().map_err(failed)?);
        }
        let engine = self.engine.as_mut().ok_or(Reply::error("ERR Lua can't be started"))?;
        engine.prepare(text)?;
        engine.run(data, text, arguments)
    }
}

//! The built-in models and their names.

mod counter;
mod locks;
mod register;
mod sequence;
mod set;

use std::fmt;
use std::str::FromStr;

pub use counter::Counter;
pub use locks::{FencedMutex, Mutex, OwnerMutex, Semaphore};
pub use register::{FailedCas, Register};
pub use sequence::{ListAppend, TextAppend};
pub use set::Set;

/// A built-in model, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSpec {
    /// [`Register`] with reads and writes.
    Register,
    /// [`Register`] with compare-and-set too.
    CasRegister,
    /// [`Register`] with read-modify-write too.
    Rmw,
    /// [`Counter`].
    Counter,
    /// [`Set`].
    Set,
    /// [`ListAppend`].
    ListAppend,
    /// [`TextAppend`].
    TextAppend,
    /// [`Mutex`]: any process may release it.
    Mutex,
    /// [`OwnerMutex`].
    OwnerMutex,
    /// [`OwnerMutex`] that its owner can acquire again.
    ReentrantMutex,
    /// [`FencedMutex`].
    FencedMutex,
    /// [`Semaphore`] with this many places.
    Semaphore(u32),
}

const NAMES: [(&str, ModelSpec); 11] = [
    ("register", ModelSpec::Register),
    ("cas-register", ModelSpec::CasRegister),
    ("rmw", ModelSpec::Rmw),
    ("counter", ModelSpec::Counter),
    ("set", ModelSpec::Set),
    ("list-append", ModelSpec::ListAppend),
    ("text-append", ModelSpec::TextAppend),
    ("mutex", ModelSpec::Mutex),
    ("owner-mutex", ModelSpec::OwnerMutex),
    ("reentrant-mutex", ModelSpec::ReentrantMutex),
    ("fenced-mutex", ModelSpec::FencedMutex),
];

impl ModelSpec {
    /// True if its operations are acquires and releases.
    pub fn is_lock(self) -> bool {
        use ModelSpec::{FencedMutex, Mutex, OwnerMutex, ReentrantMutex, Semaphore};
        matches!(self, Mutex | OwnerMutex | ReentrantMutex | FencedMutex | Semaphore(_))
    }
}

impl FromStr for ModelSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<ModelSpec, String> {
        if let Some((_, spec)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(*spec);
        }
        if let Some(permits) = text.strip_prefix("semaphore:") {
            return match permits.parse() {
                Ok(permits) if permits > 0 => Ok(ModelSpec::Semaphore(permits)),
                _ => Err(format!("`{permits}` is not a number of permits; expected 1 or more, as in semaphore:3")),
            };
        }
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        Err(format!("there is no model `{text}`: expected one of {}, semaphore:N", names.join(", ")))
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match (self, NAMES.iter().find(|(_, spec)| spec == self)) {
            (_, Some((name, _))) => out.write_str(name),
            (ModelSpec::Semaphore(permits), _) => write!(out, "semaphore:{permits}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_it_is_written() {
        for (name, spec) in NAMES {
            assert_eq!((name.parse(), spec.to_string().as_str()), (Ok(spec), name));
        }
        assert_eq!("semaphore:3".parse(), Ok(ModelSpec::Semaphore(3)));
        assert_eq!(ModelSpec::Semaphore(3).to_string(), "semaphore:3");
    }

    #[test]
    fn a_name_that_is_none_gets_the_list() {
        let error = "queue".parse::<ModelSpec>().unwrap_err();
        assert!(
            error.contains("`queue`") && error.contains("cas-register") && error.contains("semaphore:N"),
            "{error}"
        );
        assert!("semaphore:0".parse::<ModelSpec>().is_err());
        assert!("semaphore:many".parse::<ModelSpec>().unwrap_err().contains("semaphore:3"));
    }
}

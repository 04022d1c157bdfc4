//! The general search: just-in-time linearization.

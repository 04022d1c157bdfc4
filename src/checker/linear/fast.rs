//! Checks that need no search, because the object's values say in which order its operations took effect.

//! The fast path against the fallback: where it understands a line at all, it must understand the same.

//! Renders a checked history for people and for machines.

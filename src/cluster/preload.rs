//! What members are started with whose wall clock is to go wrong: our library, and the file by which it is controlled.

/// The library, a shared object.
pub(crate) const LIBRARY: &[u8] = &[];
/// Where it lies, as members see it.
pub(crate) const LIBRARY_PATH: &str = "/redjepsen/clock.so";
/// Where its control file lies, as members see it.
pub(crate) const CONTROL_PATH: &str = "/redjepsen/clock";

/// The content of a control file under which every clock is right.
pub(crate) fn blank_control() -> Vec<u8> {
    vec![0; 4096]
}

/// The environment variables that make a program load the library.
pub(crate) fn environment() -> [(String, String); 2] {
    [("LD_PRELOAD", LIBRARY_PATH), ("REDJEPSEN_CLOCK", CONTROL_PATH)]
        .map(|(name, value)| (name.to_string(), value.to_string()))
}

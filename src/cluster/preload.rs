//! What members are started with whose wall clock is to go wrong: our library, and the file by which it is controlled.

/// The library, a shared object.
pub(crate) const LIBRARY: &[u8] = &[];
/// Where it lies in a container.
pub(crate) const LIBRARY_PATH: &str = "/redjepsen/clock.so";
/// Where its control file lies in a container.
pub(crate) const CONTROL_PATH: &str = "/redjepsen/clock";

/// The content of a control file under which every clock is right.
pub(crate) fn blank_control() -> Vec<u8> {
    vec![0; 4096]
}

//! The process's initial environment and its auxiliary vector, read from /proc: libc's own copies may not exist yet
//! when the library is first called.

use core::mem::MaybeUninit;

use crate::system::{self, File};

/// The longest value accepted, in bytes including its final zero: the maximum length of a path.
const VALUE_BYTES: usize = 4096;
/// Bytes read at once.
const CHUNK_BYTES: usize = 512;

/// Calls `use_it` with the zero-terminated value of the variable, given its name and `=`. `None` if there is no such
/// variable, or if its value is empty or too long.
pub fn with_variable<T>(name_and_equals: &[u8], use_it: impl FnOnce(*const core::ffi::c_char) -> T) -> Option<T> {
    let mut value = [const { MaybeUninit::<u8>::uninit() }; VALUE_BYTES];
    let mut length = 0;
    // How many bytes of this variable have matched so far; `None` after a mismatch.
    let mut matched = Some(0);
    let mut is_complete = false;
    let mut put = |byte: u8| -> Option<bool> {
        match matched {
            _ if byte == 0 => {
                if length > 0 {
                    value.get_mut(length)?.write(0);
                    return Some(true);
                }
                matched = Some(0);
            }
            Some(count) if count == name_and_equals.len() => {
                value.get_mut(length)?.write(byte);
                length += 1;
            }
            Some(count) => matched = (name_and_equals.get(count) == Some(&byte)).then_some(count + 1),
            None => {}
        }
        Some(false)
    };
    let file = system::open(c"/proc/self/environ".as_ptr(), system::READ_ONLY).ok()?;
    'file: while let Some(bytes) = chunk(&file, &mut [const { MaybeUninit::uninit() }; CHUNK_BYTES]) {
        for byte in bytes {
            match put(*byte) {
                Some(false) => {}
                Some(true) => {
                    is_complete = true;
                    break 'file;
                }
                None => break 'file,
            }
        }
    }
    file.close();
    is_complete.then(|| use_it(value.as_ptr().cast()))
}

/// An entry of the auxiliary vector, in which the kernel tells a process about itself.
pub fn auxiliary(wanted: usize) -> Option<usize> {
    const WORD: usize = size_of::<usize>();
    let file = system::open(c"/proc/self/auxv".as_ptr(), system::READ_ONLY).ok()?;
    let mut found = None;
    // Chunks hold whole entries, as the kernel returns as much as requested until the end.
    'file: while let Some(bytes) = chunk(&file, &mut [const { MaybeUninit::uninit() }; CHUNK_BYTES]) {
        for entry in bytes.chunks_exact(2 * WORD) {
            if let Some((kind, value)) = entry.split_first_chunk::<WORD>()
                && let Some(value) = value.first_chunk::<WORD>()
                && usize::from_ne_bytes(*kind) == wanted
            {
                found = Some(usize::from_ne_bytes(*value));
                break 'file;
            }
        }
    }
    file.close();
    found
}

/// The next bytes of a file, at most a buffer full; `None` at the end or on an error.
fn chunk<'a>(file: &File, buffer: &'a mut [MaybeUninit<u8>]) -> Option<&'a [u8]> {
    let bytes = file.read(buffer).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}

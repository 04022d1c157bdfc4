//! Opens files that may be compressed. The first bytes determine the compression, not the name.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::formats::HistoryError;

/// Names of history files in a run folder.
const IN_FOLDER: [&str; 3] = ["history.jsonl", "history.jsonl.zst", "history.jsonl.gz"];

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The largest decompressed size of a history, in bytes. Reading takes memory in proportion to it. The size of a plain file shows
/// it in advance; the size of a compressed file does not.
const MOST_UNPACKED: u64 = 1 << 30;

/// How many compressed bytes are read at once.
const BUFFER: usize = 64 << 10;

/// The compression of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Compressed by `gzip`.
    Gzip,
    /// Compressed by `zstd`.
    Zstd,
}

/// The history at a path: the file, the history in a run folder, or standard input for `-`.
pub(super) fn open(path: &Path) -> Result<(Box<dyn Read + Send>, String), HistoryError> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin()), "standard input".to_string()));
    }
    let (path, file) = match path.is_dir() {
        true => {
            let path = in_folder(path);
            let file = open_inside(&path);
            (path, file)
        }
        false => (path.to_path_buf(), File::open(path)),
    };
    let name = path.display().to_string();
    match file {
        Ok(file) => Ok((Box::new(file), name)),
        Err(source) => Err(HistoryError::Io { name, source }),
    }
}

/// Opens a file in a run folder. A folder may come from an unknown source. So a link in it, which may lead anywhere, is not
/// followed, and a pipe, which may never end, is not opened. A file that the user names directly is opened.
fn open_inside(path: &Path) -> io::Result<File> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        let what = if found.is_symlink() { "a link that leads out of the folder" } else { "not a regular file" };
        return Err(io::Error::other(format!("it is {what}; if you trust it, name the file itself, not its folder")));
    }
    File::open(path)
}

/// The first one that exists. If none does, the first name, for the error message.
fn in_folder(folder: &Path) -> PathBuf {
    let found = IN_FOLDER.iter().map(|name| folder.join(name)).find(|path| path.symlink_metadata().is_ok());
    found.unwrap_or_else(|| folder.join(IN_FOLDER[0]))
}

/// The decompressed content, as a stream.
pub(super) fn decompress<'r>(reader: impl Read + Send + 'r) -> io::Result<(Box<dyn Read + Send + 'r>, Compression)> {
    let mut reader = reader;
    // The first bytes are read separately and put back, as a pipe may deliver them one by one.
    let mut magic = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut magic)?;
    let is_zstd = magic == ZSTD || (magic.len() == 4 && magic[0] & 0xf0 == 0x50 && magic[1..] == [0x2a, 0x4d, 0x18]);
    let is_gzip = magic.starts_with(&GZIP);
    let whole = io::Cursor::new(magic).chain(reader);
    Ok(if is_gzip {
        let unpacked = MultiGzDecoder::new(BufReader::with_capacity(BUFFER, whole));
        (Box::new(Bounded { unpacked, left: MOST_UNPACKED }), Compression::Gzip)
    } else if is_zstd {
        let source = BufReader::with_capacity(BUFFER, whole);
        let unpacked = Zstd { source, decoder: FrameDecoder::new(), inside: false };
        (Box::new(Bounded { unpacked, left: MOST_UNPACKED }), Compression::Zstd)
    } else {
        (Box::new(whole), Compression::None)
    })
}

/// Decompressed data, refused beyond `left` bytes.
struct Bounded<R> {
    unpacked: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.unpacked.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                let size = MOST_UNPACKED >> 30;
                let text = format!(
                    "it decompresses to more than {size} GiB; if you trust it, decompress it and check that file"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(read)
    }
}

/// The frames of a zstd file one after another; the checksum of each is verified.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.inside && !self.enter()? {
                break;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let step = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, step).map_err(|error| damaged(&error))?;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            let sums = (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if let (Some(given), Some(found)) = sums
                && given != found
            {
                return Err(damaged(&"its checksum is wrong"));
            }
            self.inside = false;
        }
        Ok(0)
    }
}

impl<R: BufRead> Zstd<R> {
    /// Starts the next frame with content and skips those without; false at the end of the file.
    fn enter(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.inside = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(damaged(&"it ends too early"));
                    }
                }
                Err(error) => return Err(damaged(&error)),
            }
        }
        Ok(false)
    }
}

fn damaged(reason: &impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the compressed data is damaged: {}", reason.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unpacks_to_more_than_it_may_is_refused_and_no_byte_sooner() {
        let read = |left: u64| {
            let mut text = String::new();
            Bounded { unpacked: "twelve bytes".as_bytes(), left }.read_to_string(&mut text).map(|_| text)
        };
        assert_eq!(read(12).unwrap(), "twelve bytes");
        let error = read(11).unwrap_err().to_string();
        assert!(error.contains("more than 1 GiB") && error.contains("decompress it"), "{error}");
    }
}

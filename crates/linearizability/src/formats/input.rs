//! Bytes in bounded memory: a window over a reader, consumed line by line, form by form or in blocks of lines.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use crate::formats::LONGEST_LINE;

/// How many bytes are read at once. Small enough to stay in the processor's cache until they are parsed.
const CHUNK: usize = 256 << 10;

/// Why no more can be read.
#[derive(Debug)]
pub(super) enum Fault {
    Io(io::Error),
    TooLong,
}

pub(super) struct Input<'r> {
    reader: Box<dyn Read + Send + 'r>,
    buffer: Vec<u8>,
    /// The bytes from `start` to `end` are read but not yet taken.
    start: usize,
    end: usize,
    exhausted: bool,
    /// The number of the line at `start`, from 1.
    line: u64,
    /// How many bytes of that line have been taken.
    column: usize,
}

impl<'r> Input<'r> {
    pub fn new(reader: impl Read + Send + 'r) -> Input<'r> {
        let reader = Box::new(reader);
        Input { reader, buffer: vec![0; CHUNK], start: 0, end: 0, exhausted: false, line: 1, column: 0 }
    }

    /// The bytes that are read but not yet taken.
    pub fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// True if the window has all remaining bytes.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// The number of the line at the start of the window, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The line and the column of a place in the window, both from 1.
    pub fn position(&self, place: usize) -> (u64, usize) {
        let before = &self.window()[..place];
        let line = self.line + memchr::memchr_iter(b'\n', before).count() as u64;
        let column = match memchr::memrchr(b'\n', before) {
            Some(newline) => before.len() - newline,
            None => self.column + before.len() + 1,
        };
        (line, column)
    }

    /// Widens the window, unless the reader has no more.
    pub fn widen(&mut self) -> Result<(), Fault> {
        if self.end - self.start >= LONGEST_LINE as usize {
            return Err(Fault::TooLong);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end * 2 > self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        while !self.exhausted && self.end < self.buffer.len() {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.exhausted = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Io(error)),
            }
        }
        Ok(())
    }

    /// Takes bytes off the start of the window.
    pub fn take(&mut self, bytes: usize) {
        let (line, column) = self.position(bytes);
        (self.line, self.column) = (line, column - 1);
        self.start += bytes;
    }

    /// The next line without its newline, and its number. None after the last line, which need not end in a newline.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, Fault> {
        let mut seen = 0;
        loop {
            if let Some(place) = memchr::memchr(b'\n', &self.window()[seen..]) {
                let (start, end) = (self.start, self.start + seen + place);
                self.start = end + 1;
                self.line += 1;
                return Ok(Some(Line { bytes: &self.buffer[start..end], number: self.line - 1 }));
            }
            if self.exhausted {
                let (start, end) = (self.start, self.end);
                self.start = end;
                let line = Line { bytes: &self.buffer[start..end], number: self.line };
                return Ok((start < end).then_some(line));
            }
            seen = self.end - self.start;
            self.widen()?;
        }
    }

    /// Fills `block` with the next whole lines, as many as are available; false after the last ones. The last line need not end
    /// in a newline. Lines taken this way are not counted.
    pub fn next_block(&mut self, block: &mut Vec<u8>) -> Result<bool, Fault> {
        let length = loop {
            match memchr::memrchr(b'\n', self.window()) {
                Some(last) => break last + 1,
                None if self.exhausted => break self.window().len(),
                None => self.widen()?,
            }
        };
        // The buffers are swapped, and the rest, which is less than a line, is copied.
        std::mem::swap(&mut self.buffer, block);
        self.buffer.resize(block.len().max(CHUNK), 0);
        let rest = &block[self.start + length..self.end];
        self.buffer[..rest.len()].copy_from_slice(rest);
        self.end = rest.len();
        block.truncate(self.start + length);
        block.drain(..std::mem::take(&mut self.start));
        Ok(length > 0)
    }

    /// The remaining bytes, for another kind of reader.
    pub fn into_reader(self) -> impl BufRead + 'r {
        let rest = self.buffer[self.start..self.end].to_vec();
        Cursor::new(rest).chain(BufReader::new(self.reader))
    }
}

pub(super) struct Line<'b> {
    pub bytes: &'b [u8],
    pub number: u64,
}

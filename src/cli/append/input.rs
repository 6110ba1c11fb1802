//! Lines from files, pipes and standard input, kept for the comparison at the
//! end.

use core::fmt;
use core::ops::Range;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use farword::log::DATA_OFFSET;

use crate::cli::output::plain;
use crate::cli::stop::{self, UntilStop};

/// The least that a log is made by default.
const LEAST_LOG: u64 = 4096;

/// What an input of unknown length gets.
const UNKNOWN_INPUT: u64 = 64 << 20;

/// How much is asked of a pipe at once.
const CHUNK: usize = 64 << 10;

/// All inputs of a run, in order.
#[derive(Debug)]
pub(super) struct Inputs {
    inputs: Vec<Input>,
    current: usize,
}

/// Where a record lies in the inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    input: usize,
    /// Its bytes, in what was read of the input.
    range: Range<usize>,
    /// The number of the line, from 1.
    line: u64,
}

impl Place {
    /// How many bytes it has.
    pub(super) fn len(&self) -> u64 {
        self.range.len() as u64
    }
}

/// A record, with where it came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) bytes: &'a [u8],
    name: &'a str,
    line: u64,
}

/// "access.log, line 12".
impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.name, self.line)
    }
}

impl Inputs {
    /// Opens every input, and reads those of known length.
    pub(super) fn open(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let inputs = paths.iter().map(|path| Input::open(path)).collect::<anyhow::Result<_>>()?;
        Ok(Inputs { inputs, current: 0 })
    }

    /// The size of a log that holds all records: those of files exactly, and 64
    /// MiB for each input of unknown length.
    pub(super) fn log_size(&self) -> u64 {
        let records: u64 = self.inputs.iter().map(Input::log_bytes).sum();
        (DATA_OFFSET + records).next_multiple_of(8).max(LEAST_LOG)
    }

    /// How many bytes there are in all, if that is known.
    pub(super) fn known_len(&self) -> Option<u64> {
        let all_read = self.inputs.iter().all(|input| input.rest.is_none());
        all_read.then(|| self.inputs.iter().map(|input| input.bytes.len() as u64).sum())
    }

    /// The next record, or `None` after the last. A line that goes on for more
    /// than `longest` bytes is refused before it is read to its end.
    pub(super) fn next(&mut self, longest: u64) -> anyhow::Result<Option<Place>> {
        while let Some(input) = self.inputs.get_mut(self.current) {
            if let Some(range) = input.next_line(longest)? {
                return Ok(Some(Place { input: self.current, range, line: input.line }));
            }
            self.current += 1;
        }
        Ok(None)
    }

    pub(super) fn record(&self, place: &Place) -> Record<'_> {
        let input = &self.inputs[place.input];
        Record { bytes: &input.bytes[place.range.clone()], name: &input.name, line: place.line }
    }

    /// Every record of what was read, from the first.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.inputs.iter().flat_map(|input| {
            let lines = lines(&input.bytes[..input.next]);
            (1..).zip(lines).map(|(line, bytes)| Record { bytes, name: &input.name, line })
        })
    }

    /// How many bytes of input lie before the next record.
    pub(super) fn consumed(&self) -> u64 {
        self.inputs.iter().map(|input| input.next as u64).sum()
    }
}

/// The lines of `bytes`. A line feed ends a line; a last line may lack it.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    whole.split(|byte| *byte == b'\n').filter(move |_| !bytes.is_empty())
}

/// One file, or what takes its place.
struct Input {
    name: String,
    /// All that was read so far.
    bytes: Vec<u8>,
    /// Where the rest comes from; `None` once all is read.
    rest: Option<Box<dyn Read>>,
    /// Where the next record starts.
    next: usize,
    /// Up to here there is no line feed behind `next`.
    scanned: usize,
    /// How many lines lie before `next`.
    line: u64,
}

impl Input {
    fn open(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            let stdin = Box::new(UntilStop(io::stdin()));
            return Ok(Input::new("standard input", Some(stdin)));
        }
        let name = path.display().to_string();
        let (file, metadata) = File::open(path)
            .and_then(|file| file.metadata().map(|metadata| (file, metadata)))
            .map_err(plain)
            .with_context(|| format!("cannot open {name}"))?;
        if metadata.is_dir() {
            bail!("{name} is a directory: give the files in it");
        }
        if !metadata.is_file() {
            return Ok(Input::new(&name, Some(Box::new(UntilStop(file)))));
        }
        let mut input = Input::new(&name, Some(Box::new(file)));
        input.read_all()?;
        Ok(input)
    }

    fn new(name: &str, rest: Option<Box<dyn Read>>) -> Self {
        Input { name: name.to_string(), bytes: Vec::new(), rest, next: 0, scanned: 0, line: 0 }
    }

    fn read_all(&mut self) -> anyhow::Result<()> {
        if let Some(mut rest) = self.rest.take() {
            rest.read_to_end(&mut self.bytes)
                .map_err(plain)
                .with_context(|| format!("cannot read {}", self.name))?;
        }
        Ok(())
    }

    /// What its records take in a log.
    fn log_bytes(&self) -> u64 {
        if self.rest.is_some() {
            return UNKNOWN_INPUT;
        }
        // A NUL stands in the log for every line feed, and for one that the last
        // line lacks.
        let unfinished = self.bytes.last().is_some_and(|byte| *byte != b'\n');
        self.bytes.len() as u64 + u64::from(unfinished)
    }

    fn next_line(&mut self, longest: u64) -> anyhow::Result<Option<Range<usize>>> {
        loop {
            let found = self.bytes[self.scanned..].iter().position(|byte| *byte == b'\n');
            let end = found.map(|at| self.scanned + at);
            self.scanned = end.unwrap_or(self.bytes.len());
            if (self.scanned - self.next) as u64 > longest {
                let line = self.line + 1;
                bail!(
                    "{}, line {line}: longer than {longest} bytes, the most that a record of this log can have: give a larger --log-size",
                    self.name
                );
            }
            if end.is_none() && self.read_more()? {
                continue;
            }
            let start = self.next;
            // What was read when a stop was requested may be half a line.
            if end.is_none() && (start == self.scanned || stop::requested()) {
                return Ok(None);
            }
            self.next = end.map_or(self.scanned, |end| end + 1);
            let range = start..self.scanned;
            self.scanned = self.next;
            self.line += 1;
            return Ok(Some(range));
        }
    }

    /// Reads on, and says whether there was anything.
    fn read_more(&mut self) -> anyhow::Result<bool> {
        let Some(rest) = &mut self.rest else {
            return Ok(false);
        };
        let len = self.bytes.len();
        self.bytes.resize(len + CHUNK, 0);
        let result = loop {
            match rest.read(&mut self.bytes[len..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.bytes.truncate(len + *result.as_ref().unwrap_or(&0));
        let got = result.map_err(plain).with_context(|| format!("cannot read {}", self.name))?;
        if got == 0 {
            self.rest = None;
        }
        Ok(got > 0)
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("next", &self.next)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(in crate::cli::append) mod tests {
    use super::*;

    /// Gives one byte at a time, and is interrupted before each.
    struct Slow(Vec<u8>, bool);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            if self.0.is_empty() {
                return Ok(0);
            }
            into[0] = self.0.remove(0);
            Ok(1)
        }
    }

    pub(in crate::cli::append) fn inputs(texts: &[&[u8]], slow: bool) -> Inputs {
        let make = |text: &&[u8]| {
            let rest: Box<dyn Read> = Box::new(Slow(text.to_vec(), false));
            let mut input = Input::new("text", slow.then_some(rest));
            if !slow {
                input.bytes = text.to_vec();
            }
            input
        };
        Inputs { inputs: texts.iter().map(make).collect(), current: 0 }
    }

    fn all(mut inputs: Inputs) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        while let Some(place) = inputs.next(u64::MAX).expect("no line is too long") {
            found.push(inputs.record(&place).bytes.to_vec());
        }
        let again: Vec<_> = inputs.records().map(|record| record.bytes.to_vec()).collect();
        assert_eq!(found, again, "the comparison sees what was appended");
        found
    }

    #[test]
    fn lines_are_what_lies_between_line_feeds() {
        let cases: [(&[u8], &[&[u8]]); 8] = [
            (b"", &[]),
            (b"\n", &[b""]),
            (b"\n\n", &[b"", b""]),
            (b"a", &[b"a"]),
            (b"a\n", &[b"a"]),
            (b"a\n\nb", &[b"a", b"", b"b"]),
            (b"a\r\nb\r\n", &[b"a\r", b"b\r"]),
            (b"\0\xff\n\0", &[b"\0\xff", b"\0"]),
        ];
        for (text, expected) in cases {
            for slow in [false, true] {
                assert_eq!(all(inputs(&[text], slow)), expected, "{text:?} {slow}");
            }
        }
    }

    #[test]
    fn a_file_without_a_last_line_feed_does_not_run_into_the_next() {
        assert_eq!(all(inputs(&[b"a\nb", b"", b"c\n"], true)), [b"a", b"b", b"c"]);
    }

    #[test]
    fn a_log_is_sized_to_every_record_and_its_nul() {
        let size = |texts: &[&[u8]]| inputs(texts, false).log_size();
        assert_eq!(size(&[b""]), 4096);
        assert_eq!(size(&[&[b'x'; 5000]]), 5024);
        assert_eq!(size(&[&[b'x'; 4999], b"\n"]), 5016 + 8);
        assert_eq!(inputs(&[b"a"], true).log_size(), 16 + (64 << 20));
    }

    #[test]
    fn a_line_that_is_too_long_is_not_read_to_its_end() {
        let mut endless = inputs(&[], false);
        endless.inputs.push(Input::new("zero", Some(Box::new(io::repeat(0)))));
        let error = endless.next(100).expect_err("it never ends").to_string();
        assert!(error.starts_with("zero, line 1: longer than 100 bytes"), "{error}");
        assert!(endless.inputs[0].bytes.len() <= CHUNK);

        let mut fits = inputs(&[b"abc\nabcd\n"], false);
        assert!(fits.next(3).is_ok_and(|place| place.is_some()));
        assert!(fits.next(3).is_err());
    }
}

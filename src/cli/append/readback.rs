//! The proof: the log, read back from the remote side and compared with what
//! was sent.

use core::fmt;

use super::input::Record;
use crate::cli::remote::ReadBack;

/// How the log differs from what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// The tail word is not where the records end.
    Tail {
        /// What it says.
        found: u64,
        /// What it should say.
        expected: u64,
    },
    /// A byte of a record, or the NUL behind it.
    Byte {
        /// Where the record came from.
        record: String,
        /// Which byte of it, from 0; its length for the NUL.
        at: u64,
        found: u8,
        expected: u8,
    },
    /// The log ends before the records do.
    Short {
        /// The first record that is not all there.
        record: String,
        tail: u64,
    },
    /// The log holds more than the records.
    Long {
        /// Where the records end.
        end: u64,
        tail: u64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the log is not what was sent: ")?;
        match self {
            Difference::Tail { found, expected } => {
                write!(f, "its tail is {found} and should be {expected}")
            }
            Difference::Byte { record, at, found, expected } => {
                write!(f, "{record}, byte {at} is {found:#04x} and should be {expected:#04x}")
            }
            Difference::Short { record, tail } => {
                write!(f, "it ends at byte {tail}, before the end of {record}")
            }
            Difference::Long { end, tail } => {
                write!(f, "it ends at byte {tail}, and the records at byte {end}")
            }
        }
    }
}

/// What of a log is to be compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Where the tail word lies.
    pub(super) used_offset: u64,
    /// Where the records begin.
    pub(super) first: u64,
    /// Where they end.
    pub(super) tail: u64,
}

/// Compares the log's extent with the records, a NUL behind each, byte by byte,
/// and the tail word with where they end. Says where they differ, if they do.
///
/// # Errors
/// Where the log could not be read.
pub(super) fn compare<'a>(
    remote: &mut impl ReadBack,
    extent: Extent,
    records: impl Iterator<Item = Record<'a>>,
) -> anyhow::Result<Option<Difference>> {
    let Extent { used_offset, first, tail } = extent;
    let mut used = [0; 8];
    remote.read(used_offset, &mut used)?;
    let found = u64::from_ne_bytes(used);
    if found != tail {
        return Ok(Some(Difference::Tail { found, expected: tail }));
    }
    let mut log = Reader { remote, at: first, tail, buffer: vec![0; BUFFER], held: 0..0 };
    for record in records {
        let mut at = 0;
        for part in [record.bytes, b"\0"] {
            match log.matches(part)? {
                Ok(()) => at += part.len() as u64,
                Err(Mismatch::Short) => {
                    return Ok(Some(Difference::Short { record: record.to_string(), tail }));
                }
                Err(Mismatch::Byte { index, found, expected }) => {
                    let (record, at) = (record.to_string(), at + index);
                    return Ok(Some(Difference::Byte { record, at, found, expected }));
                }
            }
        }
    }
    let end = log.position();
    Ok((end != tail).then_some(Difference::Long { end, tail }))
}

/// How much of the log is compared at a time.
const BUFFER: usize = 256 << 10;

enum Mismatch {
    Short,
    Byte { index: u64, found: u8, expected: u8 },
}

/// The log as a stream of bytes.
struct Reader<'r, R> {
    remote: &'r mut R,
    /// Where the next read starts.
    at: u64,
    tail: u64,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not yet compared.
    held: core::ops::Range<usize>,
}

impl<R: ReadBack> Reader<'_, R> {
    /// Takes as many bytes as `expected` has, and compares them.
    fn matches(&mut self, expected: &[u8]) -> anyhow::Result<Result<(), Mismatch>> {
        let mut done = 0;
        while done < expected.len() {
            if self.held.is_empty() && !self.refill()? {
                return Ok(Err(Mismatch::Short));
            }
            let take = self.held.len().min(expected.len() - done);
            let found = &self.buffer[self.held.start..self.held.start + take];
            let wanted = &expected[done..done + take];
            if found != wanted {
                let pairs = found.iter().zip(wanted);
                let same = pairs.take_while(|(found, wanted)| found == wanted).count();
                let (found, expected) = (found[same], wanted[same]);
                let index = (done + same) as u64;
                return Ok(Err(Mismatch::Byte { index, found, expected }));
            }
            self.held.start += take;
            done += take;
        }
        Ok(Ok(()))
    }

    fn refill(&mut self) -> anyhow::Result<bool> {
        let len = self.tail.saturating_sub(self.at).min(self.buffer.len() as u64) as usize;
        self.remote.read(self.at, &mut self.buffer[..len])?;
        self.at += len as u64;
        self.held = 0..len;
        Ok(len > 0)
    }

    /// Where the next byte to be compared lies.
    fn position(&self) -> u64 {
        self.at - self.held.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farword::log::{DATA_OFFSET, USED_OFFSET};

    impl Extent {
        /// All of a log that has the usual layout.
        pub(in crate::cli::append) fn usual(tail: u64) -> Self {
            Extent { used_offset: USED_OFFSET.get(), first: DATA_OFFSET, tail }
        }
    }

    use crate::cli::append::input::tests::inputs;

    /// A remote side in plain bytes.
    struct Bytes(Vec<u8>);

    impl ReadBack for Bytes {
        fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
            let at = offset as usize;
            into.copy_from_slice(&self.0[at..at + into.len()]);
            Ok(())
        }
    }

    fn log_of(data: &[u8], tail: u64) -> Bytes {
        let mut bytes = [b"LOG\0\0\0\0\0".as_slice(), &tail.to_ne_bytes(), data].concat();
        bytes.resize(bytes.len() + 64, 0);
        Bytes(bytes)
    }

    /// The difference between a log and the lines of `text`.
    fn difference(log: &mut Bytes, text: &[u8]) -> Option<Difference> {
        let mut inputs = inputs(&[text], false);
        let mut tail = DATA_OFFSET;
        while let Some(place) = inputs.next(u64::MAX).expect("short lines") {
            tail += place.len() + 1;
        }
        compare(log, Extent::usual(tail), inputs.records()).expect("it can be read")
    }

    #[test]
    fn equal_logs_are_equal() {
        assert_eq!(difference(&mut log_of(b"", 16), b""), None);
        assert_eq!(difference(&mut log_of(b"ab\0\0\0c\0\0d\0", 26), b"ab\n\n\nc\0\nd"), None);
    }

    #[test]
    fn any_changed_byte_is_found_and_named() {
        let data = b"ab\0\0c\xff\0";
        let text = b"ab\n\nc\xff\n";
        let names = [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0), (3, 1), (3, 2)];
        for (index, (line, at)) in names.into_iter().enumerate() {
            let mut changed = data.to_vec();
            changed[index] ^= 0x20;
            let found = changed[index];
            let record = format!("text, line {line}");
            let expected = Difference::Byte { record, at, found, expected: data[index] };
            assert_eq!(difference(&mut log_of(&changed, 23), text), Some(expected), "{index}");
        }
    }

    #[test]
    fn a_change_anywhere_in_a_log_of_many_reads_is_found() {
        let text: Vec<u8> = (0..2 * BUFFER).map(|n| (n % 251) as u8).collect();
        let data: Vec<u8> =
            text.iter().map(|byte| if *byte == b'\n' { 0 } else { *byte }).chain([0]).collect();
        let mut log = log_of(&data, 16 + data.len() as u64);
        assert_eq!(difference(&mut log, &text), None);
        for index in [BUFFER - 1, BUFFER, data.len() - 1] {
            log.0[16 + index] ^= 1;
            assert!(difference(&mut log, &text).is_some(), "{index}");
            log.0[16 + index] ^= 1;
        }
    }

    #[test]
    fn a_tail_elsewhere_is_found() {
        for tail in [0, 15, 16, 18, 20, u64::MAX] {
            let expected = Difference::Tail { found: tail, expected: 19 };
            assert_eq!(difference(&mut log_of(b"ab\0", tail), b"ab"), Some(expected));
        }
    }

    #[test]
    fn records_that_end_elsewhere_than_the_log_are_found() {
        let texts = inputs(&[b"ab"], false);
        let mut log = log_of(b"ab\0", 19);
        let none = compare(&mut log, Extent::usual(19), texts.records()).expect("readable");
        assert_eq!(none, Some(Difference::Long { end: 16, tail: 19 }), "nothing was appended");
        let mut short = log_of(b"ab\0", 18);
        let mut texts = inputs(&[b"ab"], false);
        let _ = texts.next(9);
        let found = compare(&mut short, Extent::usual(18), texts.records()).expect("readable");
        assert_eq!(found, Some(Difference::Short { record: "text, line 1".into(), tail: 18 }));
    }
}

//! The remote log: append records to another machine's memory, publish the tail.
//!
//! The commonest use of a [`Ring`], ready-made. Records are written behind one
//! another; a commit flushes them, publishes the new tail by an atomic write and
//! flushes that too, all in one chain and one doorbell. Whoever reads the tail
//! sees every byte before it, and a crash at any moment leaves a log whose tail
//! is that of some commit.
//!
//! # Layout
//! librpma's atomic-write example and its peers use the same:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..8 | the signature, [`SIGNATURE`] |
//! | 8..16 | `used`: the offset of the next free byte, in the machine's own byte order; 16 in an empty log |
//! | 16.. | the records, each followed by a NUL |
//!
//! A record is any bytes. One that holds a NUL reads as two to whoever frames
//! by NUL: an engine with binary records puts its own lengths into them.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;

use crate::error::{Error, Invalid};
use crate::offset::AlignedOffset;
use crate::op::{FlushKind, Notify, OpContext, Ticket, Word};
use crate::provider::Provider;
use crate::region::{LocalSlice, RemoteRegion, Span, Target, Usage};
use crate::ring::{Patience, Ring, WaitError};
use crate::soft::store_bytes;

mod announce;
mod config;
mod staging;

pub use announce::{Announcement, BadAnnouncement};
pub use config::{Bound, LogConfig, LogError};
use staging::Staging;

/// The first 8 bytes of a log.
pub const SIGNATURE: [u8; 8] = *b"LOG\0\0\0\0\0";

/// Where the word `used` lies.
pub const USED_OFFSET: AlignedOffset = AlignedOffset::literal::<8>();

/// Where the records start.
pub const DATA_OFFSET: u64 = 16;

/// How many commits may be under way at once.
const MAX_COMMITS: usize = 64;

/// A commit needs this many requests: two writes where the staging memory
/// wraps, a flush, the atomic write, a flush, and one of the ring's own.
const COMMIT_REQUESTS: u32 = 6;

/// A place in a log: the offset just behind a record and its NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub(crate) u64);

impl Lsn {
    /// The offset, in bytes from the log's start.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Makes an empty log of `memory`, on the side that owns it: `used` first, the
/// signature last.
///
/// # Errors
/// [`LogError::RegionTooSmall`] where not even a header fits.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// let memory = [const { AtomicU64::new(0) }; 8];
/// farword::log::format(&memory)?;
/// assert_eq!(memory[1].load(Ordering::Acquire), 16);
/// # Ok::<(), farword::log::LogError>(())
/// ```
pub fn format(memory: &[AtomicU64]) -> Result<(), LogError> {
    let size = size_of_val(memory) as u64;
    let (Some(signature), Some(used)) = (memory.first(), memory.get(1)) else {
        return Err(LogError::RegionTooSmall { size });
    };
    used.store(DATA_OFFSET, Ordering::Release);
    signature.store(u64::from_ne_bytes(SIGNATURE), Ordering::Release);
    Ok(())
}

/// The tail of the log in `memory`, on the side that owns it, with everything
/// before it visible.
///
/// # Errors
/// As for [`Log::open`]: [`LogError::RegionTooSmall`],
/// [`LogError::ForeignSignature`], [`LogError::TailOutside`].
pub fn tail(memory: &[AtomicU64]) -> Result<Lsn, LogError> {
    let size = size_of_val(memory) as u64;
    let (Some(signature), Some(used)) = (memory.first(), memory.get(1)) else {
        return Err(LogError::RegionTooSmall { size });
    };
    let used = used.load(Ordering::Acquire);
    check_header(signature.load(Ordering::Acquire), used, DATA_OFFSET, size)
}

fn check_header(signature: u64, used: u64, data: u64, size: u64) -> Result<Lsn, LogError> {
    let found = signature.to_ne_bytes();
    if found != SIGNATURE && found != [0; 8] {
        return Err(LogError::ForeignSignature { found });
    }
    if used < data || used > size {
        return Err(LogError::TailOutside { tail: used, first: data, size });
    }
    Ok(Lsn(used))
}

/// What is under way: once `ticket` is confirmed, staging memory up to `staged`
/// is free, and the log is durable up to `used`, if this was a commit.
#[derive(Clone, Copy, Debug)]
struct Mark {
    ticket: Ticket,
    staged: u64,
    used: Option<Lsn>,
}

/// A log in a remote region, and the ring that writes it.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use farword::log::{self, Log, LogConfig};
/// use farword::soft::{InlineQp, QpConfig, SoftDevice};
/// use farword::{Ring, RingConfig, Usage};
///
/// // The peer's side: a region with a log in it.
/// let remote = [const { AtomicU64::new(0) }; 64];
/// log::format(&remote)?;
/// // This side: memory that records pass through.
/// let staging = [const { AtomicU64::new(0) }; 64];
///
/// let mut device = SoftDevice::new();
/// let usage = Usage::WRITE_DST | Usage::READ_SRC | Usage::FLUSH_VISIBILITY;
/// let region = device.register(&remote, usage)?.remote();
/// let local = device.register(&staging, Usage::WRITE_SRC | Usage::READ_DST)?.local();
///
/// let qp = InlineQp::boxed(&device, QpConfig::default())?;
/// let ring = Ring::boxed(qp, RingConfig::default())?;
/// let mut log = Log::open(ring, region, &staging, local, LogConfig::default())?;
///
/// log.append(b"first")?;
/// let last = log.append(b"second")?;
/// log.commit()?; // one doorbell for both
/// log.wait(last)?;
/// assert_eq!(log::tail(&remote)?, last);
/// # Ok::<(), farword::log::LogError>(())
/// ```
#[derive(Debug)]
pub struct Log<'m, P> {
    ring: Ring<'m, P>,
    region: RemoteRegion,
    used_word: Target,
    used_span: Span,
    flush: FlushKind,
    bound: Bound,
    data: u64,
    staging: Staging<'m>,
    /// Behind the last record that was appended.
    appended: Lsn,
    /// Behind the last record whose bytes were handed to the ring.
    written: Lsn,
    /// The tail of the last commit.
    committed: Lsn,
    /// The tail of the last commit that was confirmed.
    durable: Lsn,
    marks: ArrayVec<Mark, MAX_COMMITS>,
    /// A read into the staging memory that may not have answered yet. Until it
    /// has, nothing else may lie there: it would be overwritten.
    reading: Option<Ticket>,
}

impl<'m, P: Provider> Log<'m, P> {
    /// Opens the log in `region`: reads its header over the ring and goes on
    /// from its tail. A log that is flushed to persistence writes and flushes the
    /// tail once more, as it stands, so that it is durable even where a lost
    /// connection left it merely visible.
    ///
    /// After a failure, the old connection must be gone on both sides before the
    /// log is opened over a new one: requests of a dead ring can still be on the
    /// wire.
    ///
    /// `staging_memory` is what records pass through; `staging` is its
    /// registration ([`Usage::WRITE_SRC`] and [`Usage::READ_DST`]), of at least
    /// 16 bytes. A record may be longer than it. Nothing else may write to it
    /// while the log lives. A signature of zeros is taken for
    /// an unsigned log, as librpma's example makes in volatile memory.
    ///
    /// # Errors
    /// [`LogError::RegionTooSmall`], [`LogError::ForeignSignature`],
    /// [`LogError::TailOutside`] for what is not a log;
    /// [`LogError::Invalid`] for a region or ring that cannot carry one (rights,
    /// alignment, a batch of less than 8); [`LogError::Ring`] and
    /// [`LogError::TimedOut`] if the header could not be read, or its tail not be
    /// made durable. What the region holds is unchanged in every case.
    pub fn open(
        ring: Ring<'m, P>,
        region: RemoteRegion,
        staging_memory: &'m [AtomicU64],
        staging: LocalSlice,
        config: LogConfig,
    ) -> Result<Self, LogError> {
        let used_offset = config.used_offset.get();
        let data = used_offset.saturating_add(8);
        if region.size() < data {
            return Err(LogError::RegionTooSmall { size: region.size() });
        }
        if ring.batch_len() < 8 {
            let (got, max) = (ring.batch_len().into(), crate::slots::MAX_SLOTS);
            return Err(Invalid::Depth { got, min: 8, max }.into());
        }
        region.usage().require(Usage::READ_SRC)?;
        let used_word = region.target(config.used_offset)?;
        let used_span = region.span(used_offset, 8)?;
        let flush = match config.flush {
            Some(kind) => kind,
            None => ring.best_flush(region.usage()),
        };
        ring.check_flush(used_span, flush)?;
        let empty = Lsn(data);
        let mut log = Log {
            ring,
            region,
            used_word,
            used_span,
            flush,
            bound: config.bound,
            data,
            staging: Staging::new(staging_memory, staging)?,
            appended: empty,
            written: empty,
            committed: empty,
            durable: empty,
            marks: ArrayVec::new_const(),
            reading: None,
        };
        let tail = log.read_tail(config.check_signature)?;
        log.settle_tail(tail)?;
        log.appended = tail;
        log.written = tail;
        log.committed = tail;
        log.durable = tail;
        Ok(log)
    }

    /// Appends a record: its bytes and a NUL. Nothing of it shows until a
    /// [`commit`](Self::commit).
    ///
    /// It waits only where the staging memory is full, or where a
    /// [`read`](Self::read) that gave up has still to answer.
    ///
    /// # Errors
    /// [`LogError::TooLarge`] for a record that no log of this size could hold,
    /// [`LogError::Full`] for one that this log cannot hold now: the log is
    /// unchanged. [`LogError::Ring`] and [`LogError::TimedOut`] where bytes had
    /// to be sent on the way and could not be: the record is then not part of
    /// the log, and never will be.
    pub fn append(&mut self, record: &[u8]) -> Result<Lsn, LogError> {
        let len = record.len() as u64 + 1;
        let most = self.region.size() - self.data;
        if len > most {
            return Err(LogError::TooLarge { len, max: most });
        }
        let free = self.region.size() - self.appended.0;
        if len > free {
            return Err(LogError::Full { len, free });
        }
        let before = (self.appended, self.staging.filled());
        for part in [record, &[0]] {
            if let Err(error) = self.stage(part) {
                // Bytes of it that were sent already lie beyond every tail; the
                // next record overwrites them.
                self.appended = before.0;
                self.written = self.written.min(self.appended);
                self.staging.give_up(before.1);
                return Err(error);
            }
        }
        Ok(self.appended)
    }

    /// Publishes everything that was appended: the bytes, a flush, the new tail,
    /// a flush, in one doorbell. It does not wait; [`wait`](Self::wait) and
    /// [`durable`](Self::durable) tell when it is done. With nothing new it does
    /// nothing.
    ///
    /// # Errors
    /// [`LogError::Ring`], [`LogError::TimedOut`]. Records are not lost by it:
    /// they stay appended, and unless the ring has failed, another commit
    /// publishes them.
    pub fn commit(&mut self) -> Result<Lsn, LogError> {
        self.reap();
        if self.appended == self.committed {
            // What an earlier doorbell left staged still wants to go.
            return self.ring_doorbell();
        }
        self.make_room(COMMIT_REQUESTS)?;
        if self.marks.is_full() {
            self.wait_for_oldest()?;
        }
        self.write_staged()?;
        let (from, to) = (self.committed.0, self.appended.0);
        let records = self.region.span(from, to - from)?;
        let quiet = OpContext::new(0);
        self.ring.flush(records, self.flush, Notify::OnError, quiet)?;
        self.ring.atomic_write(self.used_word, Word::ne(to), Notify::OnError, quiet)?;
        let ticket =
            self.ring.flush(self.used_span, self.flush, Notify::Always, OpContext::new(to))?;
        self.committed = self.appended;
        let mark = Mark { ticket, staged: self.staging.sent(), used: Some(self.appended) };
        self.marks.push(mark);
        self.ring_doorbell()
    }

    fn ring_doorbell(&mut self) -> Result<Lsn, LogError> {
        match self.ring.doorbell() {
            // The rest stays staged, and goes with the next doorbell.
            Ok(_) | Err(Error::Full { .. }) => Ok(self.committed),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until everything up to `lsn` is durable, committing first if it
    /// was not committed yet, for at most [`LogConfig::bound`].
    ///
    /// # Errors
    /// [`LogError::TimedOut`], [`LogError::Ring`].
    pub fn wait(&mut self, lsn: Lsn) -> Result<(), LogError> {
        let patience = self.bound.start();
        self.wait_with(lsn, patience)
    }

    /// [`wait`](Self::wait), with a bound of the caller's.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_with(&mut self, lsn: Lsn, mut patience: impl Patience) -> Result<(), LogError> {
        if lsn > self.committed {
            self.commit()?;
        }
        loop {
            self.reap();
            if self.durable >= lsn.min(self.committed) {
                return Ok(());
            }
            let mark = self.marks.iter().find(|mark| mark.used.is_some_and(|used| used >= lsn));
            let Some(ticket) = mark.or(self.marks.last()).map(|mark| mark.ticket) else {
                return Ok(());
            };
            self.ring.wait(ticket, || patience.more(), |_| {})?;
        }
    }

    /// Takes in what has completed, without waiting.
    ///
    /// # Errors
    /// [`LogError::Ring`] once the ring has failed.
    pub fn poll(&mut self) -> Result<Lsn, LogError> {
        let polled = self.ring.poll_with(|_| {});
        self.reap();
        if let Some(why) = self.ring.failure() {
            return Err(Error::Failed { why }.into());
        }
        polled?;
        Ok(self.durable)
    }

    /// Reads bytes of the log back over the ring, from `offset` on. It first
    /// waits for all that is under way.
    ///
    /// # Errors
    /// [`LogError::Invalid`] if they do not lie in the region;
    /// [`LogError::Ring`], [`LogError::TimedOut`].
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), LogError> {
        self.region.span(offset, into.len() as u64)?;
        self.settle()?;
        self.settle_read()?;
        let step = self.staging.slice().len();
        let mut at = offset;
        for chunk in into.chunks_mut(step as usize) {
            let len = chunk.len() as u64;
            let remote = self.region.span(at, len)?;
            let local = self.staging.slice().slice(0, len)?;
            let ticket = self.ring.read(local, remote, Notify::Always, OpContext::new(at))?;
            self.reading = Some(ticket);
            self.settle_read()?;
            self.staging.load(0, chunk);
            at += len;
        }
        Ok(())
    }

    /// Behind the last record that was appended.
    #[must_use]
    pub fn appended(&self) -> Lsn {
        self.appended
    }

    /// The tail of the last commit.
    #[must_use]
    pub fn committed(&self) -> Lsn {
        self.committed
    }

    /// The tail of the last commit known to be durable (or visible, where the
    /// log flushes to visibility).
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// How many bytes are free; a record takes one more than its length.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.region.size() - self.appended.0
    }

    /// How many bytes an empty log of this size has for records and the NULs
    /// behind them.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.region.size() - self.data
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> RemoteRegion {
        self.region
    }

    /// The ring, for its counters and its failure.
    #[must_use]
    pub fn ring(&self) -> &Ring<'m, P> {
        &self.ring
    }

    /// The ring, back for other use. Uncommitted records are forgotten.
    #[must_use]
    pub fn into_ring(self) -> Ring<'m, P> {
        self.ring
    }

    fn read_tail(&mut self, check_signature: bool) -> Result<Lsn, LogError> {
        let mut used = [0; 8];
        self.read(self.data - 8, &mut used)?;
        let mut signature = [0; 8];
        if check_signature && self.data >= DATA_OFFSET {
            self.read(0, &mut signature)?;
        }
        let signature = u64::from_ne_bytes(signature);
        check_header(signature, u64::from_ne_bytes(used), self.data, self.region.size())
    }

    /// Makes the tail that was read durable before it is called so.
    ///
    /// A connection that was lost may have published it without its flush having
    /// been carried out, and a flush of this connection need not cover writes of
    /// another. So the word is written once more, as it stands, and flushed. The
    /// records before it were durable before it could be seen.
    fn settle_tail(&mut self, tail: Lsn) -> Result<(), LogError> {
        if self.flush != FlushKind::Persistent {
            return Ok(());
        }
        let quiet = OpContext::new(0);
        self.ring.atomic_write(self.used_word, Word::ne(tail.0), Notify::OnError, quiet)?;
        let ticket =
            self.ring.flush(self.used_span, self.flush, Notify::Always, OpContext::new(tail.0))?;
        let mut patience = self.bound.start();
        self.ring.wait(ticket, || patience.more(), |_| {})?;
        Ok(())
    }

    /// Copies bytes into the staging memory, sending what lies there when it is
    /// full.
    fn stage(&mut self, mut bytes: &[u8]) -> Result<(), LogError> {
        self.settle_read()?;
        while !bytes.is_empty() {
            let taken = self.staging.fill(bytes);
            self.appended.0 += taken as u64;
            bytes = &bytes[taken..];
            if bytes.is_empty() {
                break;
            }
            self.reap();
            if self.staging.room() > 0 {
                continue;
            }
            self.send_staged()?;
            self.wait_for_oldest()?;
        }
        Ok(())
    }

    /// Posts the staged bytes by themselves: no flush, no tail.
    fn send_staged(&mut self) -> Result<(), LogError> {
        if self.written == self.appended {
            return Ok(());
        }
        self.make_room(COMMIT_REQUESTS)?;
        if self.marks.is_full() {
            self.wait_for_oldest()?;
        }
        if let Some(ticket) = self.write_staged()? {
            self.marks.push(Mark { ticket, staged: self.staging.sent(), used: None });
        }
        self.ring_doorbell()?;
        Ok(())
    }

    /// Stages writes of the bytes in staging memory: one, or two where they
    /// wrap around its end.
    fn write_staged(&mut self) -> Result<Option<Ticket>, LogError> {
        let mut last = None;
        while let Some(local) = self.staging.unsent()? {
            let remote = self.region.span(self.written.0, local.len())?;
            last = Some(self.ring.write(local, remote, Notify::OnError, OpContext::new(0))?);
            self.written.0 += local.len();
            self.staging.send(local.len());
        }
        Ok(last)
    }

    /// Waits until so many requests can be staged.
    fn make_room(&mut self, requests: u32) -> Result<(), LogError> {
        let mut patience = self.bound.start();
        while self.ring.room() < requests {
            self.ring_doorbell()?;
            self.ring.poll_with(|_| {})?;
            if self.ring.room() < requests && !patience.more() {
                return Err(LogError::TimedOut);
            }
        }
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), LogError> {
        if let Some(mark) = self.marks.first() {
            let ticket = mark.ticket;
            let mut patience = self.bound.start();
            self.ring.wait(ticket, || patience.more(), |_| {})?;
        }
        self.reap();
        Ok(())
    }

    /// Sends what is staged and waits for all that is under way, so that the
    /// staging memory is free.
    fn settle(&mut self) -> Result<(), LogError> {
        self.send_staged()?;
        for _ in 0..=MAX_COMMITS {
            if self.marks.is_empty() {
                break;
            }
            self.wait_for_oldest()?;
        }
        Ok(())
    }

    /// Waits until no read can write to the staging memory any more. One whose
    /// post was refused is staged still, and one that timed out is in flight.
    fn settle_read(&mut self) -> Result<(), LogError> {
        if let Some(ticket) = self.reading {
            let mut patience = self.bound.start();
            self.ring.wait(ticket, || patience.more(), |_| {})?;
            self.reading = None;
        }
        Ok(())
    }

    /// Frees the staging memory of confirmed marks and moves `durable` on.
    fn reap(&mut self) {
        let done = self.marks.iter().take_while(|mark| self.ring.is_confirmed(mark.ticket)).count();
        for mark in self.marks.drain(..done) {
            self.staging.free_to(mark.staged);
            if let Some(used) = mark.used {
                self.durable = used;
            }
        }
    }
}

//! The inline engine: requests are carried out at the doorbell.

use core::fmt;
use core::sync::atomic::AtomicU64;

use arrayvec::ArrayVec;

use crate::batch::Chain;
use crate::error::{DeviceFault, Errno, Error, Invalid, WcStatus};
use crate::provider::{Capabilities, PostError, Provider};
use crate::slots::Slots;
use crate::soft::execute::Wqe;
use crate::soft::{MAX_READS, Mode, QpConfig, SoftDevice, next_qp_num};
use crate::wr::{WC_ATOMIC_WRITE, WC_RDMA_WRITE, WR_ATOMIC_WRITE, WR_RDMA_WRITE, Wc};

/// What a completion tells, and the number of the request that it retires.
#[derive(Clone, Copy, Debug)]
struct Cqe {
    number: u64,
    wr_id: u64,
    status: WcStatus,
    opcode: u32,
    byte_len: u32,
}

impl Cqe {
    const EMPTY: Cqe =
        Cqe { number: 0, wr_id: 0, status: WcStatus::SUCCESS, opcode: 0, byte_len: 0 };
}

/// No request has this opcode.
const LONG_WAY: u32 = u32::MAX;

/// The completion queue of an [`InlineQp`], lent by the caller. `CQ` must be a
/// power of two.
pub struct QpStorage<const CQ: usize> {
    cq: [Cqe; CQ],
}

impl<const CQ: usize> QpStorage<CQ> {
    /// An empty queue.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "as RingStorage")]
    pub const fn new() -> Self {
        const { assert!(CQ.is_power_of_two(), "a completion queue's depth must be a power of two") }
        QpStorage { cq: [Cqe::EMPTY; CQ] }
    }
}

impl<const CQ: usize> fmt::Debug for QpStorage<CQ> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QpStorage<{CQ}>")
    }
}

/// A queue pair that carries requests out within [`Provider::post`], on the
/// caller's thread.
#[derive(Debug)]
pub struct InlineQp<'d> {
    device: &'d SoftDevice<'d>,
    cq: Slots<'d, Cqe>,
    /// The number of the next completion to be written, and to be polled.
    cq_tail: u64,
    cq_head: u64,
    posted: u64,
    retired: u64,
    in_error: bool,
    /// The opcode of the words that take the short way; [`LONG_WAY`] in error
    /// and with late reads.
    word_opcode: u32,
    /// That of their completions.
    word_wc: u32,
    overrun: bool,
    config: QpConfig,
    qp_num: u32,
    scratch: AtomicU64,
    /// Reads that have not answered yet, and their numbers.
    late: ArrayVec<(Wqe, u64), MAX_READS>,
}

impl<'d> InlineQp<'d> {
    /// A queue pair whose completion queue the caller lends; its length
    /// overrides `config.cq_depth`.
    ///
    /// # Errors
    /// [`Invalid::Depth`] if `config.sq_depth` is 0.
    pub fn new<const CQ: usize>(
        device: &'d SoftDevice<'d>,
        config: QpConfig,
        storage: &'d mut QpStorage<CQ>,
    ) -> Result<Self, Error> {
        let sq_depth = config.sq_depth.min(CQ as u32);
        let config = QpConfig { cq_depth: CQ as u32, sq_depth, ..config };
        Self::build(device, config, Slots::lent(&mut storage.cq)?)
    }

    /// A queue pair with memory of its own.
    ///
    /// # Errors
    /// [`Invalid::Depth`] if `config.cq_depth` is not a power of two, or
    /// `config.sq_depth` is 0.
    #[cfg(feature = "std")]
    pub fn boxed(device: &'d SoftDevice<'d>, config: QpConfig) -> Result<Self, Error> {
        let cq = Slots::boxed(config.cq_depth, || Cqe::EMPTY)?;
        Self::build(device, config, cq)
    }

    fn build(
        device: &'d SoftDevice<'d>,
        config: QpConfig,
        cq: Slots<'d, Cqe>,
    ) -> Result<Self, Error> {
        if config.sq_depth == 0 {
            return Err(Invalid::Depth { got: 0, min: 1, max: u32::MAX.into() }.into());
        }
        let (word_opcode, word_wc) = match config.mode {
            Mode::Emulated => (WR_RDMA_WRITE, WC_RDMA_WRITE),
            Mode::Native => (WR_ATOMIC_WRITE, WC_ATOMIC_WRITE),
        };
        Ok(InlineQp {
            device,
            cq,
            cq_tail: 0,
            cq_head: 0,
            posted: 0,
            retired: 0,
            in_error: false,
            word_opcode: if config.late_reads { LONG_WAY } else { word_opcode },
            word_wc,
            overrun: false,
            config,
            qp_num: next_qp_num(),
            scratch: AtomicU64::new(0),
            late: ArrayVec::new_const(),
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &'d SoftDevice<'d> {
        self.device
    }

    /// What the last emulated flush read back.
    #[must_use]
    pub fn scratch(&self) -> u64 {
        self.scratch.load(core::sync::atomic::Ordering::Acquire)
    }

    /// The short way, for words that go where they may be stored: carries the
    /// first requests of a chain out, `room` at most, and says how many.
    #[inline(never)]
    fn post_words(&mut self, chain: &Chain<'_>, room: u32) -> u32 {
        let first = self.posted;
        let device = self.device;
        // Keys are unique, so that of the last request's region tells whether it
        // is this one's too.
        let Some(mut region) = device.regions.first() else {
            return 0;
        };
        let mut words = region.whole_words();
        let mut next = first;
        'chain: for piece in chain.pieces(room) {
            for wr in piece {
                if !region.is_written_by(wr.rkey) {
                    match device.by_key(wr.rkey) {
                        Some(other) if other.is_written_by(wr.rkey) => region = other,
                        _ => break 'chain,
                    }
                    words = region.whole_words();
                }
                if !words.store(wr.remote_addr, wr.word) {
                    break 'chain;
                }
                if wr.is_signaled() {
                    let (wr_id, status) = (wr.wr_id, WcStatus::SUCCESS);
                    let opcode = self.word_wc;
                    self.push(Cqe { number: next, wr_id, status, opcode, byte_len: 8 });
                }
                next = next.wrapping_add(1);
            }
        }
        self.posted = next;
        next.wrapping_sub(first) as u32
    }

    /// The way for all: carries the requests of a chain out from number `from`
    /// of it on, as far as there is room for `room` of the whole chain.
    fn post_any(&mut self, chain: &Chain<'_>, from: u32, room: u32) -> Result<(), PostError> {
        for (taken, request) in (0u32..).zip(chain.requests()).skip(from as usize) {
            if taken == room {
                return Err(PostError::Refused { taken, errno: Errno::ENOMEM });
            }
            let wqe = match Wqe::copy(&request) {
                Ok(wqe) => wqe,
                Err(errno) => return Err(PostError::Refused { taken, errno }),
            };
            let number = self.posted;
            self.posted = number.wrapping_add(1);
            self.step(&wqe, number);
        }
        Ok(())
    }

    fn enter_error(&mut self) {
        self.in_error = true;
        self.word_opcode = LONG_WAY;
    }

    /// Carries out one request that has a slot.
    fn step(&mut self, wqe: &Wqe, number: u64) {
        if self.in_error {
            self.complete(wqe, number, WcStatus::WR_FLUSH_ERR);
            return;
        }
        if self.config.late_reads {
            return self.step_late(wqe, number);
        }
        self.run(wqe, number);
    }

    fn run(&mut self, wqe: &Wqe, number: u64) {
        match self.device.execute(wqe, self.config.mode, &self.scratch) {
            Ok(()) if wqe.is_signaled() => self.complete(wqe, number, WcStatus::SUCCESS),
            Ok(()) => {}
            Err(status) => {
                self.enter_error();
                self.complete(wqe, number, status);
            }
        }
    }

    /// A queue pair whose reads answer late: a fence waits for them, and so does
    /// any completion, since completions keep the order of the requests.
    #[cold]
    fn step_late(&mut self, wqe: &Wqe, number: u64) {
        use crate::soft::execute::Kind;
        if wqe.kind == Kind::Read && !wqe.is_fenced() {
            if self.late.is_full() {
                self.settle();
            }
            self.late.push((*wqe, number));
            return;
        }
        if wqe.is_fenced() {
            self.settle();
        }
        if self.in_error {
            return self.complete(wqe, number, WcStatus::WR_FLUSH_ERR);
        }
        let result = self.device.execute(wqe, self.config.mode, &self.scratch);
        if result.is_err() || wqe.is_signaled() {
            self.settle();
        }
        if self.in_error {
            return self.complete(wqe, number, WcStatus::WR_FLUSH_ERR);
        }
        match result {
            Ok(()) if wqe.is_signaled() => self.complete(wqe, number, WcStatus::SUCCESS),
            Ok(()) => {}
            Err(status) => {
                self.enter_error();
                self.complete(wqe, number, status);
            }
        }
    }

    /// Lets every late read answer.
    fn settle(&mut self) {
        while !self.late.is_empty() {
            let (wqe, number) = self.late.remove(0);
            if self.in_error {
                self.complete(&wqe, number, WcStatus::WR_FLUSH_ERR);
            } else {
                self.run(&wqe, number);
            }
        }
    }

    fn complete(&mut self, wqe: &Wqe, number: u64, status: WcStatus) {
        let ok = status == WcStatus::SUCCESS;
        // An error completion leaves the opcode undefined; real devices leave 0.
        let opcode = if ok { wqe.kind.wc_opcode() } else { 0 };
        let byte_len = if ok { wqe.len } else { 0 };
        self.push(Cqe { number, wr_id: wqe.wr_id, status, opcode, byte_len });
    }

    #[inline]
    fn push(&mut self, cqe: Cqe) {
        if self.cq_tail.wrapping_sub(self.cq_head) >= u64::from(self.config.cq_depth) {
            self.overrun = true;
            return;
        }
        *self.cq.get_mut(self.cq_tail) = cqe;
        self.cq_tail = self.cq_tail.wrapping_add(1);
    }
}

impl Provider for InlineQp<'_> {
    fn capabilities(&self) -> Capabilities {
        self.config.capabilities()
    }

    #[inline]
    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        let used = self.posted.wrapping_sub(self.retired) as u32;
        let room = self.config.sq_depth - used;
        let mut done = 0;
        if chain.all_words() == Some(self.word_opcode) {
            done = self.post_words(&chain, room);
            if done == chain.len() {
                return Ok(());
            }
        }
        self.post_any(&chain, done, room)
    }

    #[inline]
    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        if !self.late.is_empty() {
            self.settle();
        }
        let there = self.cq_tail.wrapping_sub(self.cq_head);
        let count = there.min(into.len() as u64);
        if count == 0 {
            return if self.overrun { Err(DeviceFault::CompletionQueue) } else { Ok(0) };
        }
        let (cq, head) = (self.cq.view(), self.cq_head);
        for (number, slot) in (0..count).zip(into) {
            let cqe = cq.get(head.wrapping_add(number));
            *slot = Wc::new(cqe.wr_id, cqe.status, cqe.opcode, cqe.byte_len, self.qp_num);
            self.retired = cqe.number.wrapping_add(1);
        }
        self.cq_head = head.wrapping_add(count);
        Ok(count as usize)
    }

    fn abort(&mut self) {
        self.settle();
        self.enter_error();
    }
}

//! The NIC itself: its queues, the doorbell, and what it does when it rings.

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::collections::VecDeque;
use std::vec::Vec;

use crate::error::{Errno, Invalid, WcStatus};
use crate::slots::Slots;
use crate::soft::{MAX_READS, SoftDevice, fresh_qp_num};
use crate::verbs::nic::config::NicConfig;
use crate::verbs::nic::queue::{CompletionQueue, Cqe};
use crate::verbs::nic::record::Given;
use crate::verbs::nic::wqe::{MALFORMED, Wqe};
use crate::verbs::qp::Path;
use crate::wr::Wc;

/// The deepest queue.
const MAX_DEPTH: u32 = 1 << 16;

#[derive(Debug)]
pub(super) struct Hardware<'d> {
    sq: Slots<'d, Wqe>,
    /// The number of the next request.
    posted: u64,
    /// The number of the request that is not taken: there is no room for it, or
    /// it is to be refused.
    stop_at: u64,
    /// How requests are treated.
    way: Way,
    pub(super) doorbells: u64,
    device: &'d SoftDevice<'d>,
    pub(super) cq: CompletionQueue<'d>,
    pub(super) qp_num: u32,
    /// How long inline data must be: 8, or a length that none has.
    pub(super) inline_len: u32,
    /// The number of the next request that a `wr_*` call builds; those from
    /// `posted` on wait for `wr_complete`.
    pub(super) building: u64,
    /// What went wrong since `wr_start`.
    pub(super) build_error: Option<Errno>,
    /// Where the driver leaves how far it has posted.
    door_record: AtomicU64,
    /// The doorbell register.
    door: AtomicU64,
    /// One past the number of the last request that a polled completion told of.
    retired: u64,
    in_error: bool,
    /// Nothing is carried out and nothing completes any more.
    dead: bool,
    pub(super) config: NicConfig,
    scratch: AtomicU64,
    /// The numbers of reads that have not answered yet.
    late: VecDeque<u64>,
    pub(super) given: Vec<Given>,
    /// The number of a request that is refused, with this errno.
    refuse: Option<(u64, Errno)>,
    pub(super) poll_error: Option<Errno>,
}

/// How requests are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Carried out at once: the state of a healthy queue pair.
    Prompt,
    /// Completed, and not carried out.
    Idle,
    /// With a look at everything.
    Careful,
}

impl<'d> Hardware<'d> {
    pub(super) fn new(device: &'d SoftDevice<'d>, config: NicConfig) -> Result<Self, Invalid> {
        for depth in [config.sq_depth, config.cq_depth] {
            if depth == 0 || depth > MAX_DEPTH {
                return Err(Invalid::Depth { got: depth.into(), min: 1, max: MAX_DEPTH.into() });
            }
        }
        let qp_num = fresh_qp_num();
        let entry = Wqe::empty(qp_num);
        // One more than the depth, so that the next entry is never in use.
        let sq = Slots::boxed((config.sq_depth + 1).next_power_of_two(), || entry)?;
        let mut hardware = Hardware {
            sq,
            posted: 0,
            stop_at: 0,
            way: Way::Careful,
            doorbells: 0,
            device,
            cq: CompletionQueue::new(config.cq_depth)?,
            qp_num,
            inline_len: if config.max_inline >= 8 { 8 } else { u32::MAX },
            building: 0,
            build_error: None,
            door_record: AtomicU64::new(0),
            door: AtomicU64::new(0),
            retired: 0,
            in_error: false,
            dead: false,
            config,
            scratch: AtomicU64::new(0),
            late: VecDeque::new(),
            given: Vec::new(),
            refuse: None,
            poll_error: None,
        };
        hardware.settle_state();
        Ok(hardware)
    }

    /// Works out what follows from the state, so that the short way has it at
    /// hand.
    fn settle_state(&mut self) {
        let careful = self.in_error || self.dead || self.config.late_reads || self.config.records;
        self.way = match self.config.carries_out {
            _ if careful => Way::Careful,
            true => Way::Prompt,
            false => Way::Idle,
        };
        self.settle_room();
    }

    #[inline]
    fn settle_room(&mut self) {
        let full_at = self.retired.wrapping_add(self.config.sq_depth.into());
        self.stop_at = match self.refuse {
            Some((number, _)) if number < full_at => number,
            _ => full_at,
        };
    }

    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// How many requests are taken before one is refused.
    #[inline]
    pub(super) fn limit(&self) -> u32 {
        self.stop_at.wrapping_sub(self.posted) as u32
    }

    /// Why the request at the limit is refused; `full` where for want of room.
    #[cold]
    pub(super) fn reason(&self, full: Errno) -> Errno {
        match self.refuse {
            Some((number, errno)) if number == self.stop_at => errno,
            _ => full,
        }
    }

    /// Refuses the request that is `ahead` from the next one, whenever it comes,
    /// or none.
    pub(super) fn set_refused(&mut self, refuse: Option<(u32, Errno)>) {
        self.refuse =
            refuse.map(|(ahead, errno)| (self.posted.wrapping_add(u64::from(ahead)), errno));
        self.settle_room();
    }

    /// The entries, and the number of the next one.
    #[inline]
    pub(super) fn entries(&mut self) -> (&mut Slots<'d, Wqe>, u64) {
        (&mut self.sq, self.posted)
    }

    /// The entry of a request, by its number.
    #[inline]
    pub(super) fn entry(&mut self, number: u64) -> &mut Wqe {
        self.sq.get_mut(number)
    }

    /// How many requests were built and not rung for.
    #[inline]
    pub(super) fn built(&self) -> u32 {
        self.building.wrapping_sub(self.posted) as u32
    }

    /// Whether the request of this number is not taken.
    #[inline]
    pub(super) fn is_full_at(&self, number: u64) -> bool {
        number == self.stop_at
    }

    /// Rings for `count` entries that were written from the next one on.
    #[inline]
    pub(super) fn ring(&mut self, count: u32, by_calls: bool) {
        if count == 0 {
            return;
        }
        let from = self.posted;
        self.posted = from.wrapping_add(u64::from(count));
        self.doorbells += 1;
        self.door_record.store(self.posted, Ordering::Release);
        // The entries must have left the processor before the doorbell does.
        fence(Ordering::SeqCst);
        self.door.store(self.posted, Ordering::Relaxed);
        match self.way {
            Way::Prompt => self.carry_out(from, count),
            Way::Idle => self.complete_only(from, count),
            Way::Careful => self.carry_out_carefully(from, count, by_calls),
        }
    }

    /// The short way, for words that go where they may be stored.
    #[inline(never)]
    fn carry_out(&mut self, from: u64, count: u32) {
        let to = from.wrapping_add(u64::from(count));
        let mut number = from;
        if let Some(mut places) = self.device.places() {
            let sq = self.sq.view();
            while number != to {
                let wqe = sq.get(number);
                if !wqe.is_word() || !places.put(wqe.remote_addr, wqe.rkey(), wqe.data) {
                    break;
                }
                if wqe.is_signaled() {
                    let (status, opcode) = (WcStatus::SUCCESS, wqe.wc_opcode());
                    self.cq.push(Cqe::new(number, status, opcode, 8));
                }
                number = number.wrapping_add(1);
            }
        }
        if number != to {
            self.step_through(number, to.wrapping_sub(number) as u32);
        }
    }

    #[inline]
    fn complete_only(&mut self, from: u64, count: u32) {
        let sq = self.sq.view();
        for ahead in 0..count {
            let number = from.wrapping_add(u64::from(ahead));
            let wqe = sq.get(number);
            if wqe.is_signaled() {
                let (opcode, len) = (wqe.wc_opcode(), wqe.len);
                self.cq.push(Cqe::new(number, WcStatus::SUCCESS, opcode, len));
            }
        }
    }

    /// The long way.
    #[cold]
    fn step_through(&mut self, from: u64, count: u32) {
        for ahead in 0..count {
            self.step(from.wrapping_add(u64::from(ahead)));
        }
    }

    #[cold]
    #[inline(never)]
    fn carry_out_carefully(&mut self, from: u64, count: u32, by_calls: bool) {
        if self.config.records {
            for ahead in 0..count {
                let wqe = self.sq.get(from.wrapping_add(u64::from(ahead)));
                self.given.push(Given::new(wqe, self.doorbells, by_calls));
            }
        }
        if !self.config.carries_out && !self.in_error && !self.dead {
            return self.complete_only(from, count);
        }
        self.step_through(from, count);
    }

    /// Carries one request out, in whatever state the queue pair
    /// is.
    fn step(&mut self, number: u64) {
        let wqe = *self.sq.get(number);
        if self.dead {
            return;
        }
        if self.in_error {
            return self.complete(number, WcStatus::WR_FLUSH_ERR);
        }
        if self.config.late_reads && wqe.is_read() && !wqe.is_fenced() {
            if self.late.len() == MAX_READS {
                self.settle();
            }
            return self.late.push_back(number);
        }
        if wqe.is_fenced() {
            self.settle();
        }
        if self.in_error {
            return self.complete(number, WcStatus::WR_FLUSH_ERR);
        }
        let result = self.execute(&wqe);
        // Completions keep the order of the requests, so a late read goes first.
        if result.is_err() || wqe.is_signaled() {
            self.settle();
        }
        if self.in_error {
            return self.complete(number, WcStatus::WR_FLUSH_ERR);
        }
        self.finish(number, &wqe, result);
    }

    fn execute(&self, wqe: &Wqe) -> Result<(), WcStatus> {
        if wqe.flags() & MALFORMED != 0 {
            // As from rxe.
            return Err(WcStatus::REM_ACCESS_ERR);
        }
        let native = self.config.best == Path::Native;
        self.device.carry_out(&wqe.wire(), native, &self.scratch)
    }

    fn finish(&mut self, number: u64, wqe: &Wqe, result: Result<(), WcStatus>) {
        match result {
            Ok(()) if wqe.is_signaled() => self.complete(number, WcStatus::SUCCESS),
            Ok(()) => {}
            Err(status) => {
                self.in_error = true;
                self.settle_state();
                self.complete(number, status);
            }
        }
    }

    /// Lets every late read answer.
    #[cold]
    #[inline(never)]
    fn settle(&mut self) {
        while let Some(number) = self.late.pop_front() {
            let wqe = *self.sq.get(number);
            if self.in_error {
                self.complete(number, WcStatus::WR_FLUSH_ERR);
            } else {
                let result = self.execute(&wqe);
                self.finish(number, &wqe, result);
            }
        }
    }

    fn complete(&mut self, number: u64, status: WcStatus) {
        let wqe = self.sq.get(number);
        let ok = status == WcStatus::SUCCESS;
        // An error completion leaves the opcode undefined; real devices leave 0.
        let opcode = if ok { wqe.wc_opcode() } else { 0 };
        let len = if ok { wqe.len } else { 0 };
        self.cq.push(Cqe::new(number, status, opcode, len));
    }

    /// Moves completions to where the driver is asked to put them.
    #[inline]
    pub(super) fn poll(&mut self, most: usize, mut put: impl FnMut(usize, Wc)) -> usize {
        if self.way == Way::Careful && !self.dead {
            self.settle();
        }
        let mut count = 0;
        while count < most {
            let Some(cqe) = self.cq.pop() else {
                break;
            };
            let wr_id = self.sq.get(cqe.number).wr_id;
            put(count, Wc::new(wr_id, cqe.status(), cqe.opcode(), cqe.len, self.qp_num));
            self.retired = cqe.number.wrapping_add(1);
            count += 1;
        }
        if count > 0 {
            self.settle_room();
        }
        count
    }

    /// Puts the queue pair into the error state.
    pub(super) fn enter_error(&mut self) {
        if !self.dead {
            self.settle();
        }
        self.in_error = true;
        self.settle_state();
    }

    /// Stops for good: what is outstanding never completes.
    pub(super) fn die(&mut self) {
        self.dead = true;
        self.settle_state();
    }
}

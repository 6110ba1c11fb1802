//! The NIC itself: its queues, the doorbell, and what it does when it rings.

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::boxed::Box;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use crate::error::{DeviceFault, Errno, Invalid, WcStatus};
use crate::soft::{MAX_READS, SoftDevice, fresh_qp_num};
use crate::verbs::fault_cell::FaultCell;
use crate::verbs::nic::config::NicConfig;
use crate::verbs::nic::record::Given;
use crate::verbs::nic::wqe::{Cqe, Wqe};
use crate::verbs::qp::Path;
use crate::wr::Wc;

/// The deepest queue.
const MAX_DEPTH: u32 = 1 << 16;

#[derive(Debug)]
pub(super) struct Hardware<'d> {
    device: &'d SoftDevice<'d>,
    sq: Box<[Wqe]>,
    wr_ids: Box<[u64]>,
    cq: Box<[Cqe]>,
    /// The number of the next request.
    posted: u64,
    /// One past the number of the last request that a polled completion told of.
    retired: u64,
    cq_tail: u64,
    cq_head: u64,
    /// Every request takes the long way.
    slow: bool,
    in_error: bool,
    /// Nothing is carried out and nothing completes any more.
    dead: bool,
    /// Where the driver leaves how far it has posted.
    door_record: AtomicU64,
    /// The doorbell register.
    door: AtomicU64,
    pub(super) doorbells: u64,
    pub(super) config: NicConfig,
    pub(super) qp_num: u32,
    scratch: AtomicU64,
    /// The numbers of reads that have not answered yet.
    late: VecDeque<u64>,
    pub(super) given: Vec<Given>,
    /// Requests that were built by `wr_*` calls and wait for `wr_complete`.
    pub(super) built: u32,
    /// What went wrong since `wr_start`.
    pub(super) build_error: Option<Errno>,
    /// The number of a request that is refused, with this errno.
    refuse: Option<(u64, Errno)>,
    pub(super) poll_error: Option<Errno>,
    pub(super) fault: FaultCell,
    /// Whether the next completion gives an event.
    pub(super) armed: bool,
    /// Events that have become due.
    pub(super) events: u32,
}

impl<'d> Hardware<'d> {
    pub(super) fn new(device: &'d SoftDevice<'d>, config: NicConfig) -> Result<Self, Invalid> {
        for depth in [config.sq_depth, config.cq_depth] {
            if depth == 0 || depth > MAX_DEPTH {
                return Err(Invalid::Depth { got: depth.into(), min: 1, max: MAX_DEPTH.into() });
            }
        }
        let sq_len = config.sq_depth.next_power_of_two() as usize;
        let cq_len = config.cq_depth.next_power_of_two() as usize;
        Ok(Hardware {
            device,
            sq: vec![Wqe::default(); sq_len].into(),
            wr_ids: vec![0; sq_len].into(),
            cq: vec![Cqe::EMPTY; cq_len].into(),
            posted: 0,
            retired: 0,
            cq_tail: 0,
            cq_head: 0,
            slow: config.late_reads,
            in_error: false,
            dead: false,
            door_record: AtomicU64::new(0),
            door: AtomicU64::new(0),
            doorbells: 0,
            config,
            qp_num: fresh_qp_num(),
            scratch: AtomicU64::new(0),
            late: VecDeque::new(),
            given: Vec::new(),
            built: 0,
            build_error: None,
            refuse: None,
            poll_error: None,
            fault: FaultCell::default(),
            armed: false,
            events: 0,
        })
    }

    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// How many requests the send queue has room for.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.config.sq_depth - self.posted.wrapping_sub(self.retired) as u32
    }

    /// The entry of the request that would be number `ahead` from now, and the
    /// driver's note of its `wr_id`.
    #[inline]
    pub(super) fn entry(&mut self, ahead: u32) -> (&mut Wqe, &mut u64) {
        let index = self.index(self.posted.wrapping_add(u64::from(ahead)));
        (&mut self.sq[index], &mut self.wr_ids[index])
    }

    #[inline]
    fn index(&self, number: u64) -> usize {
        number as usize & (self.sq.len() - 1)
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
        if self.config.records {
            self.record(from, count, by_calls);
        }
        if self.config.carries_out || self.slow {
            self.carry_out(from, count);
        } else {
            self.complete_only(from, count);
        }
    }

    #[inline]
    fn carry_out(&mut self, from: u64, count: u32) {
        for ahead in 0..count {
            let number = from.wrapping_add(u64::from(ahead));
            let wqe = &self.sq[self.index(number)];
            let placed = !self.slow
                && wqe.is_word()
                && self.device.place_word(wqe.remote_addr, wqe.rkey, wqe.data);
            if !placed {
                self.step(number);
            } else if wqe.is_signaled() {
                let opcode = wqe.wc_opcode();
                self.push(Cqe { number, status: WcStatus::SUCCESS, opcode, len: 8 });
            }
        }
    }

    fn complete_only(&mut self, from: u64, count: u32) {
        for ahead in 0..count {
            let number = from.wrapping_add(u64::from(ahead));
            let wqe = &self.sq[self.index(number)];
            if wqe.is_signaled() {
                let (opcode, len) = (wqe.wc_opcode(), wqe.len);
                self.push(Cqe { number, status: WcStatus::SUCCESS, opcode, len });
            }
        }
    }

    /// The long way: carries one request out, in whatever state the queue pair
    /// is.
    #[cold]
    fn step(&mut self, number: u64) {
        let wqe = self.sq[self.index(number)];
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
        let native = self.config.best == Path::Native;
        self.device.carry_out(&wqe.wire(), native, &self.scratch)
    }

    fn finish(&mut self, number: u64, wqe: &Wqe, result: Result<(), WcStatus>) {
        match result {
            Ok(()) if wqe.is_signaled() => self.complete(number, WcStatus::SUCCESS),
            Ok(()) => {}
            Err(status) => {
                self.in_error = true;
                self.slow = true;
                self.complete(number, status);
            }
        }
    }

    /// Lets every late read answer.
    fn settle(&mut self) {
        while let Some(number) = self.late.pop_front() {
            let wqe = self.sq[self.index(number)];
            if self.in_error {
                self.complete(number, WcStatus::WR_FLUSH_ERR);
            } else {
                let result = self.execute(&wqe);
                self.finish(number, &wqe, result);
            }
        }
    }

    fn complete(&mut self, number: u64, status: WcStatus) {
        let wqe = &self.sq[self.index(number)];
        let ok = status == WcStatus::SUCCESS;
        // An error completion leaves the opcode undefined; real devices leave 0.
        let opcode = if ok { wqe.wc_opcode() } else { 0 };
        let len = if ok { wqe.len } else { 0 };
        self.push(Cqe { number, status, opcode, len });
    }

    #[inline]
    fn push(&mut self, cqe: Cqe) {
        if self.cq_tail.wrapping_sub(self.cq_head) >= u64::from(self.config.cq_depth) {
            return self.overrun();
        }
        let index = self.cq_tail as usize & (self.cq.len() - 1);
        self.cq[index] = cqe;
        self.cq_tail = self.cq_tail.wrapping_add(1);
        if self.armed {
            self.armed = false;
            self.events += 1;
        }
    }

    /// The completion is lost, and the device tells of a completion queue in
    /// error.
    #[cold]
    fn overrun(&mut self) {
        self.fault.set(DeviceFault::CompletionQueue);
    }

    /// Moves completions to where the driver is asked to put them.
    #[inline]
    pub(super) fn poll(&mut self, most: usize, mut put: impl FnMut(usize, Wc)) -> usize {
        if !self.late.is_empty() && !self.dead {
            self.settle();
        }
        let there = self.cq_tail.wrapping_sub(self.cq_head);
        let count = there.min(most as u64) as usize;
        for place in 0..count {
            let cqe = self.cq[self.cq_head as usize & (self.cq.len() - 1)];
            let wr_id = self.wr_ids[self.index(cqe.number)];
            put(place, Wc::new(wr_id, cqe.status, cqe.opcode, cqe.len, self.qp_num));
            self.retired = cqe.number.wrapping_add(1);
            self.cq_head = self.cq_head.wrapping_add(1);
        }
        count
    }

    /// Puts the queue pair into the error state.
    pub(super) fn enter_error(&mut self) {
        if !self.dead {
            self.settle();
        }
        self.in_error = true;
        self.slow = true;
    }

    /// Stops for good: what is outstanding never completes.
    pub(super) fn die(&mut self) {
        self.dead = true;
        self.slow = true;
    }

    /// Refuses the request that is `ahead` from the next one, whenever it comes,
    /// or none.
    pub(super) fn set_refused(&mut self, refuse: Option<(u32, Errno)>) {
        self.refuse =
            refuse.map(|(ahead, errno)| (self.posted.wrapping_add(u64::from(ahead)), errno));
    }

    /// How many requests are taken before one is refused: the room, or fewer.
    #[inline]
    pub(super) fn limit(&self) -> u32 {
        let room = self.room();
        match self.refuse {
            None => room,
            Some((number, _)) => number.wrapping_sub(self.posted).min(room.into()) as u32,
        }
    }

    /// Why the request at the limit is refused; `full` where for want of room.
    #[cold]
    pub(super) fn reason(&self, full: Errno) -> Errno {
        match self.refuse {
            Some((number, errno)) if number.wrapping_sub(self.posted) < u64::from(self.room()) => {
                errno
            }
            _ => full,
        }
    }

    #[cold]
    fn record(&mut self, from: u64, count: u32, by_calls: bool) {
        for ahead in 0..count {
            let index = self.index(from.wrapping_add(u64::from(ahead)));
            let wqe = &self.sq[index];
            self.given.push(Given::new(wqe, self.wr_ids[index], self.doorbells, by_calls));
        }
    }
}

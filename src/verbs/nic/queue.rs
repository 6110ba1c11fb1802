//! The completion queue of a software NIC.

use std::os::fd::OwnedFd;

use crate::error::{DeviceFault, Invalid, WcStatus};
use crate::slots::Slots;
use crate::verbs::fault_cell::FaultCell;

/// A completion-queue entry: the number of its request, whose `wr_id` the driver
/// keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cqe {
    pub(super) number: u64,
    /// Status and opcode in one word: what is stored in halves just before it is
    /// loaded whole makes a processor wait.
    outcome: u64,
    pub(super) len: u32,
}

impl Cqe {
    const EMPTY: Cqe = Cqe::new(0, WcStatus::SUCCESS, 0, 0);

    #[inline]
    pub(super) const fn new(number: u64, status: WcStatus, opcode: u32, len: u32) -> Self {
        Cqe { number, outcome: (status.0 as u64) << 32 | opcode as u64, len }
    }

    #[inline]
    pub(super) fn status(&self) -> WcStatus {
        WcStatus((self.outcome >> 32) as u32)
    }

    #[inline]
    pub(super) fn opcode(&self) -> u32 {
        self.outcome as u32
    }
}

#[derive(Debug)]
pub(super) struct CompletionQueue<'d> {
    entries: Slots<'d, Cqe>,
    tail: u64,
    head: u64,
    depth: u64,
    /// Whether the next completion gives an event.
    pub(super) armed: bool,
    pub(super) channel: Option<OwnedFd>,
    pub(super) events_given: u32,
    pub(super) fault: FaultCell,
}

impl CompletionQueue<'_> {
    pub(super) fn new(depth: u32) -> Result<Self, Invalid> {
        Ok(CompletionQueue {
            entries: Slots::boxed(depth.next_power_of_two(), || Cqe::EMPTY)?,
            tail: 0,
            head: 0,
            depth: depth.into(),
            armed: false,
            channel: None,
            events_given: 0,
            fault: FaultCell::default(),
        })
    }

    #[inline]
    pub(super) fn push(&mut self, cqe: Cqe) {
        if self.tail.wrapping_sub(self.head) >= self.depth {
            return self.overrun();
        }
        *self.entries.get_mut(self.tail) = cqe;
        self.tail = self.tail.wrapping_add(1);
        if self.armed {
            self.give_event();
        }
    }

    /// Takes the oldest entry out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Cqe> {
        if self.head == self.tail {
            return None;
        }
        let cqe = *self.entries.get(self.head);
        self.head = self.head.wrapping_add(1);
        Some(cqe)
    }

    /// The completion is lost, and the device tells of a completion queue in
    /// error.
    #[cold]
    #[inline(never)]
    fn overrun(&mut self) {
        self.fault.set(DeviceFault::CompletionQueue);
    }

    #[cold]
    #[inline(never)]
    fn give_event(&mut self) {
        self.armed = false;
        if let Some(fd) = &self.channel {
            self.events_given += 1;
            // It fails only on overflow, after 2^64 events.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }
}

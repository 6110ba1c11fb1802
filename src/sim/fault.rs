//! What the requester's side does with a request's end, and all that goes wrong.

use crate::Chain;
use crate::error::{DeviceFault, Errno, WcStatus};
use crate::provider::PostError;
use crate::sim::config::Mutant;
use crate::sim::event::Event;
use crate::sim::qp::{Local, Remote, Wqe};
use crate::sim::world::World;
use crate::wr::{SEND_FENCE, SEND_SIGNALED, Wc};

/// One past the highest status that a queue pair fails with: those of libibverbs
/// end at 23, and the last is none that anybody knows.
const STATUSES: u32 = 25;

const ERRNOS: [Errno; 6] =
    [Errno::ENOMEM, Errno::ENOSPC, Errno::EAGAIN, Errno::EINVAL, Errno::EIO, Errno(1000)];

const DEVICE_FAULTS: [DeviceFault; 5] = [
    DeviceFault::Poll(Errno::EIO),
    DeviceFault::CompletionQueue,
    DeviceFault::QueuePair,
    DeviceFault::Device,
    DeviceFault::Connection,
];

impl World {
    /// The oldest request that has not completed does.
    pub(super) fn ack(&mut self, index: usize) {
        let qp = &mut self.qps[index];
        let request = qp.acked;
        if let Some((rejected, status)) = qp.rejected
            && rejected == request
        {
            return self.fail(index, status);
        }
        if qp.must_fail() {
            return self.fail(index, WcStatus::RETRY_EXC_ERR);
        }
        qp.acked += 1;
        let signaled = qp.work[request as usize].is_signaled();
        let unlanded = qp.pieces.iter().any(|piece| piece.request <= request);
        self.coverage.acked_unseen += u64::from(signaled && unlanded);
        if signaled {
            let one_more = self.config.mutant == Some(Mutant::RetireOneTooMany)
                && self.qps[index].work.len() as u32 > request + 1;
            let qp = &mut self.qps[index];
            qp.complete(request, request + u32::from(one_more), WcStatus::SUCCESS);
            let (qp, status) = (index as u32, WcStatus::SUCCESS);
            self.note(|| Event::Completed { qp, request, status });
        }
    }

    /// Puts a queue pair into the error state: its oldest outstanding request
    /// completes with `status`, the others are flushed.
    pub(super) fn fail(&mut self, index: usize, status: WcStatus) {
        self.coverage.failures += 1;
        self.close(index, status);
    }

    fn close(&mut self, index: usize, status: WcStatus) {
        let qp = &mut self.qps[index];
        if qp.local == Local::Error {
            return;
        }
        qp.local = Local::Error;
        let (first, end) = (qp.acked, qp.work.len() as u32);
        qp.sendable = end;
        for request in first..end {
            let status = if request == first { status } else { WcStatus::WR_FLUSH_ERR };
            qp.complete(request, request, status);
        }
        let qp = index as u32;
        for request in first..end {
            let status = if request == first { status } else { WcStatus::WR_FLUSH_ERR };
            self.note(|| Event::Completed { qp, request, status });
        }
    }

    /// Perhaps something goes wrong.
    pub(super) fn maybe_fail(&mut self) {
        let faults = self.config.faults;
        if faults.fail + faults.device + faults.power == 0 {
            return;
        }
        // The quiet choice is 0, so the bad ones are at the top.
        let drawn = 0xffff - self.choices.below(0x1_0000);
        if drawn < faults.power {
            return self.lose_power();
        }
        if drawn < faults.power + faults.fail {
            if let Some(index) = self.pick_live() {
                let status = self.any_failure();
                self.fail(index, status);
            }
        } else if drawn < faults.power + faults.fail + faults.device
            && let Some(index) = self.pick_live()
        {
            let fault = DEVICE_FAULTS[self.choices.below(DEVICE_FAULTS.len() as u32) as usize];
            self.qps[index].fault = Some(fault);
            self.qps[index].local = Local::Error;
            self.qps[index].sendable = self.qps[index].work.len() as u32;
            self.coverage.failures += 1;
            self.note(|| Event::Faulted { qp: index as u32, fault });
        }
    }

    /// Any status that leaves open whether the request was carried out; the
    /// others are the responder's to give.
    fn any_failure(&mut self) -> WcStatus {
        let status = WcStatus(self.choices.below(STATUSES));
        let fits = status != WcStatus::SUCCESS && status.may_have_executed();
        if fits { status } else { WcStatus::RETRY_EXC_ERR }
    }

    fn pick_live(&mut self) -> Option<usize> {
        let is_live = |world: &World, index: &usize| world.qps[*index].local == Local::Live;
        let live = (0..self.used).filter(|index| is_live(self, index)).count();
        let chosen = self.choices.below(live as u32) as usize;
        (0..self.used).filter(|index| is_live(self, index)).nth(chosen)
    }

    /// The remote node loses power and gets it back. Of what was visible and not
    /// durable, each 8 aligned bytes are saved or lost by themselves.
    pub(super) fn lose_power(&mut self) {
        self.coverage.crashes += 1;
        self.memory.count_crash();
        let (mut saved, mut lost) = (0, 0);
        while let Some(unit) = self.memory.dirty_unit(0) {
            if self.choices.below(2) == 1 {
                self.memory.persist_unit(unit);
                saved += 1;
            } else {
                self.memory.lose_unit(unit);
                lost += 1;
            }
        }
        for index in 0..self.used {
            let qp = &mut self.qps[index];
            qp.remote = Remote::Gone;
            qp.pieces.clear();
            qp.unanswered.clear();
            qp.unflushed.clear();
        }
        self.note(|| Event::PowerLost { saved, lost });
        if let Some(watch) = &mut self.watch
            && let Err(broken) = watch.power_lost(&self.memory)
        {
            self.violate(broken);
        }
    }

    /// Ends a connection on both sides: what has arrived lands, what has not
    /// never will.
    pub(super) fn tear_down(&mut self, index: usize) {
        self.note(|| Event::TornDown { qp: index as u32 });
        self.close(index, WcStatus::WR_FLUSH_ERR);
        if self.qps[index].remote != Remote::Gone {
            self.place_before(index, u32::MAX);
            self.qps[index].remote = Remote::Gone;
        }
        self.qps[index].unanswered.clear();
        self.skip_finished();
    }

    /// Its owner puts a queue pair into the error state.
    pub(super) fn abort(&mut self, index: usize) {
        if self.qps[index].local == Local::Live {
            self.note(|| Event::Aborted { qp: index as u32 });
            self.close(index, WcStatus::WR_FLUSH_ERR);
        }
    }

    /// Its owner is gone: nobody polls its completions.
    pub(super) fn orphan(&mut self, index: usize) {
        if index < self.used {
            self.abort(index);
            self.qps[index].cq.clear();
        }
    }

    /// Takes a chain, or a part of it.
    pub(super) fn post(&mut self, index: usize, chain: &Chain<'_>) -> Result<(), PostError> {
        let of = chain.len();
        let faults = self.config.faults;
        let unknown = !self.calm && self.choices.chance(faults.unknown);
        let refused = !self.calm && !unknown && self.choices.chance(faults.refuse);
        let wanted = match (unknown, refused) {
            (true, _) => self.choices.below(of + 1),
            (_, true) => self.choices.below(of),
            _ => of,
        };
        let mut result = Ok(());
        for (taken, request) in (0..wanted).zip(chain.requests()) {
            if let Err(errno) = self.take(index, Wqe::copy(&request)) {
                result = Err(PostError::Refused { taken, errno });
                break;
            }
        }
        if unknown {
            let errno = Errno(-1);
            self.coverage.refusals += 1;
            self.note(|| Event::PostUnknown { qp: index as u32, taken: wanted, of, errno });
            return Err(PostError::Unknown { errno });
        }
        if refused && result.is_ok() {
            let errno = ERRNOS[self.choices.below(ERRNOS.len() as u32) as usize];
            self.coverage.refusals += 1;
            self.note(|| Event::Refused { qp: index as u32, taken: wanted, of, errno });
            let lied = self.config.mutant == Some(Mutant::RetryFromHead);
            result = Err(PostError::Refused { taken: if lied { 0 } else { wanted }, errno });
        }
        result
    }

    /// Takes one request, if there is a slot for it.
    fn take(&mut self, index: usize, wqe: Result<Wqe, Errno>) -> Result<(), Errno> {
        let mut wqe = wqe?;
        let qp = &mut self.qps[index];
        let request = qp.work.len() as u32;
        if request - qp.retired >= qp.sq_depth {
            self.coverage.overfull += 1;
            return Err(Errno::ENOMEM);
        }
        match self.config.mutant {
            Some(Mutant::NoFence) => wqe.flags &= !SEND_FENCE,
            Some(Mutant::SignalWindow) if !request.is_multiple_of(4 * qp.sq_depth) => {
                wqe.flags &= !SEND_SIGNALED;
            }
            _ => {}
        }
        qp.work.push(wqe);
        if qp.local == Local::Live {
            qp.sendable = request + 1;
        } else {
            qp.complete(request, request, WcStatus::WR_FLUSH_ERR);
        }
        self.note(|| Event::Posted { qp: index as u32, request, wqe });
        Ok(())
    }

    /// Lets some time pass and moves completions out, in order, not always all.
    pub(super) fn poll(&mut self, index: usize, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        for _ in 0..1 + self.choices.below(self.pace) {
            self.step();
        }
        let qp = &mut self.qps[index];
        if let Some(fault) = qp.fault {
            return Err(fault);
        }
        let there = qp.cq.len().min(into.len());
        if there == 0 {
            return if qp.overrun { Err(DeviceFault::CompletionQueue) } else { Ok(0) };
        }
        let count = there - self.choices.below(there as u32 + 1) as usize;
        let qp = &mut self.qps[index];
        for slot in into.iter_mut().take(count) {
            if let Some((wc, request)) = qp.cq.pop_front() {
                *slot = wc;
                qp.retired = request + 1;
            }
        }
        Ok(count)
    }
}

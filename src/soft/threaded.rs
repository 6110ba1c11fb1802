//! The threaded engine: a thread of its own carries requests out, as a NIC does.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use std::vec::Vec;

use crossbeam_utils::Backoff;

use crate::batch::Chain;
use crate::error::{DeviceFault, Errno, Error, Invalid, WcStatus};
use crate::provider::{Capabilities, PostError, Provider};
use crate::soft::execute::{Kind, Wqe};
use crate::soft::queue::{Consumer, Producer, Queue, WORDS};
use crate::soft::{QpConfig, SoftDevice, next_qp_num};
use crate::wr::Wc;

/// The thread that serves a device's queue pairs.
///
/// It lives within a [`std::thread::scope`], ends when the engine is dropped,
/// and sleeps in short naps while nothing is posted.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use farword::{AlignedOffset, Forever, Notify, OpContext, Ring, RingConfig, Usage, Word};
/// use farword::soft::{Engine, QpConfig, SoftDevice};
///
/// let memory = [const { AtomicU64::new(0) }; 8];
/// let mut device = SoftDevice::new();
/// let tail = device.register(&memory, Usage::WRITE_DST)?.remote().target(AlignedOffset::ZERO)?;
/// std::thread::scope(|scope| {
///     let engine = Engine::spawn(scope, &device);
///     let mut ring = Ring::boxed(engine.qp(QpConfig::default())?, RingConfig::default())?;
///     let ticket = ring.atomic_write(tail, Word::ne(7), Notify::Always, OpContext::new(1))?;
///     ring.wait(ticket, Forever, |_| {}).expect("confirmed");
///     assert_eq!(memory[0].load(Ordering::Acquire), 7);
///     Ok::<(), farword::Error>(())
/// })?;
/// # Ok::<(), farword::Error>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// How many queue pairs were ever added; the thread looks at `added` only
    /// when this has changed.
    count: AtomicUsize,
    added: Mutex<Vec<Arc<Wires>>>,
}

/// Why a completion queue ends: a completion found no place.
const OVERRUN: u64 = 1;
/// Why a completion queue ends: so has the thread.
const GONE: u64 = 2;

/// What a queue pair shares with the thread.
#[derive(Debug)]
struct Wires {
    sq: Queue,
    cq: Queue,
    config: QpConfig,
    qp_num: u32,
    scratch: AtomicU64,
    /// Set by the owner: flush from here on.
    abort: AtomicBool,
}

/// A queue pair that an [`Engine`] serves.
#[derive(Debug)]
pub struct ThreadedQp {
    wires: Arc<Wires>,
    sq: Producer,
    cq: Consumer,
    retired: u64,
}

impl Engine {
    /// Starts the thread.
    pub fn spawn<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        device: &'env SoftDevice<'env>,
    ) -> Engine {
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        scope.spawn(move || serve(device, &for_thread));
        Engine { shared }
    }

    /// A new queue pair.
    ///
    /// # Errors
    /// [`Invalid::Depth`] for a depth of 0 or over 2^20.
    pub fn qp(&self, config: QpConfig) -> Result<ThreadedQp, Error> {
        let max = crate::slots::MAX_SLOTS;
        for depth in [config.sq_depth, config.cq_depth].map(u64::from) {
            if depth == 0 || depth > max {
                return Err(Invalid::Depth { got: depth, min: 1, max }.into());
            }
        }
        let wires = Arc::new(Wires {
            sq: Queue::new(config.sq_depth),
            cq: Queue::new(config.cq_depth),
            config,
            qp_num: next_qp_num(),
            scratch: AtomicU64::new(0),
            abort: AtomicBool::new(false),
        });
        let mut added = self.shared.added.lock().unwrap_or_else(PoisonError::into_inner);
        added.push(Arc::clone(&wires));
        self.shared.count.fetch_add(1, Ordering::Release);
        Ok(ThreadedQp { wires, sq: Producer::new(), cq: Consumer::new(), retired: 0 })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}

/// One queue pair, from the thread's side.
struct Served {
    wires: Arc<Wires>,
    sq: Consumer,
    cq: Producer,
    in_error: bool,
}

/// How many requests of one queue pair are carried out before the next is
/// looked at.
const BURST: usize = 64;

fn serve(device: &SoftDevice<'_>, shared: &Shared) {
    let mut served: Vec<Served> = Vec::new();
    let mut known = 0;
    let mut idle = Idle::default();
    while !shared.stop.load(Ordering::Acquire) {
        let count = shared.count.load(Ordering::Acquire);
        if count != known {
            known = count;
            let mut added = shared.added.lock().unwrap_or_else(PoisonError::into_inner);
            served.extend(added.drain(..).map(Served::new));
        }
        let mut busy = false;
        for qp in &mut served {
            busy |= qp.burst(device);
        }
        if busy {
            idle.reset();
        } else {
            // A queue pair whose owner is gone, and whose work is done, goes too.
            served.retain(|qp| Arc::strong_count(&qp.wires) > 1);
            idle.rest();
        }
    }
    let mut added = shared.added.lock().unwrap_or_else(PoisonError::into_inner);
    served.extend(added.drain(..).map(Served::new));
    for qp in served {
        qp.cq.close(&qp.wires.cq, GONE);
    }
}

/// Spins, then yields, then naps.
#[derive(Default)]
struct Idle {
    backoff: Backoff,
    rests: u32,
}

impl Idle {
    const NAP_AFTER: u32 = 20_000;

    fn reset(&mut self) {
        self.rests = 0;
        self.backoff.reset();
    }

    fn rest(&mut self) {
        self.rests = self.rests.saturating_add(1);
        if self.rests > Self::NAP_AFTER {
            std::thread::sleep(Duration::from_micros(50));
        } else if self.rests.is_multiple_of(128) {
            std::thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }
}

impl Served {
    fn new(wires: Arc<Wires>) -> Self {
        Served { wires, sq: Consumer::new(), cq: Producer::new(), in_error: false }
    }

    /// Carries out what is posted, and says whether there was anything.
    fn burst(&mut self, device: &SoftDevice<'_>) -> bool {
        for done in 0..BURST {
            let Some(words) = self.sq.pop(&self.wires.sq) else {
                return done > 0;
            };
            self.sq.release(&self.wires.sq);
            self.step(device, &decode(words));
        }
        true
    }

    #[inline]
    fn step(&mut self, device: &SoftDevice<'_>, wqe: &Wqe) {
        self.in_error |= self.wires.abort.load(Ordering::Relaxed);
        let status = if self.in_error {
            WcStatus::WR_FLUSH_ERR
        } else {
            match device.execute(wqe, self.wires.config.mode, &self.wires.scratch) {
                Ok(()) => WcStatus::SUCCESS,
                Err(status) => {
                    self.in_error = true;
                    status
                }
            }
        };
        if status == WcStatus::SUCCESS && !wqe.is_signaled() {
            return;
        }
        let number = self.sq_number();
        let words = encode_completion(wqe, status, number);
        if !self.cq.push(&self.wires.cq, self.wires.config.cq_depth, words) {
            self.cq.close(&self.wires.cq, OVERRUN);
        }
    }

    /// The number of the request that was popped last.
    fn sq_number(&self) -> u64 {
        self.sq.count() - 1
    }
}

impl ThreadedQp {
    /// What the last emulated flush read back.
    #[must_use]
    pub fn scratch(&self) -> u64 {
        self.wires.scratch.load(Ordering::Acquire)
    }
}

impl Provider for ThreadedQp {
    fn capabilities(&self) -> Capabilities {
        self.wires.config.capabilities()
    }

    #[inline]
    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        let depth = self.wires.config.sq_depth;
        let room = depth - (self.sq.count() - self.retired) as u32;
        for (taken, request) in (0u32..).zip(chain.requests()) {
            if taken == room {
                return Err(PostError::Refused { taken, errno: Errno::ENOMEM });
            }
            let wqe = match Wqe::copy(&request) {
                Ok(wqe) => wqe,
                Err(errno) => return Err(PostError::Refused { taken, errno }),
            };
            if !self.sq.push(&self.wires.sq, depth, encode(&wqe)) {
                return Err(PostError::Refused { taken, errno: Errno::ENOMEM });
            }
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        let mut count = 0;
        for slot in into.iter_mut() {
            let Some(words) = self.cq.pop(&self.wires.cq) else {
                break;
            };
            let (wc, number) = decode_completion(words, self.wires.qp_num);
            *slot = wc;
            self.retired = number + 1;
            count += 1;
        }
        if count > 0 {
            self.cq.release(&self.wires.cq);
            return Ok(count);
        }
        match self.cq.end(&self.wires.cq) {
            0 => Ok(0),
            OVERRUN => Err(DeviceFault::CompletionQueue),
            _ => Err(DeviceFault::Device),
        }
    }

    fn abort(&mut self) {
        self.wires.abort.store(true, Ordering::Release);
    }
}

fn encode(wqe: &Wqe) -> [u64; WORDS] {
    let keys = u64::from(wqe.rkey) << 32 | u64::from(wqe.lkey);
    let shape = u64::from(wqe.len) << 32 | u64::from(wqe.kind as u8) << 8 | u64::from(wqe.flags);
    [wqe.wr_id, wqe.remote_addr, wqe.data, keys, shape, 0]
}

fn decode(words: [u64; WORDS]) -> Wqe {
    let [wr_id, remote_addr, data, keys, shape, _] = words;
    Wqe {
        wr_id,
        remote_addr,
        data,
        rkey: (keys >> 32) as u32,
        lkey: keys as u32,
        len: (shape >> 32) as u32,
        kind: Kind::from_bits((shape >> 8) as u8),
        flags: shape as u8,
    }
}

fn encode_completion(wqe: &Wqe, status: WcStatus, number: u64) -> [u64; WORDS] {
    let ok = status == WcStatus::SUCCESS;
    let (opcode, byte_len) = if ok { (wqe.kind.wc_opcode(), wqe.len) } else { (0, 0) };
    let outcome = u64::from(status.0) << 32 | u64::from(opcode);
    [wqe.wr_id, outcome, u64::from(byte_len), number, 0, 0]
}

fn decode_completion(words: [u64; WORDS], qp_num: u32) -> (Wc, u64) {
    let [wr_id, outcome, byte_len, number, _, _] = words;
    let status = WcStatus((outcome >> 32) as u32);
    (Wc::new(wr_id, status, outcome as u32, byte_len as u32, qp_num), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_crosses_the_wires_unchanged() {
        for kind in [Kind::WriteWord, Kind::AtomicWrite, Kind::Read, Kind::FlushVisibility] {
            let wqe = Wqe {
                wr_id: u64::MAX - 1,
                remote_addr: 0x1234_5678_9abc_def0,
                data: 77,
                rkey: 0xdead_beef,
                lkey: 0xfeed_f00d,
                len: u32::MAX,
                kind,
                flags: 0x0b,
            };
            assert_eq!(decode(encode(&wqe)), wqe);
        }
    }
}

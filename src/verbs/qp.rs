//! A real queue pair as a provider.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::any::Any;
use core::ffi::c_int;
use core::fmt;
use core::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys::{ibv_comp_channel, ibv_cq, ibv_qp, ibv_qp_ex, ibv_send_wr, ibv_wc};

use crate::batch::Chain;
use crate::error::{DeviceFault, Errno};
use crate::provider::{Capabilities, FlushSupport, PostError, Provider};
use crate::region::LocalSlice;
use crate::verbs::cq::CqEvents;
use crate::verbs::fault_cell::FaultCell;
use crate::verbs::ffi::{QpEx, returned};
use crate::verbs::library::{LIBIBVERBS, Library};
use crate::wr::Wc;

mod calls;
mod path;

pub(in crate::verbs) use calls::WrCalls;
pub use path::{Path, PathUnavailable};

/// A queue pair's send side and its completion queue, for one [`Ring`](crate::Ring).
///
/// It keeps its owner alive: whatever the queue pair needs to stay usable.
pub struct VerbsQp<O = Arc<dyn Any + Send + Sync>> {
    qp: NonNull<ibv_qp>,
    cq: NonNull<ibv_cq>,
    post_send: PostSend,
    poll_cq: PollCq,
    calls: Option<WrCalls>,
    path: Path,
    capabilities: Capabilities,
    scratch: Option<LocalSlice>,
    library: &'static Library,
    fault: FaultCell,
    events: Option<CqEvents>,
    /// Dropped last.
    owner: O,
}

pub(in crate::verbs) type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;

// SAFETY: verbs objects may be used from any thread; the pointers are this
// value's own to use, and the owner may be sent.
unsafe impl<O: Send> Send for VerbsQp<O> {}
// SAFETY: through a shared reference only numbers are read; everything that
// calls into the provider takes `&mut self`.
unsafe impl<O: Sync> Sync for VerbsQp<O> {}

/// The parts of a connected reliable queue pair.
///
/// For programs that connect their queue pairs themselves; see
/// [`VerbsQp::from_raw`].
#[derive(Debug)]
pub struct RawQp {
    /// The queue pair, connected, its requests signaled only where they say so
    /// (`sq_sig_all` is 0).
    pub qp: NonNull<ibv_qp>,
    /// The completion queue of its send side, used by nothing else.
    pub cq: NonNull<ibv_cq>,
    /// The extended queue pair (`ibv_qp_to_qp_ex`), or null.
    pub qp_ex: *mut ibv_qp_ex,
    /// The `IBV_QP_EX_WITH_*` flags that it was created with; 0 if none. For
    /// ATOMIC WRITE (bit 12) and FLUSH (bit 11), only what the device's
    /// capability bits 40, 38 and 39 promise: a provider may create the queue
    /// pair all the same and fail every such request.
    pub send_ops: u64,
    /// What was granted for the send queue (`cap.max_send_wr`).
    pub sq_depth: u32,
    /// What was granted for the completion queue (`cqe`).
    pub cq_depth: u32,
    /// What was granted for inline data (`cap.max_inline_data`).
    pub max_inline: u32,
    /// How many bytes one request may move (the port's `max_msg_sz`).
    pub max_message: u64,
    /// 8 registered bytes that emulated flushes read into; without them and
    /// without a native flush there is none. Worth having with a native flush
    /// too: see [`VerbsQp::emulate_flush`].
    pub scratch: Option<LocalSlice>,
    /// The channel that the completion queue was created with, or null.
    pub channel: *mut ibv_comp_channel,
    /// The path to take; `None` for the best.
    pub path: Option<Path>,
}

impl<O> VerbsQp<O> {
    /// From a connected queue pair.
    ///
    /// # Errors
    /// [`PathUnavailable`] if the path that was asked for is not there. The
    /// owner is dropped then.
    ///
    /// # Safety
    /// What the pointers lead to is alive and stays so for as long as `owner`
    /// lives, all of it libibverbs' own; nothing else posts to the queue pair's
    /// send side, polls its completion queue or reads its channel; `send_ops`
    /// are flags that its creation granted.
    pub unsafe fn from_raw(raw: RawQp, owner: O) -> Result<Self, PathUnavailable> {
        // SAFETY: this function's own condition.
        unsafe { Self::assemble(raw, owner, FaultCell::default(), &LIBIBVERBS) }
    }

    /// As [`from_raw`](Self::from_raw), with the cell in which faults arrive.
    ///
    /// # Safety
    /// As [`from_raw`](Self::from_raw), libibverbs being that library.
    pub(crate) unsafe fn assemble(
        raw: RawQp,
        owner: O,
        fault: FaultCell,
        library: &'static Library,
    ) -> Result<Self, PathUnavailable> {
        let calls = NonNull::new(raw.qp_ex.cast::<QpEx>())
            // SAFETY: this function's own condition.
            .and_then(|qp_ex| unsafe { WrCalls::of(qp_ex, raw.send_ops) });
        let best = match &calls {
            None => Path::PostSend,
            Some(calls) if calls.has_atomic_write() => Path::Native,
            Some(_) => Path::WrCalls,
        };
        let path = Path::choose(best, raw.path)?;
        let flush = match (&calls, raw.scratch) {
            (Some(calls), _) if path == Path::Native && calls.has_flush() => FlushSupport::Native,
            (_, Some(scratch)) => FlushSupport::Emulated(scratch),
            (_, None) => FlushSupport::None,
        };
        let capabilities = Capabilities::new(raw.sq_depth, raw.cq_depth)
            .with_max_inline(raw.max_inline)
            .with_max_message(raw.max_message)
            .with_native_atomic_write(path == Path::Native)
            .with_flush(flush);
        let events = NonNull::new(raw.channel)
            // SAFETY: this function's own condition.
            .map(|channel| unsafe { CqEvents::new(channel, raw.cq, library) });
        Ok(VerbsQp {
            qp: raw.qp,
            cq: raw.cq,
            // SAFETY: this function's own condition.
            post_send: unsafe { post_send_of(raw.qp) },
            // SAFETY: this function's own condition.
            poll_cq: unsafe { poll_cq_of(raw.cq) },
            calls: if path == Path::PostSend { None } else { calls },
            path,
            capabilities,
            scratch: raw.scratch,
            library,
            fault,
            events,
            owner,
        })
    }

    /// The path that its requests take.
    #[must_use]
    pub fn path(&self) -> Path {
        self.path
    }

    /// Has flushes emulated by reads, as where there is no FLUSH operation, and
    /// says whether there is somewhere to read to; without that nothing changes.
    /// Call it before a ring is built: a ring asks once what its provider can do.
    ///
    /// For peers that do not grant the FLUSH operation; see
    /// [`Connection::emulate_flush`](crate::verbs::Connection::emulate_flush).
    pub fn emulate_flush(&mut self) -> bool {
        let Some(scratch) = self.scratch else {
            return false;
        };
        self.capabilities.flush = FlushSupport::Emulated(scratch);
        true
    }

    /// What keeps the queue pair usable.
    #[must_use]
    pub fn owner(&self) -> &O {
        &self.owner
    }

    /// The same, to be changed; not to be replaced, since the queue pair is its.
    pub(in crate::verbs) fn owner_mut(&mut self) -> &mut O {
        &mut self.owner
    }

    /// The fault that ended the queue pair, if the device told of one.
    #[must_use]
    pub fn fault(&self) -> Option<DeviceFault> {
        self.fault.get()
    }

    /// The completion queue's events, where it was created with a channel.
    pub fn events(&mut self) -> Option<&mut CqEvents> {
        self.events.as_mut()
    }

    /// A poll that gave nothing: the only place where a fault is looked for.
    #[inline(never)]
    fn polled_nothing(&mut self, code: c_int, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        if code < 0 {
            return Err(DeviceFault::Poll(returned(code)));
        }
        let Some(fault) = self.fault.get() else {
            return Ok(0);
        };
        // What completed before the fault was told comes first.
        match self.poll_once(into) {
            0 => Err(fault),
            code if code < 0 => Err(DeviceFault::Poll(returned(code))),
            count => Ok((count as usize).min(into.len())),
        }
    }

    #[inline]
    fn poll_once(&mut self, into: &mut [Wc]) -> c_int {
        let room = c_int::try_from(into.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is alive, says `from_raw`, and this thread's own, by
        // `&mut self`; there is room for that many completions, which `abi` holds
        // to be laid out as the ABI has them, and every bit pattern is a `Wc`.
        unsafe { (self.poll_cq)(self.cq.as_ptr(), room, into.as_mut_ptr().cast()) }
    }
}

impl<O> Provider for VerbsQp<O> {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    #[inline]
    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        if let Some(calls) = &self.calls {
            // SAFETY: the queue pair is alive, says `from_raw`, and this
            // thread's own, by `&mut self`.
            return unsafe { calls.post(chain) };
        }
        let mut bad_wr: *mut ibv_send_wr = ptr::null_mut();
        let first: *mut ibv_send_wr = chain.first().cast();
        // SAFETY: as above; the chain is laid out as the ABI has it, holds `abi`,
        // and may be read until the call returns.
        let code = unsafe { (self.post_send)(self.qp.as_ptr(), first, &mut bad_wr) };
        if code == 0 { Ok(()) } else { Err(post_failed(chain, code, bad_wr)) }
    }

    #[inline]
    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        let count = self.poll_once(into);
        if count <= 0 {
            return self.polled_nothing(count, into);
        }
        Ok((count as usize).min(into.len()))
    }

    fn abort(&mut self) {
        // SAFETY: the queue pair is alive, says `from_raw`.
        let aborted = unsafe { (self.library.to_error)(self.qp.as_ptr()) };
        if aborted.is_err() {
            // Then no flush can be relied on. Say so, lest somebody wait for it.
            self.fault.set(DeviceFault::QueuePair);
        }
    }
}

impl<O> fmt::Debug for VerbsQp<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsQp")
            .field("qp", &self.qp)
            .field("path", &self.path)
            .field("capabilities", &self.capabilities)
            .field("fault", &self.fault.get())
            .finish_non_exhaustive()
    }
}

/// A chain that was not taken whole.
#[cold]
#[inline(never)]
pub(in crate::verbs) fn post_failed(
    chain: Chain<'_>,
    code: c_int,
    bad_wr: *mut ibv_send_wr,
) -> PostError {
    let errno = returned(code);
    match chain.index_of(bad_wr.cast()) {
        Some(taken) => PostError::Refused { taken, errno },
        // Unset, or none of ours: anything may be in flight.
        None => PostError::Unknown { errno },
    }
}

/// The provider's `post_send`, which a context keeps from when it is opened.
///
/// # Safety
/// The queue pair is alive.
pub(in crate::verbs) unsafe fn post_send_of(qp: NonNull<ibv_qp>) -> PostSend {
    // SAFETY: this function's own condition.
    let context = unsafe { (*qp.as_ptr()).context };
    // SAFETY: a live queue pair's context is open.
    let post_send = unsafe { (*context).ops.post_send };
    post_send.unwrap_or(no_post_send)
}

/// The provider's `poll_cq`.
///
/// # Safety
/// The completion queue is alive.
unsafe fn poll_cq_of(cq: NonNull<ibv_cq>) -> PollCq {
    // SAFETY: this function's own condition.
    let context = unsafe { (*cq.as_ptr()).context };
    // SAFETY: a live completion queue's context is open.
    let poll_cq = unsafe { (*context).ops.poll_cq };
    poll_cq.unwrap_or(no_poll_cq)
}

/// In place of a call that a provider does not have.
unsafe extern "C" fn no_post_send(
    _: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: as `ibv_post_send` has it, `bad_wr` may be written.
    unsafe { bad_wr.write(wr) };
    Errno::EOPNOTSUPP.0
}

unsafe extern "C" fn no_poll_cq(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
    -Errno::EOPNOTSUPP.0
}

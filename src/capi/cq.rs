//! Completion queues.

use core::ffi::c_int;
use core::ptr::NonNull;

use rdma_sys::{ibv_context, ibv_cq, ibv_wc};

use super::{
    E_NO_COMPLETION, E_SHARED_CHANNEL, E_UNKNOWN, Failure, INVAL, LOG_LEVEL_DEBUG, Owned, PROVIDER,
    answer, get, log, place,
};
use crate::error::Errno;
use crate::verbs::{CompChannel, CompletionQueue, LIBIBVERBS, request_notify};

type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;

/// `struct rpma_cq`.
#[derive(Debug)]
pub struct Cq {
    poll: Option<PollCq>,
    // Before its channel.
    queue: CompletionQueue,
    /// None where it shares its connection's.
    channel: Option<CompChannel>,
    channel_fd: c_int,
}

impl Cq {
    /// A queue for that many completions, armed; with a channel of its own
    /// unless it is given one.
    ///
    /// # Safety
    /// The context is open, and it and the channel outlive the queue.
    pub(super) unsafe fn new(
        context: NonNull<ibv_context>,
        size: u32,
        shared: Option<&CompChannel>,
    ) -> Result<Owned<Self>, Failure> {
        let failed = |step: &str, errno: Errno| {
            log!(ERROR, c"rpma_cq_new", "{step} failed: {errno}");
            PROVIDER
        };
        let own = match shared {
            Some(_) => None,
            // SAFETY: this function's own condition.
            None => Some(
                unsafe { CompChannel::new(context) }
                    .map_err(|errno| failed("ibv_create_comp_channel", errno))?,
            ),
        };
        let Some(channel) = shared.or(own.as_ref()) else {
            return Err(INVAL);
        };
        let depth = c_int::try_from(size).unwrap_or(c_int::MAX);
        // SAFETY: as above.
        let queue = unsafe { CompletionQueue::new(context, depth, channel) }
            .map_err(|errno| failed("ibv_create_cq", errno))?;
        // SAFETY: the queue was just made.
        unsafe { request_notify(queue.get()) }
            .map_err(|errno| failed("ibv_req_notify_cq", errno))?;
        // SAFETY: the context is open.
        let poll = unsafe { (*context.as_ptr()).ops.poll_cq };
        Owned::new(Cq { poll, channel_fd: channel.fd(), queue, channel: own })
    }

    /// A queue that somebody else made, with no channel.
    ///
    /// # Safety
    /// It stays as long as this is used, and this is never dropped.
    pub(super) unsafe fn over(cq: NonNull<ibv_cq>) -> Result<Owned<Self>, Failure> {
        // SAFETY: this function's own condition.
        let context = unsafe { (*cq.as_ptr()).context };
        // SAFETY: a live queue's context is open.
        let poll = unsafe { (*context).ops.poll_cq };
        // SAFETY: this function's own condition.
        let queue = unsafe { CompletionQueue::from_raw(cq) };
        Owned::new(Cq { poll, queue, channel: None, channel_fd: -1 })
    }

    /// How many completions it holds.
    pub(super) fn depth(&self) -> u32 {
        self.queue.depth()
    }

    /// The queue itself.
    pub(super) fn raw(&self) -> NonNull<ibv_cq> {
        self.queue.get()
    }

    /// Destroys it, and says whether that went well; it is gone all the same.
    pub(super) fn destroy(self) -> Result<(), Failure> {
        let failed = |step: &str, errno: Errno| {
            log!(ERROR, c"rpma_cq_delete", "{step} failed: {errno}");
            PROVIDER
        };
        let queue = self.queue.destroy().map_err(|errno| failed("ibv_destroy_cq", errno));
        let channel = self.channel.map_or(Ok(()), CompChannel::destroy);
        queue.and(channel.map_err(|errno| failed("ibv_destroy_comp_channel", errno)))
    }
}

/// Acknowledges an event that a channel gave, and asks for the next one.
pub(super) fn settle(cq: NonNull<ibv_cq>, function: &str) -> Result<(), Failure> {
    // SAFETY: its event was just taken, and is acknowledged this once.
    unsafe { (LIBIBVERBS.ack_cq_events)(cq.as_ptr(), 1) };
    // SAFETY: the queue of an event is alive.
    unsafe { request_notify(cq) }.map_err(|errno| {
        log!(ERROR, c"rpma_cq_wait", "ibv_req_notify_cq in {function} failed: {errno}");
        PROVIDER
    })
}

/// Gives the descriptor that is readable when there is an event.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_cq_get_fd(cq: *const Cq, fd: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let value = unsafe { get(cq) }?.channel_fd;
        // SAFETY: not null, so the caller's variable.
        unsafe { place(fd)?.write(value) };
        Ok(())
    })
}

/// Waits for a completion event and asks for the next one. Any thread may.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_cq_wait(cq: *mut Cq) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let cq = unsafe { get(cq) }?;
        let Some(channel) = &cq.channel else {
            return Err(Failure(E_SHARED_CHANNEL));
        };
        // SAFETY: the channel is alive.
        unsafe { (LIBIBVERBS.next_cq_event)(channel.get().as_ptr()) }
            .map_err(|_| Failure(E_NO_COMPLETION))?;
        settle(cq.raw(), "rpma_cq_wait")
    })
}

/// Takes completions, `num_entries` at most. Any thread may.
///
/// # Safety
/// As the [module](super) says; there is room for `num_entries` completions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_cq_get_wc(
    cq: *mut Cq,
    num_entries: c_int,
    wc: *mut ibv_wc,
    num_entries_got: *mut c_int,
) -> c_int {
    // No panic is possible below, and this is called in loops.
    // SAFETY: as the module says.
    let Some(cq) = (unsafe { cq.as_ref() }) else {
        return super::E_INVAL;
    };
    if num_entries < 1 || wc.is_null() || (num_entries > 1 && num_entries_got.is_null()) {
        return super::E_INVAL;
    }
    let Some(poll) = cq.poll else {
        return super::E_PROVIDER;
    };
    // SAFETY: the queue is alive, and there is room for as many.
    let got = unsafe { poll(cq.queue.get().as_ptr(), num_entries, wc) };
    if got == 0 {
        if log::is_heard(LOG_LEVEL_DEBUG) {
            nothing_there();
        }
        return E_NO_COMPLETION;
    }
    if got < 0 || got > num_entries {
        return odd_poll(got, num_entries);
    }
    if let Some(into) = NonNull::new(num_entries_got) {
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(got) };
    }
    0
}

#[cold]
fn nothing_there() {
    let _ = answer(|| {
        log!(DEBUG, c"rpma_cq_get_wc", "no completion is there");
        Ok(())
    });
}

#[cold]
fn odd_poll(got: c_int, asked: c_int) -> c_int {
    answer(|| {
        log!(ERROR, c"rpma_cq_get_wc", "ibv_poll_cq for {asked} completions gave {got}");
        Err(if got < 0 { PROVIDER } else { Failure(E_UNKNOWN) })
    })
}

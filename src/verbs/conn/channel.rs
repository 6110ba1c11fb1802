//! rdma_cm's event channel: events out of it, one at a time, and a wait that
//! ends in time or when it is woken.

#![allow(unsafe_code, reason = "librdmacm is a C library")]

use core::ffi::{c_int, c_uint};
use core::ptr::{self, NonNull};
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use std::vec::Vec;

use rdma_sys::{
    rdma_ack_cm_event, rdma_cm_event, rdma_cm_event_type as kind, rdma_cm_id,
    rdma_create_event_channel, rdma_destroy_event_channel, rdma_event_channel, rdma_get_cm_event,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{read, write};

use super::id::CmId;
use crate::error::Errno;
use crate::verbs::errno::{last_errno, to_errno};

/// Ends a wait of another thread.
///
/// A wake is kept until a wait takes it, so that it cannot come too early.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn new() -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Waker(Arc::new(eventfd(0, flags).map_err(to_errno)?)))
    }

    /// Ends the wait that is under way, or else the next one.
    pub fn wake(&self) {
        // It fails only where 2^64 wakes are pending, which wake as well.
        let _ = write(&*self.0, &1u64.to_ne_bytes());
    }

    fn take(&self) -> bool {
        read(&*self.0, &mut [0u8; 8]).is_ok()
    }
}

/// What a wait came to.
#[derive(Debug)]
pub(super) enum Waited<T> {
    Came(T),
    TimedOut,
    Woken,
    Failed(Errno),
}

/// An event, copied out and acknowledged: what is never acknowledged makes the
/// destruction of its id wait for ever.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: c_uint,
    pub(crate) status: c_int,
    pub(crate) private_data: Vec<u8>,
    /// The new id that a connection request brings: its reader's, to make a
    /// [`CmId`](super::id::CmId) of.
    pub(crate) request: Option<NonNull<rdma_cm_id>>,
}

/// rdma_cm's event channel. Its owner sees to it that the ids whose events it
/// carries go first.
#[derive(Debug)]
pub(crate) struct EventChannel(NonNull<rdma_event_channel>);

// SAFETY: librdmacm's calls may be made from any thread; an event channel is a
// file descriptor and holds nothing of the thread that made it.
unsafe impl Send for EventChannel {}
// SAFETY: as above. Reading events is a system call on that descriptor, which
// hands each event out once.
unsafe impl Sync for EventChannel {}

impl EventChannel {
    /// A channel whose reads wait.
    pub(crate) fn new() -> Result<Self, Errno> {
        // SAFETY: no conditions; null is checked for.
        let raw = unsafe { rdma_create_event_channel() };
        NonNull::new(raw).map(EventChannel).ok_or_else(last_errno)
    }

    pub(crate) fn as_ptr(&self) -> *mut rdma_event_channel {
        self.0.as_ptr()
    }

    /// The next event. Where there is none it waits, or says `EAGAIN` once the
    /// descriptor is non-blocking.
    pub(crate) fn next(&self) -> Result<Event, EventError> {
        let mut event: *mut rdma_cm_event = ptr::null_mut();
        // SAFETY: the channel is alive; `event` may be written.
        let status = unsafe { rdma_get_cm_event(self.as_ptr(), &mut event) };
        if status != 0 {
            return Err(EventError::Get(last_errno()));
        }
        // SAFETY: the call succeeded, so `event` is a valid event, ours until
        // it is acknowledged.
        let borrowed = unsafe { &*event };
        let (kind, status) = (borrowed.event, borrowed.status);
        // SAFETY: as above.
        let private_data = unsafe { copy_private_data(borrowed) };
        let request = match kind {
            kind::RDMA_CM_EVENT_CONNECT_REQUEST => NonNull::new(borrowed.id),
            _ => None,
        };
        // Its own id, not that of the connection whose channel this is.
        let is_new = !borrowed.listen_id.is_null();
        // SAFETY: it was got from this channel and is acknowledged once; what
        // it points at has been copied.
        let copied = match unsafe { rdma_ack_cm_event(event) } {
            0 => private_data,
            _ => Err(EventError::Acknowledge(last_errno())),
        };
        if let (Err(_), true, Some(id)) = (&copied, is_new, request) {
            // SAFETY: a listener's connection request hands its id over to
            // whoever reads the event, and nobody else will.
            drop(unsafe { CmId::from_raw(id) });
        }
        Ok(Event { kind, status, private_data: copied?, request })
    }
}

/// Why there is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventError {
    /// rdma_cm gave none.
    Get(Errno),
    /// It was taken and could not be acknowledged.
    Acknowledge(Errno),
    /// It was taken, and there is no memory for its private data.
    NoMemory,
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive.
        let fd = unsafe { (*self.as_ptr()).fd };
        // SAFETY: its descriptor is open until the channel is destroyed, and
        // nothing else closes it.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        // SAFETY: its ids are gone, says the type.
        unsafe { rdma_destroy_event_channel(self.as_ptr()) }
    }
}

/// # Safety
/// `event` was got from a channel and is not acknowledged yet.
unsafe fn copy_private_data(event: &rdma_cm_event) -> Result<Vec<u8>, EventError> {
    // SAFETY: ids are those of connected queue pairs (RDMA_PS_TCP), whose events
    // carry the `conn` member.
    let param = unsafe { event.param.conn };
    let mut copy = Vec::new();
    if let Some(bytes) = NonNull::new(param.private_data.cast_mut().cast::<u8>()) {
        let len = usize::from(param.private_data_len);
        copy.try_reserve_exact(len).map_err(|_| EventError::NoMemory)?;
        // SAFETY: the event's private data is `len` bytes long and lives until
        // the event is acknowledged.
        copy.extend_from_slice(unsafe { core::slice::from_raw_parts(bytes.as_ptr(), len) });
    }
    Ok(copy)
}

/// An event channel that does not wait, and what wakes a wait for it.
#[derive(Debug)]
pub(super) struct Channel {
    events: EventChannel,
    waker: Waker,
}

impl Channel {
    pub(super) fn new(waker: Waker) -> Result<Arc<Self>, Errno> {
        let channel = Channel { events: EventChannel::new()?, waker };
        let flags = fcntl_getfl(&channel).map_err(to_errno)?;
        fcntl_setfl(&channel, flags | OFlags::NONBLOCK).map_err(to_errno)?;
        Ok(Arc::new(channel))
    }

    pub(super) fn as_ptr(&self) -> *mut rdma_event_channel {
        self.events.as_ptr()
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The next event, if there is one now.
    pub(super) fn try_next(&self) -> Result<Option<Event>, Errno> {
        match self.events.next() {
            Ok(event) => Ok(Some(event)),
            Err(EventError::Get(Errno::EAGAIN)) => Ok(None),
            Err(EventError::Get(errno) | EventError::Acknowledge(errno)) => Err(errno),
            Err(EventError::NoMemory) => Err(Errno::ENOMEM),
        }
    }

    /// Waits for the next event, until `deadline` where there is one.
    pub(super) fn next(&self, deadline: Option<Instant>) -> Waited<Event> {
        loop {
            match self.try_next() {
                Ok(Some(event)) => return Waited::Came(event),
                Ok(None) => {}
                Err(errno) => return Waited::Failed(errno),
            }
            match self.wait_readable(deadline) {
                Waited::Came(()) => {}
                Waited::TimedOut => return Waited::TimedOut,
                Waited::Woken => return Waited::Woken,
                Waited::Failed(errno) => return Waited::Failed(errno),
            }
        }
    }

    fn wait_readable(&self, deadline: Option<Instant>) -> Waited<()> {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Waited::TimedOut;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds =
            [PollFd::new(self, PollFlags::IN), PollFd::new(&*self.waker.0, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            // After a signal the caller looks again, with what time is left.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Waited::Failed(to_errno(error)),
        }
        // Woken first: a channel that never runs dry must not outshout it.
        if !fds[1].revents().is_empty() && self.waker.take() {
            return Waited::Woken;
        }
        Waited::Came(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

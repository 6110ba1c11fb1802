//! Completion events: to sleep until there is something to poll for.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::fmt;
use core::ptr::NonNull;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rdma_sys::{ibv_comp_channel, ibv_cq};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Errno, Error};
use crate::ring::{Completion, Deadline, Patience, Ring};
use crate::verbs::completion::request_notify;
use crate::verbs::events::set_nonblocking;
use crate::verbs::library::Library;
use crate::verbs::qp::VerbsQp;

/// The events of a completion queue, one for each time that it was
/// [armed](Self::arm).
///
/// No completion is lost if this order is kept:
/// 1. poll until there is nothing;
/// 2. [`arm`](Self::arm): from now on the next completion makes the descriptor
///    readable;
/// 3. poll again, for what came between 1 and 2;
/// 4. only if that gave nothing, wait for the descriptor: by
///    [`wait`](Self::wait), or with epoll or tokio's `AsyncFd` and then
///    [`take`](Self::take).
///
/// [`Ring::poll_or_sleep`] does just that. An executor wants the descriptor for
/// longer than this can be borrowed: give it a duplicate, which is readable when
/// this is (`AsyncFd::new(events.as_fd().try_clone_to_owned()?)`).
pub struct CqEvents {
    channel: NonNull<ibv_comp_channel>,
    cq: NonNull<ibv_cq>,
    library: &'static Library,
    nonblocking: bool,
    /// Events taken and not yet acknowledged: an acknowledgement takes a lock,
    /// so they are gathered.
    unacknowledged: u32,
}

/// How many events are acknowledged at once.
const ACKNOWLEDGE_AT: u32 = 32;

/// How long a sleep may go without a look at whether the device has failed: that
/// is told by no completion event.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl CqEvents {
    /// # Safety
    /// The completion queue was created with this channel, nothing else reads
    /// the channel, and both are alive for as long as this value is; they are
    /// that library's.
    pub(super) unsafe fn new(
        channel: NonNull<ibv_comp_channel>,
        cq: NonNull<ibv_cq>,
        library: &'static Library,
    ) -> Self {
        CqEvents { channel, cq, library, nonblocking: false, unacknowledged: 0 }
    }

    /// Asks for an event with the next completion that comes. A completion that
    /// is there already gives none.
    ///
    /// # Errors
    /// The provider's errno.
    pub fn arm(&mut self) -> Result<(), Errno> {
        self.make_nonblocking()?;
        // SAFETY: the queue is alive, says `new`.
        unsafe { request_notify(self.cq) }
    }

    /// Takes the events that are there, and says how many. The queue must be
    /// armed again for the next one.
    ///
    /// # Errors
    /// The errno of the read.
    pub fn take(&mut self) -> Result<u32, Errno> {
        self.make_nonblocking()?;
        let mut taken = 0;
        // Each was asked for by an `arm`, so they end.
        loop {
            // SAFETY: the channel is alive, says `new`, and non-blocking.
            match unsafe { (self.library.next_cq_event)(self.channel.as_ptr()) } {
                Ok(cq) if cq == self.cq.as_ptr() => {
                    taken += 1;
                    self.unacknowledged += 1;
                }
                // SAFETY: somebody shares the channel; an event's queue is
                // alive until the event is acknowledged.
                Ok(other) => unsafe { (self.library.ack_cq_events)(other, 1) },
                Err(Errno::EAGAIN | Errno(libc::EINTR)) => break,
                Err(errno) => return Err(errno),
            }
        }
        if self.unacknowledged >= ACKNOWLEDGE_AT {
            self.acknowledge();
        }
        Ok(taken)
    }

    /// Waits for an event and takes it; `false` if none came in time.
    ///
    /// # Errors
    /// The errno of `poll` or of the read.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, Errno> {
        let timeout =
            Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let fd = self.as_fd();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => Ok(false),
            Ok(_) => Ok(self.take()? > 0),
            // As good as no event: the caller looks and waits again.
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(Errno(errno.raw_os_error())),
        }
    }

    fn make_nonblocking(&mut self) -> Result<(), Errno> {
        if !self.nonblocking {
            set_nonblocking(self.as_fd())?;
            self.nonblocking = true;
        }
        Ok(())
    }

    fn acknowledge(&mut self) {
        let count = core::mem::take(&mut self.unacknowledged);
        if count > 0 {
            // SAFETY: the queue is alive, says `new`, and so many of its events
            // were taken.
            unsafe { (self.library.ack_cq_events)(self.cq.as_ptr(), count) };
        }
    }
}

impl AsFd for CqEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive, says `new`.
        let fd = unsafe { (*self.channel.as_ptr()).fd };
        // SAFETY: a live channel's descriptor is open.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Drop for CqEvents {
    /// The queue cannot be destroyed before its events are acknowledged.
    fn drop(&mut self) {
        self.acknowledge();
    }
}

impl fmt::Debug for CqEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqEvents")
            .field("cq", &self.cq)
            .field("unacknowledged", &self.unacknowledged)
            .finish_non_exhaustive()
    }
}

// SAFETY: verbs objects may be used from any thread; this value is the only one
// that reads the channel.
unsafe impl Send for CqEvents {}
// SAFETY: through a shared reference only the descriptor can be had.
unsafe impl Sync for CqEvents {}

impl<O> Ring<'_, VerbsQp<O>> {
    /// As [`poll_with`](Self::poll_with), but sleeps while there is nothing, for
    /// as long as `timeout` allows. Staged work is posted first. With nothing in
    /// flight it comes back at once.
    ///
    /// Where the completion queue was created without a channel it polls busily
    /// instead.
    ///
    /// A request staged with [`Notify::OnError`](crate::Notify::OnError) ends no
    /// sleep by succeeding.
    ///
    /// # Errors
    /// As [`poll_with`](Self::poll_with) and [`doorbell`](Self::doorbell);
    /// [`Error::Provider`] if the queue could not be armed or waited for.
    pub fn poll_or_sleep(
        &mut self,
        timeout: Duration,
        mut each: impl FnMut(Completion),
    ) -> Result<usize, Error> {
        if self.staged() > 0 {
            match self.doorbell() {
                // What is in flight makes room.
                Ok(_) | Err(Error::Full { .. }) => {}
                // A dead ring still has completions to give.
                Err(Error::Failed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let end = Instant::now().checked_add(timeout);
        let mut busy = Deadline::after(timeout);
        loop {
            let given = self.poll_with(&mut each)?;
            if given > 0 || self.is_idle() {
                return Ok(given);
            }
            let Some(events) = self.provider_mut().events() else {
                if busy.more() {
                    continue;
                }
                return Ok(0);
            };
            events.arm().map_err(Error::Provider)?;
            let given = self.poll_with(&mut each)?;
            if given > 0 || self.is_idle() {
                return Ok(given);
            }
            let left = end.map_or(LOOK_EVERY, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(0);
            }
            let Some(events) = self.provider_mut().events() else {
                return Ok(0);
            };
            events.wait(left.min(LOOK_EVERY)).map_err(Error::Provider)?;
        }
    }
}

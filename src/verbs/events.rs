//! The asynchronous events of a device: what happens to a queue pair that no
//! completion tells of.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ffi::c_int;
use core::fmt;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use rdma_sys::{ibv_context, ibv_cq, ibv_event_type as event, ibv_qp};
use rustix::fs::OFlags;

use crate::error::{DeviceFault, Errno};
use crate::verbs::fault_cell::FaultCell;
use crate::verbs::library::{AsyncEvent, LIBIBVERBS, Library};

/// The event queue of one context, and who wants to hear of what.
///
/// It has no thread of its own: whoever waits for its descriptor to become
/// readable calls [`drain`](Self::drain). A fault ends in the [`FaultCell`] of
/// each queue pair that it concerns, which the ring reads when a poll gives
/// nothing.
///
/// There must be one per context, since each event is given once.
pub(crate) struct AsyncEvents {
    context: NonNull<ibv_context>,
    library: &'static Library,
    routes: Arc<Mutex<Routes>>,
}

// SAFETY: libibverbs' calls on a context may be made from any thread; the routes
// are behind a lock.
unsafe impl Send for AsyncEvents {}
// SAFETY: as above.
unsafe impl Sync for AsyncEvents {}

#[derive(Default)]
struct Routes {
    next: u64,
    all: Vec<Entry>,
}

struct Entry {
    id: u64,
    qp: u64,
    cq: u64,
    /// 0 where the port does not matter.
    port: u8,
    fault: FaultCell,
}

/// One queue pair's way to its events, until it is dropped.
#[must_use]
pub(crate) struct Route {
    routes: Arc<Mutex<Routes>>,
    id: u64,
}

impl AsyncEvents {
    /// Takes over the events of a context, whose descriptor is made
    /// non-blocking.
    ///
    /// # Errors
    /// The errno of `fcntl`.
    ///
    /// # Safety
    /// The context is open and stays so for as long as this value lives.
    pub(crate) unsafe fn new(context: NonNull<ibv_context>) -> Result<Self, Errno> {
        // SAFETY: this function's own condition.
        unsafe { Self::with_library(context, &LIBIBVERBS) }
    }

    /// As [`new`](Self::new), for a context that is not libibverbs' own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Safety
    /// As [`new`](Self::new), and the context is one of that library.
    pub(in crate::verbs) unsafe fn with_library(
        context: NonNull<ibv_context>,
        library: &'static Library,
    ) -> Result<Self, Errno> {
        let events = AsyncEvents { context, library, routes: Arc::default() };
        set_nonblocking(events.as_fd())?;
        Ok(events)
    }

    /// Sends what happens to this queue pair, its completion queue, its port
    /// (any, where it is 0: then port events are not told) and its device to a
    /// cell. Drop the route before the queue pair is destroyed.
    pub(crate) fn route(
        &self,
        qp: *const ibv_qp,
        cq: *const ibv_cq,
        port: u8,
        fault: FaultCell,
    ) -> Route {
        let mut routes = lock(&self.routes);
        let id = routes.next;
        routes.next += 1;
        let (qp, cq) = (qp.addr() as u64, cq.addr() as u64);
        routes.all.push(Entry { id, qp, cq, port, fault });
        Route { routes: Arc::clone(&self.routes), id }
    }

    /// Takes every event that is there, tells whom it concerns, acknowledges it,
    /// and says how many there were.
    ///
    /// # Errors
    /// The errno of the read, `EAGAIN` apart. The device is gone then.
    pub(crate) fn drain(&self) -> Result<usize, Errno> {
        // A bound, so that a storm of events cannot hold the caller for ever.
        const MOST: usize = 4096;
        for count in 0..MOST {
            // SAFETY: the context is open, says `new`, and non-blocking.
            let next = unsafe { (self.library.next_async_event)(self.context.as_ptr()) };
            let mut event = match next {
                Ok(event) => event,
                Err(Errno::EAGAIN) => return Ok(count),
                // A signal; the next drain goes on.
                Err(Errno(libc::EINTR)) => return Ok(count),
                Err(errno) => return Err(errno),
            };
            tell(&lock(&self.routes), &event);
            // SAFETY: it was just taken, and is acknowledged this once.
            unsafe { (self.library.ack_async_event)(&mut event) };
        }
        Ok(MOST)
    }

    /// Tells every queue pair of the context that its device is gone.
    pub(crate) fn device_is_gone(&self) {
        lock(&self.routes).all.iter().for_each(|entry| entry.fault.set(DeviceFault::Device));
    }
}

impl AsFd for AsyncEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, says `new`.
        let fd = unsafe { (*self.context.as_ptr()).async_fd };
        // SAFETY: an open context's event descriptor is open.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl fmt::Debug for AsyncEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncEvents")
            .field("context", &self.context)
            .field("routes", &lock(&self.routes).all.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        lock(&self.routes).all.retain(|entry| entry.id != self.id);
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("id", &self.id).finish_non_exhaustive()
    }
}

const CQ_ERR: c_int = event::IBV_EVENT_CQ_ERR as c_int;
const QP_FATAL: c_int = event::IBV_EVENT_QP_FATAL as c_int;
const QP_REQ_ERR: c_int = event::IBV_EVENT_QP_REQ_ERR as c_int;
const QP_ACCESS_ERR: c_int = event::IBV_EVENT_QP_ACCESS_ERR as c_int;
const PATH_MIG_ERR: c_int = event::IBV_EVENT_PATH_MIG_ERR as c_int;
const DEVICE_FATAL: c_int = event::IBV_EVENT_DEVICE_FATAL as c_int;
const PORT_ERR: c_int = event::IBV_EVENT_PORT_ERR as c_int;

fn tell(routes: &Routes, event: &AsyncEvent) {
    let (fault, concerns): (DeviceFault, &dyn Fn(&Entry) -> bool) = match event.kind {
        CQ_ERR => (DeviceFault::CompletionQueue, &|entry| entry.cq == event.element),
        QP_FATAL | QP_REQ_ERR | QP_ACCESS_ERR | PATH_MIG_ERR => {
            (DeviceFault::QueuePair, &|entry| entry.qp == event.element)
        }
        DEVICE_FATAL => (DeviceFault::Device, &|_| true),
        PORT_ERR => (DeviceFault::Port, &|entry| u32::from(entry.port) == port(event)),
        // Established, drained, migrated, port up, table changes: no fault.
        _ => return,
    };
    for entry in routes.all.iter().filter(|entry| concerns(entry)) {
        entry.fault.set(fault);
    }
}

/// The port's number is an `int` at the union's start.
fn port(event: &AsyncEvent) -> u32 {
    let [a, b, c, d, ..] = event.element.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

pub(in crate::verbs) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(fd).map_err(|error| Errno(error.raw_os_error()))?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)
        .map_err(|error| Errno(error.raw_os_error()))
}

/// Whoever panicked with the lock held left nothing half done.
fn lock(routes: &Mutex<Routes>) -> MutexGuard<'_, Routes> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    /// The cells of two queue pairs: the first has completion queue 0x10 and
    /// port 1, the second completion queue 0x20 and port 2.
    fn told(kind: c_int, element: u64) -> [Option<DeviceFault>; 2] {
        let events = AsyncEvents {
            context: NonNull::dangling(),
            library: &LIBIBVERBS,
            routes: Arc::default(),
        };
        let cells = [FaultCell::default(), FaultCell::default()];
        let at = |address| ptr::without_provenance::<ibv_qp>(address);
        let _first = events.route(at(0x1), at(0x10).cast(), 1, cells[0].clone());
        let _second = events.route(at(0x2), at(0x20).cast(), 2, cells[1].clone());
        drop(events.route(at(0x2), at(0x20).cast(), 2, FaultCell::default()));
        tell(&lock(&events.routes), &AsyncEvent { element, kind });
        cells.map(|cell| cell.get())
    }

    #[test]
    fn each_event_reaches_the_queue_pairs_that_it_concerns_and_no_other() {
        assert_eq!(told(CQ_ERR, 0x20), [None, Some(DeviceFault::CompletionQueue)]);
        for kind in [QP_FATAL, QP_REQ_ERR, QP_ACCESS_ERR, PATH_MIG_ERR] {
            assert_eq!(told(kind, 0x1), [Some(DeviceFault::QueuePair), None]);
        }
        assert_eq!(told(PORT_ERR, 1), [Some(DeviceFault::Port), None]);
        // What lies behind the port's number in the union is not looked at.
        assert_eq!(told(PORT_ERR, 0xdead_0000_0002), [None, Some(DeviceFault::Port)]);
        let device = Some(DeviceFault::Device);
        assert_eq!(told(DEVICE_FATAL, 0), [device, device]);
    }

    #[test]
    fn an_event_that_is_no_fault_is_told_to_nobody() {
        let harmless = [
            event::IBV_EVENT_COMM_EST as c_int,
            event::IBV_EVENT_SQ_DRAINED as c_int,
            event::IBV_EVENT_QP_LAST_WQE_REACHED as c_int,
            event::IBV_EVENT_PORT_ACTIVE as c_int,
            event::IBV_EVENT_GID_CHANGE as c_int,
            // A number of a library newer than the headers.
            1000,
            -1,
        ];
        for kind in harmless {
            assert_eq!(told(kind, 0x1), [None, None], "{kind}");
        }
    }

    #[test]
    fn the_first_fault_stays() {
        let cell = FaultCell::default();
        cell.set(DeviceFault::Port);
        cell.set(DeviceFault::Device);
        assert_eq!(cell.get(), Some(DeviceFault::Port));
    }
}

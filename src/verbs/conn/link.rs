//! The shared parts of a connection: its id, its queues, and the watch over it.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::boxed::Box;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rdma_sys::rdma_cm_event_type as kind;

use super::channel::Event;
use super::connection::ConnEvent;
use super::error::{Cause, ConnError, Step};
use super::id::Id;
use super::queues::Queues;
use super::watch::Watch;
use crate::error::DeviceFault;
use crate::verbs::device::Device;
use crate::verbs::events::Route;
use crate::verbs::fault_cell::FaultCell;
use crate::verbs::memory::Pages;
use crate::verbs::mr::Mr;

/// One end of a connection: the id, and what has happened to it.
#[derive(Debug)]
pub(super) struct Endpoint {
    id: Id,
    fault: FaultCell,
    inbox: Mutex<Inbox>,
    came: Condvar,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Inbox {
    events: VecDeque<ConnEvent>,
    woken: bool,
}

impl Endpoint {
    pub(super) fn new(id: Id) -> Arc<Self> {
        let fault = FaultCell::default();
        let inbox = Mutex::default();
        let (came, ended) = (Condvar::new(), AtomicBool::new(false));
        Arc::new(Endpoint { id, fault, inbox, came, ended })
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    pub(super) fn fault(&self) -> &FaultCell {
        &self.fault
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the wait of another thread, or else the next one.
    pub(super) fn wake(&self) {
        self.inbox().woken = true;
        self.came.notify_all();
    }

    /// Waits for an event.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Result<ConnEvent, Cause> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut inbox = self.inbox();
        loop {
            if let Some(event) = inbox.events.pop_front() {
                return Ok(event);
            }
            if core::mem::take(&mut inbox.woken) {
                return Err(Cause::Woken);
            }
            inbox = match deadline {
                None => self.came.wait(inbox).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Cause::TimedOut(timeout.unwrap_or_default()));
                    }
                    let waited = self.came.wait_timeout(inbox, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Takes in every event that is there. Runs on the watching thread.
    fn take_events(&self) -> ControlFlow<()> {
        loop {
            match self.id.channel().try_next() {
                Ok(Some(event)) => self.take(&event),
                Ok(None) => return ControlFlow::Continue(()),
                // The channel itself is broken: nothing will ever be told again.
                Err(errno) => {
                    self.end(ConnEvent::Lost(errno));
                    return ControlFlow::Break(());
                }
            }
        }
    }

    fn take(&self, event: &Event) {
        match event.kind {
            kind::RDMA_CM_EVENT_DISCONNECTED => self.end(ConnEvent::Closed),
            kind::RDMA_CM_EVENT_DEVICE_REMOVAL => self.end(ConnEvent::DeviceRemoved),
            kind::RDMA_CM_EVENT_ADDR_CHANGE => self.tell(ConnEvent::AddressChanged),
            // The end of the time in which the queue pair's number rests.
            kind::RDMA_CM_EVENT_TIMEWAIT_EXIT => {}
            _ => self.end(ConnEvent::Lost(event.errno())),
        }
    }

    fn end(&self, event: ConnEvent) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        // The kernel leaves the queue pair as it is. This puts it into the error
        // state, so that everything pending is flushed. It fails where the
        // connection is past that already.
        let _ = self.id.disconnect();
        // Only now: a ring that sees the fault polls once more, and what has
        // succeeded is then in its completion queue.
        self.fault.set(DeviceFault::Connection);
        self.tell(event);
    }

    fn tell(&self, event: ConnEvent) {
        self.inbox().events.push_back(event);
        self.came.notify_all();
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An established connection's parts, in the order in which they go: first the
/// watch and the route, so that nobody handles its events any more, then the
/// queues, then the memory that they used, last the id.
#[derive(Debug)]
pub(super) struct Link {
    _watch: Watch,
    _route: Option<Route>,
    _queues: Queues,
    _scratch: Mr<Pages>,
    end: Arc<Endpoint>,
}

impl Link {
    /// Puts an established connection under watch.
    pub(super) fn new(
        end: &Arc<Endpoint>,
        queues: Queues,
        scratch: Mr<Pages>,
        device: &Device,
        port: u8,
    ) -> Result<Self, ConnError> {
        let failed = |errno| ConnError::new(Step::Open, Cause::Os(errno));
        let events = device.events().map_err(failed)?;
        let (cq, fault) = (queues.cq().as_ptr(), end.fault.clone());
        let route = end.id.qp().map(|qp| events.route(qp.as_ptr(), cq, port, fault));
        let watched = Arc::clone(end);
        let handler = Box::new(move || watched.take_events());
        let watch = Watch::new(end.id().channel().as_fd(), handler).map_err(failed)?;
        let end = Arc::clone(end);
        Ok(Link { _watch: watch, _route: route, _queues: queues, _scratch: scratch, end })
    }

    pub(super) fn end(&self) -> &Arc<Endpoint> {
        &self.end
    }
}

//! One thread that waits for what nobody polls for.
//!
//! A ring polls its completion queue in user space, without system calls, and
//! would never learn that its peer is gone: no completion says so. So one
//! thread of the process sleeps on the event channels of all connections and on
//! the devices' event queues, and tells the rings through a flag that costs them
//! one load.
//!
//! The thread starts with the first connection and stays: it sleeps in the
//! kernel until something happens.

use core::ops::ControlFlow;
use std::boxed::Box;
use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use rustix::event::epoll;

use crate::error::Errno;
use crate::verbs::errno::to_errno;

/// Called when the descriptor is readable; [`ControlFlow::Break`] ends it.
type Handler = Box<dyn FnMut() -> ControlFlow<()> + Send>;

#[derive(Default)]
struct Entries {
    next: u64,
    watched: HashMap<u64, Watched>,
}

struct Watched {
    /// A descriptor of our own: whoever closes theirs cannot make ours another
    /// file's.
    fd: OwnedFd,
    handler: Handler,
}

struct Watcher {
    epoll: OwnedFd,
    /// Held while a handler runs, so that ending a watch waits for it.
    entries: Mutex<Entries>,
}

static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);

/// A descriptor that is being watched, until this is dropped. Its handler does
/// not run any more when the drop returns.
///
/// It must be dropped before the descriptor is closed, and a handler must not
/// drop or make one.
pub(in crate::verbs) struct Watch {
    watcher: Arc<Watcher>,
    token: u64,
}

impl core::fmt::Debug for Watch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Watch").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Watch {
    /// Calls `handler` on the watching thread whenever `fd` is readable.
    pub(in crate::verbs) fn new(fd: BorrowedFd<'_>, handler: Handler) -> Result<Self, Errno> {
        let watcher = running()?;
        let fd = fd.try_clone_to_owned().map_err(|error| os_errno(&error))?;
        let mut entries = lock(&watcher.entries);
        entries.next += 1;
        let token = entries.next;
        let data = epoll::EventData::new_u64(token);
        epoll::add(&watcher.epoll, &fd, data, epoll::EventFlags::IN).map_err(to_errno)?;
        entries.watched.insert(token, Watched { fd, handler });
        drop(entries);
        Ok(Watch { watcher, token })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let watched = lock(&self.watcher.entries).watched.remove(&self.token);
        if let Some(watched) = watched {
            // It fails only where the handler had ended the watch itself.
            let _ = epoll::delete(&self.watcher.epoll, &watched.fd);
        }
        // What the handler owns is dropped here, with no lock held.
    }
}

fn running() -> Result<Arc<Watcher>, Errno> {
    let mut global = lock(&WATCHER);
    if let Some(watcher) = &*global {
        return Ok(Arc::clone(watcher));
    }
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(to_errno)?;
    let watcher = Arc::new(Watcher { epoll, entries: Mutex::default() });
    let thread = Arc::clone(&watcher);
    std::thread::Builder::new()
        .name("farword-watch".into())
        .spawn(move || run(&thread))
        .map_err(|error| os_errno(&error))?;
    *global = Some(Arc::clone(&watcher));
    Ok(watcher)
}

fn run(watcher: &Watcher) {
    const AT_ONCE: usize = 16;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(AT_ONCE);
    loop {
        events.clear();
        let waited = epoll::wait(&watcher.epoll, rustix::buffer::spare_capacity(&mut events), None);
        // A signal ends a wait early. No other error is possible with a
        // descriptor that is ours.
        debug_assert!(matches!(waited, Ok(_) | Err(rustix::io::Errno::INTR)));
        for event in &events {
            handle(watcher, event.data.u64());
        }
    }
}

fn handle(watcher: &Watcher, token: u64) {
    let mut entries = lock(&watcher.entries);
    let Some(watched) = entries.watched.get_mut(&token) else {
        return;
    };
    if (watched.handler)().is_break() {
        // It may stay readable, and would be reported again and again.
        let _ = epoll::delete(&watcher.epoll, &watched.fd);
    }
}

/// A handler that panicked leaves nothing half done that matters here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn os_errno(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))
}

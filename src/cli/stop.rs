//! Stopping on SIGINT or SIGTERM: what is under way ends, and what was done so
//! far is reported. A second signal ends the process on the spot.

#![cfg_attr(not(feature = "verbs"), allow(dead_code, reason = "connections alone are woken"))]

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The exit code of a job that was stopped half-way, as shells have it.
pub(super) const EXIT_CODE: u8 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Called when a stop is requested.
static WAKERS: Mutex<Wakers> = Mutex::new(Wakers { next: 0, all: BTreeMap::new() });

struct Wakers {
    next: u64,
    all: BTreeMap<u64, Box<dyn Fn() + Send>>,
}

/// A waker that is to be called when a stop is requested, until this is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Wake(u64);

impl Drop for Wake {
    fn drop(&mut self) {
        let waker = wakers().all.remove(&self.0);
        // What it owns is dropped here, with no lock held.
        drop(waker);
    }
}

/// The read end of a pipe that ends when a stop is requested.
static PIPE: OnceLock<OwnedFd> = OnceLock::new();

/// From here on, signals request a stop.
pub(super) fn listen() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen for signals")?;
    let (reader, writer) = rustix::pipe::pipe().context("cannot make a pipe")?;
    let _ = PIPE.set(reader);
    let run = move || {
        let mut writer = Some(writer);
        for _ in signals.forever() {
            if REQUESTED.swap(true, Ordering::AcqRel) {
                std::process::exit(EXIT_CODE.into());
            }
            writer = None;
            for wake in wakers().all.values() {
                wake();
            }
        }
        drop(writer);
    };
    thread::Builder::new().name("signals".into()).spawn(run).context("cannot start a thread")?;
    Ok(())
}

/// Whether a stop was requested.
pub(super) fn requested() -> bool {
    REQUESTED.load(Ordering::Acquire)
}

/// Calls `wake` when a stop is requested, or now if one was.
pub(super) fn wake_with(wake: impl Fn() + Send + 'static) -> Wake {
    let mut wakers = wakers();
    if requested() {
        wake();
    }
    let number = wakers.next;
    wakers.next += 1;
    wakers.all.insert(number, Box::new(wake));
    Wake(number)
}

fn wakers() -> MutexGuard<'static, Wakers> {
    WAKERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reader that is at its end once a stop was requested, also while it waits.
#[derive(Debug)]
pub(super) struct UntilStop<R>(pub(super) R);

impl<R: std::io::Read + std::os::fd::AsFd> std::io::Read for UntilStop<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if let Some(pipe) = PIPE.get() {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN), PollFd::new(pipe, PollFlags::IN)];
            poll(&mut fds, None)?;
        }
        if requested() {
            return Ok(0);
        }
        self.0.read(into)
    }
}

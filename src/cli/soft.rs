//! The software device, for subcommands that run on it: engines, and memory to
//! register.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use anyhow::anyhow;
use clap::ValueEnum;
use serde::Serialize;

/// Which engine carries out what is posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Engine {
    /// On the caller's own thread, at the doorbell: deterministic, the least
    /// overhead.
    #[default]
    Inline,
    /// On a thread of its own, as a network card does: posting and completion
    /// cross between two cores.
    Threaded,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Inline => "inline",
            Engine::Threaded => "threaded",
        })
    }
}

/// `size` bytes of zeroed words. Pages that are never touched cost nothing.
///
/// # Errors
/// Where there is not so much memory.
pub(super) fn memory(size: u64, what: &str) -> anyhow::Result<Box<[AtomicU64]>> {
    usize::try_from(size.div_ceil(8))
        .ok()
        .and_then(|words| bytemuck::allocation::try_zeroed_slice_box(words).ok())
        .ok_or_else(|| anyhow!("there is no memory for {what} of {size} bytes"))
}

/// Touches the first `bytes` of zeroed memory, so that what is measured later
/// does not wait for pages: registering memory with a real device pins them.
pub(super) fn touch(memory: &[AtomicU64], bytes: u64) {
    const PAGE: usize = 4096 / 8;
    for page in memory.chunks(PAGE).take(bytes.div_ceil(4096) as usize) {
        page[0].store(0, Ordering::Relaxed);
    }
}

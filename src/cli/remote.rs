//! Reading the remote side's memory, to check what was written there.

use core::sync::atomic::AtomicU64;
use core::time::Duration;

use anyhow::{Context, bail};
use farword::soft::load_bytes;
use farword::{Deadline, LocalSlice, Notify, OpContext, Provider, RemoteRegion, Ring};

/// A way to read the remote side's memory.
pub(super) trait ReadBack {
    /// Fills `into` with the bytes from `offset` on.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()>;
}

/// Reads over a ring, into registered memory.
#[derive(Debug)]
pub(super) struct RingReader<'m, P> {
    ring: Ring<'m, P>,
    region: RemoteRegion,
    memory: &'m [AtomicU64],
    local: LocalSlice,
}

/// How long one read may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl<'m, P: Provider> RingReader<'m, P> {
    /// Over `ring`, from `region`, through `memory`, which `local` registers.
    pub(super) fn new(
        ring: Ring<'m, P>,
        region: RemoteRegion,
        memory: &'m [AtomicU64],
        local: LocalSlice,
    ) -> Self {
        RingReader { ring, region, memory, local }
    }
}

impl<P: Provider> ReadBack for RingReader<'_, P> {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
        let mut at = offset;
        for chunk in into.chunks_mut(self.local.len() as usize) {
            let len = chunk.len() as u64;
            let (remote, local) = (self.region.span(at, len)?, self.local.slice(0, len)?);
            let ticket = self.ring.read(local, remote, Notify::Always, OpContext::new(at))?;
            self.ring.wait(ticket, Deadline::after(PATIENCE), |_| {}).with_context(|| {
                format!("cannot read {len} bytes of the remote side from byte {at} on")
            })?;
            if load_bytes(self.memory, 0, chunk) != chunk.len() {
                bail!("{len} bytes do not fit the memory that is read into");
            }
            at += len;
        }
        Ok(())
    }
}

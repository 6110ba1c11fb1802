//! Registered memory.

#![allow(unsafe_code, reason = "memory is made known to a device")]

use core::fmt;
use core::sync::atomic::AtomicU64;

use rdma_sys::ibv_access_flags as access;
use rustix::process::{Resource, getrlimit};

use crate::error::Errno;
use crate::region::{LocalSlice, RemoteRegion, Usage};
use crate::verbs::device::{DeviceCapabilities, DeviceError, DeviceStep};
use crate::verbs::ffi::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT};
use crate::verbs::memory::{Memory, Pages};
use crate::verbs::pd::Pd;
use crate::verbs::registration::Registration;

/// Registered memory, and whoever keeps it.
///
/// While it lives, peers that were told of it (by [`remote`](Self::remote)) may
/// reach it as its usage allows. It is seen as atomic words, so that reading
/// what a peer writes is sound. Dropping it takes the rights back: a peer's
/// later request fails with a remote access error.
///
/// ```no_run
/// use farword::Usage;
/// use farword::verbs::{Device, Mr, Pd};
///
/// let pd = Pd::new(&Device::open_by_name("rxe0")?)?;
/// let log = Mr::alloc(&pd, 1 << 20, Usage::WRITE_DST | Usage::READ_SRC)?;
/// farword::log::format(log.words())?;
/// let to_be_sent = log.remote().to_descriptor();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Memory that is borrowed cannot be let go while it is registered:
///
/// ```compile_fail
/// # use core::sync::atomic::AtomicU64;
/// # use farword::verbs::{Mr, Pd};
/// # fn registered(pd: &Pd) -> Mr<&'static [AtomicU64]> {
/// let memory = vec![AtomicU64::new(0)];
/// Mr::register(pd, &memory[..], farword::Usage::WRITE_DST).unwrap()
/// # }
/// ```
pub struct Mr<M = Pages> {
    // Deregistered first, by `Registration`'s own drop.
    registration: Registration,
    pd: Pd,
    usage: Usage,
    memory: M,
}

impl Mr<Pages> {
    /// Allocates page-aligned memory, zeroed, and registers it.
    ///
    /// # Errors
    /// As [`register`](Self::register), and [`DeviceError::Memory`].
    pub fn alloc(pd: &Pd, bytes: usize, usage: Usage) -> Result<Self, DeviceError> {
        Self::register(pd, Pages::zeroed(bytes)?, usage)
    }
}

impl<M: Memory> Mr<M> {
    /// Registers memory and keeps it.
    ///
    /// Usage becomes rights as in librpma. Relaxed ordering is never among
    /// them: it would let a published word overtake the data that it publishes.
    /// Where the memory cannot be pinned (EOPNOTSUPP, as for a DAX file) and the
    /// device has on-demand paging, it is registered so.
    ///
    /// # Errors
    /// [`DeviceError::Empty`], [`DeviceError::NoUsage`];
    /// [`DeviceError::MemoryLocked`] names the limit that was in the way;
    /// [`DeviceError::NotPersistent`] for [`Usage::FLUSH_PERSISTENT`] of memory
    /// that is not, where the device knows the difference: one that has FLUSH
    /// to persistence. [`DeviceError::Os`] for all else.
    pub fn register(pd: &Pd, memory: M, usage: Usage) -> Result<Self, DeviceError> {
        let words = memory.words();
        let (first, len) = (words.as_ptr(), size_of_val(words));
        if len == 0 {
            return Err(DeviceError::Empty);
        }
        if usage == Usage::NONE {
            return Err(DeviceError::NoUsage);
        }
        let (domain, first) = (pd.raw(), first.cast_mut().cast());
        let device = pd.device().capabilities();
        let register = |usage| {
            // SAFETY: the domain is alive, and kept until the registration is
            // gone; the memory is `len` bytes long, is seen by everybody as
            // atomics, and by `Memory`'s contract stays until `memory` is
            // dropped, which is after the registration ends.
            unsafe { Registration::new(domain, first, len, usage, device) }
        };
        match register(usage) {
            Ok(registration) => Ok(Mr { registration, pd: pd.clone(), usage, memory }),
            // Is it that right which is in the way? Nothing else says so.
            Err(Errno::EINVAL)
                if device.native_flush_persistent
                    && usage.contains(Usage::FLUSH_PERSISTENT)
                    && register(without_persistence(usage)).is_ok() =>
            {
                Err(DeviceError::NotPersistent { device: pd.device().name() })
            }
            Err(errno) => Err(refused(pd, len as u64, errno)),
        }
    }

    /// The memory.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.memory.words()
    }

    /// Ends the registration and gives its memory back.
    pub fn into_memory(self) -> M {
        self.memory
    }

    /// The region as a peer is told of it.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion::new(self.base(), self.size(), self.rkey(), self.usage)
    }

    /// The memory as this side's own requests name it.
    #[must_use]
    pub fn local(&self) -> LocalSlice {
        LocalSlice::new(self.base(), self.size(), self.lkey())
    }

    fn base(&self) -> u64 {
        self.words().as_ptr().expose_provenance() as u64
    }

    fn size(&self) -> u64 {
        size_of_val(self.words()) as u64
    }
}

impl<M> Mr<M> {
    /// What it may be used for.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The key that peers name.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.registration.rkey()
    }

    /// The key that this side's own requests name.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.registration.lkey()
    }

    /// Its protection domain.
    #[must_use]
    pub fn pd(&self) -> &Pd {
        &self.pd
    }

    /// Whether peers may use the FLUSH operation on it, for every kind of flush
    /// among its usage: tell them, by
    /// [`Announcement::with_native_flush`](crate::log::Announcement::with_native_flush)
    /// for a log. Where it is not so, they flush by reads.
    #[must_use]
    pub fn grants_native_flush(&self) -> bool {
        let can = self.pd().device().capabilities();
        let kinds = [
            (Usage::FLUSH_VISIBILITY, can.native_flush_visibility),
            (Usage::FLUSH_PERSISTENT, can.native_flush_persistent),
        ];
        let mut asked =
            kinds.into_iter().filter(|(usage, _)| self.usage.contains(*usage)).peekable();
        asked.peek().is_some() && asked.all(|(_, native)| native)
    }

    /// What was registered, as it was given.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.memory
    }
}

impl<M> fmt::Debug for Mr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr")
            .field("usage", &self.usage)
            .field("rkey", &format_args!("{:#x}", self.rkey()))
            .field("pd", self.pd())
            .finish_non_exhaustive()
    }
}

/// The rights that a usage needs, as librpma maps them.
pub(super) fn access_flags(usage: Usage, capabilities: &DeviceCapabilities) -> u32 {
    let has = |bit| usage.contains(bit);
    let mut rights = 0;
    if has(Usage::READ_SRC) {
        rights |= access::IBV_ACCESS_REMOTE_READ.0;
    }
    if has(Usage::READ_DST) {
        rights |= access::IBV_ACCESS_LOCAL_WRITE.0;
        // iWARP carries a read's answer as a write from the other side.
        if capabilities.iwarp {
            rights |= access::IBV_ACCESS_REMOTE_WRITE.0;
        }
    }
    if has(Usage::WRITE_SRC) {
        rights |= access::IBV_ACCESS_LOCAL_WRITE.0;
    }
    if has(Usage::WRITE_DST) {
        rights |= access::IBV_ACCESS_REMOTE_WRITE.0 | access::IBV_ACCESS_LOCAL_WRITE.0;
    }
    if has(Usage::FLUSH_VISIBILITY) {
        // A flush is emulated by a read where the device, or the peer's
        // library, has no FLUSH; so the right to read is always there.
        rights |= access::IBV_ACCESS_REMOTE_READ.0;
        if capabilities.native_flush_visibility {
            rights |= ACCESS_FLUSH_GLOBAL;
        }
    }
    if has(Usage::FLUSH_PERSISTENT) {
        rights |= access::IBV_ACCESS_REMOTE_READ.0;
        if capabilities.native_flush_persistent {
            rights |= ACCESS_FLUSH_PERSISTENT;
        }
    }
    if has(Usage::RECV) {
        rights |= access::IBV_ACCESS_LOCAL_WRITE.0;
    }
    rights
}

/// The usage without flushes to persistence, and never none.
fn without_persistence(usage: Usage) -> Usage {
    Usage::from_bits(usage.bits() & !Usage::FLUSH_PERSISTENT.bits()) | Usage::READ_SRC
}

fn refused(pd: &Pd, asked: u64, errno: Errno) -> DeviceError {
    let device = pd.device().name();
    match (errno, getrlimit(Resource::Memlock).current) {
        (Errno::ENOMEM, Some(limit)) => DeviceError::MemoryLocked { device, asked, limit },
        _ => DeviceError::os(DeviceStep::Register, device, errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL_WRITE: u32 = 1;
    const REMOTE_WRITE: u32 = 2;
    const REMOTE_READ: u32 = 4;
    /// CASES 13: what a target must never be registered with.
    const RELAXED_ORDERING: u32 = access::IBV_ACCESS_RELAXED_ORDERING.0;

    #[test]
    fn usage_becomes_rights_as_in_librpma() {
        let plain = DeviceCapabilities::default();
        for (usage, rights) in [
            (Usage::READ_SRC, REMOTE_READ),
            (Usage::READ_DST, LOCAL_WRITE),
            (Usage::WRITE_SRC, LOCAL_WRITE),
            (Usage::WRITE_DST, LOCAL_WRITE | REMOTE_WRITE),
            (Usage::FLUSH_VISIBILITY, REMOTE_READ),
            (Usage::FLUSH_PERSISTENT, REMOTE_READ),
            (Usage::SEND, 0),
            (Usage::RECV, LOCAL_WRITE),
        ] {
            assert_eq!(access_flags(usage, &plain), rights, "{usage}");
        }
    }

    #[test]
    fn on_iwarp_the_target_of_a_read_is_written_from_afar() {
        let iwarp = DeviceCapabilities { iwarp: true, ..DeviceCapabilities::default() };
        assert_eq!(access_flags(Usage::READ_DST, &iwarp), LOCAL_WRITE | REMOTE_WRITE);
        assert_eq!(access_flags(Usage::WRITE_SRC, &iwarp), LOCAL_WRITE);
    }

    #[test]
    fn no_usage_on_any_device_asks_for_relaxed_ordering() {
        let everything = DeviceCapabilities {
            native_atomic_write: true,
            native_flush_visibility: true,
            native_flush_persistent: true,
            on_demand_paging: true,
            iwarp: true,
            ..DeviceCapabilities::default()
        };
        for bits in 0..=u8::MAX {
            let rights = access_flags(Usage::from_bits(bits), &everything);
            assert_eq!(rights & RELAXED_ORDERING, 0);
        }
    }
}

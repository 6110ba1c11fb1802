//! Registered memory, and a peer's memory as its descriptor tells of it.

use core::ffi::{c_int, c_void};
use core::slice;

use super::{E_NOSUPP, Failure, INVAL, Owned, PROVIDER, Peer, answer, get, place, take};
use crate::error::Invalid;
use crate::region::{LocalSlice, RemoteRegion, Usage};
use crate::verbs::{DeviceCapabilities, Registration, Remote, advise_mr};
use crate::wr::Sge;

/// `struct rpma_mr_local`.
#[derive(Debug)]
pub struct MrLocal {
    registration: Registration,
    usage: Usage,
}

impl MrLocal {
    /// The element for `len` bytes from `offset` on. Neither is checked: the
    /// device does, by the key.
    pub(super) fn element(&self, offset: usize, len: usize) -> Sge {
        let base = self.registration.range().0.addr();
        // As C has it, the length's upper half is lost.
        Sge {
            addr: base.wrapping_add(offset) as u64,
            length: len as u32,
            lkey: self.registration.lkey(),
        }
    }
}

impl MrLocal {
    /// Where the memory is, and how many bytes it has.
    pub(super) fn memory(&self) -> (*mut c_void, usize) {
        self.registration.range()
    }

    /// All of it, as requests name it.
    pub(super) fn whole(&self) -> LocalSlice {
        let (first, len) = self.registration.range();
        LocalSlice::new(first.addr() as u64, len as u64, self.registration.lkey())
    }
}

/// `struct rpma_mr_remote`.
#[derive(Debug)]
pub struct MrRemote {
    pub(super) region: RemoteRegion,
}

impl MrRemote {
    /// The place `offset` bytes behind the base, which is not checked.
    pub(super) fn at(&self, offset: usize) -> Remote {
        let address = self.region.base().wrapping_add(offset as u64);
        Remote { address, rkey: self.region.rkey() }
    }
}

/// Registers memory.
///
/// # Safety
/// As the [module](super) says; the memory is `size` bytes long, stays while it
/// is registered, and may be changed by peers as its usage allows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_reg(
    peer: *mut Peer,
    ptr: *mut c_void,
    size: usize,
    usage: c_int,
    mr_ptr: *mut *mut MrLocal,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let peer = unsafe { get(peer) }?;
        let (memory, into) = (place(ptr)?, place(mr_ptr)?);
        let usage = match u8::try_from(usage) {
            Ok(bits) if bits != 0 && size != 0 => Usage::from_bits(bits),
            _ => return Err(INVAL),
        };
        let registration = register(peer, memory.as_ptr(), size, usage)?;
        let new = Owned::new(MrLocal { registration, usage })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        Ok(())
    })
}

/// Registers memory, which is `size` bytes long, says who calls.
pub(super) fn register(
    peer: &Peer,
    memory: *mut c_void,
    size: usize,
    usage: Usage,
) -> Result<Registration, Failure> {
    let pd = peer.pd.get();
    let register = |device| {
        // SAFETY: the peer keeps the domain; the memory is the caller's to let
        // peers have.
        unsafe { Registration::new(pd, memory, size, usage, device) }
    };
    let mut registered = register(&peer.device);
    if registered.is_err()
        && usage.contains(Usage::FLUSH_PERSISTENT)
        && peer.device.native_flush_persistent
    {
        // A device that flushes to persistence refuses other memory for it. Peers
        // can flush it by reads all the same, which is what librpma has.
        let native_flush_persistent = false;
        registered = register(&DeviceCapabilities { native_flush_persistent, ..peer.device });
    }
    registered.map_err(|errno| {
        log!(
            ERROR,
            c"rpma_mr_reg",
            "ibv_reg_mr of {size} bytes at {memory:p} for {usage} failed: {errno}"
        );
        PROVIDER
    })
}

/// Ends a registration.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_dereg(mr_ptr: *mut *mut MrLocal) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let Some(mr) = unsafe { take(mr_ptr) }? else {
            return Ok(());
        };
        mr.into_inner().registration.end().map_err(|errno| {
            log!(ERROR, c"rpma_mr_dereg", "ibv_dereg_mr failed: {errno}");
            PROVIDER
        })
    })
}

/// Writes the descriptor that a peer needs.
///
/// # Safety
/// As the [module](super) says; there is room for 21 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_get_descriptor(mr: *const MrLocal, desc: *mut c_void) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let mr = unsafe { get(mr) }?;
        let into = place(desc.cast::<[u8; RemoteRegion::DESCRIPTOR_LEN]>())?;
        let (memory, size) = mr.registration.range();
        let (base, rkey) = (memory.addr() as u64, mr.registration.rkey());
        let region = RemoteRegion::new(base, size as u64, rkey, mr.usage);
        // SAFETY: not null, so room for as many bytes.
        unsafe { into.write(region.to_descriptor()) };
        Ok(())
    })
}

/// Gives the descriptor's length: 21.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_get_descriptor_size(
    mr: *const MrLocal,
    desc_size: *mut usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        unsafe { get(mr) }?;
        // SAFETY: not null, so the caller's variable.
        unsafe { place(desc_size)?.write(RemoteRegion::DESCRIPTOR_LEN) };
        Ok(())
    })
}

/// Makes a remote region of a descriptor.
///
/// # Safety
/// As the [module](super) says; `desc_size` bytes may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_remote_from_descriptor(
    desc: *const c_void,
    desc_size: usize,
    mr_ptr: *mut *mut MrRemote,
) -> c_int {
    answer(|| {
        let (desc, into) = (place(desc.cast_mut().cast::<u8>())?, place(mr_ptr)?);
        let len = desc_size.min(RemoteRegion::DESCRIPTOR_LEN);
        // SAFETY: not null, so there are as many bytes.
        let bytes = unsafe { slice::from_raw_parts(desc.as_ptr(), len) };
        let region = RemoteRegion::from_descriptor(bytes).map_err(|why: Invalid| {
            log!(ERROR, c"rpma_mr_remote_from_descriptor", "{why}");
            INVAL
        })?;
        let new = Owned::new(MrRemote { region })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        log!(DEBUG, c"rpma_mr_remote_from_descriptor", "{region:?}");
        Ok(())
    })
}

/// Deletes a remote region.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_remote_delete(mr_ptr: *mut *mut MrRemote) -> c_int {
    // SAFETY: as the module says.
    answer(|| unsafe { take(mr_ptr) }.map(drop))
}

/// Gives where registered memory begins.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_get_ptr(mr: *const MrLocal, ptr: *mut *mut c_void) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let memory = unsafe { get(mr) }?.registration.range().0;
        // SAFETY: not null, so the caller's variable.
        unsafe { place(ptr)?.write(memory) };
        Ok(())
    })
}

/// Gives how many bytes are registered.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_get_size(mr: *const MrLocal, size: *mut usize) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let bytes = unsafe { get(mr) }?.registration.range().1;
        // SAFETY: not null, so the caller's variable.
        unsafe { place(size)?.write(bytes) };
        Ok(())
    })
}

/// Gives how many bytes the remote region has.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_remote_get_size(mr: *const MrRemote, size: *mut usize) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let bytes = unsafe { get(mr) }?.region.size();
        // 64-bit machines only, says the crate's root.
        // SAFETY: not null, so the caller's variable.
        unsafe { place(size)?.write(bytes as usize) };
        Ok(())
    })
}

/// Gives the flush bits of the remote region's usage.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_remote_get_flush_type(
    mr: *const MrRemote,
    flush_type: *mut c_int,
) -> c_int {
    const FLUSH: u8 = Usage::FLUSH_VISIBILITY.and(Usage::FLUSH_PERSISTENT).bits();
    answer(|| {
        // SAFETY: as the module says.
        let usage = unsafe { get(mr) }?.region.usage();
        // SAFETY: not null, so the caller's variable.
        unsafe { place(flush_type)?.write((usage.bits() & FLUSH).into()) };
        Ok(())
    })
}

/// Advises the device about a part of registered memory.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_mr_advise(
    mr: *mut MrLocal,
    offset: usize,
    len: usize,
    advice: c_int,
    flags: u32,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let mr = unsafe { get(mr) }?;
        let Sge { addr, length, lkey } = mr.element(offset, len);
        let mut element = rdma_sys::ibv_sge { addr, length, lkey };
        let advice = advice.cast_unsigned();
        let pd = place(mr.registration.pd())?;
        // SAFETY: the registration's domain is alive; the kernel checks the range.
        unsafe { advise_mr(pd, advice, flags, &mut element) }.map_err(|code| {
            log!(ERROR, c"rpma_mr_advise", "ibv_advise_mr failed: {code}");
            match code {
                // On Linux ENOTSUP is the same number.
                libc::EOPNOTSUPP => Failure(E_NOSUPP),
                libc::EFAULT | libc::EINVAL => INVAL,
                _ => PROVIDER,
            }
        })
    })
}

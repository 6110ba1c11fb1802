//! What a peer can do, and the byte that says so.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use super::{INVAL, Owned, answer, get, place, take};

/// `struct rpma_peer_cfg`.
#[derive(Debug, Default)]
pub struct PeerCfg {
    direct_write_to_pmem: AtomicBool,
}

impl PeerCfg {
    pub(super) fn direct_write_to_pmem(&self) -> bool {
        self.direct_write_to_pmem.load(Ordering::SeqCst)
    }
}

/// Makes a configuration that promises nothing.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_cfg_new(pcfg_ptr: *mut *mut PeerCfg) -> c_int {
    answer(|| {
        let into = place(pcfg_ptr)?;
        let new = Owned::new(PeerCfg::default())?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        Ok(())
    })
}

/// Deletes a configuration.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_cfg_delete(pcfg_ptr: *mut *mut PeerCfg) -> c_int {
    // SAFETY: as the module says.
    answer(|| unsafe { take(pcfg_ptr) }.map(drop))
}

/// Says whether the peer can write directly to persistent memory.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_cfg_set_direct_write_to_pmem(
    pcfg: *mut PeerCfg,
    supported: u8,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let pcfg = unsafe { get(pcfg) }?;
        pcfg.direct_write_to_pmem.store(supported != 0, Ordering::SeqCst);
        Ok(())
    })
}

/// Gives what was said.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_cfg_get_direct_write_to_pmem(
    pcfg: *const PeerCfg,
    supported: *mut bool,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let pcfg = unsafe { get(pcfg) }?;
        // SAFETY: not null, so the caller's variable.
        unsafe { place(supported)?.write(pcfg.direct_write_to_pmem()) };
        Ok(())
    })
}

/// Gives the configuration as one byte.
///
/// # Safety
/// As the [module](super) says; there is room for the byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_cfg_get_descriptor(
    pcfg: *const PeerCfg,
    desc: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let pcfg = unsafe { get(pcfg) }?;
        let byte = u8::from(pcfg.direct_write_to_pmem());
        // SAFETY: not null, so room of the caller's.
        unsafe { place(desc.cast::<u8>())?.write(byte) };
        Ok(())
    })
}

/// Gives the descriptor's length: 1.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_cfg_get_descriptor_size(
    pcfg: *const PeerCfg,
    desc_size: *mut usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        unsafe { get(pcfg) }?;
        // SAFETY: not null, so the caller's variable.
        unsafe { place(desc_size)?.write(1) };
        Ok(())
    })
}

/// Makes a configuration of a descriptor. Any byte but 0 says yes.
///
/// # Safety
/// As the [module](super) says; `desc_size` bytes may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_cfg_from_descriptor(
    desc: *const c_void,
    desc_size: usize,
    pcfg_ptr: *mut *mut PeerCfg,
) -> c_int {
    answer(|| {
        let (desc, into) = (place(desc.cast_mut().cast::<u8>())?, place(pcfg_ptr)?);
        if desc_size == 0 {
            log!(
                ERROR,
                c"rpma_peer_cfg_from_descriptor",
                "a descriptor of 0 bytes: at least 1 is due"
            );
            return Err(INVAL);
        }
        // SAFETY: not null, so at least one byte may be read.
        let supported = unsafe { desc.read() } != 0;
        let new = Owned::new(PeerCfg { direct_write_to_pmem: AtomicBool::new(supported) })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        log!(
            INFO,
            c"rpma_peer_cfg_from_descriptor",
            "the peer's direct write to persistent memory: {supported}"
        );
        Ok(())
    })
}

//! The errno of a C call, as the kernel's and the libraries' habits leave it.

#![allow(unsafe_code, reason = "the C library keeps errno")]

use std::io;

use crate::error::Errno;

/// `errno` as the last call of this thread left it.
pub(crate) fn last_errno() -> Errno {
    Errno(io::Error::last_os_error().raw_os_error().unwrap_or(Errno::EIO.0))
}

/// rustix's error as ours.
pub(crate) fn to_errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

/// Leaves an errno, as a C call does that returns −1.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: it needs nothing.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it is this thread's own, and lives as long as the thread.
    unsafe { place.write(errno.0) };
}

//! The errno of a C call, as the kernel's and the libraries' habits leave it.

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

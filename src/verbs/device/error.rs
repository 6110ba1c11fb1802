//! What opening a device, or making something of it, can fail with.

use core::fmt;
use core::net::SocketAddr;

use super::DeviceName;
use crate::error::Errno;

/// What was being done with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceStep {
    /// Opening it.
    Open,
    /// Asking what it can do.
    Query,
    /// Making a protection domain.
    ProtectionDomain,
    /// Making a completion queue.
    CompletionQueue,
    /// Making a queue pair.
    QueuePair,
    /// Registering memory.
    Register,
}

impl DeviceStep {
    fn words(self) -> &'static str {
        match self {
            DeviceStep::Open => "opening the device",
            DeviceStep::Query => "asking what it can do",
            DeviceStep::ProtectionDomain => "making a protection domain",
            DeviceStep::CompletionQueue => "making a completion queue",
            DeviceStep::QueuePair => "making a queue pair",
            DeviceStep::Register => "registering memory",
        }
    }
}

/// Why a device, or something that is made of it, could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no RDMA device, or rdma_cm cannot be opened.
    NoDevices {
        /// Why.
        errno: Errno,
    },
    /// No device has this name.
    NotFound {
        /// The name.
        name: DeviceName,
    },
    /// No device has this address or leads to it.
    NoRoute {
        /// The address.
        address: SocketAddr,
        /// Why.
        errno: Errno,
    },
    /// A call failed.
    Os {
        /// What was being done.
        step: DeviceStep,
        /// With which device.
        device: DeviceName,
        /// Why.
        errno: Errno,
    },
    /// Memory of no bytes cannot be registered.
    Empty,
    /// A region must allow something.
    NoUsage,
    /// Memory could not be pinned within the process's limit.
    MemoryLocked {
        /// The device.
        device: DeviceName,
        /// How many bytes were to be registered.
        asked: u64,
        /// The limit on locked memory (`RLIMIT_MEMLOCK`), in bytes.
        limit: u64,
    },
    /// Memory that loses what it holds cannot be flushed to persistence. A DAX
    /// mapping of persistent memory can; for all else, ask for
    /// [`Usage::FLUSH_VISIBILITY`](crate::Usage::FLUSH_VISIBILITY).
    NotPersistent {
        /// The device.
        device: DeviceName,
    },
    /// Memory could not be allocated or mapped.
    Memory {
        /// How many bytes.
        asked: u64,
        /// Why.
        errno: Errno,
    },
}

impl DeviceError {
    pub(crate) fn os(step: DeviceStep, device: DeviceName, errno: Errno) -> Self {
        DeviceError::Os { step, device, errno }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DeviceError::NoDevices { errno } => write!(
                f,
                "no RDMA device can be opened: {errno}; is there one (`rdma link`), and is the \
                 module rdma_ucm loaded?"
            ),
            DeviceError::NotFound { name } => write!(f, "no RDMA device is named {name}"),
            DeviceError::NoRoute { address, errno } => {
                write!(f, "no RDMA device has the address {} or leads there: {errno}", address.ip())
            }
            DeviceError::Os { step, device, errno } => {
                write!(f, "{} {device}: {errno}", step.words())
            }
            DeviceError::Empty => f.write_str("memory of 0 bytes cannot be registered"),
            DeviceError::NoUsage => f.write_str("usage bits are 0: a region must allow something"),
            DeviceError::MemoryLocked { device, asked, limit } => write!(
                f,
                "registering {asked} bytes with {device}: ENOMEM (12); the limit on locked \
                 memory (RLIMIT_MEMLOCK, `ulimit -l`) is {limit} bytes, and what is registered \
                 counts against it"
            ),
            DeviceError::NotPersistent { device } => write!(
                f,
                "registering memory with {device} for flushes to persistence: it is not \
                 persistent memory, or not mapped by DAX"
            ),
            DeviceError::Memory { asked, errno } => {
                write!(f, "allocating {asked} bytes to be registered: {errno}")
            }
        }
    }
}

impl core::error::Error for DeviceError {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_memory_limit_is_named_with_its_value_and_what_was_asked() {
        let error =
            DeviceError::MemoryLocked { device: "rxe0".into(), asked: 131_072, limit: 65_536 };
        let text = error.to_string();
        for part in ["RLIMIT_MEMLOCK", "131072", "65536", "rxe0"] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }

    #[test]
    fn it_stays_small() {
        assert!(size_of::<DeviceError>() <= 64, "{}", size_of::<DeviceError>());
    }
}

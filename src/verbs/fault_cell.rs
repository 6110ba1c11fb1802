//! A fault, told from one thread to another.

use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use crate::error::DeviceFault;

/// Where a watching thread leaves the fault that ends a queue pair, for the ring
/// that polls it. The first one stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultCell(Arc<AtomicU8>);

impl FaultCell {
    /// Leaves a fault.
    pub(crate) fn set(&self, fault: DeviceFault) {
        let code = match fault {
            DeviceFault::CompletionQueue => 1,
            DeviceFault::QueuePair => 2,
            DeviceFault::Device => 3,
            DeviceFault::Port => 4,
            _ => 5,
        };
        let _ = self.0.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The fault that was left, if one was.
    #[inline]
    #[must_use]
    pub(crate) fn get(&self) -> Option<DeviceFault> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            1 => Some(DeviceFault::CompletionQueue),
            2 => Some(DeviceFault::QueuePair),
            3 => Some(DeviceFault::Device),
            4 => Some(DeviceFault::Port),
            _ => Some(DeviceFault::Connection),
        }
    }
}

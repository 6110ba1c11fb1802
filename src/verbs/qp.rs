//! Provisional provider.
#![allow(unsafe_code, reason = "libibverbs is a C library")]

use crate::batch::Chain;
use crate::error::{DeviceFault, Errno};
use crate::provider::{Capabilities, PostError, Provider};
use crate::verbs::fault_cell::FaultCell;
use crate::wr::Wc;
use rdma_sys::{ibv_cq, ibv_poll_cq, ibv_post_send, ibv_qp};
use std::sync::Arc;

/// A queue pair's send side.
pub struct VerbsQp {
    qp: *mut ibv_qp,
    cq: *mut ibv_cq,
    capabilities: Capabilities,
    fault: FaultCell,
    _owner: Arc<dyn core::any::Any + Send + Sync>,
}

// SAFETY: provisional
unsafe impl Send for VerbsQp {}

impl core::fmt::Debug for VerbsQp {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("VerbsQp")
    }
}

impl VerbsQp {
    pub(crate) fn of_connection(
        qp: *mut ibv_qp,
        cq: *mut ibv_cq,
        capabilities: Capabilities,
        fault: FaultCell,
        owner: Arc<dyn core::any::Any + Send + Sync>,
    ) -> Self {
        VerbsQp { qp, cq, capabilities, fault, _owner: owner }
    }
}

impl Provider for VerbsQp {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        let mut bad = core::ptr::null_mut();
        // SAFETY: provisional
        let rc = unsafe { ibv_post_send(self.qp, chain.first().cast(), &mut bad) };
        if rc == 0 {
            return Ok(());
        }
        match chain.index_of(bad.cast()) {
            Some(taken) => Err(PostError::Refused { taken, errno: Errno(rc.abs()) }),
            None => Err(PostError::Unknown { errno: Errno(rc.abs()) }),
        }
    }
    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        // SAFETY: provisional
        let poll = |into: &mut [Wc]| unsafe {
            ibv_poll_cq(self.cq, into.len() as i32, into.as_mut_ptr().cast())
        };
        let fault = self.fault.get();
        let n = poll(into);
        if n == 0
            && let Some(fault) = fault
        {
            return Err(fault);
        }
        if n < 0 { Err(DeviceFault::Poll(Errno(5))) } else { Ok(n as usize) }
    }
    fn abort(&mut self) {}
}

//! Connections over queue pairs of the software NIC, for tests and benches.

use core::ptr::{self, NonNull};

use super::{Conn, Cq, Failure, INVAL, Owned};
use crate::soft::SCRATCH;
use crate::verbs::Direct;
use crate::verbs::nic::NicQp;
use crate::wr::Sge;

/// A connection and its completion queue, to be used while the queue pair is
/// there. They are never freed. `None` where there is no memory.
#[must_use]
pub fn nic(nic: &NicQp<'_>, sq_depth: u32) -> Option<(*mut Conn, *mut Cq)> {
    let made = || -> Result<_, Failure> {
        let qp = NonNull::new(nic.qp()).ok_or(INVAL)?;
        let cq = NonNull::new(nic.cq()).ok_or(INVAL)?;
        let (qp_ex, send_ops) = match nic.send_ops() {
            0 => (ptr::null_mut(), 0),
            ops => (nic.qp_ex(), ops),
        };
        // SAFETY: the queue pair is used only while it is there, says this
        // function; its calls are those of its extended part.
        let direct = unsafe { Direct::new(qp, qp_ex, send_ops) };
        let (addr, length) = (SCRATCH.address(), SCRATCH.len() as u32);
        let scratch = Sge { addr, length, lkey: SCRATCH.lkey() };
        let conn = Owned::new(Conn::over(direct, scratch, sq_depth))?;
        // SAFETY: as above, and it is never destroyed.
        let cq = unsafe { Cq::over(cq) }?;
        Ok((conn.leak(), cq.leak()))
    };
    made().ok()
}

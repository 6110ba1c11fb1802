//! Verbs by hand, as a good engineer drives them for one fixed use: the work
//! requests are built once and linked, and only what changes is stored.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::mem::MaybeUninit;
use core::ptr;

use farword::verbs::Path;
use farword::verbs::nic::NicQp;
use rdma_sys::{
    ibv_poll_cq, ibv_post_send, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wr_opcode,
};

use crate::nic::{self, Fabric};
use crate::row::{Row, Seen, WORDS};

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    nic::add(rows, |fabric| Ok(Plain::<1>::new("verbs_one", fabric)));
    nic::add(rows, |fabric| Ok(Plain::<32>::new("verbs_chain_32", fabric)));
}

/// The requests and what they point at; never moved.
struct Chain<const BATCH: usize> {
    wrs: [ibv_send_wr; BATCH],
    sges: [ibv_sge; BATCH],
    words: [u64; BATCH],
}

struct Plain<const BATCH: usize> {
    name: &'static str,
    nic: NicQp<'static>,
    fabric: Fabric,
    /// Owned; reached through this pointer alone.
    chain: *mut Chain<BATCH>,
    next: u64,
}

impl<const BATCH: usize> Plain<BATCH> {
    fn new(name: &'static str, fabric: Fabric) -> Self {
        let nic = fabric.qp(Path::PostSend);
        let zeros = Box::new(MaybeUninit::<Chain<BATCH>>::zeroed());
        let chain = Box::into_raw(zeros).cast::<Chain<BATCH>>();
        for at in 0..BATCH {
            // SAFETY: numbers and pointers, for which zeros are valid; the box is
            // this function's own.
            let all = unsafe { &mut *chain };
            all.sges[at].addr = (&raw const all.words[at]).expose_provenance() as u64;
            all.sges[at].length = 8;
            let next: *mut ibv_send_wr =
                if at + 1 < BATCH { &mut all.wrs[at + 1] } else { ptr::null_mut() };
            let sge: *mut ibv_sge = &mut all.sges[at];
            let wr = &mut all.wrs[at];
            (wr.next, wr.sg_list, wr.num_sge) = (next, sge, 1);
            wr.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
            wr.send_flags = ibv_send_flags::IBV_SEND_INLINE.0;
            if at + 1 == BATCH {
                wr.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
            }
            wr.wr.rdma.rkey = fabric.words.rkey();
        }
        Plain { name, nic, fabric, chain, next: 0 }
    }
}

impl<const BATCH: usize> Row for Plain<BATCH> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let doorbells = self.nic.doorbells();
        let (qp, cq) = (self.nic.qp(), self.nic.cq());
        let base = self.fabric.words.base();
        let mut seen = Seen::default();
        let mut wc = MaybeUninit::<ibv_wc>::zeroed();
        let (mut next, end) = (self.next, self.next + operations);
        while next < end {
            // SAFETY: this value's own, and no reference to it is live.
            let chain = unsafe { &mut *self.chain };
            for (wr, word) in chain.wrs.iter_mut().zip(&mut chain.words) {
                *word = next;
                wr.wr_id = next;
                wr.wr.rdma.remote_addr = base + 8 * (next % WORDS);
                next += 1;
            }
            let mut bad_wr = ptr::null_mut();
            // SAFETY: the queue pair is alive and this row's alone; the chain is
            // linked and may be read.
            let code = unsafe { ibv_post_send(qp, &mut chain.wrs[0], &mut bad_wr) };
            assert_eq!(code, 0, "{}: posted", self.name);
            // SAFETY: the queue is alive and this row's alone; there is room for
            // one.
            while unsafe { ibv_poll_cq(cq, 1, wc.as_mut_ptr()) } == 0 {}
            // SAFETY: zeros are a valid completion, and so is what a poll wrote.
            seen.see(unsafe { wc.assume_init_ref() }.wr_id);
        }
        self.next = end;
        seen.verify(self.name, operations / BATCH as u64, end - 1);
        Some(self.nic.doorbells() - doorbells)
    }

    fn verify(&self) {
        self.fabric.verify(self.name, &self.nic, self.next);
    }
}

impl<const BATCH: usize> Drop for Plain<BATCH> {
    fn drop(&mut self) {
        // SAFETY: it came from a box of this layout, and nothing else frees it.
        drop(unsafe { Box::from_raw(self.chain.cast::<MaybeUninit<Chain<BATCH>>>()) });
    }
}

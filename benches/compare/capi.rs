//! farword's C library, on the work of librpma's rows: `rpma_atomic_write` one
//! by one, each waited for, and batches of 32.

#![allow(unsafe_code, reason = "the C functions are called as C calls them")]

use core::mem::MaybeUninit;
use core::ptr;

use farword::RemoteRegion;
use farword::capi::{
    Conn, Cq, E_NO_COMPLETION, F_COMPLETION_ALWAYS, F_COMPLETION_ON_ERROR, MrRemote,
    farword_batch_begin, farword_batch_end, over, rpma_atomic_write, rpma_cq_get_wc,
    rpma_mr_remote_from_descriptor,
};
use farword::verbs::Path;
use farword::verbs::nic::NicQp;
use rdma_sys::ibv_wc;

use crate::nic::{self, DEPTH, Fabric};
use crate::row::{Row, Seen, WORDS};

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    nic::add(rows, |fabric| Writes::<1>::new("capi_one", fabric));
    nic::add(rows, |fabric| Writes::<32>::new("capi_batch_32", fabric));
}

/// Atomic writes, `BATCH` to a doorbell, of which the last is waited for.
struct Writes<const BATCH: u64> {
    name: &'static str,
    conn: *mut Conn,
    cq: *mut Cq,
    words: *mut MrRemote,
    nic: NicQp<'static>,
    fabric: Fabric,
    next: u64,
}

fn region(region: &RemoteRegion) -> Result<*mut MrRemote, String> {
    let bytes = region.to_descriptor();
    let mut remote = ptr::null_mut();
    // SAFETY: the bytes may be read, the pointer may be written.
    let code =
        unsafe { rpma_mr_remote_from_descriptor(bytes.as_ptr().cast(), bytes.len(), &mut remote) };
    if code == 0 { Ok(remote) } else { Err(format!("a descriptor is refused: {code}")) }
}

impl<const BATCH: u64> Writes<BATCH> {
    fn new(name: &'static str, fabric: Fabric) -> Result<Self, String> {
        let nic = fabric.qp(Path::PostSend);
        let (conn, cq) = over::nic(&nic, DEPTH).ok_or("no memory")?;
        let words = region(&fabric.words)?;
        Ok(Writes { name, conn, cq, words, nic, fabric, next: 0 })
    }

    #[inline(always)]
    fn write(&self, number: u64, waits: bool) {
        let word = number.to_ne_bytes();
        let at = (8 * (number % WORDS)) as usize;
        let flags = if waits { F_COMPLETION_ALWAYS } else { F_COMPLETION_ON_ERROR };
        let context = ptr::without_provenance(number as usize);
        // SAFETY: the connection and the region are alive and this row's alone;
        // the word is copied within the call; the context is a number.
        let code = unsafe {
            rpma_atomic_write(self.conn, self.words, at, word.as_ptr().cast(), flags, context)
        };
        assert_eq!(code, 0, "{}: posted", self.name);
    }

    /// Waits for one completion and gives its context back.
    #[inline(always)]
    fn wait(&self, wc: &mut MaybeUninit<ibv_wc>) -> u64 {
        loop {
            // SAFETY: the queue is this row's alone; there is room for one.
            let code = unsafe { rpma_cq_get_wc(self.cq, 1, wc.as_mut_ptr(), ptr::null_mut()) };
            if code == 0 {
                // SAFETY: zeros are a valid completion, and so is what a poll
                // wrote.
                let wc = unsafe { wc.assume_init_ref() };
                assert_eq!(wc.status, 0, "{}: an operation failed", self.name);
                return wc.wr_id;
            }
            assert_eq!(code, E_NO_COMPLETION, "{}: polling", self.name);
        }
    }
}

impl<const BATCH: u64> Row for Writes<BATCH> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let doorbells = self.nic.doorbells();
        let mut seen = Seen::default();
        let mut wc = MaybeUninit::<ibv_wc>::zeroed();
        let end = self.next + operations;
        for first in (self.next..end).step_by(BATCH as usize) {
            if BATCH > 1 {
                // SAFETY: the connection is alive and this row's alone.
                let code = unsafe { farword_batch_begin(self.conn) };
                assert_eq!(code, 0, "{}: begun", self.name);
            }
            let last = first + BATCH - 1;
            (first..last).for_each(|number| self.write(number, false));
            self.write(last, true);
            if BATCH > 1 {
                // SAFETY: as above.
                let code = unsafe { farword_batch_end(self.conn, ptr::null_mut()) };
                assert_eq!(code, 0, "{}: ended", self.name);
            }
            seen.see(self.wait(&mut wc));
        }
        self.next = end;
        seen.verify(self.name, operations / BATCH, end - 1);
        Some(self.nic.doorbells() - doorbells)
    }

    fn verify(&self) {
        self.fabric.verify(self.name, &self.nic, self.next);
    }
}

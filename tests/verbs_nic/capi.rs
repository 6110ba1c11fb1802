//! The C library's requests, as the NIC is given them.

#![allow(unsafe_code, reason = "the C functions are called as C calls them")]

use core::ptr;

use farword::capi::{
    Conn, E_INVAL, F_COMPLETION_ALWAYS, F_COMPLETION_ON_ERROR, FLUSH_TYPE_VISIBILITY, MrRemote,
    farword_batch_begin, farword_batch_end, over, rpma_atomic_write, rpma_cq_get_wc, rpma_flush,
    rpma_mr_remote_delete, rpma_mr_remote_from_descriptor,
};
use farword::verbs::Path;
use farword::verbs::nic::{Given, NicQp};
use farword::wr::{WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE};

use crate::support::Fabric;
use crate::support::nic::{Nic, with_half_native_nic, with_nic};

/// A connection of the C library over a NIC that keeps a record.
struct C<'d> {
    nic: NicQp<'d>,
    conn: *mut Conn,
    cq: *mut farword::capi::Cq,
    region: *mut MrRemote,
}

impl<'d> C<'d> {
    fn new(fabric: &Nic<'d>) -> Self {
        let nic = NicQp::new(fabric.sides.device, fabric.config(32, 32).with_records(true))
            .expect("a queue pair");
        let (conn, cq) = over::nic(&nic, 32).expect("memory");
        let bytes = fabric.remote().to_descriptor();
        let mut region = ptr::null_mut();
        // SAFETY: the bytes may be read, the pointer may be written.
        let code = unsafe {
            rpma_mr_remote_from_descriptor(bytes.as_ptr().cast(), bytes.len(), &mut region)
        };
        assert_eq!(code, 0);
        C { nic, conn, cq, region }
    }

    fn write(&self, offset: usize, word: u64, flags: i32, context: usize) -> i32 {
        let (src, context) = (word.to_ne_bytes(), ptr::without_provenance(context));
        // SAFETY: the connection and the region are alive; the word is copied.
        unsafe {
            rpma_atomic_write(self.conn, self.region, offset, src.as_ptr().cast(), flags, context)
        }
    }

    fn flush(&self, flags: i32, context: usize) -> i32 {
        let (kind, context) = (FLUSH_TYPE_VISIBILITY, ptr::without_provenance(context));
        // SAFETY: the connection and the region are alive.
        unsafe { rpma_flush(self.conn, self.region, 0, 16, kind, flags, context) }
    }

    fn begin(&self) -> i32 {
        // SAFETY: the connection is alive.
        unsafe { farword_batch_begin(self.conn) }
    }

    fn end(&self) -> (i32, u32) {
        let mut posted = 77;
        // SAFETY: the connection is alive.
        (unsafe { farword_batch_end(self.conn, &mut posted) }, posted)
    }

    /// The context of the one completion that is there.
    fn completed(&self) -> u64 {
        // SAFETY: zeros are a valid completion.
        let mut wc: [rdma_sys::ibv_wc; 2] = unsafe { core::mem::zeroed() };
        let mut got = 0;
        // SAFETY: the queue is alive, and there is room for two.
        let code = unsafe { rpma_cq_get_wc(self.cq, 2, wc.as_mut_ptr(), &mut got) };
        assert_eq!((code, got, wc[0].status), (0, 1, 0));
        wc[0].wr_id
    }

    fn each<T>(&self, of: impl Fn(&Given) -> T) -> Vec<T> {
        self.nic.given().iter().map(of).collect()
    }
}

impl Drop for C<'_> {
    fn drop(&mut self) {
        // SAFETY: the region is this one's, and is deleted once.
        unsafe { rpma_mr_remote_delete(&mut self.region) };
    }
}

#[test]
fn a_call_is_a_request_and_a_doorbell() {
    for path in crate::PATHS {
        with_nic(path, |fabric| {
            let c = C::new(fabric);
            for number in 1..=3 {
                let flags = if number == 3 { F_COMPLETION_ALWAYS } else { F_COMPLETION_ON_ERROR };
                assert_eq!(c.write(8, number, flags, number as usize), 0);
            }
            assert_eq!(c.each(|given| given.doorbell), [1, 2, 3]);
            assert_eq!(c.each(|given| given.wr_id), [1, 2, 3]);
            assert_eq!(c.each(Given::is_signaled), [false, false, true]);
            let native = path == Path::Native;
            let opcode = if native { WR_ATOMIC_WRITE } else { WR_RDMA_WRITE };
            assert_eq!(c.each(|given| given.opcode), [opcode; 3]);
            // The fallback is fenced always, as librpma's is.
            assert_eq!(c.each(Given::is_fenced), [!native; 3]);
            assert_eq!(c.completed(), 3);
            assert_eq!(fabric.seen(1), 3);
        });
    }
}

#[test]
fn a_batch_is_one_doorbell() {
    for path in crate::PATHS {
        with_nic(path, |fabric| {
            let c = C::new(fabric);
            assert_eq!(c.begin(), 0);
            assert_eq!(c.begin(), E_INVAL);
            for number in 0..4 {
                assert_eq!(c.write(8, number, F_COMPLETION_ON_ERROR, 10 + number as usize), 0);
            }
            assert_eq!(c.flush(F_COMPLETION_ALWAYS, 20), 0);
            assert_eq!(c.nic.posted(), 0);
            assert_eq!(c.end(), (0, 5));
            assert_eq!(c.nic.doorbells(), 1);
            assert_eq!(c.each(|given| given.wr_id), [10, 11, 12, 13, 20]);
            assert_eq!(c.completed(), 20);
            assert_eq!(fabric.seen(1), 3);
            // The slots that the flush used carry words again.
            for _ in 0..10 {
                assert_eq!(c.begin(), 0);
                for number in 0..7 {
                    let flags = if number == 6 { F_COMPLETION_ALWAYS } else { 1 };
                    assert_eq!(c.write(8, 100 + number, flags, number as usize), 0);
                }
                assert_eq!(c.end(), (0, 7));
                assert_eq!(c.completed(), 6);
                assert_eq!(fabric.seen(1), 106);
            }
            assert_eq!(c.nic.doorbells(), 11);
        });
    }
}

/// What librpma leaves out: a native atomic write that would overtake an
/// emulated flush.
#[test]
fn a_native_atomic_write_is_fenced_once_a_flush_was_emulated() {
    with_half_native_nic((), |fabric| {
        let c = C::new(fabric);
        assert_eq!(c.write(8, 1, F_COMPLETION_ON_ERROR, 1), 0);
        assert_eq!(c.flush(F_COMPLETION_ON_ERROR, 2), 0);
        assert_eq!(c.write(8, 2, F_COMPLETION_ON_ERROR, 3), 0);
        // And in a batch behind it: the first, which holds back those behind it.
        assert_eq!(c.begin(), 0);
        assert_eq!(c.write(8, 3, F_COMPLETION_ON_ERROR, 4), 0);
        assert_eq!(c.write(8, 4, F_COMPLETION_ALWAYS, 5), 0);
        assert_eq!(c.end(), (0, 2));
        assert_eq!(
            c.each(|given| (given.opcode, given.is_fenced())),
            [
                (WR_ATOMIC_WRITE, false),
                (WR_RDMA_READ, false),
                (WR_ATOMIC_WRITE, true),
                (WR_ATOMIC_WRITE, true),
                (WR_ATOMIC_WRITE, false),
            ]
        );
    });
}

#[test]
fn a_native_flush_needs_no_fence() {
    with_nic(Path::Native, |fabric| {
        let c = C::new(fabric);
        assert_eq!(c.flush(F_COMPLETION_ON_ERROR, 1), 0);
        assert_eq!(c.write(8, 2, F_COMPLETION_ALWAYS, 2), 0);
        let given = c.each(|given| (given.opcode, given.is_fenced()));
        assert_eq!(given, [(WR_FLUSH, false), (WR_ATOMIC_WRITE, false)]);
    });
}

//! librpma, loaded at run time. It is driven without hardware: its operations
//! follow nothing but the queue pair of the connection's `rdma_cm_id`, so a
//! connection that holds one on the software NIC is enough.

#![allow(unsafe_code, reason = "librpma is a C library")]

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::sync::OnceLock;

use farword::verbs::Path;
use farword::verbs::nic::NicQp;
use libloading::Library;
use rdma_sys::{ibv_cq, ibv_mr, ibv_qp, ibv_wc, rdma_cm_id};

use crate::nic::{self, Fabric};
use crate::row::{Row, Seen, WORDS};

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    if let Err(why) = calls() {
        eprintln!("compare: the rows of librpma are left out: {why}");
        return;
    }
    nic::add(rows, |fabric| Writes::<1>::new("librpma_always", fabric));
    nic::add(rows, |fabric| Writes::<32>::new("librpma_on_error", fabric));
    nic::add(rows, |fabric| Commits::new("librpma_commit", fabric));
}

const ON_ERROR: c_int = 1;
const ALWAYS: c_int = 3;
const NO_COMPLETION: c_int = -100_005;
/// `RPMA_FLUSH_TYPE_VISIBILITY`.
const VISIBILITY: c_int = 1;

/// librpma's calls, by the prototypes of `librpma.h`.
struct Calls {
    atomic_write: unsafe extern "C" fn(
        *mut Conn,
        *mut c_void,
        usize,
        *const c_char,
        c_int,
        *const c_void,
    ) -> c_int,
    write: unsafe extern "C" fn(
        *mut Conn,
        *mut c_void,
        usize,
        *const MrLocal,
        usize,
        usize,
        c_int,
        *const c_void,
    ) -> c_int,
    read: Read,
    flush: unsafe extern "C" fn(
        *mut Conn,
        *mut c_void,
        usize,
        usize,
        c_int,
        c_int,
        *const c_void,
    ) -> c_int,
    get_wc: unsafe extern "C" fn(*mut Cq, c_int, *mut ibv_wc, *mut c_int) -> c_int,
    get_qp_num: unsafe extern "C" fn(*const Conn, *mut u32) -> c_int,
    from_descriptor: unsafe extern "C" fn(*const c_void, usize, *mut *mut c_void) -> c_int,
}

type Read = unsafe extern "C" fn(
    *mut Conn,
    *mut MrLocal,
    usize,
    *const c_void,
    usize,
    usize,
    c_int,
    *const c_void,
) -> c_int;

fn calls() -> Result<&'static Calls, String> {
    static CALLS: OnceLock<Result<Calls, String>> = OnceLock::new();
    CALLS.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Calls, String> {
    // SAFETY: librpma's initialisers set up a log and nothing else.
    let library = unsafe { Library::new("librpma.so.0") }.map_err(|error| error.to_string())?;
    // Never unloaded, so that its calls stay good.
    let library: &'static Library = Box::leak(Box::new(library));
    macro_rules! call {
        ($name:literal) => {{
            // SAFETY: the field has the type of the prototype in `librpma.h`.
            *unsafe { library.get($name) }.map_err(|error| error.to_string())?
        }};
    }
    Ok(Calls {
        atomic_write: call!(b"rpma_atomic_write\0"),
        write: call!(b"rpma_write\0"),
        read: call!(b"rpma_read\0"),
        flush: call!(b"rpma_flush\0"),
        get_wc: call!(b"rpma_cq_get_wc\0"),
        get_qp_num: call!(b"rpma_conn_get_qp_num\0"),
        from_descriptor: call!(b"rpma_mr_remote_from_descriptor\0"),
    })
}

/// `struct rpma_conn`, of which librpma's operations look at the `rdma_cm_id`
/// and, to flush, at the flushing object.
#[repr(C)]
struct Conn {
    id: *mut rdma_cm_id,
    events: *mut c_void,
    cq: *mut c_void,
    receive_cq: *mut c_void,
    channel: *mut c_void,
    private_data: *mut c_void,
    private_data_len: u8,
    flush: *mut Flush,
    direct_write_to_pmem: bool,
}

/// The flushing object: librpma keeps there by what function it flushes. Its own
/// reads the range's first 8 bytes into a buffer of the object's; so does ours,
/// by `rpma_read`, which is that very function behind a few checks.
#[repr(C)]
struct Flush {
    function: unsafe extern "C" fn(
        *mut ibv_qp,
        *mut Flush,
        *mut c_void,
        usize,
        usize,
        c_int,
        c_int,
        *const c_void,
    ) -> c_int,
    delete: *mut c_void,
    context: *mut c_void,
    // Behind what librpma knows of.
    conn: *mut Conn,
    scratch: *mut MrLocal,
    read: Read,
}

unsafe extern "C" fn flush_by_reading(
    _qp: *mut ibv_qp,
    flush: *mut Flush,
    region: *mut c_void,
    at: usize,
    _len: usize,
    _kind: c_int,
    flags: c_int,
    context: *const c_void,
) -> c_int {
    // SAFETY: librpma hands the connection's flushing object over, which is one
    // of ours and alive.
    let Flush { conn, scratch, read, .. } = unsafe { &*flush };
    // SAFETY: as for any operation of librpma's; both are alive.
    unsafe { read(*conn, *scratch, 0, region, at, 8, flags, context) }
}

/// `struct rpma_cq`.
#[repr(C)]
struct Cq {
    channel: *mut c_void,
    shared: bool,
    cq: *mut ibv_cq,
}

/// `struct rpma_mr_local`.
#[repr(C)]
struct MrLocal {
    mr: *mut ibv_mr,
    usage: c_int,
}

/// A connection of librpma's over a queue pair of the software NIC. What it is
/// made of is never freed: a bench has few of them.
struct Connection {
    calls: &'static Calls,
    conn: *mut Conn,
    cq: *mut Cq,
    nic: NicQp<'static>,
}

/// A zeroed C struct that is never freed.
fn zeroed<T>() -> *mut T {
    Box::into_raw(Box::new(MaybeUninit::<T>::zeroed())).cast()
}

impl Connection {
    fn new(fabric: &Fabric) -> Result<Self, String> {
        let calls = calls()?;
        let nic = fabric.qp(Path::PostSend);
        let id: *mut rdma_cm_id = zeroed();
        // SAFETY: it was just made, and is this function's alone.
        unsafe { (*id).qp = nic.qp() };
        let conn: *mut Conn = zeroed();
        // SAFETY: as above.
        unsafe { (*conn).id = id };
        let cq =
            Box::into_raw(Box::new(Cq { channel: ptr::null_mut(), shared: false, cq: nic.cq() }));
        let mut number = 0;
        // SAFETY: it reads the connection's queue pair, and writes the number.
        let code = unsafe { (calls.get_qp_num)(conn, &mut number) };
        let qp: *mut ibv_qp = nic.qp();
        // SAFETY: the queue pair is alive.
        let expected = unsafe { (*qp).qp_num };
        if code != 0 || number != expected {
            return Err("this librpma lays its connections out in another way".into());
        }
        Ok(Connection { calls, conn, cq, nic })
    }

    /// librpma's view of a region; never freed.
    fn region(&self, region: &farword::RemoteRegion) -> Result<*mut c_void, String> {
        let bytes = region.to_descriptor();
        let mut remote = ptr::null_mut();
        // SAFETY: the bytes may be read, the pointer may be written.
        let code = unsafe {
            (self.calls.from_descriptor)(bytes.as_ptr().cast(), bytes.len(), &mut remote)
        };
        if code == 0 { Ok(remote) } else { Err(format!("a descriptor is refused: {code}")) }
    }

    /// Waits for one completion and gives its context back.
    #[inline(always)]
    fn wait(&self, wc: &mut MaybeUninit<ibv_wc>) -> u64 {
        loop {
            // SAFETY: the queue is this row's alone; there is room for one.
            let code = unsafe { (self.calls.get_wc)(self.cq, 1, wc.as_mut_ptr(), ptr::null_mut()) };
            if code == 0 {
                // SAFETY: zeros are a valid completion, and so is what a poll
                // wrote.
                let wc = unsafe { wc.assume_init_ref() };
                assert_eq!(wc.status, 0, "an operation of librpma's failed");
                return wc.wr_id;
            }
            assert_eq!(code, NO_COMPLETION, "polling through librpma");
        }
    }
}

/// `rpma_atomic_write` one by one, every `EVERY`th with `ALWAYS` and waited for,
/// the others with `ON_ERROR`.
struct Writes<const EVERY: u64> {
    name: &'static str,
    connection: Connection,
    words: *mut c_void,
    fabric: Fabric,
    next: u64,
}

impl<const EVERY: u64> Writes<EVERY> {
    fn new(name: &'static str, fabric: Fabric) -> Result<Self, String> {
        let connection = Connection::new(&fabric)?;
        let words = connection.region(&fabric.words)?;
        Ok(Writes { name, connection, words, fabric, next: 0 })
    }
}

impl<const EVERY: u64> Row for Writes<EVERY> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let doorbells = self.connection.nic.doorbells();
        let (calls, conn, words) = (self.connection.calls, self.connection.conn, self.words);
        let mut seen = Seen::default();
        let mut wc = MaybeUninit::<ibv_wc>::zeroed();
        let end = self.next + operations;
        for number in self.next..end {
            let waits = number % EVERY == EVERY - 1;
            let word = number.to_ne_bytes();
            let (at, flags) =
                ((8 * (number % WORDS)) as usize, if waits { ALWAYS } else { ON_ERROR });
            // SAFETY: the connection and the region are alive and this row's
            // alone; the word is copied within the call; the context is a number
            // that nobody follows.
            let code = unsafe {
                (calls.atomic_write)(
                    conn,
                    words,
                    at,
                    word.as_ptr().cast(),
                    flags,
                    ptr::without_provenance(number as usize),
                )
            };
            assert_eq!(code, 0, "{}: posted", self.name);
            if waits {
                seen.see(self.connection.wait(&mut wc));
            }
        }
        self.next = end;
        seen.verify(self.name, operations / EVERY, end - 1);
        Some(self.connection.nic.doorbells() - doorbells)
    }

    fn verify(&self) {
        self.fabric.verify(self.name, &self.connection.nic, self.next);
    }
}

/// A commit: 64 bytes, a flush, the atomic write, a flush that is waited for.
struct Commits {
    name: &'static str,
    connection: Connection,
    words: *mut c_void,
    log: *mut c_void,
    record: *mut MrLocal,
    fabric: Fabric,
    next: u64,
}

impl Commits {
    fn new(name: &'static str, fabric: Fabric) -> Result<Self, String> {
        let connection = Connection::new(&fabric)?;
        let (words, log) = (connection.region(&fabric.words)?, connection.region(&fabric.log)?);
        let local = fabric.local.local();
        let record = local_region(local.address(), local.lkey());
        let scratch = local_region(local.address() + 64, local.lkey());
        let flush = Flush {
            function: flush_by_reading,
            delete: ptr::null_mut(),
            context: ptr::null_mut(),
            conn: connection.conn,
            scratch,
            read: connection.calls.read,
        };
        // SAFETY: the connection was just made and is this function's alone.
        unsafe { (*connection.conn).flush = Box::into_raw(Box::new(flush)) };
        Ok(Commits { name, connection, words, log, record, fabric, next: 0 })
    }

    #[inline(always)]
    fn commit(&self, number: u64) {
        let Connection { calls, conn, .. } = &self.connection;
        let (conn, words, log) = (*conn, self.words, self.log);
        let (quiet, last) = (ptr::null(), ptr::without_provenance(number as usize));
        let (word, at) = (number.to_ne_bytes(), (8 * (number % WORDS)) as usize);
        // SAFETY: connection and regions are alive and this row's alone; the
        // regions' memory is never freed; contexts are numbers.
        let written = unsafe { (calls.write)(conn, log, 0, self.record, 0, 64, ON_ERROR, quiet) };
        // SAFETY: as above.
        let flushed = unsafe { (calls.flush)(conn, log, 0, 64, VISIBILITY, ON_ERROR, quiet) };
        let word = word.as_ptr().cast();
        // SAFETY: as above; the word is copied within the call.
        let published = unsafe { (calls.atomic_write)(conn, words, at, word, ON_ERROR, quiet) };
        // SAFETY: as above.
        let ended = unsafe { (calls.flush)(conn, words, at, 8, VISIBILITY, ALWAYS, last) };
        assert_eq!(written | flushed | published | ended, 0, "{}: posted", self.name);
    }
}

/// librpma's view of local memory that the NIC knows; never freed.
fn local_region(address: u64, lkey: u32) -> *mut MrLocal {
    let mr: *mut ibv_mr = zeroed();
    // SAFETY: it was just made, and is this function's alone.
    let fields = unsafe { &mut *mr };
    fields.addr = ptr::with_exposed_provenance_mut(address as usize);
    fields.lkey = lkey;
    Box::into_raw(Box::new(MrLocal { mr, usage: 0 }))
}

impl Row for Commits {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let doorbells = self.connection.nic.doorbells();
        let mut seen = Seen::default();
        let mut wc = MaybeUninit::<ibv_wc>::zeroed();
        let end = self.next + operations;
        for number in self.next..end {
            self.commit(number);
            seen.see(self.connection.wait(&mut wc));
        }
        self.next = end;
        seen.verify(self.name, operations, end - 1);
        Some(self.connection.nic.doorbells() - doorbells)
    }

    fn verify(&self) {
        assert_eq!(self.connection.nic.posted(), 4 * self.next, "{}", self.name);
        self.fabric.verify_words(self.name, self.next);
    }
}

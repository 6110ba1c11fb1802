//! The verbs objects that lead to a software NIC, in one piece of memory.

#![allow(unsafe_code, reason = "verbs objects are C structs that point at one another")]

use core::ffi::c_int;
use core::mem::{offset_of, zeroed};
use core::ptr::{self, NonNull};
use std::boxed::Box;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

use rdma_sys::{
    ibv_comp_channel, ibv_context, ibv_cq, ibv_device_attr_ex, ibv_qp, ibv_qp_ex, ibv_qp_state,
    ibv_qp_type, ibv_query_device_ex_input, verbs_context,
};
use rustix::event::{EventfdFlags, eventfd};

use crate::error::Errno;
use crate::verbs::ffi::{
    DEVICE_ATOMIC_WRITE, DEVICE_FLUSH_GLOBAL, DEVICE_FLUSH_PERSISTENT, EXTENDED, QpEx,
};
use crate::verbs::library::{AsyncEvent, Library};
use crate::verbs::nic::hardware::Hardware;
use crate::verbs::nic::{calls, post};
use crate::verbs::qp::Path;

/// Everything behind one queue pair. Each verbs object lies at a known place in
/// it, so that a pointer to any of them leads to the whole.
#[repr(C)]
pub(super) struct Board<'d> {
    /// First: a pointer to the queue pair is one to the board.
    qp: QpEx,
    cq: ibv_cq,
    channel: ibv_comp_channel,
    context: verbs_context,
    pub(super) hardware: Hardware<'d>,
    /// Behind the context, once it has an event.
    async_fd: Option<OwnedFd>,
    async_events: VecDeque<AsyncEvent>,
    /// Completion events acknowledged.
    pub(super) events_acked: u32,
}

/// A board that is freed when this goes.
#[derive(Debug)]
pub(super) struct Owned<'d>(NonNull<Board<'d>>);

impl<'d> Owned<'d> {
    pub(super) fn new(mut hardware: Hardware<'d>) -> Result<Self, Errno> {
        hardware.cq.channel = hardware.config.channel.then(event_counter).transpose()?;
        let config = hardware.config;
        // SAFETY: a C struct of pointers and numbers, for which zeros are valid.
        let context: verbs_context = unsafe { zeroed() };
        let board = Box::new(Board {
            // SAFETY: as above.
            qp: unsafe { zeroed() },
            // SAFETY: as above.
            cq: unsafe { zeroed() },
            // SAFETY: as above.
            channel: unsafe { zeroed() },
            context,
            hardware,
            async_fd: None,
            async_events: VecDeque::new(),
            events_acked: 0,
        });
        let owned = Owned(NonNull::from(Box::leak(board)));
        owned.wire_context();
        owned.wire_queues();
        if config.best >= Path::WrCalls {
            // SAFETY: the board is this function's own.
            let qp = unsafe { &mut (*owned.0.as_ptr()).qp };
            let native = config.best == Path::Native;
            calls::install(qp, native, native && config.native_flush);
        }
        Ok(owned)
    }

    fn wire_context(&self) {
        // SAFETY: the board was just made and nobody else has it.
        let context = unsafe { &mut (*self.0.as_ptr()).context };
        context.sz = size_of::<verbs_context>();
        context.query_device_ex = Some(query_device_ex);
        context.context.abi_compat = ptr::without_provenance_mut(EXTENDED);
        context.context.cmd_fd = -1;
        context.context.async_fd = -1;
        context.context.ops.post_send = Some(post::post_send);
        context.context.ops.poll_cq = Some(post::poll_cq);
        context.context.ops.req_notify_cq = Some(post::req_notify_cq);
    }

    fn wire_queues(&self) {
        let (context, cq) = (self.context().as_ptr(), self.cq().as_ptr());
        let channel = self.channel();
        // SAFETY: the board was just made and nobody else has it.
        let board = unsafe { &mut *self.0.as_ptr() };
        board.qp.qp_base.context = context;
        board.qp.qp_base.send_cq = cq;
        board.qp.qp_base.recv_cq = cq;
        board.qp.qp_base.qp_num = board.hardware.qp_num;
        board.qp.qp_base.state = ibv_qp_state::IBV_QPS_RTS;
        board.qp.qp_base.qp_type = ibv_qp_type::IBV_QPT_RC;
        board.cq.context = context;
        board.cq.channel = channel;
        board.cq.cqe = board.hardware.config.cq_depth as c_int;
        board.channel.context = context;
        board.channel.fd = board.hardware.cq.channel.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    }

    pub(super) fn qp(&self) -> NonNull<ibv_qp> {
        self.0.cast()
    }

    /// Null where the NIC offers no `wr_*` calls.
    pub(super) fn qp_ex(&self) -> *mut ibv_qp_ex {
        match self.get().hardware.config.best {
            Path::PostSend => ptr::null_mut(),
            _ => self.0.as_ptr().cast(),
        }
    }

    pub(super) fn cq(&self) -> NonNull<ibv_cq> {
        // SAFETY: a field of the live board.
        let cq = unsafe { &raw mut (*self.0.as_ptr()).cq };
        // SAFETY: a field's address is not null.
        unsafe { NonNull::new_unchecked(cq) }
    }

    /// Null where the completion queue has no channel.
    pub(super) fn channel(&self) -> *mut ibv_comp_channel {
        if !self.get().hardware.config.channel {
            return ptr::null_mut();
        }
        // SAFETY: a field of the live board.
        unsafe { &raw mut (*self.0.as_ptr()).channel }
    }

    pub(super) fn context(&self) -> NonNull<ibv_context> {
        // SAFETY: a field of the live board.
        let context = unsafe { &raw mut (*self.0.as_ptr()).context.context };
        // SAFETY: a field's address is not null.
        unsafe { NonNull::new_unchecked(context) }
    }

    pub(super) fn get(&self) -> &Board<'d> {
        // SAFETY: the board lives as long as this value. Whoever calls through
        // the verbs objects has exclusive use of the provider that owns it.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn get_mut(&mut self) -> &mut Board<'d> {
        // SAFETY: as for `get`, and `&mut self`.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: it was leaked by `new`, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: the board points at nothing but itself, so it may be used from any
// thread; its hardware borrows a device that threads may share.
unsafe impl Send for Owned<'_> {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Owned<'_> {}

impl<'d> Board<'d> {
    /// The board around a queue pair.
    pub(super) fn of_qp(qp: *mut ibv_qp) -> *mut Board<'d> {
        qp.cast()
    }

    /// The board around a completion queue.
    ///
    /// # Safety
    /// The queue is a live board's.
    pub(super) unsafe fn of_cq(cq: *mut ibv_cq) -> *mut Board<'d> {
        // SAFETY: it lies that far from the start of the same object.
        unsafe { cq.byte_sub(offset_of!(Board<'d>, cq)) }.cast()
    }

    /// # Safety
    /// The channel is a live board's.
    unsafe fn of_channel(channel: *mut ibv_comp_channel) -> *mut Board<'d> {
        // SAFETY: it lies that far from the start of the same object.
        unsafe { channel.byte_sub(offset_of!(Board<'d>, channel)) }.cast()
    }

    /// # Safety
    /// The context is a live board's.
    unsafe fn of_context(context: *mut ibv_context) -> *mut Board<'d> {
        let distance = offset_of!(Board<'d>, context) + offset_of!(verbs_context, context);
        // SAFETY: it lies that far from the start of the same object.
        unsafe { context.byte_sub(distance) }.cast()
    }

    /// Makes an asynchronous event happen.
    pub(super) fn raise(&mut self, event: AsyncEvent) -> Result<(), Errno> {
        let fd = match self.async_fd.take() {
            Some(fd) => fd,
            None => event_counter()?,
        };
        self.context.context.async_fd = fd.as_raw_fd();
        self.async_events.push_back(event);
        let written = rustix::io::write(&fd, &1u64.to_ne_bytes());
        self.async_fd = Some(fd);
        written.map(|_| ()).map_err(|errno| Errno(errno.raw_os_error()))
    }
}

impl core::fmt::Debug for Board<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Board").field("hardware", &self.hardware).finish_non_exhaustive()
    }
}

/// A descriptor from which each event is read once.
fn event_counter() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC)
        .map_err(|errno| Errno(errno.raw_os_error()))
}

/// Takes one event from a descriptor.
fn take_event(fd: Option<&OwnedFd>) -> Result<(), Errno> {
    let mut counter = [0; 8];
    match rustix::io::read(fd.ok_or(Errno::EAGAIN)?, &mut counter) {
        Ok(_) => Ok(()),
        Err(errno) => Err(Errno(errno.raw_os_error())),
    }
}

/// The NIC's own, in place of libibverbs'.
pub(super) static NIC: Library = Library {
    to_error: |qp| {
        // SAFETY: the caller says that the queue pair is alive; it is a board's.
        unsafe { &mut (*Board::of_qp(qp)).hardware }.enter_error();
        Ok(())
    },
    next_cq_event: |channel| {
        // SAFETY: the caller says that the channel is alive; it is a board's.
        let board = unsafe { Board::of_channel(channel) };
        // SAFETY: as above.
        take_event(unsafe { &*board }.hardware.cq.channel.as_ref())?;
        // SAFETY: as above.
        Ok(unsafe { &raw mut (*board).cq })
    },
    ack_cq_events: |cq, count| {
        // SAFETY: the caller says that the queue is alive; it is a board's.
        let board = unsafe { Board::of_cq(cq) };
        // SAFETY: as above.
        unsafe { (*board).events_acked += count };
    },
    next_async_event: |context| {
        // SAFETY: the caller says that the context is open; it is a board's.
        let board = unsafe { Board::of_context(context) };
        // SAFETY: as above.
        let board = unsafe { &mut *board };
        take_event(board.async_fd.as_ref())?;
        board.async_events.pop_front().ok_or(Errno::EAGAIN)
    },
    // The event does not lead to its board where it is a port's; only those that
    // name a queue have to be acknowledged, to whoever destroys it.
    ack_async_event: |_| {},
};

unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    _: *const ibv_query_device_ex_input,
    attributes: *mut ibv_device_attr_ex,
    len: usize,
) -> c_int {
    if len < size_of::<ibv_device_attr_ex>() {
        return Errno::EINVAL.0;
    }
    // SAFETY: the context is a live board's.
    let board = unsafe { Board::of_context(context) };
    // SAFETY: as above.
    let config = unsafe { &*board }.hardware.config;
    let flush = DEVICE_FLUSH_GLOBAL | DEVICE_FLUSH_PERSISTENT;
    let can = match config.best {
        Path::Native if config.native_flush => DEVICE_ATOMIC_WRITE | flush,
        Path::Native => DEVICE_ATOMIC_WRITE,
        _ => 0,
    };
    // SAFETY: the caller says that so many bytes may be written.
    unsafe { (*attributes).device_cap_flags_ex = can };
    0
}

//! The software device as a fabric: both engines, in either mode.

use core::sync::atomic::AtomicU64;

use farword::soft::{Engine, InlineQp, Mode, QpConfig, SoftDevice, SoftRegion, ThreadedQp};
use farword::{LocalSlice, RemoteRegion, Usage};

use super::{Fabric, Sides, WORDS};

/// Two memories on one device, without an engine.
pub struct OnDevice<'d> {
    pub device: &'d SoftDevice<'d>,
    pub mode: Mode,
    remote_memory: &'d [AtomicU64],
    local_memory: &'d [AtomicU64],
    remote: SoftRegion,
    read_only: SoftRegion,
    doomed: SoftRegion,
    local: SoftRegion,
}

/// Requests are carried out at the doorbell.
pub struct Inline<'d>(pub OnDevice<'d>);

/// Requests are carried out by a thread.
pub struct Threaded<'d> {
    pub sides: OnDevice<'d>,
    pub engine: Engine,
}

const EVERY_USE: Usage = Usage::from_bits(0xff);

pub(super) fn with_sides<R>(mode: Mode, run: impl FnOnce(OnDevice<'_>) -> R) -> R {
    let words = || (0..WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let (remote_memory, local_memory) = (words(), words());
    let mut device = SoftDevice::new();
    let mut register = |memory, usage| device.register(memory, usage).expect("there is room");
    let remote = register(&remote_memory, EVERY_USE);
    let read_only = register(&remote_memory, Usage::READ_SRC);
    let doomed = register(&remote_memory, EVERY_USE);
    let local = register(&local_memory, Usage::WRITE_SRC | Usage::READ_DST);
    run(OnDevice {
        device: &device,
        mode,
        remote_memory: &remote_memory,
        local_memory: &local_memory,
        remote,
        read_only,
        doomed,
        local,
    })
}

pub fn with_inline<R>(mode: Mode, run: impl FnOnce(&Inline<'_>) -> R) -> R {
    with_sides(mode, |sides| run(&Inline(sides)))
}

pub fn with_threaded<R>(mode: Mode, run: impl FnOnce(&Threaded<'_>) -> R) -> R {
    with_sides(mode, |sides| {
        std::thread::scope(|scope| {
            let engine = Engine::spawn(scope, sides.device);
            run(&Threaded { sides, engine })
        })
    })
}

impl Sides for OnDevice<'_> {
    fn remote_memory(&self) -> &[AtomicU64] {
        self.remote_memory
    }

    fn remote(&self) -> RemoteRegion {
        self.remote.remote()
    }

    fn read_only(&self) -> RemoteRegion {
        self.read_only.remote()
    }

    fn doomed(&self) -> RemoteRegion {
        self.doomed.remote()
    }

    fn deregister_doomed(&self) {
        assert!(self.device.deregister(&self.doomed), "it was registered");
    }

    fn local_memory(&self) -> &[AtomicU64] {
        self.local_memory
    }

    fn local(&self) -> LocalSlice {
        self.local.local()
    }
}

impl OnDevice<'_> {
    pub fn config(&self, sq_depth: u32, cq_depth: u32) -> QpConfig {
        QpConfig::default().with_mode(self.mode).with_depths(sq_depth, cq_depth)
    }
}

impl<'d> Fabric for Inline<'d> {
    type Qp = InlineQp<'d>;

    fn qp(&self, sq_depth: u32, cq_depth: u32) -> InlineQp<'d> {
        InlineQp::boxed(self.0.device, self.0.config(sq_depth, cq_depth)).expect("depths are right")
    }

    fn sides(&self) -> &dyn Sides {
        &self.0
    }
}

impl Fabric for Threaded<'_> {
    type Qp = ThreadedQp;

    fn qp(&self, sq_depth: u32, cq_depth: u32) -> ThreadedQp {
        self.engine.qp(self.sides.config(sq_depth, cq_depth)).expect("depths are right")
    }

    fn sides(&self) -> &dyn Sides {
        &self.sides
    }
}

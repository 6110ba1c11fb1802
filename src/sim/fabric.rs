//! The handles that a test holds: the fabric, and a queue pair's provider.

use core::cell::RefCell;
use core::fmt;
use core::sync::atomic::AtomicU64;
use std::boxed::Box;
use std::rc::Rc;
use std::string::String;
use std::vec::Vec;

use crate::batch::Chain;
use crate::error::DeviceFault;
use crate::provider::{Capabilities, FlushSupport, PostError, Provider};
use crate::region::{LocalSlice, RemoteRegion};
use crate::sim::choices::Choices;
use crate::sim::config::SimConfig;
use crate::sim::count::{Coverage, Sketch};
use crate::sim::event::{Event, Story, Violation};
use crate::sim::memory::{Memory, Watch};
use crate::sim::qp::{Fate, Local};
use crate::sim::respond::local_base;
use crate::sim::world::{LKEY_TAG, REMOTE_BASE, RKEY, SCRATCH_LKEY, World};
use crate::wr::Wc;

/// A simulated fabric with one remote node. Clones share it.
///
/// Time passes in steps: some in every [`poll`](Provider::poll) of one of its
/// queue pairs, and one in every [`step`](Self::step). In each, one thing
/// happens that RC verbs permit, chosen by the seed.
///
/// ```
/// use farword::sim::{Faults, SimConfig, SimFabric};
/// use farword::{AlignedOffset, Notify, OpContext, Polls, Ring, RingConfig, Word};
///
/// let fabric = SimFabric::new(42, SimConfig::new(256).with_faults(Faults::NONE));
/// let tail = fabric.region().target(AlignedOffset::literal::<8>())?;
///
/// let mut ring = Ring::boxed(fabric.connect(16, 16), RingConfig::new(16, 8))?;
/// let ticket = ring.atomic_write(tail, Word::ne(7), Notify::Always, OpContext::new(1))?;
/// ring.wait(ticket, Polls(1000), |_| {}).expect("confirmed");
/// // Completed is not yet visible, and visible is not yet durable.
/// while fabric.step() {}
/// assert_eq!(fabric.memory(|memory| memory.visible_word(8)), 7);
/// # Ok::<(), farword::Error>(())
/// ```
#[derive(Clone)]
pub struct SimFabric {
    world: Rc<RefCell<World>>,
}

impl fmt::Debug for SimFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let world = self.world.borrow();
        f.debug_struct("SimFabric")
            .field("config", &world.config)
            .field("steps", &world.steps)
            .field("qps", &world.used)
            .finish_non_exhaustive()
    }
}

/// Every method panics when it is called from within a [`Watch`].
impl SimFabric {
    /// A fabric whose every decision follows from `seed`.
    #[must_use]
    pub fn new(seed: u64, config: SimConfig) -> Self {
        Self::with_choices(Choices::seeded(seed), config)
    }

    pub(super) fn with_choices(choices: Choices, config: SimConfig) -> Self {
        SimFabric { world: Rc::new(RefCell::new(World::new(choices, config))) }
    }

    pub(super) fn configure(&self, change: impl FnOnce(&mut SimConfig)) {
        change(&mut self.world.borrow_mut().config);
    }

    pub(super) fn restart(&self, choices: Choices, config: SimConfig) {
        self.world.borrow_mut().restart(choices, config);
    }

    /// The remote node's memory, as one region.
    #[must_use]
    pub fn region(&self) -> RemoteRegion {
        let config = self.world.borrow().config;
        RemoteRegion::new(REMOTE_BASE, config.memory.into(), RKEY, config.usage)
    }

    /// A part of it, as a region of its own; what lies outside of the node's
    /// memory is refused by the node.
    #[must_use]
    pub fn region_part(&self, offset: u64, len: u64) -> RemoteRegion {
        let usage = self.world.borrow().config.usage;
        RemoteRegion::new(REMOTE_BASE.wrapping_add(offset), len, RKEY, usage)
    }

    /// Registers local memory, for writes to take their bytes from and reads to
    /// put them. The bytes of a write are taken when it arrives at the node.
    #[must_use]
    pub fn register_local(&self, memory: Rc<[AtomicU64]>) -> LocalSlice {
        let mut world = self.world.borrow_mut();
        let number = world.local.len();
        let len = size_of_val(&memory[..]) as u64;
        world.local.push(memory);
        LocalSlice::new(local_base(number), len, (number as u32 + 1) << 8 | LKEY_TAG)
    }

    /// Stores bytes in the remote memory, visible and durable, as the node's own
    /// code does before anyone connects. What lies outside is left out.
    pub fn format(&self, at: u64, bytes: &[u8]) {
        let mut world = self.world.borrow_mut();
        let at = (at as usize).min(world.config.memory as usize);
        let len = bytes.len().min(world.config.memory as usize - at);
        world.memory.format(at, &bytes[..len]);
    }

    /// A new queue pair, connected to the node.
    #[must_use]
    pub fn connect(&self, sq_depth: u32, cq_depth: u32) -> SimQp {
        let mut world = self.world.borrow_mut();
        let index = world.connect(sq_depth, cq_depth);
        let flush = if world.config.native_flush {
            FlushSupport::Native
        } else {
            FlushSupport::Emulated(LocalSlice::new(0, 8, SCRATCH_LKEY))
        };
        let capabilities = Capabilities::new(sq_depth, cq_depth)
            .with_native_atomic_write(world.config.native_atomic_write)
            .with_flush(flush);
        SimQp { world: Rc::clone(&self.world), index, capabilities }
    }

    /// Lets one thing happen. `false` when nothing was under way.
    pub fn step(&self) -> bool {
        self.world.borrow_mut().step()
    }

    /// Whether nothing is under way and a queue pair has no completions left to
    /// be polled: what is unfinished on it now never finishes.
    #[must_use]
    pub fn is_idle(&self, qp: QpId) -> bool {
        self.world.borrow_mut().is_idle(qp.0)
    }

    /// How many steps have passed.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.world.borrow().steps
    }

    /// A number below `count` from the run's own decisions, so that a caller's
    /// choices are replayed and shrunk with the fabric's. 0 should be the
    /// quietest one.
    #[must_use]
    pub fn choose(&self, count: u32) -> u32 {
        self.world.borrow_mut().choices.below(count)
    }

    /// Lets nothing go wrong from now on.
    pub fn calm(&self) {
        self.world.borrow_mut().calm = true;
    }

    /// Ends a connection on both sides, as a disconnect does: what has arrived
    /// at the node lands, what has not never will. An engine must do so before
    /// it recovers over another connection; a dropped [`SimQp`] alone still
    /// has requests on the wire.
    pub fn tear_down(&self, qp: QpId) {
        let mut world = self.world.borrow_mut();
        if qp.0 < world.used {
            world.tear_down(qp.0);
        }
    }

    /// Cuts the node's power, and gives it back. Only durable bytes survive, and
    /// no connection does.
    pub fn lose_power(&self) {
        self.world.borrow_mut().lose_power();
    }

    /// Looks at the remote memory.
    pub fn memory<R>(&self, look: impl FnOnce(&Memory) -> R) -> R {
        look(&self.world.borrow().memory)
    }

    /// Sets the rules that are checked at every change of the memory.
    pub fn watch(&self, watch: impl Watch + 'static) {
        self.world.borrow_mut().watch = Some(Box::new(watch));
    }

    /// Records that a rule of the caller's was broken. The first one stays.
    pub fn violate(&self, violation: Violation) {
        self.world.borrow_mut().violate(violation);
    }

    /// The first rule that was broken.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        self.world.borrow().violation
    }

    /// What became of the `request`-th request that a queue pair took, counted
    /// from 0; `None` if it never took that many.
    #[must_use]
    pub fn fate(&self, qp: QpId, request: u64) -> Option<Fate> {
        let world = self.world.borrow();
        let qp = world.qps[..world.used].get(qp.0)?;
        qp.work.get(request as usize).map(|wqe| wqe.fate)
    }

    /// How many requests a queue pair took.
    #[must_use]
    pub fn taken(&self, qp: QpId) -> u64 {
        let world = self.world.borrow();
        world.qps[..world.used].get(qp.0).map_or(0, |qp| qp.work.len() as u64)
    }

    /// How many slots of a queue pair's send queue are taken.
    #[must_use]
    pub fn slots_taken(&self, qp: QpId) -> u32 {
        let world = self.world.borrow();
        world.qps[..world.used].get(qp.0).map_or(0, |qp| qp.work.len() as u32 - qp.retired)
    }

    /// What has been covered so far.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.world.borrow().coverage
    }

    /// Keeps the story of the run from now on.
    pub fn tell_story(&self) {
        self.world.borrow_mut().story = Some(Story::default());
    }

    /// Adds a line to the story, if one is told.
    pub fn say(&self, line: impl FnOnce() -> String) {
        self.world.borrow_mut().note(|| Event::Said(line()));
    }

    /// The story so far, which ends here.
    #[must_use]
    pub fn take_story(&self) -> Option<Story> {
        self.world.borrow_mut().story.take()
    }

    pub(super) fn take_choices(&self) -> Vec<u32> {
        self.world.borrow_mut().choices.take_record()
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Coverage)) {
        count(&mut self.world.borrow_mut().coverage);
    }

    pub(super) fn set_sketch(&self, sketch: Sketch) {
        self.world.borrow_mut().sketch = Some(sketch);
    }

    pub(super) fn take_sketch(&self) -> Option<Sketch> {
        self.world.borrow_mut().sketch.take()
    }
}

/// Names a queue pair of a [`SimFabric`], after its [`SimQp`] is gone too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QpId(usize);

/// One queue pair of a [`SimFabric`]. Dropped, it completes nothing more, but
/// what is on the wire may still arrive.
pub struct SimQp {
    world: Rc<RefCell<World>>,
    index: usize,
    capabilities: Capabilities,
}

impl SimQp {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> QpId {
        QpId(self.index)
    }

    /// Whether it is in the error state.
    #[must_use]
    pub fn is_in_error(&self) -> bool {
        self.world.borrow().qps[self.index].local == Local::Error
    }
}

impl fmt::Debug for SimQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimQp").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Drop for SimQp {
    fn drop(&mut self) {
        // The world can be busy only if a watch drops a queue pair; then the
        // queue pair is left as it is.
        if let Ok(mut world) = self.world.try_borrow_mut() {
            world.orphan(self.index);
        }
    }
}

impl Provider for SimQp {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        self.world.borrow_mut().post(self.index, &chain)
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        self.world.borrow_mut().poll(self.index, into)
    }

    fn abort(&mut self) {
        self.world.borrow_mut().abort(self.index);
    }
}

//! The ring, over any provider: `BATCH` writes to a doorbell, every `SIGNALED`th
//! write signaled, then polling until its completion is there.

use farword::soft::{InlineQp, Mode, QpConfig, SoftDevice};
use farword::{Notify, OpContext, Provider, Ring, RingConfig, Target, Usage, Word};

use crate::row::{Memory, Row, Seen, WORDS, targets};

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    rows.push(Box::new(soft::<1>("ring_soft_1", Mode::Emulated)));
    rows.push(Box::new(soft::<8>("ring_soft_8", Mode::Emulated)));
    rows.push(Box::new(soft::<32>("ring_soft_32", Mode::Emulated)));
    rows.push(Box::new(soft::<32>("ring_soft_native_32", Mode::Native)));
}

/// A row over the inline software device.
pub(crate) type SoftRow<const BATCH: u64> = RingRow<InlineQp<'static>, BATCH>;

/// A ring over the inline software device.
pub(crate) fn soft<const BATCH: u64>(name: &'static str, mode: Mode) -> SoftRow<BATCH> {
    let memory = Memory::leak();
    let mut device = SoftDevice::new();
    let region = device.register(&memory.0, Usage::WRITE_DST).expect("one region").remote();
    let device = Box::leak(Box::new(device));
    let qp = InlineQp::boxed(device, QpConfig::default().with_mode(mode)).expect("a queue pair");
    RingRow::new(name, qp, targets(&region), Some(memory))
}

/// A ring and its work; unless it is said otherwise, the last write of every
/// doorbell is signaled.
pub(crate) struct RingRow<P: Provider, const BATCH: u64, const SIGNALED: u64 = BATCH> {
    name: &'static str,
    ring: Ring<'static, P>,
    targets: [Target; WORDS as usize],
    /// Where its words are, if the provider carries requests out.
    memory: Option<&'static Memory>,
    next: u64,
}

impl<P: Provider, const BATCH: u64, const SIGNALED: u64> RingRow<P, BATCH, SIGNALED> {
    pub(crate) fn new(
        name: &'static str,
        provider: P,
        targets: [Target; WORDS as usize],
        memory: Option<&'static Memory>,
    ) -> Self {
        const { assert!(BATCH.is_power_of_two() && BATCH <= SIGNALED) };
        const { assert!(SIGNALED.is_power_of_two() && SIGNALED <= WORDS) };
        let ring = Ring::boxed(provider, RingConfig::new(128, 32.max(BATCH as u32)));
        RingRow { name, ring: ring.expect("a ring"), targets, memory, next: 0 }
    }
}

#[inline(always)]
fn stage<P: Provider>(ring: &mut Ring<'static, P>, target: Target, number: u64, notify: Notify) {
    ring.atomic_write(target, Word::ne(number), notify, OpContext::new(number)).expect("room");
}

impl<P: Provider, const BATCH: u64, const SIGNALED: u64> Row for RingRow<P, BATCH, SIGNALED> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let before = self.ring.counters();
        let mut seen = Seen::default();
        let (mut next, end) = (self.next, self.next + operations);
        while next < end {
            let from = (next % WORDS) as usize;
            let (last, others) =
                self.targets[from..from + BATCH as usize].split_last().expect("not empty");
            for (target, number) in others.iter().zip(next..) {
                stage(&mut self.ring, *target, number, Notify::OnError);
            }
            next += BATCH;
            let is_signaled = next.is_multiple_of(SIGNALED);
            let notify = if is_signaled { Notify::Always } else { Notify::OnError };
            stage(&mut self.ring, *last, next - 1, notify);
            self.ring.doorbell().expect("posted");
            if !is_signaled {
                continue;
            }
            while self.ring.poll_with(|done| seen.see(done.context.get())).expect("alive") == 0 {}
        }
        self.next = end;
        seen.verify(self.name, operations / SIGNALED, end - 1);
        assert!(self.ring.is_idle(), "{}: every write is retired", self.name);
        let after = self.ring.counters();
        assert_eq!(after.retired - before.retired, operations, "{}", self.name);
        Some(after.doorbells - before.doorbells)
    }

    fn verify(&self) {
        assert_eq!(self.ring.counters().posted, self.next, "{}: posted", self.name);
        if let Some(memory) = self.memory {
            memory.verify(self.name, self.next);
        }
    }
}

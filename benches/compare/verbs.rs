//! The ring over the verbs provider, on the software NIC.

use farword::verbs::nic::NicQp;
use farword::verbs::{Path, VerbsQp};
use farword::{FlushKind, LocalSlice, Notify, OpContext, Ring, RingConfig, Span, Target, Word};

use crate::nic::{self, DEPTH, Fabric};
use crate::ring::RingRow;
use crate::row::{Row, Seen, WORDS, targets};

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    nic::add(rows, |fabric| Ok(row::<1, 1>("ring_verbs_1", Path::PostSend, &fabric)));
    nic::add(rows, |fabric| Ok(row::<1, 32>("ring_verbs_1_on_error", Path::PostSend, &fabric)));
    nic::add(rows, |fabric| Ok(row::<8, 8>("ring_verbs_8", Path::PostSend, &fabric)));
    nic::add(rows, |fabric| Ok(row::<32, 32>("ring_verbs_32", Path::PostSend, &fabric)));
    nic::add(rows, |fabric| Ok(row::<1, 1>("ring_wr_1", Path::WrCalls, &fabric)));
    nic::add(rows, |fabric| Ok(row::<32, 32>("ring_wr_32", Path::WrCalls, &fabric)));
    nic::add(rows, |fabric| Ok(row::<1, 1>("ring_native_1", Path::Native, &fabric)));
    nic::add(rows, |fabric| Ok(row::<32, 32>("ring_native_32", Path::Native, &fabric)));
    nic::add(rows, |fabric| Ok(Commits::new("ring_commit", Path::PostSend, fabric)));
    nic::add(rows, |fabric| Ok(Commits::new("ring_commit_native", Path::Native, fabric)));
}

type NicRing = Ring<'static, VerbsQp<NicQp<'static>>>;

fn row<const BATCH: u64, const SIGNALED: u64>(
    name: &'static str,
    best: Path,
    fabric: &Fabric,
) -> RingRow<VerbsQp<NicQp<'static>>, BATCH, SIGNALED> {
    let provider = fabric.qp(best).into_provider().expect("the best path is there");
    RingRow::new(name, provider, targets(&fabric.words), fabric.carried_out())
}

/// A commit: 64 bytes, a flush, the atomic write, a flush that is waited for;
/// one doorbell.
struct Commits {
    name: &'static str,
    ring: NicRing,
    targets: [Target; WORDS as usize],
    tails: [Span; WORDS as usize],
    record: LocalSlice,
    place: Span,
    fabric: Fabric,
    next: u64,
}

impl Commits {
    fn new(name: &'static str, best: Path, fabric: Fabric) -> Self {
        let provider = fabric.qp(best).into_provider().expect("the best path is there");
        let ring = Ring::boxed(provider, RingConfig::new(DEPTH, 32)).expect("a ring");
        let tails = |index| fabric.words.span(8 * index as u64, 8).expect("within the region");
        Commits {
            name,
            ring,
            targets: targets(&fabric.words),
            tails: core::array::from_fn(tails),
            record: fabric.local.local().slice(0, 64).expect("within the region"),
            place: fabric.log.span(0, 64).expect("within the region"),
            fabric,
            next: 0,
        }
    }

    #[inline(always)]
    fn commit(&mut self, number: u64) {
        let (quiet, kind) = (OpContext::new(0), FlushKind::Visibility);
        let at = (number % WORDS) as usize;
        let (target, tail, word) = (self.targets[at], self.tails[at], Word::ne(number));
        let ring = &mut self.ring;
        ring.write(self.record, self.place, Notify::OnError, quiet).expect("room");
        ring.flush(self.place, kind, Notify::OnError, quiet).expect("room");
        ring.atomic_write(target, word, Notify::OnError, quiet).expect("room");
        ring.flush(tail, kind, Notify::Always, OpContext::new(number)).expect("room");
        ring.doorbell().expect("posted");
    }
}

impl Row for Commits {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let before = self.ring.counters();
        let mut seen = Seen::default();
        let end = self.next + operations;
        for number in self.next..end {
            self.commit(number);
            while self.ring.poll_with(|done| seen.see(done.context.get())).expect("alive") == 0 {}
        }
        self.next = end;
        seen.verify(self.name, operations, end - 1);
        Some(self.ring.counters().doorbells - before.doorbells)
    }

    fn verify(&self) {
        assert!(self.ring.is_idle(), "{}: every request is retired", self.name);
        assert_eq!(self.ring.counters().posted, 4 * self.next, "{}: posted", self.name);
        self.fabric.verify_words(self.name, self.next);
    }
}

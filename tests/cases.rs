//! Faults that others reported and that no other suite has a test for. The whole
//! table, fault by fault and test by test, is in `cases.md` beside this file.

#[path = "support/mod.rs"]
mod support;

use core::time::Duration;

use farword::fault::{Fault, FaultPlan};
use farword::soft::{Mode, ThreadedQp};
use farword::{
    AlignedOffset, Deadline, Notify, Outcome, Polls, Provider, RemoteRegion, Ring, WaitError, Word,
};

use support::soft::{with_inline, with_threaded};
use support::{Fabric, ctx, drained, patience, ring, told};

/// Cases 7 and 20: nothing completes any more, and nothing says so.
#[test]
fn waits_and_drains_over_a_silent_device_end_at_their_bound_and_give_everything_back() {
    with_inline(Mode::Emulated, |fabric| {
        let plan = FaultPlan::new(0).delay_at(0, u32::MAX);
        let mut ring = ring(Fault::new(fabric.qp(16, 16), plan).unwrap(), 16, 8);
        let mut last = None;
        for at in 0..6 {
            let word = Word::ne(at + 1);
            last = Some(ring.atomic_write(fabric.word(0), word, Notify::Always, ctx(at)).unwrap());
        }
        let last = last.unwrap();
        assert_eq!(ring.wait(last, Polls(50), |_| {}), Err(WaitError::TimedOut));
        let soon = Deadline::after(Duration::from_millis(2));
        assert_eq!(ring.wait(last, soon, |_| {}), Err(WaitError::TimedOut));
        let soon = Deadline::after(Duration::from_millis(2));
        assert_eq!(ring.drain(soon, |_| {}), Err(WaitError::TimedOut));
        assert_eq!((ring.in_flight(), ring.failure()), (6, None), "it may still complete");
        ring.abandon();
        assert_eq!(drained(&mut ring).0, told(0..6, Outcome::Unknown));
        assert!(ring.is_idle());
    });
}

/// Case 25: one write on an idle ring takes no more than its own doorbell, and so
/// do many.
#[test]
fn the_first_write_of_an_idle_ring_goes_at_once_and_batching_is_the_callers_choice() {
    with_inline(Mode::Native, |fabric| {
        let mut ring = fabric.ring(64, 32);
        for (round, count) in [1, 32, 1, 7].into_iter().enumerate() {
            for at in 0..count {
                let word = Word::ne(at + 1);
                ring.atomic_write(fabric.word(at as u32), word, Notify::Always, ctx(at)).unwrap();
            }
            assert_eq!(ring.doorbell(), Ok(count as u32));
            assert_eq!(fabric.seen(count as usize - 1), count, "it waits for no others");
            assert_eq!(ring.counters().doorbells, round as u64 + 1);
            assert_eq!(drained(&mut ring), (told(0..count, Outcome::Confirmed), Ok(())));
        }
    });
}

/// Cases 5 and 26: whatever room the caller has, each completion is told once, in
/// order, and all that are there when there is room for them.
#[test]
fn a_poll_gives_what_there_is_room_for_and_the_next_one_the_rest() {
    with_inline(Mode::Emulated, |fabric| {
        let fill = |ring: &mut Ring<'_, _>| {
            for at in 0..40 {
                let word = Word::ne(at);
                ring.atomic_write(fabric.word(0), word, Notify::Always, ctx(at)).unwrap();
            }
            ring.doorbell().unwrap();
        };
        let mut ring = fabric.ring(64, 64);
        fill(&mut ring);
        let mut out = arrayvec::ArrayVec::<farword::Completion, 33>::new();
        let mut all = Vec::new();
        for given in [33, 7, 0] {
            out.clear();
            assert_eq!((ring.poll(&mut out), out.len()), (Ok(given), given));
            all.extend(out.iter().map(|done| done.context.get()));
        }
        fill(&mut ring);
        let given = ring.poll_with(|done| all.push(done.context.get()));
        assert_eq!((given, ring.in_flight()), (Ok(40), 0));
        assert_eq!(all, (0..40).chain(0..40).collect::<Vec<u64>>());
    });
}

/// More queue pairs than a device's context has doorbell registers of its own.
const QUEUE_PAIRS: usize = 24;
const WRITES: u64 = 200;

/// Counts a word up, some writes to a doorbell, and holds that each arrived.
fn count_up<P: Provider>(mut ring: Ring<'_, P>, region: RemoteRegion, index: usize) {
    let target = region.target(AlignedOffset::of_word(index as u32)).unwrap();
    let mut told = 0;
    for value in 1..=WRITES {
        let word = Word::ne(value << 32 | index as u64);
        let ticket = ring.atomic_write(target, word, Notify::Always, ctx(value)).unwrap();
        if value % 5 == 0 {
            ring.wait(ticket, patience(), |done| {
                told += 1;
                assert_eq!((done.context, done.outcome), (ctx(told), Outcome::Confirmed));
            })
            .unwrap();
        }
    }
    assert_eq!((told, ring.counters().stale), (WRITES, 0));
}

fn all_counted(fabric: &impl Fabric) {
    for index in 0..QUEUE_PAIRS {
        assert_eq!(fabric.seen(index), WRITES << 32 | index as u64);
    }
}

/// Case 18. Under the thread sanitizer it is a test for races, too.
#[test]
fn many_queue_pairs_on_many_threads_do_not_disturb_one_another() {
    with_threaded(Mode::Native, |fabric| {
        let region = fabric.remote();
        let rings: Vec<Ring<'_, ThreadedQp>> =
            (0..QUEUE_PAIRS).map(|_| fabric.ring(16, 8)).collect();
        std::thread::scope(|scope| {
            for (index, ring) in rings.into_iter().enumerate() {
                scope.spawn(move || count_up(ring, region, index));
            }
        });
        all_counted(fabric);
    });
}

/// Case 18, for the code that drives real queue pairs.
#[cfg(feature = "verbs")]
#[test]
fn many_verbs_queue_pairs_on_many_threads_do_not_disturb_one_another() {
    use farword::verbs::Path;
    for path in [Path::PostSend, Path::WrCalls, Path::Native] {
        support::nic::with_nic(path, |fabric| {
            let region = fabric.remote();
            let rings: Vec<_> = (0..QUEUE_PAIRS).map(|_| fabric.ring(16, 8)).collect();
            std::thread::scope(|scope| {
                for (index, ring) in rings.into_iter().enumerate() {
                    scope.spawn(move || count_up(ring, region, index));
                }
            });
            all_counted(fabric);
        });
    }
}

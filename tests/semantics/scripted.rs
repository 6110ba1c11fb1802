//! What a ring does with its numbers, and over providers that break their
//! contract: it stays right about what it was told, and loses no context.

use arrayvec::ArrayVec;
use farword::soft::Mode;
use farword::wr::Wc;
use farword::{
    AlignedOffset, Error, Notify, Outcome, RemoteRegion, Ring, RingConfig, Usage, WcStatus, Why,
    Word,
};

use crate::support::soft::with_inline;
use crate::support::wrap::{Scripted, Tap};
use crate::support::{Fabric, Told, ctx, drained, ring, told};

/// A ring with `count` signaled writes in flight.
fn in_flight(count: u64) -> Ring<'static, Scripted> {
    let mut ring = ring(Scripted::new(16), 16, 16);
    let region = RemoteRegion::new(0x1000, 64, 1, Usage::WRITE_DST);
    let target = region.target(AlignedOffset::ZERO).unwrap();
    for at in 0..count {
        ring.atomic_write(target, Word::ne(at), Notify::Always, ctx(at)).unwrap();
    }
    assert_eq!(ring.doorbell(), Ok(count as u32));
    ring
}

/// Has the provider complete request `at` with `status`.
fn answer(ring: &mut Ring<'_, Scripted>, at: usize, status: WcStatus) {
    let wr_id = ring.provider().posted[at];
    ring.provider_mut().answers.push_back(Wc::new(wr_id, status, 0, 0, 1));
}

/// Polls by twos, so that room runs out in the midst of a run.
fn all_by_twos(ring: &mut Ring<'_, Scripted>) -> Vec<Told> {
    let mut all = Vec::new();
    for _ in 0..32 {
        let mut two = ArrayVec::<_, 2>::new();
        match ring.poll(&mut two) {
            Ok(count) => assert_eq!(count, two.len(), "what was counted was given"),
            Err(Error::Failed { .. }) => return all,
            Err(error) => panic!("{error}"),
        }
        all.extend(two.into_iter().map(Told::from));
    }
    all
}

#[test]
fn a_completion_that_comes_twice_is_told_once() {
    let mut ring = in_flight(3);
    for at in [0, 0, 1, 1, 0, 2] {
        answer(&mut ring, at, WcStatus::SUCCESS);
    }
    assert_eq!(all_by_twos(&mut ring), told(0..3, Outcome::Confirmed));
    assert_eq!((ring.counters().stale, ring.counters().completions), (3, 3));
}

#[test]
fn a_completion_of_no_request_is_dropped() {
    let mut ring = in_flight(2);
    let first = ring.provider().posted[0];
    for wr_id in [0, u64::MAX, first ^ 1 << 32, first + 2, first.wrapping_sub(1)] {
        ring.provider_mut().answers.push_back(Wc::new(wr_id, WcStatus::SUCCESS, 0, 0, 1));
        ring.provider_mut().answers.push_back(Wc::new(wr_id, WcStatus::REM_OP_ERR, 0, 0, 1));
    }
    assert_eq!(all_by_twos(&mut ring), []);
    assert_eq!((ring.counters().stale, ring.in_flight(), ring.failure()), (10, 2, None));
}

#[test]
fn a_flush_completion_left_out_loses_no_context() {
    let mut ring = in_flight(9);
    answer(&mut ring, 1, WcStatus::REM_ACCESS_ERR);
    answer(&mut ring, 7, WcStatus::WR_FLUSH_ERR);
    answer(&mut ring, 8, WcStatus::WR_FLUSH_ERR);
    // The first one's own completion was left out too: it counts as a success,
    // which the next one implies, and so stays silent.
    let mut expected = vec![Told(1, Outcome::Failed(WcStatus::REM_ACCESS_ERR))];
    expected.extend(told(2..9, Outcome::Unknown));
    assert_eq!(all_by_twos(&mut ring), expected);
    assert!(ring.is_idle());
}

#[test]
fn a_success_behind_a_failure_is_not_believed() {
    let mut ring = in_flight(4);
    answer(&mut ring, 0, WcStatus::RETRY_EXC_ERR);
    answer(&mut ring, 1, WcStatus::SUCCESS);
    answer(&mut ring, 3, WcStatus::SUCCESS);
    let mut expected = vec![Told(0, Outcome::Failed(WcStatus::RETRY_EXC_ERR))];
    expected.extend(told(1..4, Outcome::Unknown));
    assert_eq!(all_by_twos(&mut ring), expected);
    let why = Why::Completion { status: WcStatus::RETRY_EXC_ERR, vendor_err: 0 };
    assert_eq!((ring.failure(), ring.confirmed().get()), (Some(why), 0));
}

/// Flushed, and nothing before it failed: the queue pair was put into error from
/// outside, and whether the request was carried out nobody said.
#[test]
fn a_flush_completion_that_comes_first_leaves_its_request_unknown() {
    let mut ring = in_flight(3);
    answer(&mut ring, 0, WcStatus::SUCCESS);
    answer(&mut ring, 1, WcStatus::WR_FLUSH_ERR);
    answer(&mut ring, 2, WcStatus::WR_FLUSH_ERR);
    let mut expected = told(0..1, Outcome::Confirmed);
    expected.extend(told(1..3, Outcome::Unknown));
    assert_eq!(all_by_twos(&mut ring), expected);
    let why = Why::Completion { status: WcStatus::WR_FLUSH_ERR, vendor_err: 0 };
    assert_eq!(ring.failure(), Some(why));
}

#[test]
fn the_first_error_names_the_failure_and_its_vendor_code() {
    let mut ring = in_flight(2);
    let wr_id = ring.provider().posted[0];
    let first = Wc { vendor_err: 0x81, ..Wc::new(wr_id, WcStatus::GENERAL_ERR, 99, 99, 1) };
    ring.provider_mut().answers.push_back(first);
    answer(&mut ring, 1, WcStatus::LOC_LEN_ERR);
    let mut all = Vec::new();
    ring.poll_with(|completion| all.push(completion.outcome)).unwrap();
    assert_eq!(all, [Outcome::Failed(WcStatus::GENERAL_ERR), Outcome::Unknown]);
    let why = Why::Completion { status: WcStatus::GENERAL_ERR, vendor_err: 0x81 };
    assert_eq!(ring.failure(), Some(why));
}

/// A ring whose first request has the number `first`.
fn ring_from<P: farword::Provider>(qp: P, first: u64, depth: u32) -> Ring<'static, P> {
    let mut config = RingConfig::new(depth, depth);
    config.first = first;
    Ring::boxed(qp, config).unwrap()
}

const NEAR_THE_WRAPS: [u64; 4] =
    [0, u32::MAX as u64 - 20, u64::MAX - 20, (u32::MAX as u64) << 32 | (u32::MAX as u64 - 7)];

/// CASES 2, the rule behind it: so no full queue is silent.
#[test]
fn of_every_quarter_of_the_queue_in_a_row_one_request_is_signaled() {
    for (first, depth) in NEAR_THE_WRAPS.into_iter().flat_map(|at| [(at, 1), (at, 4), (at, 32)]) {
        with_inline(Mode::Emulated, |fabric| {
            let mut ring = ring_from(Tap::new(fabric.qp(depth, depth)), first, depth);
            let count = 6 * depth as usize;
            for _ in 0..count {
                ring.atomic_write(fabric.word(0), Word::ne(1), Notify::OnError, ctx(0)).unwrap();
                ring.doorbell().unwrap();
                ring.poll_with(|_| panic!("it is silent")).unwrap();
            }
            let signaled: Vec<_> =
                ring.provider().taken.iter().map(|wr| wr.is_signaled()).collect();
            assert_eq!(signaled.len(), count);
            let quarter = (depth as usize / 4).max(1);
            for run in signaled.windows(quarter) {
                let found = run.iter().filter(|signaled| **signaled).count();
                assert_eq!(found, 1, "depth {depth} from {first}: {signaled:?}");
            }
        });
    }
}

/// Tickets, confirmation and contexts where every counter wraps.
#[test]
fn the_wrap_of_the_counters_is_as_any_other_step() {
    for first in NEAR_THE_WRAPS {
        with_inline(Mode::Emulated, |fabric| {
            let mut ring = ring_from(fabric.qp(8, 8), first, 8);
            let mut tickets = Vec::new();
            for round in 0..10u64 {
                for at in 0..5 {
                    let notify = if at == 4 { Notify::Always } else { Notify::OnError };
                    let word = Word::ne(round);
                    let context = ctx(5 * round + at);
                    tickets.push(ring.atomic_write(fabric.word(at as u32), word, notify, context));
                }
                let before = *tickets[tickets.len() - 5].as_ref().unwrap();
                assert!(!ring.is_confirmed(before), "round {round} from {first}");
                let last = 5 * round + 4;
                assert_eq!(drained(&mut ring).0, told(last..last + 1, Outcome::Confirmed));
                assert!(tickets.iter().all(|ticket| ring.is_confirmed(ticket.unwrap())));
            }
            let numbers: Vec<_> = tickets.iter().map(|ticket| ticket.unwrap().get()).collect();
            let expected: Vec<_> = (0..50).map(|at| first.wrapping_add(at)).collect();
            assert_eq!(numbers, expected);
            let counters = ring.counters();
            assert_eq!((counters.staged, counters.posted, counters.retired), (50, 50, 50));
        });
    }
}

//! What is posted, request by request, and through which calls.

use farword::verbs::nic::{Given, NicQp};
use farword::verbs::{Path, PathUnavailable};
use farword::wr::{WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE};
use farword::{Error, FlushKind, FlushSupport, Invalid, Notify, Provider, Ring, RingConfig, Word};

use crate::support::nic::{Nic, with_half_native_nic, with_nic};
use crate::support::{Fabric, ctx, polled, ring};
use crate::{NicProvider, PATHS};

fn recording<'d>(fabric: &Nic<'d>) -> Ring<'d, NicProvider<'d>> {
    ring(fabric.make(fabric.config(32, 32).with_records(true)), 32, 16)
}

fn given<'r>(ring: &'r Ring<'_, NicProvider<'_>>) -> &'r [Given] {
    ring.provider().owner().given()
}

/// A record, its flush, the tail word, its flush.
fn stage_commit<'d>(fabric: &Nic<'d>, ring: &mut Ring<'d, NicProvider<'d>>) {
    let (local, record) =
        (fabric.local().slice(0, 64).unwrap(), fabric.remote().span(64, 64).unwrap());
    let tail = fabric.remote().span(8, 8).unwrap();
    ring.write(local, record, Notify::OnError, ctx(0)).unwrap();
    ring.flush(record, FlushKind::Visibility, Notify::OnError, ctx(1)).unwrap();
    ring.atomic_write(fabric.word(1), Word::ne(0x1122), Notify::OnError, ctx(2)).unwrap();
    ring.flush(tail, FlushKind::Visibility, Notify::Always, ctx(3)).unwrap();
}

#[test]
fn on_the_fallback_the_word_goes_inline_and_is_fenced_behind_an_emulated_flush() {
    for path in [Path::PostSend, Path::WrCalls] {
        with_nic(path, |fabric| {
            let mut ring = recording(fabric);
            stage_commit(fabric, &mut ring);
            ring.doorbell().unwrap();
            let given = given(&ring);
            let opcodes: Vec<_> = given.iter().map(|given| given.opcode).collect();
            assert_eq!(opcodes, [WR_RDMA_WRITE, WR_RDMA_READ, WR_RDMA_WRITE, WR_RDMA_READ]);
            let inline: Vec<_> = given.iter().map(Given::is_inline).collect();
            assert_eq!(inline, [false, false, true, false]);
            let fenced: Vec<_> = given.iter().map(Given::is_fenced).collect();
            assert_eq!(fenced, [false, false, true, false]);
            let signaled: Vec<_> = given.iter().map(Given::is_signaled).collect();
            assert_eq!(signaled, [false, false, false, true]);
            let lens: Vec<_> = given.iter().map(|given| given.len).collect();
            assert_eq!(lens, [64, 8, 8, 8]);
            assert_eq!(given[2].data, 0x1122);
            assert_eq!(given[2].remote_addr, fabric.word(1).address());
            assert!(given.iter().all(|given| given.by_calls == (path == Path::WrCalls)));
            assert!(given.iter().all(|given| given.doorbell == 1), "one doorbell for all");
            polled(&mut ring, 1);
            assert_eq!(fabric.seen(1), 0x1122);
        });
    }
}

#[test]
fn without_an_outstanding_flush_the_word_carries_no_fence() {
    for path in PATHS {
        with_nic(path, |fabric| {
            let mut ring = recording(fabric);
            stage_commit(fabric, &mut ring);
            ring.doorbell().unwrap();
            polled(&mut ring, 1);
            ring.atomic_write(fabric.word(1), Word::ne(1), Notify::Always, ctx(4)).unwrap();
            ring.doorbell().unwrap();
            assert!(!given(&ring)[4].is_fenced(), "{path:?}: the flush was confirmed");
        });
    }
}

#[test]
fn on_the_native_path_the_operations_are_the_devices_own() {
    with_nic(Path::Native, |fabric| {
        let mut ring = recording(fabric);
        stage_commit(fabric, &mut ring);
        ring.doorbell().unwrap();
        let given = given(&ring);
        let opcodes: Vec<_> = given.iter().map(|given| given.opcode).collect();
        assert_eq!(opcodes, [WR_RDMA_WRITE, WR_FLUSH, WR_ATOMIC_WRITE, WR_FLUSH]);
        assert!(given.iter().all(|given| !given.is_fenced() && !given.is_inline()));
        assert!(given.iter().all(|given| given.by_calls && given.doorbell == 1));
        assert_eq!((given[1].data, given[2].data, given[2].len), (64, 0x1122, 8));
        polled(&mut ring, 1);
        assert_eq!(fabric.seen(1), 0x1122);
    });
}

/// ATOMIC WRITE without FLUSH: the fence is needed on the native path too.
#[test]
fn a_native_word_is_fenced_behind_an_emulated_flush() {
    with_half_native_nic((), |fabric| {
        let mut ring = recording(fabric);
        assert!(matches!(ring.capabilities().flush, FlushSupport::Emulated(_)));
        stage_commit(fabric, &mut ring);
        ring.doorbell().unwrap();
        let kinds: Vec<_> =
            given(&ring).iter().map(|given| (given.opcode, given.is_fenced())).collect();
        let (write, read) = ((WR_RDMA_WRITE, false), (WR_RDMA_READ, false));
        assert_eq!(kinds, [write, read, (WR_ATOMIC_WRITE, true), read]);
    });
}

/// A peer's memory need not grant FLUSH: librpma 1.2.0 is older than it.
#[test]
fn a_native_queue_pair_flushes_by_reads_where_it_is_told_to() {
    with_nic(Path::Native, |fabric| {
        let mut qp = fabric.make(fabric.config(32, 32).with_records(true));
        assert_eq!(qp.capabilities().flush, FlushSupport::Native);
        assert!(qp.emulate_flush());
        let mut ring = ring(qp, 32, 16);
        assert!(matches!(ring.capabilities().flush, FlushSupport::Emulated(_)));
        stage_commit(fabric, &mut ring);
        ring.doorbell().unwrap();
        let kinds: Vec<_> =
            given(&ring).iter().map(|given| (given.opcode, given.is_fenced())).collect();
        let (write, read) = ((WR_RDMA_WRITE, false), (WR_RDMA_READ, false));
        assert_eq!(kinds, [write, read, (WR_ATOMIC_WRITE, true), read]);
        polled(&mut ring, 1);
        assert_eq!(fabric.seen(1), 0x1122);
    });
}

/// CASES 10: the read of the flush answers late, and the word waits for it.
#[test]
fn a_late_flush_holds_the_word_back() {
    let held_back = |fabric: &Nic<'_>| {
        let config = fabric.config(32, 32).with_late_reads(true);
        let mut ring = ring(fabric.make(config), 32, 16);
        let span = fabric.remote().span(8, 8).unwrap();
        ring.atomic_write(fabric.word(1), Word::ne(1), Notify::OnError, ctx(0)).unwrap();
        ring.read(fabric.local().slice(0, 8).unwrap(), span, Notify::OnError, ctx(1)).unwrap();
        ring.flush(span, FlushKind::Visibility, Notify::OnError, ctx(2)).unwrap();
        ring.atomic_write(fabric.word(1), Word::ne(2), Notify::Always, ctx(3)).unwrap();
        ring.doorbell().unwrap();
        polled(&mut ring, 1);
        let read = fabric.local_memory()[0].load(core::sync::atomic::Ordering::Acquire);
        assert_eq!((read, fabric.seen(1)), (1, 2), "the read saw what stood before the word");
    };
    for path in [Path::PostSend, Path::WrCalls] {
        with_nic(path, held_back);
    }
    with_half_native_nic((), held_back);
}

#[test]
fn an_empty_write_moves_nothing_on_any_path() {
    for path in PATHS {
        with_nic(path, |fabric| {
            let mut ring = recording(fabric);
            let nothing = fabric.local().slice(0, 0).unwrap();
            let nowhere = fabric.remote().span(0, 0).unwrap();
            ring.write(nothing, nowhere, Notify::Always, ctx(0)).unwrap();
            ring.doorbell().unwrap();
            assert_eq!(polled(&mut ring, 1).len(), 1);
            assert_eq!((given(&ring)[0].opcode, given(&ring)[0].len), (WR_RDMA_WRITE, 0));
        });
    }
}

#[test]
fn the_best_path_is_taken_unless_one_is_forced() {
    for best in PATHS {
        with_nic(best, |fabric| {
            assert_eq!(fabric.qp(8, 8).path(), best);
            for forced in PATHS {
                let config = fabric.config(8, 8).with_path(forced);
                let made = NicQp::new(fabric.sides.device, config).unwrap().into_provider();
                if forced <= best {
                    let provider = made.unwrap();
                    assert_eq!(provider.path(), forced);
                    let native = farword::Provider::capabilities(&provider).native_atomic_write;
                    assert_eq!(native, forced == Path::Native);
                } else {
                    let refused = made.err();
                    assert_eq!(refused, Some(PathUnavailable { asked: forced, best }));
                }
            }
        });
    }
}

/// CASES 14.
#[test]
fn too_small_a_grant_of_inline_data_is_refused_where_it_is_needed() {
    for (path, granted) in
        PATHS.into_iter().flat_map(|path| [0, 7, 8].map(|granted| (path, granted)))
    {
        with_nic(path, |fabric| {
            let qp = fabric.make(fabric.config(8, 8).with_max_inline(granted));
            let made = Ring::boxed(qp, RingConfig::new(8, 8)).map(drop);
            if granted < 8 && path != Path::Native {
                let which = Invalid::InlineTooSmall { granted };
                assert_eq!(made, Err(Error::Invalid { which }));
            } else {
                assert_eq!(made, Ok(()));
            }
        });
    }
}

/// CASES 11: what differs between the paths is the completion's opcode alone.
#[test]
fn every_path_gives_the_same_results_and_the_wr_id_back() {
    let results = PATHS.map(|path| {
        with_nic(path, |fabric| {
            let mut ring = recording(fabric);
            stage_commit(fabric, &mut ring);
            ring.atomic_write(fabric.word(9), Word::ne(7), Notify::Always, ctx(9)).unwrap();
            ring.doorbell().unwrap();
            let completions: Vec<_> = polled(&mut ring, 2)
                .iter()
                .map(|told| (told.context.get(), told.outcome))
                .collect();
            let counters = ring.counters();
            assert_eq!(counters.stale, 0, "{path:?}: the completions name their requests");
            (completions, counters, fabric.seen(1), fabric.seen(9))
        })
    });
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}

//! Faults on one device: keys, bounds, regions that go, queues to the brim.

use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::thread;

use farword::verbs::{ConnConfig, Mr, Path, VerbsQp};
use farword::{
    AlignedOffset, Completion, Deadline, Error, FlushKind, LocalSlice, Notify, OpContext, Outcome,
    RemoteRegion, Ring, Ticket, Usage, WaitError, WcStatus, Why, Word,
};

use crate::Row;
use crate::support::{Client, LONG, pair, paths, put};

pub(crate) const ROWS: &[Row] = &[
    ("a-wrong-key-fails-and-touches-nothing", wrong_key),
    ("out-of-bounds-fails-and-touches-nothing", out_of_bounds),
    ("a-region-without-the-right-fails", no_right),
    ("a-region-deregistered-under-the-client-fails", deregistered),
    ("a-wrong-local-key-fails-and-sends-nothing", wrong_local_key),
    ("the-third-write-fails-and-every-context-comes-back-once", third_fails),
    ("any-number-of-unsignaled-writes-goes-through", queues_to_the_brim),
    ("seven-silent-writes-and-one-loud-one-are-confirmed-by-it", one_confirms_eight),
    ("a-write-behind-a-flush-waits-for-it", fenced),
    ("the-path-is-as-asked", forced_path),
    ("a-disconnect-flushes-what-is-pending", disconnect_flushes),
];

const WORD: AlignedOffset = AlignedOffset::literal::<8>();

/// Runs `job` on a connected pair, once per path.
fn on_each_path(address: &str, job: impl Fn(&Mr, Client)) {
    for path in paths(address) {
        println!("{path:?}");
        thread::scope(|scope| {
            let config = ConnConfig::default().with_path(path);
            let (server, client) = pair(scope, address, 4096, config);
            job(&server.region, client);
        });
    }
}

/// Drains a ring that must have failed with this status.
fn failed_with(ring: &mut Ring<'_, VerbsQp>, wanted: WcStatus) -> Vec<Completion> {
    let mut all = Vec::new();
    let ended = ring.drain(Deadline::after(LONG), |completion| all.push(completion));
    let Err(WaitError::Ring(Error::Failed { why })) = ended else { panic!("{ended:?}") };
    let Why::Completion { status, .. } = why else { panic!("{why}") };
    assert_eq!(status, wanted);
    all
}

fn write_to(client: &mut Client, region: RemoteRegion, at: AlignedOffset) -> Vec<Completion> {
    let target = region.target(at).expect("what the descriptor allows");
    put(&mut client.ring, target, 7, Notify::OnError).expect("room");
    put(&mut client.ring, target, 8, Notify::Always).expect("room");
    let all = failed_with(&mut client.ring, WcStatus::REM_ACCESS_ERR);
    let outcomes: Vec<_> = all.iter().map(|completion| completion.outcome).collect();
    assert_eq!(outcomes, [Outcome::Failed(WcStatus::REM_ACCESS_ERR), Outcome::Unknown]);
    all
}

fn untouched(memory: &Mr) {
    assert!(memory.words().iter().all(|word| word.load(Ordering::Acquire) == 0));
}

fn wrong_key(address: &str) {
    on_each_path(address, |memory, mut client| {
        let told = client.region;
        let region =
            RemoteRegion::new(told.base(), told.size(), told.rkey() ^ 0x5500, told.usage());
        write_to(&mut client, region, WORD);
        untouched(memory);
    });
}

fn out_of_bounds(address: &str) {
    on_each_path(address, |memory, mut client| {
        let told = client.region;
        let larger = RemoteRegion::new(told.base(), told.size() + 64, told.rkey(), told.usage());
        write_to(&mut client, larger, AlignedOffset::new(told.size()).expect("aligned"));
        untouched(memory);
    });
}

fn no_right(address: &str) {
    on_each_path(address, |memory, mut client| {
        let readable = Mr::alloc(memory.pd(), 64, Usage::READ_SRC).expect("a region");
        let told = readable.remote();
        let claimed =
            RemoteRegion::new(told.base(), told.size(), told.rkey(), client.region.usage());
        write_to(&mut client, claimed, WORD);
        untouched(&readable);
    });
}

fn deregistered(address: &str) {
    for path in paths(address) {
        thread::scope(|scope| {
            let config = ConnConfig::default().with_path(path);
            let (server, mut client) = pair(scope, address, 4096, config);
            let target = client.region.target(WORD).expect("a target");
            let ticket = put(&mut client.ring, target, 1, Notify::Always).expect("room");
            client.ring.wait(ticket, Deadline::after(LONG), |_| {}).expect("it is there");
            let memory = server.region.into_memory();
            let region = client.region;
            write_to(&mut client, region, WORD);
            use farword::verbs::Memory;
            assert_eq!(memory.words()[1].load(Ordering::Acquire), 1, "the first write's");
        });
    }
}

/// Soft-RoCE of 6.1 has another status for it than the specification, that of
/// 6.12 tells of it as of a request that is flushed: less than there is to know.
fn wrong_local_key(address: &str) {
    on_each_path(address, |memory, mut client| {
        let source = Mr::alloc(client.connection.pd(), 64, Usage::WRITE_SRC).expect("a source");
        source.words()[0].store(7, Ordering::Release);
        let wrong = LocalSlice::new(source.local().address(), 8, source.lkey() ^ 0x5500);
        let span = client.region.span(8, 8).expect("it lies in the region");
        for (local, context) in [(wrong, 1), (source.local().slice(0, 8).expect("whole"), 2)] {
            let context = OpContext::new(context);
            client.ring.write(local, span, Notify::OnError, context).expect("room");
        }
        let mut all = Vec::new();
        let deadline = Deadline::after(LONG);
        let ended = client.ring.drain(deadline, |told| all.push(told.context.get()));
        let Err(WaitError::Ring(Error::Failed { why })) = ended else { panic!("{ended:?}") };
        let Why::Completion { status, .. } = why else { panic!("{why}") };
        let known = [WcStatus::LOC_PROT_ERR, WcStatus::LOC_QP_OP_ERR, WcStatus::WR_FLUSH_ERR];
        assert!(known.contains(&status), "{why}");
        assert_eq!(all, [1, 2]);
        untouched(memory);
    });
}

/// CASES 5: 1 and 2 confirmed, 3 failed, the rest flushed, each once.
fn third_fails(address: &str) {
    on_each_path(address, |memory, mut client| {
        let told = client.region;
        let wrong = RemoteRegion::new(told.base(), told.size(), told.rkey() ^ 0x5500, told.usage());
        let (right, wrong) =
            (told.target(WORD).expect("right"), wrong.target(WORD).expect("wrong"));
        for value in 1..=8u64 {
            let target = if value == 3 { wrong } else { right };
            put(&mut client.ring, target, value, Notify::OnError).expect("room");
        }
        client.ring.doorbell().expect("posted");
        let mut outcomes = BTreeMap::new();
        let deadline = &mut Deadline::after(LONG);
        while outcomes.len() < 8 && farword::Patience::more(deadline) {
            let _ = client.ring.poll_retired(|completion| {
                let before = outcomes.insert(completion.context.get(), completion.outcome);
                assert_eq!(before, None, "each once");
            });
        }
        let outcomes: Vec<_> = outcomes.into_values().collect();
        let mut expected = vec![Outcome::Unknown; 8];
        expected[..2].fill(Outcome::Confirmed);
        expected[2] = Outcome::Failed(WcStatus::REM_ACCESS_ERR);
        assert_eq!(outcomes, expected);
        assert_eq!(memory.words()[1].load(Ordering::Acquire), 2);
    });
}

/// CASES 2: slots come back though nothing that the caller posts is signaled.
fn queues_to_the_brim(address: &str) {
    on_each_path(address, |memory, mut client| {
        let target = client.region.target(WORD).expect("a target");
        let mut last = None;
        let many = 3 * u64::from(client.connection.ring_depth()) + 1;
        for value in 1..=many {
            last = Some(put(&mut client.ring, target, value, Notify::OnError).expect("room"));
        }
        let last = last.expect("many");
        client.ring.wait(last, Deadline::after(LONG), |_| {}).expect("all of them");
        client.ring.drain(Deadline::after(LONG), |_| {}).expect("nothing is left");
        assert_eq!(memory.words()[1].load(Ordering::Acquire), many);
        let counters = client.ring.counters();
        assert_eq!((counters.posted, counters.stale), (counters.retired, 0));
    });
}

fn one_confirms_eight(address: &str) {
    on_each_path(address, |_, mut client| {
        let target = client.region.target(WORD).expect("a target");
        for value in 1..=7 {
            put(&mut client.ring, target, value, Notify::OnError).expect("room");
        }
        let eighth = put(&mut client.ring, target, 8, Notify::Always).expect("room");
        let mut all = Vec::new();
        let deadline = Deadline::after(LONG);
        client.ring.wait(eighth, deadline, |completion| all.push(completion)).expect("confirmed");
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].confirms, all[0].context.get()), (8, 8));
    });
}

/// CASES 10: whoever sees the word sees what was flushed before it.
fn fenced(address: &str) {
    on_each_path(address, |memory, mut client| {
        let pd = client.connection.pd().clone();
        let source = Mr::alloc(&pd, 2048, Usage::WRITE_SRC).expect("a source");
        let target = client.region.target(AlignedOffset::ZERO).expect("a target");
        let span = client.region.span(2048, 2048).expect("the other half");
        for round in 1..=50u64 {
            for word in source.words() {
                word.store(round, Ordering::Relaxed);
            }
            let context = OpContext::new(round);
            let ring = &mut client.ring;
            ring.write(source.local(), span, Notify::OnError, context).expect("room");
            ring.flush(span, FlushKind::Visibility, Notify::OnError, context).expect("room");
            ring.atomic_write(target, Word::ne(round), Notify::Always, context).expect("room");
            ring.doorbell().expect("posted");
            let mut patience = Deadline::after(LONG);
            while memory.words()[0].load(Ordering::Acquire) != round {
                assert!(farword::Patience::more(&mut patience), "the word never came");
            }
            let behind = memory.words()[256..].iter();
            assert!(behind.into_iter().all(|word| word.load(Ordering::Acquire) == round));
            ring.drain(Deadline::after(LONG), |_| {}).expect("all confirmed");
        }
    });
}

fn forced_path(address: &str) {
    let has_native = paths(address).contains(&Path::Native);
    thread::scope(|scope| {
        let (_server, client) = pair(scope, address, 64, ConnConfig::default());
        let expected = if has_native { Path::Native } else { Path::PostSend };
        assert_eq!(client.connection.path(), expected, "the best there is");
        assert_eq!(client.ring.capabilities().native_atomic_write, has_native);
    });
    if !has_native {
        let (listener, to) = crate::support::listen(address);
        let config = ConnConfig::default().with_path(Path::Native);
        let error = crate::support::connect(to, &[], &config).expect_err("it has none");
        assert!(error.to_string().contains("has no ibv_wr_atomic_write"), "{error}");
        drop(listener);
    }
}

fn disconnect_flushes(address: &str) {
    on_each_path(address, |_, mut client| {
        let target = client.region.target(WORD).expect("a target");
        let mut tickets: Vec<Ticket> = Vec::new();
        for value in 1..=64 {
            tickets.push(put(&mut client.ring, target, value, Notify::OnError).expect("room"));
        }
        client.ring.doorbell().expect("posted");
        client.connection.disconnect().expect("disconnected");
        let mut told = 0;
        let ended = client.ring.drain(Deadline::after(LONG), |_| told += 1);
        assert!(matches!(ended, Ok(()) | Err(WaitError::Ring(Error::Failed { .. }))), "{ended:?}");
        // And nothing can be staged on it any more.
        let mut patience = Deadline::after(LONG);
        while client.ring.failure().is_none() {
            let _ = client.ring.poll_with(|_| {});
            assert!(farword::Patience::more(&mut patience), "it never failed");
        }
        let refused =
            client.ring.atomic_write(target, Word::ne(9), Notify::Always, OpContext::new(0));
        assert!(matches!(refused, Err(Error::Failed { .. })));
    });
}

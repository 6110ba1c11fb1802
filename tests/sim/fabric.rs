//! The fabric by itself: what is permitted happens, what is not does not.

use core::sync::atomic::AtomicU64;
use std::rc::Rc;

use farword::sim::{Faults, Memory, SimConfig, SimFabric, SimQp, Violation, Watch};
use farword::soft::store_bytes;
use farword::{
    AlignedOffset, FlushKind, LocalSlice, Notify, OpContext, Outcome, Polls, Ring, RingConfig,
    Span, Target, Ticket, WaitError, WcStatus, Word,
};

const QUIET: OpContext = OpContext::new(0);

struct Bench {
    fabric: SimFabric,
    ring: Ring<'static, SimQp>,
    source: LocalSlice,
}

impl Bench {
    /// A ring over a fabric on which nothing goes wrong.
    fn new(seed: u64, change: impl FnOnce(&mut SimConfig)) -> Bench {
        let mut config = SimConfig::new(256).with_faults(Faults::NONE);
        change(&mut config);
        let fabric = SimFabric::new(seed, config);
        let memory: Rc<[AtomicU64]> = (0..8).map(|_| AtomicU64::new(0)).collect();
        store_bytes(&memory, 0, &[0xab; 64]);
        let source = fabric.register_local(memory);
        let config = RingConfig::new(16, 8).with_persistent_peer(true);
        let ring = Ring::boxed(fabric.connect(16, 16), config).unwrap();
        Bench { fabric, ring, source }
    }

    fn span(&self, at: u64, len: u64) -> Span {
        self.fabric.region().span(at, len).unwrap()
    }

    fn word(&self) -> Target {
        self.fabric.region().target(AlignedOffset::literal::<8>()).unwrap()
    }

    /// Writes 40 bytes of 0xab at 64.
    fn write_block(&mut self) -> Ticket {
        let local = self.source.slice(0, 40).unwrap();
        self.ring.write(local, self.span(64, 40), Notify::Always, QUIET).unwrap()
    }

    fn write_word(&mut self, value: u64) -> Ticket {
        self.ring.atomic_write(self.word(), Word::ne(value), Notify::Always, QUIET).unwrap()
    }

    fn flush(&mut self, at: u64, len: u64) -> Ticket {
        let span = self.span(at, len);
        self.ring.flush(span, FlushKind::Persistent, Notify::Always, QUIET).unwrap()
    }

    fn wait(&mut self, ticket: Ticket) {
        self.ring.wait(ticket, Polls(10_000), |_| {}).expect("nothing goes wrong here");
    }

    fn visible_block(&self) -> usize {
        self.fabric.memory(|memory| count(&memory.visible()[64..104]))
    }

    fn durable_block(&self) -> usize {
        self.fabric.memory(|memory| count(&memory.durable()[64..104]))
    }
}

fn count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == 0xab).count()
}

/// How many of so many seeds show something.
fn shown(seeds: u64, mut show: impl FnMut(u64) -> bool) -> u64 {
    (0..seeds).map(|seed| u64::from(show(seed))).sum()
}

/// CASES 24: completed is not visible, visible is not durable.
#[test]
fn a_write_may_complete_before_it_is_visible_and_be_visible_before_it_is_durable() {
    let (mut early, mut volatile) = (0, 0);
    for seed in 0..200 {
        let mut bench = Bench::new(seed, |_| {});
        let written = bench.write_block();
        bench.wait(written);
        early += u64::from(bench.visible_block() < 40);
        volatile += u64::from(bench.durable_block() < bench.visible_block());
    }
    assert!(early > 20 && volatile > 20, "{early} {volatile}");
}

#[test]
fn a_confirmed_flush_leaves_nothing_behind_on_either_path() {
    for native in [false, true] {
        for seed in 0..200 {
            let mut bench = Bench::new(seed, |config| *config = config.with_native(native, native));
            bench.write_block();
            let flushed = bench.flush(64, 40);
            bench.wait(flushed);
            assert_eq!((bench.visible_block(), bench.durable_block()), (40, 40), "{seed}");
            bench.fabric.lose_power();
            assert_eq!(bench.visible_block(), 40);
        }
    }
}

#[test]
fn the_flush_operation_covers_its_range_alone() {
    let left = shown(200, |seed| {
        let mut bench = Bench::new(seed, |config| *config = config.with_native(true, true));
        bench.write_block();
        let flushed = bench.flush(64, 8);
        bench.wait(flushed);
        assert!(bench.durable_block() >= 8);
        bench.durable_block() < 40
    });
    assert!(left > 20, "{left}");
}

#[test]
fn a_visibility_flush_does_not_make_durable_without_direct_write_to_persistence() {
    let volatile = shown(200, |seed| {
        let mut bench = Bench::new(seed, |config| config.direct_to_persistence = false);
        bench.write_block();
        let flushed = bench.flush(64, 40);
        bench.wait(flushed);
        assert_eq!(bench.visible_block(), 40);
        bench.durable_block() < 40
    });
    assert!(volatile > 20, "{volatile}");
}

/// CASES 10 and 13: order holds, unless the target has relaxed ordering.
#[test]
fn a_word_overtakes_the_block_before_it_only_with_relaxed_ordering() {
    for relaxed in [false, true] {
        let overtook = shown(300, |seed| {
            let mut bench = Bench::new(seed, |config| config.relaxed_ordering = relaxed);
            bench.write_block();
            bench.write_word(7);
            bench.ring.doorbell().unwrap();
            let mut seen = false;
            while bench.fabric.step() {
                let word = bench.fabric.memory(|memory| memory.visible_word(8));
                assert!(word == 0 || word == 7, "torn: {word:#x}");
                seen |= word == 7 && bench.visible_block() < 40;
            }
            seen
        });
        assert_eq!(overtook > 0, relaxed, "{overtook}");
    }
}

#[test]
fn the_bytes_of_a_write_land_in_any_order_and_in_steps() {
    let (mut backwards, mut partly) = (0, 0);
    for seed in 0..100 {
        let mut bench = Bench::new(seed, |_| {});
        bench.write_block();
        bench.ring.doorbell().unwrap();
        while bench.fabric.step() {
            let (first, last) = bench
                .fabric
                .memory(|memory| (memory.visible()[64] == 0xab, memory.visible()[103] == 0xab));
            backwards += u64::from(last && !first);
            partly += u64::from(!bench.visible_block().is_multiple_of(8));
        }
    }
    assert!(backwards > 20 && partly > 20, "{backwards} {partly}");
}

#[test]
fn after_a_loss_of_power_an_unflushed_block_is_there_in_part_and_even_words_of_it() {
    let (mut some, mut in_pieces) = (0, 0);
    for seed in 0..200 {
        let mut bench = Bench::new(seed, |_| {});
        let written = bench.write_block();
        bench.wait(written);
        while bench.fabric.step() {}
        bench.fabric.lose_power();
        let saved = bench.visible_block();
        some += u64::from(saved > 0 && saved < 40);
        // Evicted when a part of the word had landed.
        in_pieces += u64::from(!saved.is_multiple_of(8));
    }
    assert!(some > 20 && in_pieces > 5, "{some} {in_pieces}");
}

#[test]
fn an_atomic_write_is_whole_or_absent_after_a_loss_of_power_at_any_step() {
    let whole = shown(300, |seed| {
        let mut bench = Bench::new(seed, |_| {});
        bench.write_word(0x0102_0304_0506_0708);
        bench.ring.doorbell().unwrap();
        for _ in 0..seed % 5 {
            bench.fabric.step();
        }
        bench.fabric.lose_power();
        let word = bench.fabric.memory(|memory| memory.visible_word(8));
        assert!(word == 0 || word == 0x0102_0304_0506_0708, "{word:#x}");
        word != 0
    });
    assert!(whole > 20 && whole < 280, "{whole}");
}

/// CASES 20: the peer loses power, and no completion is owed by it any more.
#[test]
fn what_is_under_way_at_a_loss_of_power_fails_with_retries_exceeded() {
    for seed in 0..50 {
        let mut bench = Bench::new(seed, |_| {});
        bench.write_block();
        bench.write_word(1);
        bench.ring.doorbell().unwrap();
        bench.fabric.lose_power();
        let mut outcomes = Vec::new();
        let drained = bench.ring.drain(Polls(1000), |done| outcomes.push(done.outcome));
        assert!(matches!(drained, Err(WaitError::Ring(farword::Error::Failed { .. }))));
        assert_eq!(outcomes, [Outcome::Failed(WcStatus::RETRY_EXC_ERR), Outcome::Unknown]);
    }
}

#[test]
fn requests_of_a_dropped_queue_pair_arrive_until_it_is_torn_down() {
    let arrived = shown(50, |seed| {
        let mut bench = Bench::new(seed, |_| {});
        let id = bench.ring.provider().id();
        bench.write_word(5);
        bench.ring.doorbell().unwrap();
        drop(bench.ring);
        let torn_down = seed % 2 == 1;
        if torn_down {
            bench.fabric.tear_down(id);
        }
        while bench.fabric.step() {}
        let there = bench.fabric.memory(|memory| memory.visible_word(8)) == 5;
        assert_eq!(there, !torn_down);
        there
    });
    assert_eq!(arrived, 25);
}

#[test]
fn a_request_outside_of_the_region_or_its_rights_is_rejected_and_touches_nothing() {
    let mut bench = Bench::new(1, |_| {});
    let beyond = bench.fabric.region_part(0, 1 << 20);
    let target = beyond.target(AlignedOffset::literal::<4096>()).unwrap();
    bench.ring.atomic_write(target, Word::ne(1), Notify::OnError, QUIET).unwrap();
    let mut outcomes = Vec::new();
    let _ = bench.ring.drain(Polls(1000), |done| outcomes.push(done.outcome));
    assert_eq!(outcomes, [Outcome::Failed(WcStatus::REM_ACCESS_ERR)]);
    assert!(bench.fabric.memory(|memory| memory.visible().iter().all(|byte| *byte == 0)));
}

/// A rule of an engine's own, watched from outside.
struct NeverSeven;

impl Watch for NeverSeven {
    fn visible(&mut self, memory: &Memory, _: u64, _: u64) -> Result<(), Violation> {
        match memory.visible_word(8) {
            7 => Err(Violation::new("seven is visible").at(8)),
            _ => Ok(()),
        }
    }
    fn durable(&mut self, _: &Memory, _: u64, _: u64) -> Result<(), Violation> {
        Ok(())
    }
    fn power_lost(&mut self, _: &Memory) -> Result<(), Violation> {
        Ok(())
    }
}

#[test]
fn an_engines_own_rule_is_watched_and_its_story_told() {
    let mut bench = Bench::new(3, |_| {});
    bench.fabric.watch(NeverSeven);
    bench.fabric.tell_story();
    for value in [6, 7, 8] {
        bench.write_word(value);
    }
    bench.ring.doorbell().unwrap();
    while bench.fabric.step() {}
    assert_eq!(bench.fabric.violation(), Some(Violation::new("seven is visible").at(8)));
    let story = bench.fabric.take_story().unwrap().to_string();
    assert!(story.contains("BROKEN: seven is visible"), "{story}");
}

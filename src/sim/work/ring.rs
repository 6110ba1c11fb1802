//! Rings over the simulated fabric: every promise about contexts, outcomes,
//! order, slots and waiting.

use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use std::rc::Rc;
use std::vec::Vec;

use crate::error::Error;
use crate::sim::event::Violation;
use crate::sim::fabric::SimFabric;
use crate::sim::work::area::{AREA, Area, Areas, BLOCK, BLOCK_LEN, PUBLISHED, WORD, word_of};
use crate::soft::{load_bytes, store_bytes};
use crate::{
    AlignedOffset, FlushKind, LocalSlice, Notify, Op, OpContext, RemoteRegion, Ticket, Word,
};

mod session;

use session::{Meta, Promise, Session};

const MAX_RINGS: usize = 2;
/// How many blocks and how many reads one area has local memory for.
const SLOTS: usize = 32;
const MAX_CONNECTIONS: u32 = 4;

pub(super) fn run(fabric: &SimFabric, persistent: bool) {
    let count = 1 + fabric.choose(MAX_RINGS as u32) as usize;
    let mut areas = Vec::new();
    let mut users: Vec<User<'_>> = (0..count)
        .map(|index| {
            let base = index as u64 * AREA;
            let area = Rc::new(RefCell::new(Area::new(base, persistent)));
            areas.push(Rc::clone(&area));
            User::new(fabric, base, persistent, area)
        })
        .collect();
    fabric.watch(Areas(areas));
    let actions = 8 + fabric.choose(72);
    for _ in 0..actions {
        // Chosen before it is cut to what there is, so that a run shrinks evenly.
        let chosen = fabric.choose(MAX_RINGS as u32) as usize % count;
        users[chosen].act();
        if fabric.violation().is_some() {
            return;
        }
    }
    for user in &mut users {
        user.finish();
        if fabric.violation().is_some() {
            return;
        }
    }
}

/// One user of one area, through as many rings as it takes.
struct User<'a> {
    fabric: &'a SimFabric,
    base: u64,
    persistent: bool,
    region: RemoteRegion,
    area: Rc<RefCell<Area>>,
    blocks: Rc<[AtomicU64]>,
    blocks_slice: LocalSlice,
    reads: Rc<[AtomicU64]>,
    reads_slice: LocalSlice,
    reads_used: u32,
    /// The newest block that a confirmed flush covers, on whichever ring.
    confirmed: u8,
    connections: u32,
    session: Option<Session<'a>>,
}

fn zeros(count: usize) -> Rc<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl<'a> User<'a> {
    fn new(
        fabric: &'a SimFabric,
        base: u64,
        persistent: bool,
        area: Rc<RefCell<Area>>,
    ) -> User<'a> {
        let (blocks, reads) = (zeros(3 * SLOTS), zeros(SLOTS));
        User {
            fabric,
            base,
            persistent,
            region: fabric.region_part(base, AREA),
            area,
            blocks_slice: fabric.register_local(Rc::clone(&blocks)),
            blocks,
            reads_slice: fabric.register_local(Rc::clone(&reads)),
            reads,
            reads_used: 0,
            confirmed: 0,
            connections: 0,
            session: None,
        }
    }

    fn act(&mut self) {
        if self.session.is_none() {
            if self.connections == MAX_CONNECTIONS {
                self.fabric.step();
                return;
            }
            self.connections += 1;
            self.fabric.count(|coverage| coverage.recoveries += u64::from(self.connections > 1));
            let oldest = self.fabric.memory(|memory| self.area.borrow().oldest(memory.visible()));
            self.session = Session::connect(self.fabric, self.persistent, oldest);
            if self.session.is_none() {
                return self.fabric.violate(Violation::new("a ring that fits was refused"));
            }
        }
        let fabric = self.fabric;
        match fabric.choose(24) {
            0..=5 => self.stage_word(),
            6..=8 => self.stage_block(),
            9 => self.stage_read(),
            10..=11 => self.stage_flush(),
            12..=13 => self.stage_published(),
            14..=16 => self.with(|session| session.doorbell()),
            17..=19 => self.with(|session| session.poll()),
            20 => self.with(|session| session.wait()),
            21 => self.publish_by_steps(),
            22 if fabric.choose(6) == 5 => self.with(|session| session.abandon()),
            _ => {
                for _ in 0..1 + fabric.choose(12) {
                    fabric.step();
                }
            }
        }
        self.keep_promises();
        if self.session.as_ref().is_some_and(|session| session.ring.failure().is_some()) {
            self.finish();
        }
    }

    fn with(&mut self, act: impl FnOnce(&mut Session<'a>)) {
        if let Some(session) = &mut self.session {
            act(session);
        }
    }

    /// What a new operation says of itself: now and then a context that was used
    /// before, or 0.
    fn meta(&self, op: Op) -> Meta {
        let always = self.fabric.choose(3) == 1;
        let notify = if always { Notify::Always } else { Notify::OnError };
        Meta::new(op, notify, OpContext::new(self.fabric.choose(5).into()))
    }

    fn stage_word(&mut self) {
        if self.area.borrow().word > 200 {
            return;
        }
        let meta = self.meta(Op::AtomicWrite);
        let Some(session) = &mut self.session else { return };
        let Ok(target) = self.region.target(AlignedOffset::of_word(WORD as u32 / 8)) else {
            return;
        };
        // A word that is refused for want of room is never seen; its number is
        // skipped.
        let number = self.area.borrow_mut().next_word(session.block.max(session.inherited));
        let word = Word::ne(word_of(number));
        let staged = session.ring.atomic_write(target, word, meta.notify, meta.context);
        if session.staged(staged, meta) {
            session.word = number;
        }
    }

    fn stage_block(&mut self) {
        let number = self.area.borrow().block;
        if usize::from(number) >= SLOTS {
            return;
        }
        let meta = self.meta(Op::Write);
        let Some(session) = &mut self.session else { return };
        let place = u64::from(number) * 24;
        let number = number + 1;
        let (local, remote) =
            (self.blocks_slice.slice(place, BLOCK_LEN), self.region.span(BLOCK, BLOCK_LEN));
        let (Ok(local), Ok(remote)) = (local, remote) else { return };
        store_bytes(&self.blocks, place, &[number; BLOCK_LEN as usize]);
        self.area.borrow_mut().block = number;
        let staged = session.ring.write(local, remote, meta.notify, meta.context);
        if session.staged(staged, meta) {
            session.block = number;
        }
    }

    fn stage_read(&mut self) {
        if self.reads_used as usize >= SLOTS {
            return;
        }
        let mut meta = self.meta(Op::Read);
        let Some(session) = &mut self.session else { return };
        let place = u64::from(self.reads_used) * 8;
        let (local, remote) = (self.reads_slice.slice(place, 8), self.region.span(WORD, 8));
        let (Ok(local), Ok(remote)) = (local, remote) else { return };
        meta.promise = Promise::Read { place, least: session.word };
        let staged = session.ring.read(local, remote, meta.notify, meta.context);
        if session.staged(staged, meta) {
            self.reads_used += 1;
        }
    }

    fn stage_flush(&mut self) {
        let fabric = self.fabric;
        let mut meta = self.meta(Op::Flush);
        let Some(session) = &mut self.session else { return };
        let whole = fabric.choose(3) != 2;
        let from = if whole { 0 } else { BLOCK - 1 };
        let persistent = self.persistent && fabric.choose(5) != 4;
        let kind = if persistent { FlushKind::Persistent } else { FlushKind::Visibility };
        let Ok(remote) = self.region.span(from, 40 - from) else { return };
        let word = if whole { session.word } else { 0 };
        meta.promise = Promise::Flushed { persistent, word, block: session.block };
        let staged = session.ring.flush(remote, kind, meta.notify, meta.context);
        if session.staged(staged, meta) && persistent == self.persistent {
            session.flushed = session.block;
        }
    }

    fn stage_published(&mut self) {
        let meta = self.meta(Op::AtomicWrite);
        let Some(session) = &mut self.session else { return };
        let Ok(target) = self.region.target(AlignedOffset::of_word(PUBLISHED as u32 / 8)) else {
            return;
        };
        let word = Word::ne(word_of(session.flushed));
        let staged = session.ring.atomic_write(target, word, meta.notify, meta.context);
        session.staged(staged, meta);
    }

    /// Write, wait, flush, wait, publish: what a caller does who trusts what is
    /// confirmed and no order of requests. The ring that publishes need not be
    /// the one that was waited for.
    fn publish_by_steps(&mut self) {
        self.stage_block();
        self.with(|session| session.wait_for_last());
        self.keep_promises();
        self.stage_flush();
        self.with(|session| session.wait_for_last());
        self.keep_promises();
        let meta = self.meta(Op::AtomicWrite);
        let Some(session) = &mut self.session else { return };
        let Ok(target) = self.region.target(AlignedOffset::of_word(PUBLISHED as u32 / 8)) else {
            return;
        };
        let word = Word::ne(word_of(self.confirmed));
        let staged = session.ring.atomic_write(target, word, meta.notify, meta.context);
        session.staged(staged, meta);
    }

    /// Holds what the confirmed operations promised against the memory.
    fn keep_promises(&mut self) {
        let Some(session) = &mut self.session else { return };
        for promise in session.due.drain(..) {
            let kept = match promise {
                Promise::None => Ok(()),
                Promise::Read { place, least } => {
                    let mut bytes = [0; 8];
                    load_bytes(&self.reads, place, &mut bytes);
                    let most = self.area.borrow().word;
                    match bytes.iter().find(|byte| **byte != bytes[0]) {
                        Some(_) => Err(Violation::new(TORN_READ).at(place)),
                        None if (least..=most).contains(&bytes[0]) => Ok(()),
                        None => Err(Violation::new(STALE_READ)
                            .at(place)
                            .numbers(bytes[0].into(), least.into())),
                    }
                }
                Promise::Flushed { persistent, word, block } => self.fabric.memory(|memory| {
                    let layer = if persistent { memory.durable() } else { memory.visible() };
                    let area = self.area.borrow();
                    let (held, oldest) = (area.number(layer, WORD)?, area.oldest(layer));
                    // Power lost since may have undone what was only visible.
                    let undone = !persistent && memory.crashes() > 0;
                    if !undone && (held < word || oldest < block) {
                        let broken = Violation::new(NOT_FLUSHED).at(self.base);
                        return Err(broken.numbers(oldest.into(), block.into()));
                    }
                    if persistent == self.persistent {
                        self.confirmed = self.confirmed.max(block);
                    }
                    Ok(())
                }),
            };
            if let Err(broken) = kept {
                self.fabric.violate(broken);
            }
        }
    }

    fn finish(&mut self) {
        if let Some(session) = &mut self.session {
            session.finish();
        }
        self.keep_promises();
        if let Some(session) = self.session.take() {
            let id = session.id;
            drop(session);
            self.fabric.tear_down(id);
        }
    }
}

const TORN_READ: &str = "a read brought a torn word";
const STALE_READ: &str = "a read missed a word written before it";
const NOT_FLUSHED: &str = "a confirmed flush left bytes behind";

/// The index of a ticket in its ring.
fn index_of(ticket: Ticket, first: u64) -> u64 {
    ticket.get().wrapping_sub(first)
}

/// Whether an error says that there is no room, or that the ring is dead.
fn is_expected(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::Failed { .. } | Error::Provider(_))
}

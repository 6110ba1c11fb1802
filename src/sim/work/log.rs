//! Remote logs over the simulated fabric.

use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use std::rc::Rc;
use std::vec::Vec;

use crate::log::{Bound, DATA_OFFSET, Log, LogConfig, LogError, SIGNATURE};
use crate::region::LocalSlice;
use crate::sim::event::Violation;
use crate::sim::fabric::{QpId, SimFabric, SimQp};
use crate::sim::work::journal::{Journal, Journals};
use crate::{FlushKind, Ring, RingConfig};

const LOG_SIZE: u64 = 192;
const MAX_LOGS: usize = 2;
/// How many polls without news a wait within the log takes.
const WAIT: u64 = 24;
/// How many times a writer opens its log.
const MAX_OPENS: u32 = 5;

pub(super) const DEADLOCK: &str = "nothing is under way and a commit is not done";
pub(super) const WRONG_READ: &str = "a record was read back wrong";
pub(super) const REFUSED: &str = "the log refused what it must take";

pub(super) fn run(fabric: &SimFabric, persistent: bool) {
    let count = 1 + fabric.choose(MAX_LOGS as u32) as usize;
    // For as many logs as there can be, so that leaving one out leaves the other
    // as it was.
    let staging: Vec<Rc<[AtomicU64]>> = (0..MAX_LOGS)
        .map(|_| (0..2 + 2 * fabric.choose(4)).map(|_| AtomicU64::new(0)).collect())
        .collect();
    let mut journals = Vec::new();
    let mut writers = Vec::new();
    for (index, memory) in staging.iter().take(count).enumerate() {
        let base = index as u64 * LOG_SIZE;
        fabric.format(base, &SIGNATURE);
        fabric.format(base + 8, &DATA_OFFSET.to_ne_bytes());
        let journal = Rc::new(RefCell::new(Journal::new(base, LOG_SIZE, persistent)));
        journals.push(Rc::clone(&journal));
        let slice = fabric.register_local(Rc::clone(memory));
        writers.push(Writer {
            fabric,
            index,
            persistent,
            journal,
            staging: memory,
            slice,
            log: None,
            opens: 0,
            epoch: 0,
        });
    }
    fabric.watch(Journals(journals));
    let actions = 6 + fabric.choose(40);
    for _ in 0..actions {
        // Chosen before it is cut to what there is, so that a run shrinks evenly.
        let chosen = fabric.choose(MAX_LOGS as u32) as usize % count;
        writers[chosen].act();
        if fabric.violation().is_some() {
            return;
        }
    }
    for writer in &mut writers {
        writer.finish();
        if fabric.violation().is_some() {
            return;
        }
    }
    drop(writers);
    if persistent {
        // Whatever was confirmed must survive the end, too.
        fabric.lose_power();
    }
}

/// One writer of one log, through as many connections as it takes.
struct Writer<'a> {
    fabric: &'a SimFabric,
    index: usize,
    persistent: bool,
    journal: Rc<RefCell<Journal>>,
    staging: &'a [AtomicU64],
    slice: LocalSlice,
    log: Option<(Log<'a, SimQp>, QpId)>,
    opens: u32,
    epoch: u8,
}

impl Writer<'_> {
    fn act(&mut self) {
        if self.log.is_none() && !self.open() {
            return;
        }
        match self.fabric.choose(12) {
            0..=3 => self.append(),
            4..=6 => self.commit(),
            7 => self.wait(),
            8 => self.read_back(),
            9 => self.poll(),
            _ => {
                for _ in 0..1 + self.fabric.choose(16) {
                    self.fabric.step();
                }
            }
        }
        self.confirm();
    }

    /// Opens the log over a new connection. `false` if it could not, this time.
    fn open(&mut self) -> bool {
        if self.opens == MAX_OPENS {
            return false;
        }
        self.opens += 1;
        let fabric = self.fabric;
        let depth = 8 << fabric.choose(2);
        let qp = fabric.connect(depth, depth);
        let id = qp.id();
        let mut config = RingConfig::new(depth, 8).with_persistent_peer(self.persistent);
        config.first = [0, u64::from(u32::MAX) - 9, u64::MAX - 9][fabric.choose(3) as usize];
        let region = fabric.region_part(self.index as u64 * LOG_SIZE, LOG_SIZE);
        let flush = if self.persistent { FlushKind::Persistent } else { FlushKind::Visibility };
        let config_of_log = LogConfig::default().with_bound(Bound::Polls(WAIT)).with_flush(flush);
        let opened = Ring::boxed(qp, config)
            .map_err(LogError::from)
            .and_then(|ring| Log::open(ring, region, self.staging, self.slice, config_of_log));
        match opened {
            Ok(log) => {
                let tail = log.durable().get();
                fabric.say(|| std::format!("log {} is open, its tail is {tail}", self.index));
                fabric.count(|coverage| coverage.recoveries += u64::from(self.opens > 1));
                self.epoch = self.epoch.wrapping_add(1);
                let recovered = self.journal.borrow_mut().recover(tail);
                self.check(recovered);
                self.log = Some((log, id));
                // The log now calls its tail durable: it must be so at once.
                self.confirm();
                true
            }
            Err(error) => {
                fabric.say(|| std::format!("log {} could not be opened: {error}", self.index));
                fabric.tear_down(id);
                if !matches!(error, LogError::Ring(_) | LogError::TimedOut) {
                    self.violate(Violation::new(REFUSED).at(self.index as u64));
                }
                false
            }
        }
    }

    fn append(&mut self) {
        let Some((log, _)) = &mut self.log else { return };
        let at = log.appended().get();
        let len = self.fabric.choose(22) as usize;
        // What a byte is follows from its place and the connection, so that
        // equal logs of different runs count as one state.
        let mut record = [0; 23];
        for (index, byte) in record.iter_mut().take(len).enumerate() {
            *byte = 1 + ((at as u8).wrapping_add(index as u8) ^ self.epoch.wrapping_mul(89)) % 255;
        }
        if log.free() <= len as u64 {
            return;
        }
        self.journal.borrow_mut().expect(at, &record[..=len]);
        self.fabric.count(|coverage| coverage.operations += 1);
        let appended = log.append(&record[..len]).map(|_| ());
        self.fabric.say(|| match &appended {
            Ok(()) => std::format!("log {} appends {len} bytes at {at}", self.index),
            Err(error) => std::format!("log {} does not append: {error}", self.index),
        });
        self.after(appended);
    }

    fn commit(&mut self) {
        let Some((log, _)) = &mut self.log else { return };
        let tail = log.appended().get();
        self.journal.borrow_mut().intend(tail);
        self.fabric.say(|| std::format!("log {} commits up to {tail}", self.index));
        let committed = log.commit().map(|_| ());
        self.after(committed);
    }

    fn wait(&mut self) {
        let Some((log, id)) = &mut self.log else { return };
        let tail = log.appended();
        self.journal.borrow_mut().intend(tail.get());
        let waited = log.wait(tail);
        let id = *id;
        self.fabric.say(|| match &waited {
            Ok(()) => std::format!("log {} is durable up to {}", self.index, tail.get()),
            Err(error) => std::format!("log {} waits in vain: {error}", self.index),
        });
        let unposted = log.ring().staged();
        if waited == Err(LogError::TimedOut) && unposted == 0 && self.fabric.is_idle(id) {
            return self.violate(Violation::new(DEADLOCK).at(self.index as u64));
        }
        self.after(waited);
    }

    fn read_back(&mut self) {
        let Some((log, _)) = &mut self.log else { return };
        let to = log.committed().get();
        let from = DATA_OFFSET + u64::from(self.fabric.choose((to - DATA_OFFSET) as u32 + 1));
        let mut bytes = [0; LOG_SIZE as usize];
        let bytes = &mut bytes[..(to - from) as usize];
        let read = log.read(from, bytes);
        let durable = log.durable().get();
        if read.is_ok() && durable >= to && bytes != self.journal.borrow().expected(from, to) {
            return self.violate(Violation::new(WRONG_READ).at(from));
        }
        self.after(read);
    }

    fn poll(&mut self) {
        let Some((log, _)) = &mut self.log else { return };
        let polled = log.poll().map(|_| ());
        self.after(polled);
    }

    /// After a failure the connection is torn down; what comes next opens the
    /// log anew.
    fn after(&mut self, result: Result<(), LogError>) {
        self.confirm();
        let Some((log, id)) = &self.log else { return };
        match result {
            Ok(()) | Err(LogError::TimedOut) => {}
            Err(LogError::Ring(_)) => {
                if log.ring().failure().is_some() {
                    let id = *id;
                    self.log = None;
                    self.fabric.tear_down(id);
                }
            }
            Err(_) => self.violate(Violation::new(REFUSED).at(self.index as u64)),
        }
    }

    /// Holds what the log says is durable against what is.
    fn confirm(&mut self) {
        let Some((log, _)) = &self.log else { return };
        let durable = log.durable().get();
        if durable > self.journal.borrow().confirmed() {
            self.fabric.count(|coverage| coverage.commits += 1);
            let confirmed =
                self.fabric.memory(|memory| self.journal.borrow_mut().confirm(durable, memory));
            self.check(confirmed);
        }
    }

    /// Commits all that was appended, or finds the log dead.
    fn finish(&mut self) {
        for _ in 0..64 {
            let Some((log, _)) = &mut self.log else { return };
            let all = log.appended();
            if log.durable() == all {
                break;
            }
            self.wait();
            if self.fabric.violation().is_some() {
                return;
            }
        }
        let Some((log, id)) = self.log.take() else { return };
        if log.durable() != log.appended() {
            self.violate(Violation::new(DEADLOCK).at(self.index as u64));
        }
        drop(log);
        self.fabric.tear_down(id);
    }

    fn check(&self, result: Result<(), Violation>) {
        if let Err(broken) = result {
            self.violate(broken);
        }
    }

    fn violate(&self, broken: Violation) {
        self.fabric.violate(broken);
    }
}

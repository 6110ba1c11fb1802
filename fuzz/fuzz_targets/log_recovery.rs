//! Opening a log from arbitrary bytes, going on from there over a device that
//! fails, and recovering from what that left.
//!
//! The model is a vector of bytes: what the log held when it was opened, and
//! every record that was appended.

#![no_main]

use arbitrary::Arbitrary;
use core::sync::atomic::AtomicU64;
use farword::fault::{Fault, FaultPlan, Rates};
use farword::log::{self, Bound, Log, LogConfig, LogError, SIGNATURE};
use farword::soft::{InlineQp, Mode, QpConfig, SoftDevice, SoftRegion, load_bytes, store_bytes};
use farword::{AlignedOffset, Provider, RemoteRegion, Ring, RingConfig, Usage};
use libfuzzer_sys::fuzz_target;

const USAGE: Usage = Usage::WRITE_DST.and(Usage::READ_SRC).and(Usage::FLUSH_VISIBILITY);
const MOST: usize = 2048;

#[derive(Arbitrary, Debug)]
struct Input {
    bytes: Vec<u8>,
    tail: Tail,
    signature: Signature,
    start: u8,
    cut: u8,
    used_word: u8,
    check_signature: bool,
    native: bool,
    late_reads: bool,
    staging: u8,
    seed: u64,
    error_per_1024: u8,
    refuse_per_1024: u8,
    delays: bool,
    steps: Vec<Step>,
}

/// What the tail word says: what the bytes happen to, or something likelier.
#[derive(Arbitrary, Debug)]
enum Tail {
    Any,
    Within(u16),
    NearEnd(i8),
}

#[derive(Arbitrary, Debug)]
enum Signature {
    Any,
    Good,
    AlmostGood { byte: u8, bit: u8 },
}

#[derive(Arbitrary, Debug)]
enum Step {
    Append { byte: u8, len: u8 },
    Commit,
    Wait,
    Poll,
    Read { at: u16, len: u8 },
}

fuzz_target!(|input: Input| {
    let memory = memory(&input);
    let staging: Vec<AtomicU64> = (0..1 + input.staging % 40).map(|_| AtomicU64::new(0)).collect();
    let mut device = SoftDevice::new();
    let size = size_of_val(&memory[..]) as u64;
    let (start, len) = part(&input, size);
    let Ok(region) = device.register_part(&memory, start, len, USAGE) else {
        return;
    };
    let local = Usage::WRITE_SRC | Usage::READ_DST;
    let staged = device.register(&staging, local).expect("at least a word");
    let (memory, staging) = (&memory[..], &staging[..]);
    let run = Run { input: &input, device: &device, memory, start, region, staging, staged };
    let before = run.bytes();
    let opened = run.open(run.calm()).map(|log| log.durable().get());
    assert_eq!(run.bytes(), before, "opening changes nothing");
    assert_eq!(opened, run.expected(&before));
    if len == size && run.used_offset() == 8 && input.check_signature && staging.len() > 1 {
        assert_eq!(log::tail(memory).map(|tail| tail.get()), opened, "as its owner sees it");
    }
    if opened.is_ok() {
        run.go_on(before);
    }
});

/// Where in the memory the region lies.
fn part(input: &Input, size: u64) -> (u64, u64) {
    let start = u64::from(input.start % 24);
    (start, size.saturating_sub(start + u64::from(input.cut % 24)))
}

fn memory(input: &Input) -> Vec<AtomicU64> {
    let bytes = &input.bytes[..input.bytes.len().min(MOST)];
    let memory: Vec<AtomicU64> = (0..bytes.len().div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
    store_bytes(&memory, 0, bytes);
    let (start, len) = part(input, size_of_val(&memory[..]) as u64);
    let mut signature = SIGNATURE;
    if let Signature::AlmostGood { byte, bit } = input.signature {
        signature[usize::from(byte % 8)] ^= 1 << (bit % 8);
    }
    if !matches!(input.signature, Signature::Any) {
        store_bytes(&memory, start, &signature);
    }
    let tail = match input.tail {
        Tail::Any => return memory,
        Tail::Within(tail) => u64::from(tail) % (len + 1),
        Tail::NearEnd(distance) => len.wrapping_add_signed(distance.into()),
    };
    let at = start + u64::from(input.used_word % 40) * 8;
    store_bytes(&memory, at, &tail.to_ne_bytes());
    memory
}

struct Run<'a> {
    input: &'a Input,
    device: &'a SoftDevice<'a>,
    memory: &'a [AtomicU64],
    start: u64,
    region: SoftRegion,
    staging: &'a [AtomicU64],
    staged: SoftRegion,
}

impl<'a> Run<'a> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.region.remote().size() as usize];
        assert_eq!(load_bytes(self.memory, self.start, &mut bytes), bytes.len());
        bytes
    }

    fn used_offset(&self) -> usize {
        usize::from(self.input.used_word % 40) * 8
    }

    /// What opening should say, from the bytes alone.
    fn expected(&self, bytes: &[u8]) -> Result<u64, LogError> {
        let used = self.used_offset();
        let data = used + 8;
        let size = bytes.len() as u64;
        if bytes.len() < data {
            return Err(LogError::RegionTooSmall { size });
        }
        let region: RemoteRegion = self.region.remote();
        let offset = AlignedOffset::new(used as u64)?;
        region.target(offset)?;
        let staging = size_of_val(self.staging) as u64;
        if staging < 16 {
            let which = farword::Invalid::OutsideMemory { start: 0, len: staging, size: staging };
            return Err(which.into());
        }
        let head = bytes.first_chunk().copied();
        if let Some(found) = head.filter(|_| self.input.check_signature && data >= 16)
            && found != SIGNATURE
            && found != [0; 8]
        {
            return Err(LogError::ForeignSignature { found });
        }
        let tail = u64::from_ne_bytes(bytes[used..data].try_into().expect("8 bytes"));
        let first = data as u64;
        if tail < first || tail > size {
            return Err(LogError::TailOutside { tail, first, size });
        }
        Ok(tail)
    }

    fn calm(&self) -> InlineQp<'a> {
        let mode = if self.input.native { Mode::Native } else { Mode::Emulated };
        let config = QpConfig::default()
            .with_depths(16, 16)
            .with_mode(mode)
            .with_late_reads(self.input.late_reads);
        InlineQp::boxed(self.device, config).expect("a power of two")
    }

    fn open<P: Provider>(&self, provider: P) -> Result<Log<'a, P>, LogError> {
        let ring = Ring::boxed(provider, RingConfig::new(16, 8)).expect("the shape is right");
        let offset = AlignedOffset::new(self.used_offset() as u64).expect("a multiple of 8");
        let mut config =
            LogConfig::default().with_used_offset(offset).with_bound(Bound::Polls(200));
        config.check_signature = self.input.check_signature;
        Log::open(ring, self.region.remote(), self.staging, self.staged.local(), config)
    }

    fn faulty(&self) -> Fault<InlineQp<'a>, 16> {
        // Few runs end early; refusals may be frequent, since they end nothing.
        let error = self.input.error_per_1024;
        let plan = FaultPlan::new(self.input.seed).with_garbage().with_rates(Rates {
            error_per_1024: if error.is_multiple_of(4) { (error / 4).into() } else { 0 },
            refuse_per_1024: u16::from(self.input.refuse_per_1024) * 3,
            delay_per_1024: if self.input.delays { 512 } else { 0 },
            max_delay: 9,
            ..Rates::NONE
        });
        Fault::with_capacity(self.calm(), plan).expect("a plan of rates alone")
    }

    /// Appends over a device that fails, and then opens what is there.
    fn go_on(&self, before: Vec<u8>) {
        let Ok(mut log) = self.open(self.faulty()) else {
            assert_eq!(self.bytes(), before, "opening changes nothing");
            return;
        };
        let mut model = Model { tails: vec![log.durable().get()], bytes: before };
        for step in &self.input.steps {
            self.step(&mut log, &mut model, step);
            self.check(&log, &model);
        }
        let durable = log.durable().get();
        drop(log);
        let again = self.open(self.calm()).expect("it is a log still");
        let tail = again.durable().get();
        assert!(tail >= durable && model.tails.contains(&tail), "a tail that no commit had");
    }

    fn step<P: Provider>(&self, log: &mut Log<'a, P>, model: &mut Model, step: &Step) {
        match *step {
            Step::Append { byte, len } => {
                let record = vec![byte; len.into()];
                let (before, free) = (log.appended().get() as usize, log.free());
                match log.append(&record) {
                    Ok(lsn) => {
                        let end = before + record.len() + 1;
                        assert_eq!(lsn.get() as usize, end);
                        model.bytes[before..end - 1].copy_from_slice(&record);
                        model.bytes[end - 1] = 0;
                    }
                    Err(error) => {
                        assert_eq!(log.appended().get() as usize, before);
                        let too_long = record.len() as u64 + 1 > free;
                        let refused =
                            matches!(error, LogError::Full { .. } | LogError::TooLarge { .. });
                        assert_eq!(refused, too_long, "{error}");
                    }
                }
            }
            Step::Commit => {
                let _ = log.commit();
            }
            Step::Wait => {
                let appended = log.appended();
                if log.wait(appended).is_ok() {
                    assert_eq!(log.durable(), appended);
                }
            }
            Step::Poll => {
                let _ = log.poll();
            }
            Step::Read { at, len } => {
                let durable = log.durable().get() as usize;
                let mut back = vec![0; len.into()];
                let at = usize::from(at) % (model.bytes.len() + 1);
                if log.read(at as u64, &mut back).is_ok() && at >= self.used_offset() + 8 {
                    let sure = durable.saturating_sub(at).min(back.len());
                    assert_eq!(back[..sure], model.bytes[at..at + sure]);
                }
            }
        }
        model.tails.push(log.committed().get());
    }

    /// The tail that a reader sees is one of a commit, no durable record is
    /// behind it, and every byte before it is right.
    fn check<P: Provider>(&self, log: &Log<'a, P>, model: &Model) {
        let bytes = self.bytes();
        let used = self.used_offset();
        let word = bytes[used..used + 8].try_into().expect("8 bytes");
        let tail = u64::from_ne_bytes(word);
        assert!(tail >= log.durable().get(), "a durable record was lost");
        assert!(model.tails.contains(&tail), "a tail that no commit had");
        let (from, to) = (used + 8, tail as usize);
        assert_eq!(bytes[from..to], model.bytes[from..to], "a tail past wrong bytes");
        assert_eq!(bytes[..used], model.bytes[..used], "bytes that are none of the log's");
    }
}

/// The log's bytes as they should be, and every tail that was committed.
struct Model {
    tails: Vec<u64>,
    bytes: Vec<u8>,
}

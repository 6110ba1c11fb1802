//! Registered memory.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;

use farword::log::{self, Log, LogConfig};
use farword::verbs::{ConnConfig, Device, DeviceError, Memory, Mr, Pages, Pd, Words};
use farword::{Deadline, LocalSlice, Notify, OpContext, Usage};

use crate::Row;
use crate::support::{LONG, TARGET, pair};

pub(crate) const ROWS: &[Row] = &[
    ("memory-of-every-owner-is-registered", owners),
    ("memory-of-nothing-and-for-nothing-is-refused", refused),
    ("a-locked-memory-limit-is-named", locked_memory),
    ("volatile-memory-is-not-flushed-to-persistence", not_persistent),
    ("a-log-is-appended-to-and-read-back", append),
];

fn domain(address: &str) -> Pd {
    let address = format!("{address}:0").parse().expect("an address");
    Pd::new(&Device::open_by_address(address).expect("a device")).expect("a domain")
}

/// Each kind of owner's memory is really the memory that a device reads.
fn owners(address: &str) {
    fn check(address: &str, register: impl Fn(&Pd, &dyn Fn(LocalSlice, &[AtomicU64]))) {
        thread::scope(|scope| {
            let (server, mut client) = pair(scope, address, 4096, ConnConfig::default());
            let region = client.region;
            let pd = client.connection.pd().clone();
            let ring = std::cell::RefCell::new(&mut client.ring);
            register(&pd, &|local, words| {
                for (index, word) in words.iter().enumerate() {
                    word.store(0xabcd_0000 + index as u64, Ordering::Relaxed);
                }
                let mut ring = ring.borrow_mut();
                let span = region.span(8, local.len()).expect("it fits");
                let ticket =
                    ring.write(local, span, Notify::Always, OpContext::new(1)).expect("room");
                ring.wait(ticket, Deadline::after(LONG), |_| {}).expect("written");
                for index in 0..words.len() {
                    let there = server.region.words()[1 + index].load(Ordering::Acquire);
                    assert_eq!(there, 0xabcd_0000 + index as u64);
                }
            });
        });
    }
    check(address, |pd, with| {
        let mr = Mr::alloc(pd, 100, Usage::WRITE_SRC).expect("pages");
        assert_eq!(mr.words().len(), 13);
        with(mr.local(), mr.words());
    });
    check(address, |pd, with| {
        let memory: Arc<[AtomicU64]> = (0..9).map(AtomicU64::new).collect();
        let mr = Mr::register(pd, Arc::clone(&memory), Usage::WRITE_SRC).expect("an Arc's");
        with(mr.local(), &memory);
    });
    check(address, |pd, with| {
        let memory = [const { AtomicU64::new(0) }; 7];
        let mr = Mr::register(pd, &memory, Usage::WRITE_SRC).expect("an array's");
        with(mr.local(), &memory);
    });
    check(address, |pd, with| {
        let mut memory = vec![0u64; 5];
        let mr = Mr::register(pd, Words::from(&mut memory[..]), Usage::WRITE_SRC).expect("a slice");
        with(mr.local(), mr.words());
        let words = mr.into_memory();
        assert_eq!(words.words()[4].load(Ordering::Relaxed), 0xabcd_0004);
        assert_eq!(memory[4], 0xabcd_0004, "the caller's own again");
    });
    check(address, |pd, with| {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(64).expect("its length");
        let mr = Mr::register(pd, Pages::map_file(&file).expect("mapped"), Usage::WRITE_SRC);
        let mr = mr.expect("a file's");
        with(mr.local(), mr.words());
        mr.memory().sync().expect("synced");
    });
}

fn refused(address: &str) {
    let pd = domain(address);
    let none: [AtomicU64; 0] = [];
    assert_eq!(Mr::register(&pd, &none, TARGET).err(), Some(DeviceError::Empty));
    assert_eq!(Mr::alloc(&pd, 0, TARGET).err(), Some(DeviceError::Empty));
    assert_eq!(Mr::alloc(&pd, 8, Usage::NONE).err(), Some(DeviceError::NoUsage));
}

/// Run with a limit of 64 KiB and without the right to pass it.
fn locked_memory(address: &str) {
    let pd = domain(address);
    let small = Mr::alloc(&pd, 4096, TARGET).expect("within the limit");
    let error = Mr::alloc(&pd, 1 << 20, TARGET).expect_err("beyond it");
    let expected =
        DeviceError::MemoryLocked { device: "rxe0".into(), asked: 1 << 20, limit: 65_536 };
    assert_eq!(error, expected);
    drop(small);
}

/// A device that has FLUSH to persistence knows what is persistent; one that has
/// not leaves it to the peers, as librpma does.
fn not_persistent(address: &str) {
    let pd = domain(address);
    let usage = TARGET | Usage::FLUSH_PERSISTENT;
    let registered = Mr::alloc(&pd, 4096, usage);
    if pd.device().capabilities().native_flush_persistent {
        let error = registered.expect_err("it is not persistent");
        assert_eq!(error, DeviceError::NotPersistent { device: "rxe0".into() });
        println!("{error}");
        let visible = Mr::alloc(&pd, 4096, TARGET).expect("flushed to visibility");
        assert!(visible.grants_native_flush());
    } else {
        let region = registered.expect("the device does not look");
        assert_eq!(region.remote().usage(), usage);
        assert!(!region.grants_native_flush());
    }
}

fn append(address: &str) {
    for path in crate::support::paths(address) {
        thread::scope(|scope| {
            let config = ConnConfig::default().with_path(path);
            let (server, client) = pair(scope, address, 1 << 16, config);
            assert_eq!(client.connection.path(), path);
            log::format(server.region.words()).expect("a log");
            let usage = Usage::WRITE_SRC | Usage::READ_DST;
            let staging = Mr::alloc(client.connection.pd(), 512, usage).expect("staging");
            let mut log = Log::open(
                client.ring,
                client.region,
                staging.words(),
                staging.local(),
                LogConfig::default(),
            )
            .expect("it opens");
            let mut expected = Vec::new();
            for number in 0..200u32 {
                let record = format!("record {number} {}", "x".repeat(number as usize % 37));
                log.append(record.as_bytes()).expect("room");
                expected.extend_from_slice(record.as_bytes());
                expected.push(0);
                if number % 7 == 0 {
                    log.commit().expect("committed");
                }
            }
            let last = log.appended();
            log.wait(last).expect("durable");
            assert_eq!(log::tail(server.region.words()), Ok(last));
            let mut found = vec![0; expected.len()];
            log.read(log::DATA_OFFSET, &mut found).expect("read back");
            assert!(found == expected, "{path:?}");
        });
    }
}

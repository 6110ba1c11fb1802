//! Faults under a log. In each: a typed error, what was confirmed is in the log,
//! of the rest whole records or nothing, and a new connection goes on from the
//! tail.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use farword::log::{self, Announcement, LogError};
use farword::verbs::{ConnConfig, Connection, Connector, Device, Listener, Mr, Path, Pd};
use farword::{DeviceFault, Error, RemoteRegion, WcStatus, Why};

use crate::Row;
use crate::support::{Appender, LONG, TARGET, paths, record};
use crate::wire::{Restore, peer_of, run};

pub(crate) const ROWS: &[Row] = &[
    ("a-log-under-a-wrong-key-is-not-opened-and-goes-on-with-the-right-one", wrong_key),
    ("a-log-that-is-smaller-than-it-was-told-ends-in-an-error-and-goes-on", out_of_bounds),
    ("a-log-deregistered-under-its-client-goes-on-when-it-is-back", deregistered),
    ("a-log-whose-queues-are-always-full-loses-nothing", queues_full),
];

/// For two devices on a wire.
pub(crate) const WIRE_ROWS: &[Row] = &[
    ("a-log-whose-link-goes-down-goes-on-when-it-is-up", link_down),
    ("a-log-whose-link-changes-its-mtu-loses-nothing", mtu_change),
];

const WORDS: usize = 1024;

/// What a record takes: its 13 bytes and a NUL.
const RECORD: u64 = 14;

/// The owner of a log, in this process too.
struct Home {
    listener: Listener,
    to: SocketAddr,
    pd: Pd,
    memory: &'static [AtomicU64],
    region: RefCell<Option<Mr<&'static [AtomicU64]>>>,
}

impl Home {
    fn new(address: &str) -> Home {
        let listener = Listener::bind(&format!("{address}:0")).expect("listening");
        let to = listener.local_address().expect("it is bound");
        let pd = Pd::new(&Device::open_by_address(to).expect("a device")).expect("a domain");
        let memory = (0..WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
        log::format(memory).expect("a log");
        let home = Home { listener, to, pd, memory, region: RefCell::new(None) };
        home.register(WORDS);
        home
    }

    /// Registers the first words of the log, in place of what was registered.
    fn register(&self, words: usize) {
        let region = Mr::register(&self.pd, &self.memory[..words], TARGET).expect("registered");
        *self.region.borrow_mut() = Some(region);
    }

    fn deregister(&self) {
        assert!(self.region.borrow_mut().take().is_some(), "it was registered");
    }

    fn told(&self) -> RemoteRegion {
        self.region.borrow().as_ref().expect("it is registered").remote()
    }

    /// A client that is told of this region, and this side's end.
    fn connect(&self, from: &Client, told: RemoteRegion) -> (Appender, Connection) {
        let native = self.region.borrow().as_ref().is_some_and(Mr::grants_native_flush);
        let announced = Announcement::new(told).with_native_flush(native).to_bytes();
        let mut connector = Connector::new(from.config).expect("a connector");
        if let Some(source) = from.source {
            connector = connector.with_source(source);
        }
        let (listener, pd) = (&self.listener, &self.pd);
        thread::scope(|scope| {
            let far = scope.spawn(move || {
                let request = listener.next(Some(LONG)).expect("a request");
                request.accept(pd, &announced, &ConnConfig::default()).expect("accepting")
            });
            let near = connector.connect_address(self.to, &[]).expect("connecting");
            (Appender::over(near), far.join().expect("no panic"))
        })
    }

    /// Checks that the log holds the first records, each whole, up to a tail of
    /// some commit, and says how many.
    fn records(&self) -> u64 {
        let tail = log::tail(self.memory).expect("it is a log").get();
        let bytes: Vec<u8> = self
            .memory
            .iter()
            .flat_map(|word| word.load(Ordering::Acquire).to_ne_bytes())
            .take(tail as usize)
            .skip(log::DATA_OFFSET as usize)
            .collect();
        let mut count = 0;
        for found in bytes.split(|byte| *byte == 0).filter(|found| !found.is_empty()) {
            assert_eq!(found, record(count), "in order, each whole");
            count += 1;
        }
        assert_eq!(tail, log::DATA_OFFSET + RECORD * count);
        count
    }
}

/// How a client goes about it.
#[derive(Clone, Copy)]
struct Client {
    config: ConnConfig,
    source: Option<SocketAddr>,
}

/// Runs `job` for each path, with a log of its own at `at`.
fn on_each_path(address: &str, at: &str, job: impl Fn(&Home, &Client)) {
    let source = (at != address).then(|| format!("{address}:0").parse().expect("an address"));
    for path in paths(address) {
        println!("{path:?}");
        job(&Home::new(at), &client(path, source));
    }
}

fn client(path: Path, source: Option<SocketAddr>) -> Client {
    Client { config: ConnConfig::default().with_path(path), source }
}

/// What a client did before its log failed.
struct Failed {
    error: LogError,
    durable: u64,
    appended: u64,
}

/// Appends record after record, most of them without waiting, until the log
/// fails; strikes before the 40th.
fn append_until_failure(appender: &mut Appender, strike: impl FnOnce()) -> Failed {
    let mut strike = Some(strike);
    let mut log = appender.log().expect("it opens");
    let begin = Instant::now();
    for number in 0.. {
        if number == 40 {
            strike.take().expect("once")();
        }
        let mut append = || {
            log.append(&record(number))?;
            let last = log.commit()?;
            if number % 5 == 4 { log.wait(last) } else { Ok(()) }
        };
        if let Err(error) = append() {
            return Failed { error, durable: log.durable().get(), appended: log.appended().get() };
        }
        assert!(begin.elapsed() < LONG, "it never failed");
    }
    unreachable!("numbers do not end")
}

/// What is there is what was confirmed, or some of what is unknown too; and a
/// new connection goes on from the tail.
fn goes_on(home: &Home, client: &Client, failed: &Failed) {
    let there = home.records();
    let tail = log::DATA_OFFSET + RECORD * there;
    println!("{}: {there} records, durable up to {}", failed.error, failed.durable);
    assert!(failed.durable <= tail, "what is confirmed is there");
    assert!(tail <= failed.appended + RECORD, "nothing is there that was not sent");

    let (mut appender, _far) = home.connect(client, home.told());
    let mut log = appender.log().expect("it is well again");
    assert_eq!(log.appended().get(), tail);
    for number in there..there + 20 {
        log.append(&record(number)).expect("room");
    }
    let last = log.appended();
    log.wait(last).expect("durable");
    assert_eq!(home.records(), there + 20);
}

fn is_access_error(error: &LogError) -> bool {
    let LogError::Ring(Error::Failed { why: Why::Completion { status, .. } }) = error else {
        return false;
    };
    *status == WcStatus::REM_ACCESS_ERR
}

fn wrong_key(address: &str) {
    on_each_path(address, address, |home, client| {
        let told = home.told();
        let wrong = RemoteRegion::new(told.base(), told.size(), told.rkey() ^ 0x5500, told.usage());
        let (mut appender, far) = home.connect(client, wrong);
        let error = appender.log().map(drop).expect_err("no such key");
        assert!(is_access_error(&error), "{error}");
        drop((appender, far));
        let (durable, appended) = (0, log::DATA_OFFSET);
        goes_on(home, client, &Failed { error, durable, appended });
    });
}

fn out_of_bounds(address: &str) {
    on_each_path(address, address, |home, client| {
        home.register(WORDS / 2);
        let told = home.told();
        let larger = RemoteRegion::new(told.base(), 2 * told.size(), told.rkey(), told.usage());
        let (mut appender, far) = home.connect(client, larger);
        let failed = append_until_failure(&mut appender, || {});
        assert!(is_access_error(&failed.error), "{}", failed.error);
        assert!(home.records() > 250, "nearly all that fit");
        drop((appender, far));
        home.register(WORDS);
        goes_on(home, client, &failed);
    });
}

fn deregistered(address: &str) {
    on_each_path(address, address, |home, client| {
        let (mut appender, far) = home.connect(client, home.told());
        let failed = append_until_failure(&mut appender, || home.deregister());
        assert!(is_access_error(&failed.error), "{}", failed.error);
        assert!(home.records() >= 40, "what was appended before");
        drop((appender, far));
        home.register(WORDS);
        goes_on(home, client, &failed);
    });
}

/// A send queue that holds hardly more than one commit, and nobody who waits.
fn queues_full(address: &str) {
    on_each_path(address, address, |home, client| {
        let config = client.config.with_sq_depth(8);
        let (mut appender, _far) = home.connect(&Client { config, ..*client }, home.told());
        let mut log = appender.log_with_batch(8).expect("it opens");
        for number in 0..500 {
            log.append(&record(number)).expect("room in the log");
            log.commit().expect("room is made in the queue");
        }
        let last = log.appended();
        log.wait(last).expect("durable");
        assert_eq!(home.records(), 500);
        let counters = log.ring().counters();
        assert_eq!((counters.posted, counters.stale), (counters.retired, 0));
    });
}

fn link_down(address: &str) {
    on_each_path(address, &peer_of(address), |home, client| {
        let (mut appender, far) = home.connect(client, home.told());
        let (_, most) = client.config.silence_bound().expect("the default is bounded");
        let struck = RefCell::new(None);
        let failed = append_until_failure(&mut appender, || {
            run("ip link set veth0 down");
            *struck.borrow_mut() = Some((Instant::now(), Restore("ip link set veth0 up")));
        });
        let (at, restore) = struck.take().expect("it went down");
        // The emulated machine's clock runs on while it is not run.
        assert!(at.elapsed() < most * 3, "{:?}, and the bound is {most:?}", at.elapsed());
        let LogError::Ring(Error::Failed { why }) = failed.error else {
            panic!("{}", failed.error)
        };
        assert!(
            matches!(why, Why::Completion { .. } | Why::Device(DeviceFault::Port))
                || why == Why::Device(DeviceFault::Connection),
            "{why}"
        );
        drop(restore);
        drop((appender, far));
        port_is_back();
        goes_on(home, client, &failed);
    });
}

/// Waits until the device's port is active again and knows its address.
fn port_is_back() {
    let begin = Instant::now();
    let active = || {
        let devices = farword::verbs::devices().expect("a list");
        devices.iter().all(|device| device.ports.iter().all(|port| port.state.is_active()))
    };
    while !active() {
        assert!(begin.elapsed() < LONG, "the port stays down");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(300));
}

fn mtu_change(address: &str) {
    on_each_path(address, &peer_of(address), |home, client| {
        let _restore = Restore("ip link set veth0 mtu 1500");
        let (mut appender, _far) = home.connect(client, home.told());
        let mut log = appender.log().expect("it opens");
        for number in 0..300 {
            match number {
                100 => run("ip link set veth0 mtu 1400"),
                200 => run("ip link set veth0 mtu 9000"),
                _ => {}
            }
            log.append(&record(number)).expect("room");
            log.commit().expect("committed");
        }
        let last = log.appended();
        log.wait(last).expect("durable");
        assert_eq!(home.records(), 300);
    });
}

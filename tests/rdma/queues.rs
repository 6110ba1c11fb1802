//! Queues: filled to the brim, cut to what fits, slept on, and dropped with
//! something in them.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::os::fd::AsFd;
use std::thread;

use farword::verbs::{ConnConfig, ConnEvent, Mr, VerbsQp};
use farword::wr::Wc;
use farword::{
    AlignedOffset, Capabilities, Chain, Completion, Deadline, DeviceFault, Error, Notify,
    OpContext, Outcome, PostError, Provider, Remedy, RemoteRegion, Ring, RingConfig, WaitError,
    WcStatus, Word,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Row;
use crate::support::{Client, LONG, connect, listen, pair, paths};

pub(crate) const ROWS: &[Row] = &[
    ("a-partly-refused-chain-is-posted-once", partly_refused),
    ("a-full-queue-says-so-and-gives-every-completion", full_queue),
    ("a-full-queue-that-fails-loses-no-completion", full_queue_fails),
    ("the-first-write-of-an-idle-ring-goes-at-once-and-many-share-a-doorbell", doorbells),
    ("a-word-has-room-inline-and-asking-for-more-is-survived", inline_room),
    ("a-sleeping-ring-is-woken-by-each-completion", sleeping),
    ("a-sleeping-ring-is-woken-by-the-end-of-its-connection", sleeping_at_the_end),
    ("nothing-hangs-when-it-is-dropped-with-events-pending", dropped_with_events),
];

/// Runs `job` on a connected pair, once per path.
fn on_each_path(address: &str, config: ConnConfig, job: impl Fn(&Mr, Client)) {
    for path in paths(address) {
        println!("{path:?}");
        thread::scope(|scope| {
            let (server, client) = pair(scope, address, 4096, config.with_path(path));
            job(&server.region, client);
        });
    }
}

/// A queue pair that says that its queues are deeper than they are.
#[derive(Debug)]
struct Boastful(VerbsQp);

impl Provider for Boastful {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.capabilities();
        (capabilities.sq_depth, capabilities.cq_depth) = (256, 256);
        capabilities
    }

    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        self.0.post(chain)
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        self.0.poll(into)
    }

    fn abort(&mut self) {
        self.0.abort();
    }
}

/// CASES 3. The rest goes with the next doorbell, and nothing twice.
fn partly_refused(address: &str) {
    const LEN: u64 = 32;
    for path in paths(address) {
        println!("{path:?}");
        let (listener, to) = listen(address);
        let config = ConnConfig::default().with_path(path).with_sq_depth(5);
        thread::scope(|scope| {
            let server = scope.spawn(|| crate::support::Exposed::accept(&listener, 4096, &config));
            let mut connection = connect(to, &[], &config).expect("connecting");
            let region = RemoteRegion::from_descriptor(connection.private_data()).expect("told");
            let server = server.join().expect("no panic");
            let room = u64::from(connection.capabilities().sq_depth);
            assert!(room < LEN, "more was granted than the chain is long: {room}");
            let provider = Boastful(connection.take_provider().expect("it is there"));
            let mut ring = Ring::boxed(provider, RingConfig::new(64, 32)).expect("a ring");
            for at in 0..LEN {
                let target = region.target(AlignedOffset::of_word(at as u32)).expect("in it");
                let (word, context) = (Word::ne(at + 1), OpContext::new(at));
                ring.atomic_write(target, word, Notify::Always, context).expect("room");
            }
            let remedy = Remedy::Poll { occupied: LEN as u32, depth: 64 };
            assert_eq!(ring.doorbell(), Err(Error::Full { remedy }));
            assert_eq!(u64::from(ring.in_flight() + ring.staged()), LEN);
            // A queue may be deeper than what was granted, which is a promise.
            let taken = u64::from(ring.in_flight());
            assert!((room..LEN).contains(&taken), "what fits was taken: {taken} of {room}");
            let mut contexts = Vec::new();
            let mut deadline = Deadline::after(LONG);
            while !ring.is_idle() {
                // The completion queue has room for what is in flight, and Soft-RoCE
                // would take more.
                if ring.in_flight() == 0 {
                    let posted = ring.doorbell();
                    assert!(matches!(posted, Ok(_) | Err(Error::Full { .. })), "{posted:?}");
                }
                let told = |told: Completion| contexts.push((told.context.get(), told.outcome));
                ring.poll_with(told).expect("all is well");
                assert!(farword::Patience::more(&mut deadline), "{:?}", ring.counters());
            }
            let expected: Vec<_> = (0..LEN).map(|at| (at, Outcome::Confirmed)).collect();
            assert_eq!(contexts, expected);
            let counters = ring.counters();
            assert_eq!((counters.posted, counters.completions), (LEN, LEN), "each once");
            assert_eq!(counters.stale, 0);
            for (word, at) in server.region.words().iter().zip(0..LEN) {
                assert_eq!(word.load(Ordering::Acquire), at + 1);
            }
        });
    }
}

/// Stages and posts as many writes as the ring holds, each with a completion;
/// the first is to `first`.
fn fill(client: &mut Client, first: RemoteRegion) -> u32 {
    let depth = client.connection.ring_depth();
    for at in 0..depth {
        let region = if at == 0 { first } else { client.region };
        let target = region.target(AlignedOffset::of_word(at % 512)).expect("in it");
        let context = OpContext::new(at.into());
        let word = Word::ne(u64::from(at) + 1);
        while let Err(error) = client.ring.atomic_write(target, word, Notify::Always, context) {
            assert!(matches!(error, Error::Full { remedy: Remedy::Doorbell { .. } }), "{error}");
            client.ring.doorbell().expect("there is room");
        }
    }
    client.ring.doorbell().expect("there is room");
    depth
}

/// CASES 2 and 6: the send queue and the completion queue to the brim.
fn full_queue(address: &str) {
    on_each_path(address, ConnConfig::default(), |memory, mut client| {
        let region = client.region;
        let depth = fill(&mut client, region);
        let target = region.target(AlignedOffset::ZERO).expect("in it");
        let full = client.ring.atomic_write(target, Word::ne(9), Notify::Always, OpContext::new(9));
        let remedy = Remedy::Poll { occupied: depth, depth };
        assert_eq!(full, Err(Error::Full { remedy }));
        // Long enough for all of them to lie in the completion queue.
        thread::sleep(Duration::from_millis(300));
        let mut contexts = Vec::new();
        let told = |told: Completion| contexts.push(told.context.get());
        client.ring.drain(Deadline::after(LONG), told).expect("all is well");
        assert_eq!(contexts, (0..u64::from(depth)).collect::<Vec<_>>());
        assert_eq!(client.ring.provider().fault(), None, "the completion queue is well");
        assert_eq!(memory.words()[1].load(Ordering::Acquire), 2);
    });
}

/// CASES 5 and 6: on an error every request completes, and there is room.
fn full_queue_fails(address: &str) {
    on_each_path(address, ConnConfig::default(), |memory, mut client| {
        let told = client.region;
        let wrong = RemoteRegion::new(told.base(), told.size(), told.rkey() ^ 0x5500, told.usage());
        let depth = fill(&mut client, wrong);
        thread::sleep(Duration::from_millis(300));
        let mut all = Vec::new();
        let ended = client.ring.drain(Deadline::after(LONG), |told| {
            all.push((told.context.get(), told.outcome));
        });
        assert!(matches!(ended, Err(WaitError::Ring(Error::Failed { .. }))), "{ended:?}");
        let mut expected: Vec<_> = (0..u64::from(depth)).map(|at| (at, Outcome::Unknown)).collect();
        expected[0].1 = Outcome::Failed(WcStatus::REM_ACCESS_ERR);
        assert_eq!(all, expected);
        assert!(memory.words().iter().all(|word| word.load(Ordering::Acquire) == 0));
    });
}

/// CASES 25: when to ring is the caller's choice.
fn doorbells(address: &str) {
    on_each_path(address, ConnConfig::default(), |memory, mut client| {
        let target = client.region.target(AlignedOffset::ZERO).expect("in it");
        let stage = |ring: &mut Ring<'_, VerbsQp>, value| {
            let context = OpContext::new(value);
            ring.atomic_write(target, Word::ne(value), Notify::Always, context).expect("room");
        };
        let ring = &mut client.ring;
        stage(ring, 1);
        assert_eq!(ring.doorbell(), Ok(1), "nothing waits for company");
        let mut deadline = Deadline::after(LONG);
        while memory.words()[0].load(Ordering::Acquire) != 1 {
            assert!(farword::Patience::more(&mut deadline), "it never went");
        }
        for value in 2..=17 {
            stage(ring, value);
        }
        assert_eq!(memory.words()[0].load(Ordering::Acquire), 1, "nothing goes by itself");
        assert_eq!(ring.doorbell(), Ok(16));
        ring.drain(Deadline::after(LONG), |_| {}).expect("all");
        let counters = ring.counters();
        assert_eq!((counters.doorbells, counters.posted), (2, 17));
        assert_eq!(memory.words()[0].load(Ordering::Acquire), 17);
    });
}

/// CASES 14: a queue pair that asks for more inline data than there is cannot be
/// made, which the search for the most runs into.
fn inline_room(address: &str) {
    let devices = farword::verbs::devices().expect("a list");
    let most = devices.iter().find(|device| device.name.as_str() == "rxe0").expect("rxe0");
    println!("at most {} bytes inline", most.max_inline);
    on_each_path(address, ConnConfig::default(), |_, client| {
        let granted = client.connection.capabilities().max_inline;
        assert!(granted >= 8 && granted <= most.max_inline, "{granted} of {}", most.max_inline);
    });
}

/// The standard order: poll, arm, poll again, and only then sleep.
fn sleeping(address: &str) {
    on_each_path(address, ConnConfig::default(), |memory, mut client| {
        let target = client.region.target(AlignedOffset::ZERO).expect("in it");
        let ring = &mut client.ring;
        for value in 1..=100u64 {
            let context = OpContext::new(value);
            ring.atomic_write(target, Word::ne(value), Notify::Always, context).expect("room");
            let mut told = 0;
            while told == 0 {
                let given = ring.poll_or_sleep(LONG, |_| {}).expect("all is well");
                assert!(given > 0, "it slept through number {value}");
                told += given;
            }
        }
        assert_eq!(memory.words()[0].load(Ordering::Acquire), 100);
        // By hand, as with epoll or AsyncFd.
        ring.provider_mut().events().expect("it has a channel").arm().expect("armed");
        assert_eq!(ring.poll_with(|_| {}), Ok(0));
        ring.atomic_write(target, Word::ne(7), Notify::Always, OpContext::new(7)).expect("room");
        ring.doorbell().expect("posted");
        let events = ring.provider_mut().events().expect("it has a channel");
        // As an executor would hold it.
        let duplicate = events.as_fd().try_clone_to_owned().expect("a descriptor is left");
        let mut fds = [PollFd::new(&duplicate, PollFlags::IN)];
        let limit = Timespec::try_from(LONG).expect("seconds");
        assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "the descriptor is readable");
        assert_eq!(events.take(), Ok(1));
        assert_eq!(ring.poll_with(|_| {}), Ok(1));
    });
}

/// CASES 7 and 20: no completion tells of it, so the sleep must not be blind.
fn sleeping_at_the_end(address: &str) {
    for path in paths(address) {
        thread::scope(|scope| {
            let config = ConnConfig::default().with_path(path);
            let (server, mut client) = pair(scope, address, 4096, config);
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(100));
                server.connection.disconnect().expect("disconnected");
                assert_eq!(server.connection.wait_end(Some(LONG)), Ok(ConnEvent::Closed));
            });
            let target = client.region.target(AlignedOffset::ZERO).expect("in it");
            let mut deadline = Deadline::after(LONG);
            let error = loop {
                let word = Word::ne(1);
                let context = OpContext::new(1);
                let staged = client.ring.atomic_write(target, word, Notify::Always, context);
                let slept =
                    staged.and_then(|_| client.ring.poll_or_sleep(Duration::from_secs(5), |_| {}));
                match slept {
                    Ok(_) => assert!(farword::Patience::more(&mut deadline), "it never failed"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::Failed { .. }), "{error}");
        });
    }
}

/// An id, a channel or a queue is not destroyed before its events are
/// acknowledged; whoever forgets one waits for ever.
fn dropped_with_events(address: &str) {
    // Requests that nobody took up.
    let (listener, to) = listen(address);
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            connect(to, &[], &ConnConfig::default().with_connect_timeout(LONG)).map(drop)
        });
        let mut fds = [PollFd::new(&listener, PollFlags::IN)];
        let limit = Timespec::try_from(LONG).expect("seconds");
        assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "a request lies there");
        drop(listener);
        client.join().expect("no panic").expect_err("rejected");
    });
    // The end of a connection, which nobody asked for.
    thread::scope(|scope| {
        let (server, client) = pair(scope, address, 64, ConnConfig::default());
        server.connection.disconnect().expect("disconnected");
        thread::sleep(Duration::from_millis(100));
        drop(client);
        drop(server);
    });
    // Completion events: asked for and come, taken and not acknowledged yet.
    thread::scope(|scope| {
        let (_server, mut client) = pair(scope, address, 64, ConnConfig::default());
        let target = client.region.target(AlignedOffset::ZERO).expect("in it");
        for take in [true, false] {
            client.ring.provider_mut().events().expect("a channel").arm().expect("armed");
            let context = OpContext::new(1);
            let ticket = client.ring.atomic_write(target, Word::ne(1), Notify::Always, context);
            client.ring.wait(ticket.expect("room"), Deadline::after(LONG), |_| {}).expect("done");
            let events = client.ring.provider_mut().events().expect("a channel");
            if take {
                assert_eq!(events.wait(LONG), Ok(true));
            } else {
                thread::sleep(Duration::from_millis(50));
            }
        }
        drop(client);
    });
}

//! Faults of the wire between two devices, `veth0` to `veth1`.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use farword::verbs::{Cause, ConnConfig, Connector, Path, Step};
use farword::{
    AlignedOffset, Deadline, Error, Notify, Outcome, RemoteRegion, WaitError, WcStatus, Why,
};

use crate::Row;
use crate::support::{Client, Exposed, LONG, listen, paths, put};

pub(crate) const ROWS: &[Row] = &[
    ("a-silent-peer-is-noticed-within-the-documented-bound", silent),
    ("a-deadline-ends-the-wait-for-a-peer-that-is-retried-for-ever", deadline),
    ("a-peer-that-cannot-be-reached-is-given-up-in-time", unreachable),
    ("a-link-set-down-fails-what-is-pending", link_down),
    ("an-mtu-change-in-mid-stream-loses-nothing", mtu_change),
    ("losses-are-made-good", losses),
];

/// Rows for a device with ATOMIC WRITE.
pub(crate) const NATIVE_ROWS: &[Row] =
    &[("a-loss-on-the-native-path-is-made-good-or-told-of", losses_on_the_native_path)];

const WORD: AlignedOffset = AlignedOffset::literal::<8>();

pub(crate) fn run(command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let status = Command::new(words[0]).args(&words[1..]).status().expect("it starts");
    assert!(status.success(), "{command}: {status}");
}

/// Undoes what a row did to the wire, also when it panics.
pub(crate) struct Restore(pub(crate) &'static str);

impl Drop for Restore {
    fn drop(&mut self) {
        run(self.0);
    }
}

/// The address at the wire's other end.
pub(crate) fn peer_of(address: &str) -> String {
    let (network, host) = address.rsplit_once('.').expect("an IPv4 address");
    format!("{network}.{}", host.parse::<u8>().expect("a number") + 1)
}

/// A client at `address` and a server at the next one.
fn over_the_wire(address: &str, config: ConnConfig, job: impl FnOnce(Exposed, Client)) {
    let (listener, to) = listen(&peer_of(address));
    thread::scope(|scope| {
        let server = scope.spawn(|| Exposed::accept(&listener, 4096, &config));
        let source = format!("{address}:0").parse().expect("an address");
        let connector = Connector::new(config).expect("a connector").with_source(source);
        let mut connection = connector.connect_address(to, &[]).expect("connecting");
        assert_eq!(connection.via().device.as_str(), "rxe0");
        let told = connection.private_data();
        let region = RemoteRegion::from_descriptor(told).expect("a descriptor");
        let ring = connection.ring(16).expect("a ring");
        job(server.join().expect("no panic"), Client { connection, region, ring });
    });
}

fn on_each_path(address: &str, config: ConnConfig, job: impl Fn(Exposed, Client)) {
    for path in paths(address) {
        println!("{path:?}");
        over_the_wire(address, config.with_path(path), &job);
    }
}

/// CASES 20 and 22.
fn silent(address: &str) {
    let config = ConnConfig::default();
    let (_, most) = config.silence_bound().expect("the default is bounded");
    on_each_path(address, config, |_server, mut client| {
        let target = client.region.target(WORD).expect("a target");
        run("tc qdisc add dev veth0 root netem loss 100%");
        let restore = Restore("tc qdisc del dev veth0 root");
        let begin = Instant::now();
        let ticket = put(&mut client.ring, target, 1, Notify::Always).expect("room");
        let ended = client.ring.wait(ticket, Deadline::after(LONG), |_| {});
        let noticed = begin.elapsed();
        drop(restore);
        let Err(WaitError::Ring(Error::Failed { why })) = ended else { panic!("{ended:?}") };
        let Why::Completion { status, .. } = why else { panic!("{why}") };
        assert_eq!(status, WcStatus::RETRY_EXC_ERR);
        // The emulated machine's clock runs on while it is not run.
        assert!(noticed < most * 3, "noticed after {noticed:?}, and the bound is {most:?}");
        let text = client.connection.explain(why).to_string();
        println!("{text}");
        for part in ["rxe0 port 1 GID ::ffff:10.9.0.1", "10.9.0.2", "RoCE version", "4791"] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    });
}

/// CASES 20: with librpma's retry count of 7, Soft-RoCE never gives up. The
/// caller's deadline does, and then nothing is left hanging.
fn deadline(address: &str) {
    let config = ConnConfig::default().with_retry_count(7);
    assert_eq!(config.silence_bound(), None);
    on_each_path(address, config, |server, mut client| {
        let target = client.region.target(WORD).expect("a target");
        let before = put(&mut client.ring, target, 1, Notify::Always).expect("room");
        client.ring.wait(before, Deadline::after(LONG), |_| {}).expect("all is well");
        run("tc qdisc add dev veth0 root netem loss 100%");
        let restore = Restore("tc qdisc del dev veth0 root");
        let ticket = put(&mut client.ring, target, 2, Notify::Always).expect("room");
        // Longer than the bound of the default settings.
        let limit = Duration::from_secs(3);
        let ended = client.ring.wait(ticket, Deadline::after(limit), |_| {});
        assert_eq!(ended, Err(WaitError::TimedOut));
        assert!(!client.ring.is_confirmed(ticket));
        client.ring.abandon();
        let mut told = Vec::new();
        let ended = client.ring.drain(Deadline::after(LONG), |completion| {
            told.push((completion.context.get(), completion.outcome));
        });
        assert!(matches!(ended, Err(WaitError::Ring(Error::Failed { why: Why::Abandoned }))));
        assert_eq!(told, [(2, Outcome::Unknown)]);
        drop(restore);
        assert!((1..=2).contains(&there(&server, 1)), "the confirmed one is there");
    });
}

fn unreachable(address: &str) {
    let (network, _) = address.rsplit_once('.').expect("an IPv4 address");
    let (listener, to) = listen(&format!("{network}.2"));
    let limit = Duration::from_millis(800);
    let config = ConnConfig::default().with_connect_timeout(limit);
    let source = format!("{address}:0").parse().expect("an address");
    let connector = Connector::new(config).expect("a connector").with_source(source);
    // Once with success, so that the neighbour is known and only an answer lacks.
    thread::scope(|scope| {
        scope.spawn(|| drop(listener.next(Some(LONG)).expect("a request")));
        connector.connect_address(to, &[]).expect_err("the request is dropped");
    });
    run("tc qdisc add dev veth0 root netem loss 100%");
    let _restore = Restore("tc qdisc del dev veth0 root");
    let error = connector.connect_address(to, &[]).expect_err("nothing gets through");
    assert_eq!((error.step(), error.cause()), (Step::Connect, &Cause::TimedOut(limit)));
    assert!(error.to_string().contains("UDP port 4791"), "{error}");
    drop(listener);
}

fn link_down(address: &str) {
    on_each_path(address, ConnConfig::default(), |server, mut client| {
        let target = client.region.target(WORD).expect("a target");
        let ticket = put(&mut client.ring, target, 1, Notify::Always).expect("room");
        client.ring.wait(ticket, Deadline::after(LONG), |_| {}).expect("all is well");
        run("ip link set veth0 down");
        let _restore = Restore("ip link set veth0 up");
        let mut unknown = 0;
        for value in 2..=20 {
            if put(&mut client.ring, target, value, Notify::Always).is_err() {
                break;
            }
        }
        let ended = client.ring.drain(Deadline::after(LONG), |completion| {
            assert!(!completion.outcome.is_confirmed(), "nothing got through");
            unknown += 1;
        });
        let Err(WaitError::Ring(Error::Failed { why })) = ended else { panic!("{ended:?}") };
        println!("{}, {unknown} unknown", client.connection.explain(why));
        let there = server.region.words()[1].load(std::sync::atomic::Ordering::Acquire);
        assert!(there >= 1, "the confirmed write is there");
    });
    // The port comes back before the next row.
    thread::sleep(Duration::from_millis(500));
}

fn mtu_change(address: &str) {
    on_each_path(address, ConnConfig::default(), |server, mut client| {
        let _restore = Restore("ip link set veth0 mtu 1500");
        let target = client.region.target(WORD).expect("a target");
        let mut last = None;
        for value in 1..=300u64 {
            match value {
                100 => run("ip link set veth0 mtu 1400"),
                200 => run("ip link set veth0 mtu 9000"),
                _ => {}
            }
            last = Some(put(&mut client.ring, target, value, Notify::OnError).expect("room"));
        }
        client.ring.wait(last.expect("300"), Deadline::after(LONG), |_| {}).expect("all");
        let there = server.region.words()[1].load(std::sync::atomic::Ordering::Acquire);
        assert_eq!(there, 300);
    });
}

/// 3 % of what this side sends is lost.
fn with_losses(job: impl FnOnce()) {
    run("tc qdisc add dev veth0 root netem loss 3%");
    let _restore = Restore("tc qdisc del dev veth0 root");
    job();
}

/// Writes every word of the client's region once, and says how that ended and
/// how many of them, from the first on, are confirmed.
fn write_all(client: &mut Client) -> (Result<(), WaitError>, u64) {
    let mut ended = Ok(());
    for value in 0..512u64 {
        let at = AlignedOffset::of_word(value as u32);
        let target = client.region.target(at).expect("a target");
        if let Err(error) = put(&mut client.ring, target, value + 1, Notify::OnError) {
            ended = Err(error.into());
            break;
        }
    }
    let drained = client.ring.drain(Deadline::after(LONG), |completion| {
        assert!(!completion.outcome.is_confirmed(), "nobody asked to be told");
    });
    (ended.and(drained), client.ring.confirmed().get())
}

fn there(server: &Exposed, index: u64) -> u64 {
    server.region.words()[index as usize].load(std::sync::atomic::Ordering::Acquire)
}

fn losses(address: &str) {
    for path in [Path::PostSend, Path::WrCalls] {
        over_the_wire(address, ConnConfig::default().with_path(path), |server, mut client| {
            with_losses(|| assert_eq!(write_all(&mut client), (Ok(()), 512)));
            for index in 0..512 {
                assert_eq!(there(&server, index), index + 1);
            }
        });
    }
}

/// An ATOMIC WRITE that is sent again is refused with a remote access error by
/// the responder of the kernel's Soft-RoCE (6.12 and others), which has carried
/// it out before. So it ends well or in that error; and what is confirmed is
/// there in either case.
fn losses_on_the_native_path(address: &str) {
    let config = ConnConfig::default().with_path(Path::Native);
    over_the_wire(address, config, |server, mut client| {
        let mut result = None;
        with_losses(|| result = Some(write_all(&mut client)));
        let (ended, confirmed) = result.expect("it ran");
        println!("{ended:?}, {confirmed} confirmed");
        match ended {
            Ok(()) => assert_eq!(confirmed, 512),
            Err(WaitError::Ring(Error::Failed { why: Why::Completion { status, .. } })) => {
                assert_eq!(status, WcStatus::REM_ACCESS_ERR);
            }
            Err(error) => panic!("{error}"),
        }
        for index in 0..confirmed {
            assert_eq!(there(&server, index), index + 1, "word {index} is confirmed");
        }
    });
}

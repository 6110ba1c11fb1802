//! Faults of the wire between two devices, `veth0` to `veth1`.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use farword::verbs::{Cause, ConnConfig, Connector, Step};
use farword::{AlignedOffset, Deadline, Error, Notify, RemoteRegion, WaitError, WcStatus, Why};

use crate::Row;
use crate::support::{Client, Exposed, LONG, listen, paths, put};

pub(crate) const ROWS: &[Row] = &[
    ("a-silent-peer-is-noticed-within-the-documented-bound", silent),
    ("a-peer-that-cannot-be-reached-is-given-up-in-time", unreachable),
    ("a-link-set-down-fails-what-is-pending", link_down),
    ("an-mtu-change-in-mid-stream-loses-nothing", mtu_change),
    ("losses-are-made-good", losses),
];

const WORD: AlignedOffset = AlignedOffset::literal::<8>();

fn run(command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let status = Command::new(words[0]).args(&words[1..]).status().expect("it starts");
    assert!(status.success(), "{command}: {status}");
}

/// Undoes what a row did to the wire, also when it panics.
struct Restore(&'static str);

impl Drop for Restore {
    fn drop(&mut self) {
        run(self.0);
    }
}

/// A client at `address` and a server at the next one.
fn over_the_wire(address: &str, config: ConnConfig, job: impl FnOnce(Exposed, Client)) {
    let (network, host) = address.rsplit_once('.').expect("an IPv4 address");
    let peer = format!("{network}.{}", host.parse::<u8>().expect("a number") + 1);
    let (listener, to) = listen(&peer);
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

fn losses(address: &str) {
    on_each_path(address, ConnConfig::default(), |server, mut client| {
        run("tc qdisc add dev veth0 root netem loss 3%");
        let _restore = Restore("tc qdisc del dev veth0 root");
        for value in 0..512u64 {
            let at = AlignedOffset::of_word(value as u32 % 512);
            let target = client.region.target(at).expect("a target");
            put(&mut client.ring, target, value + 1, Notify::OnError).expect("room");
        }
        client.ring.drain(Deadline::after(LONG), |_| {}).expect("all");
        for (index, word) in server.region.words().iter().enumerate() {
            let there = word.load(std::sync::atomic::Ordering::Acquire);
            assert_eq!(there, index as u64 + 1);
        }
    });
}

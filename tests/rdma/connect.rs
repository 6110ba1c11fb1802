//! Connections: made, refused, timed out, woken, closed.

use std::thread;
use std::time::Duration;

use farword::verbs::{
    Cause, ConnConfig, ConnEvent, Connector, Device, DeviceError, Listener, MAX_ACCEPT_DATA,
    MAX_CONNECT_DATA, MAX_REJECT_DATA, Mr, Pd, RejectReason, Step,
};
use farword::{Notify, OpContext, Usage};

use crate::Row;
use crate::support::{LONG, connect, listen, pair};

pub(crate) const ROWS: &[Row] = &[
    ("private-data-arrives-up-to-its-limits", private_data),
    ("too-much-private-data-is-refused-before-anything-is-sent", too_much_private_data),
    ("a-peer-is-rejected-with-a-reason", rejected),
    ("a-request-that-is-dropped-is-a-rejection", dropped_request),
    ("a-port-where-nobody-listens-rejects", closed_port),
    ("connecting-before-anybody-listens-spoils-nothing", before_listening),
    ("a-peer-that-does-not-answer-is-given-up-in-time", no_answer),
    ("a-host-name-leads-to-the-peer", host_name),
    ("an-address-that-no-device-has-is-named", no_such_address),
    ("an-address-that-nobody-has-is-given-up-in-time", nobody_there),
    ("a-port-is-listened-on-once", port_in_use),
    ("every-wait-can-be-woken", woken),
    ("either-side-or-both-disconnect", disconnects),
    ("a-domain-of-the-callers-is-used", own_domain),
    ("devices-open-by-name-and-by-address", open_devices),
    ("a-connection-is-over-in-any-order-of-dropping", drop_orders),
];

fn private_data(address: &str) {
    let config = ConnConfig::default();
    for (asks, answers) in [(0, 0), (1, 1), (MAX_CONNECT_DATA, MAX_ACCEPT_DATA)] {
        let asked: Vec<u8> = (1..=asks as u8).collect();
        let answered: Vec<u8> = (1..=answers as u8).rev().collect();
        let (listener, to) = listen(address);
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                let request = listener.next(Some(LONG)).expect("a request");
                assert!(request.private_data().starts_with(&asked));
                assert!(request.private_data()[asks..].iter().all(|byte| *byte == 0), "padding");
                assert!(request.peer_address().is_some());
                let pd = Pd::new(&request.device().expect("its device")).expect("a domain");
                let connection = request.accept(&pd, &answered, &config).expect("accepting");
                assert!(connection.private_data().starts_with(&asked));
                connection
            });
            let client = connect(to, &asked, &config).expect("connecting");
            assert!(client.private_data().starts_with(&answered));
            assert_eq!(client.peer_address(), Some(to));
            let server = server.join().expect("the server's side");
            assert_eq!(server.peer_address(), client.local_address());
        });
    }
}

fn too_much_private_data(address: &str) {
    let (listener, to) = listen(address);
    let config = ConnConfig::default();
    let len = MAX_CONNECT_DATA + 1;
    let error = connect(to, &vec![1; len], &config).expect_err("too much");
    assert_eq!(error.cause(), &Cause::PrivateDataTooLong { len, max: MAX_CONNECT_DATA });
    let none = listener.next(Some(Duration::from_millis(300))).expect_err("nothing was sent");
    assert!(none.is_timeout(), "{none}");

    for rejecting in [false, true] {
        thread::scope(|scope| {
            let client = scope.spawn(|| connect(to, &[], &config));
            let request = listener.next(Some(LONG)).expect("a request");
            let pd = Pd::new(&request.device().expect("its device")).expect("a domain");
            let (max, refused) = match rejecting {
                true => (MAX_REJECT_DATA, request.reject(&vec![1; MAX_REJECT_DATA + 1])),
                false => {
                    let data = vec![1; MAX_ACCEPT_DATA + 1];
                    (MAX_ACCEPT_DATA, request.accept(&pd, &data, &config).map(drop))
                }
            };
            let cause = Cause::PrivateDataTooLong { len: max + 1, max };
            assert_eq!(refused.expect_err("too much").cause(), &cause);
            let error = client.join().expect("no panic").expect_err("not accepted");
            assert!(matches!(error.cause(), Cause::Rejected(_)), "{error}");
        });
    }
}

fn rejected(address: &str) {
    let (listener, to) = listen(address);
    for reason in [&b""[..], b"the log is taken", &[7; MAX_REJECT_DATA]] {
        thread::scope(|scope| {
            scope.spawn(|| {
                let request = listener.next(Some(LONG)).expect("a request");
                request.reject(reason).expect("rejecting");
            });
            let error = connect(to, &[], &ConnConfig::default()).expect_err("rejected");
            let Cause::Rejected(rejection) = error.cause() else { panic!("{error}") };
            assert_eq!(rejection.reason, RejectReason::BY_PROGRAM);
            assert!(rejection.private_data.starts_with(reason), "{rejection:?}");
            let text = error.to_string();
            assert!(text.contains(&to.to_string()) && text.contains("rxe0"), "{text}");
        });
    }
}

fn dropped_request(address: &str) {
    let (listener, to) = listen(address);
    thread::scope(|scope| {
        scope.spawn(|| drop(listener.next(Some(LONG)).expect("a request")));
        let error = connect(to, &[], &ConnConfig::default()).expect_err("rejected");
        assert!(matches!(error.cause(), Cause::Rejected(_)), "{error}");
    });
}

fn closed_port(address: &str) {
    let (listener, to) = listen(address);
    drop(listener);
    let error = connect(to, &[], &ConnConfig::default()).expect_err("nobody listens");
    let Cause::Rejected(rejection) = error.cause() else { panic!("{error}") };
    assert_eq!(rejection.reason, RejectReason::NO_LISTENER);
    assert_eq!((error.step(), error.peer()), (Step::Connect, Some(to)));
    let text = error.to_string();
    for part in ["nobody listens", "rxe0 port 1 GID", &to.to_string(), "is the server running"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

/// CASES 21: an error each time, nothing freed twice, and then it works.
fn before_listening(address: &str) {
    let (listener, to) = listen(address);
    drop(listener);
    let connector = Connector::new(ConnConfig::default()).expect("a connector");
    for _ in 0..3 {
        let error = connector.connect_address(to, &[]).expect_err("nobody listens yet");
        assert!(matches!(error.cause(), Cause::Rejected(_)), "{error}");
    }
    let listener = Listener::bind(&to.to_string()).expect("listening now");
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let request = listener.next(Some(LONG)).expect("a request");
            let pd = Pd::new(&request.device().expect("its device")).expect("a domain");
            request.accept(&pd, &[], &ConnConfig::default()).expect("accepting")
        });
        let client = connector.connect_address(to, &[]).expect("connecting");
        let _server = server.join().expect("no panic");
        assert!(!client.has_ended());
    });
}

fn no_answer(address: &str) {
    let (listener, to) = listen(address);
    let limit = Duration::from_millis(400);
    let config = ConnConfig::default().with_connect_timeout(limit);
    let error = connect(to, &[], &config).expect_err("nobody answers");
    assert_eq!((error.step(), error.cause()), (Step::Connect, &Cause::TimedOut(limit)));
    // The request of a client that has given up: accepting it is an error, and
    // the listener goes on.
    let request = listener.next(Some(LONG)).expect("its request was kept");
    let pd = Pd::new(&request.device().expect("its device")).expect("a domain");
    let error = request.accept(&pd, &[], &config).expect_err("it has gone");
    println!("accepting one that has gone: {error}");
    assert_eq!(error.step(), Step::Accept);
    thread::scope(|scope| {
        let client = scope.spawn(|| connect(to, &[], &ConnConfig::default()));
        let request = listener.next(Some(LONG)).expect("the next one");
        let server = request.accept(&pd, &[], &ConnConfig::default()).expect("accepting");
        let client = client.join().expect("no panic").expect("connecting");
        drop((client, server));
    });
}

/// Run with a host name for the address.
fn host_name(name: &str) {
    let (listener, to) = listen(name);
    thread::scope(|scope| {
        scope.spawn(|| listener.next(Some(LONG)).expect("a request").reject(&[]));
        let connector = Connector::new(ConnConfig::default()).expect("a connector");
        let host = format!("{name}:{}", to.port());
        let error = connector.connect(&host, &[]).expect_err("rejected");
        assert_eq!(error.peer(), Some(to));
        assert!(error.to_string().contains(&format!("{host} ({to})")), "{error}");
    });
    let connector = Connector::new(ConnConfig::default()).expect("a connector");
    let error = connector.connect("no-such-host.invalid:7000", &[]).expect_err("no such name");
    assert_eq!(error.step(), Step::Lookup);
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}

fn no_such_address(_: &str) {
    let error = Listener::bind("192.0.2.1:7000").expect_err("none of ours");
    assert_eq!(error.step(), Step::Bind);
    let text = error.to_string();
    for part in ["192.0.2.1:7000", "no RDMA device has that address"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

fn nobody_there(address: &str) {
    let last = address.rfind('.').expect("an IPv4 address");
    let to = format!("{}.77:7000", &address[..last]).parse().expect("an address");
    let limit = Duration::from_millis(700);
    let config = ConnConfig::default().with_address_timeout(limit);
    let error = connect(to, &[], &config).expect_err("nobody is there");
    println!("{error}");
    assert_eq!(error.step(), Step::Address);
    assert!(error.to_string().contains(&to.to_string()));
}

fn port_in_use(address: &str) {
    let (listener, to) = listen(address);
    let error = Listener::bind(&to.to_string()).expect_err("it is in use");
    assert!(error.to_string().contains("EADDRINUSE (98)"), "{error}");
    assert!(listener.device().expect("it opens").is_some());
    let everywhere = Listener::bind("0.0.0.0:0").expect("all addresses");
    assert!(everywhere.device().expect("nothing to open").is_none());
}

fn woken(address: &str) {
    let (listener, to) = listen(address);
    let waker = listener.waker();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.next(None).expect_err("woken"));
        waker.wake();
        assert!(waiting.join().expect("no panic").is_woken());
    });
    // A wake that comes early is kept.
    waker.wake();
    assert!(listener.next(Some(LONG)).expect_err("woken").is_woken());

    let config = ConnConfig::default().with_connect_timeout(LONG);
    let connector = Connector::new(config).expect("a connector");
    let waker = connector.waker();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| connector.connect_address(to, &[]).expect_err("woken"));
        // It waits for an answer now.
        let request = listener.next(Some(LONG)).expect("a request");
        waker.wake();
        assert!(waiting.join().expect("no panic").is_woken());
        drop(request);
    });

    thread::scope(|scope| {
        let (server, _client) = pair(scope, address, 64, ConnConfig::default());
        let waker = server.connection.waker();
        let waiting = scope.spawn(move || {
            let error = server.connection.wait_end(None).expect_err("woken");
            (error.is_woken(), server)
        });
        waker.wake();
        assert!(waiting.join().expect("no panic").0);
    });
}

fn disconnects(address: &str) {
    for who in ["server", "client", "both", "both, twice"] {
        thread::scope(|scope| {
            let (server, client) = pair(scope, address, 64, ConnConfig::default());
            let times = if who == "both, twice" { 2 } else { 1 };
            for _ in 0..times {
                if who != "client" {
                    server.connection.disconnect().expect("disconnecting");
                }
                if who != "server" {
                    client.connection.disconnect().expect("disconnecting");
                }
            }
            assert_eq!(server.connection.wait_end(Some(LONG)), Ok(ConnEvent::Closed), "{who}");
            assert_eq!(client.connection.wait_end(Some(LONG)), Ok(ConnEvent::Closed), "{who}");
            assert!(server.connection.has_ended() && client.connection.has_ended());
            server.connection.disconnect().expect("it is over: nothing to do");
        });
    }
}

fn own_domain(address: &str) {
    let (listener, to) = listen(address);
    let device = Device::open_by_address(to).expect("a device");
    let pd = Pd::new(&device).expect("a domain");
    let connector = Connector::new(ConnConfig::default()).expect("a connector").with_pd(&pd);
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let request = listener.next(Some(LONG)).expect("a request");
            assert_eq!(request.device().expect("its device"), device);
            request.accept(&pd, &[], &ConnConfig::default()).expect("accepting")
        });
        let client = connector.connect_address(to, &[]).expect("connecting");
        let server = server.join().expect("no panic");
        assert_eq!((client.pd(), server.pd()), (&pd, &pd));
    });
}

fn open_devices(address: &str) {
    let devices = farword::verbs::devices().expect("a list");
    let rxe = devices.iter().find(|device| device.name.as_str() == "rxe0").expect("rxe0");
    assert!(rxe.ports[0].state.is_active());
    assert!(rxe.ports[0].gids.iter().any(|entry| entry.gid.to_string().ends_with(address)));
    assert!(rxe.max_inline >= 16, "{}", rxe.max_inline);
    let by_name = Device::open_by_name("rxe0").expect("by name");
    let to = format!("{address}:0").parse().expect("an address");
    assert_eq!(Device::open_by_address(to), Ok(by_name));
    let missing = Device::open_by_name("mlx5_7").expect_err("none of that name");
    assert_eq!(missing, DeviceError::NotFound { name: "mlx5_7".into() });
}

/// CASES 16: whatever goes first, nothing is freed twice or used afterwards.
fn drop_orders(address: &str) {
    const PARTS: usize = 5;
    let rotations = (0..PARTS).flat_map(|first| [(first, 1), (first, PARTS - 1)]);
    for (first, step) in rotations {
        thread::scope(|scope| {
            let (server, mut client) = pair(scope, address, 64, ConnConfig::default());
            let pd = client.connection.pd().clone();
            let local = Mr::alloc(&pd, 64, Usage::WRITE_SRC).expect("a region");
            // Something is under way, from the memory and to it.
            let span = client.region.span(0, 64).expect("all of it");
            let context = OpContext::new(1);
            client.ring.write(local.local(), span, Notify::Always, context).expect("room");
            client.ring.doorbell().expect("posted");
            let device = pd.device().clone();
            let mut parts: [Option<Box<dyn std::any::Any>>; PARTS] = [
                Some(Box::new(client.connection)),
                Some(Box::new(client.ring)),
                Some(Box::new(local)),
                Some(Box::new(pd)),
                Some(Box::new(device)),
            ];
            for nth in 0..PARTS {
                parts[(first + nth * step) % PARTS] = None;
            }
            // The connection lives as long as its ring or itself, so it is over.
            assert_eq!(server.connection.wait_end(Some(LONG)), Ok(ConnEvent::Closed));
        });
    }
    // And the peer's memory and connection before the client's.
    for region_first in [true, false] {
        thread::scope(|scope| {
            let (server, client) = pair(scope, address, 64, ConnConfig::default());
            let (region, connection) = (server.region, server.connection);
            if region_first {
                drop(region);
                drop(connection);
            } else {
                drop(connection);
                drop(region);
            }
            assert_eq!(client.connection.wait_end(Some(LONG)), Ok(ConnEvent::Closed));
        });
    }
}

//! The rows.

use std::sync::atomic::Ordering;
use std::time::Duration;

use farword::verbs::{ConnConfig, Connector, Listener, Mr, PathChoice, Pd};
use farword::{AlignedOffset, Deadline, Notify, OpContext, RemoteRegion, Usage, Word};

pub(crate) type Row = (&'static str, fn(&str));

pub(crate) const ROWS: &[Row] = &[("atomic_write", atomic_write)];

fn atomic_write(address: &str) {
    for device in farword::verbs::devices().expect("devices") {
        println!("{device:#?}");
    }
    for path in [PathChoice::Fallback, PathChoice::Auto] {
        let config = ConnConfig::default().with_path(path);
        let listener = Listener::bind(&format!("{address}:0")).expect("listen");
        let to = listener.local_address().expect("bound");
        println!("listening on {to}");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let request = listener.next(Some(Duration::from_secs(5))).expect("request");
                let pd = Pd::new(&request.device().expect("device")).expect("pd");
                let usage = Usage::WRITE_DST | Usage::READ_SRC | Usage::FLUSH_VISIBILITY;
                let region = Mr::alloc(&pd, 4096, usage).expect("mr");
                let told = region.remote().to_descriptor();
                let connection = request.accept(&pd, &told, &config).expect("accept");
                println!("server: {:?}", connection);
                println!("server: {:?}", connection.wait_end(None));
                assert_eq!(u64::from_le(region.words()[1].load(Ordering::Acquire)), 100);
            });
            let mut connection = Connector::new(config)
                .expect("connector")
                .connect_address(to, b"hello")
                .expect("connect");
            println!("client: {connection:?}");
            let region = RemoteRegion::from_descriptor(connection.private_data()).expect("region");
            let target = region.target(AlignedOffset::literal::<8>()).expect("target");
            let mut ring = connection.ring(16).expect("ring");
            let mut last = None;
            for value in 1..=100u64 {
                loop {
                    match ring.atomic_write(
                        target,
                        Word::le(value),
                        Notify::OnError,
                        OpContext::new(value),
                    ) {
                        Ok(ticket) => {
                            last = Some(ticket);
                            break;
                        }
                        Err(farword::Error::Full { .. }) => {
                            ring.doorbell().expect("doorbell");
                            ring.poll_with(|c| println!("{c:?}")).expect("poll");
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            let flush = ring
                .flush(
                    region.span(8, 8).expect("span"),
                    farword::FlushKind::Visibility,
                    Notify::Always,
                    OpContext::new(0),
                )
                .expect("flush");
            ring.wait(flush, Deadline::after(Duration::from_secs(5)), |c| println!("{c:?}"))
                .expect("wait");
            assert!(ring.is_confirmed(last.expect("some")));
            println!("{:?}", ring.counters());
            connection.disconnect().expect("disconnect");
            println!("client: {:?}", connection.wait_end(Some(Duration::from_secs(5))));
            println!("{:?}", ring.poll_with(|c| println!("{c:?}")));
        });
    }
}

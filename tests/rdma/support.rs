//! What the rows have in common.

use std::net::SocketAddr;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use farword::log::{Announcement, Log, LogConfig, LogError};
use farword::verbs::{
    ConnConfig, ConnError, Connection, Connector, Listener, Mr, Path, Pd, VerbsQp,
};
use farword::{Error, Notify, OpContext, RemoteRegion, Ring, Target, Ticket, Usage, Word};

/// Longer than anything here takes, and shorter than a row may.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) const TARGET: Usage = Usage::WRITE_DST.and(Usage::READ_SRC).and(Usage::FLUSH_VISIBILITY);

/// Every path that the device at `address` has.
pub(crate) fn paths(address: &str) -> Vec<Path> {
    let address = format!("{address}:0").parse().expect("an address");
    let device = farword::verbs::Device::open_by_address(address).expect("a device");
    let mut paths = vec![Path::PostSend, Path::WrCalls];
    if device.capabilities().native_atomic_write {
        paths.push(Path::Native);
    }
    paths
}

pub(crate) fn listen(address: &str) -> (Listener, SocketAddr) {
    let listener = Listener::bind(&format!("{address}:0")).expect("listening");
    let bound = listener.local_address().expect("it is bound");
    assert_ne!(bound.port(), 0, "a free port was found");
    (listener, bound)
}

pub(crate) fn connect(
    to: SocketAddr,
    data: &[u8],
    config: &ConnConfig,
) -> Result<Connection, ConnError> {
    Connector::new(*config).expect("a connector").connect_address(to, data)
}

/// A server that exposes one region to one client.
pub(crate) struct Exposed {
    pub(crate) connection: Connection,
    pub(crate) region: Mr,
}

impl Exposed {
    /// Takes up one peer and tells it of a region of `bytes`.
    pub(crate) fn accept(listener: &Listener, bytes: usize, config: &ConnConfig) -> Exposed {
        let request = listener.next(Some(LONG)).expect("a request");
        let pd = Pd::new(&request.device().expect("its device")).expect("a domain");
        let region = Mr::alloc(&pd, bytes, TARGET).expect("a region");
        let told = region.remote().to_descriptor();
        let connection = request.accept(&pd, &told, config).expect("accepting");
        Exposed { connection, region }
    }
}

/// A client of an [`Exposed`].
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) region: RemoteRegion,
    pub(crate) ring: Ring<'static, VerbsQp>,
}

impl Client {
    pub(crate) fn connect(to: SocketAddr, config: &ConnConfig) -> Client {
        let mut connection = connect(to, &[], config).expect("connecting");
        let region =
            RemoteRegion::from_descriptor(connection.private_data()).expect("a descriptor");
        let ring = connection.ring(16).expect("a ring");
        Client { connection, region, ring }
    }
}

/// A connected pair, the server's side set up on a thread of its own.
pub(crate) fn pair<'s>(
    scope: &'s Scope<'s, '_>,
    address: &str,
    bytes: usize,
    config: ConnConfig,
) -> (Exposed, Client) {
    let (listener, to) = listen(address);
    let server: ScopedJoinHandle<'_, _> =
        scope.spawn(move || Exposed::accept(&listener, bytes, &config));
    let client = Client::connect(to, &config);
    (server.join().expect("the server's side"), client)
}

/// A client of a log.
pub(crate) struct Appender {
    pub(crate) connection: Connection,
    staging: Mr,
}

impl Appender {
    pub(crate) fn connect(to: &str, config: &ConnConfig) -> Appender {
        let connector = Connector::new(*config).expect("a connector");
        Appender::over(connector.connect(to, &[]).expect("connecting"))
    }

    pub(crate) fn over(connection: Connection) -> Appender {
        let usage = Usage::WRITE_SRC | Usage::READ_DST;
        let staging = Mr::alloc(connection.pd(), 4096, usage).expect("staging");
        Appender { connection, staging }
    }

    pub(crate) fn log(&mut self) -> Result<Log<'_, VerbsQp>, LogError> {
        self.log_with_batch(32)
    }

    /// The log that the peer told of, at most `batch` requests to a doorbell.
    pub(crate) fn log_with_batch(&mut self, batch: u32) -> Result<Log<'_, VerbsQp>, LogError> {
        let told = Announcement::from_bytes(self.connection.private_data()).expect("a log");
        if told.native_flush != Some(true) {
            assert!(self.connection.emulate_flush(), "everywhere");
        }
        let ring = self.connection.ring(batch).expect("a ring");
        let (words, local) = (self.staging.words(), self.staging.local());
        Log::open(ring, told.region, words, local, LogConfig::default())
    }
}

/// The record of this number: 13 bytes.
pub(crate) fn record(number: u64) -> Vec<u8> {
    format!("record {number:06}").into_bytes()
}

/// Stages an atomic write, making room as long as that takes.
pub(crate) fn put(
    ring: &mut Ring<'_, VerbsQp>,
    target: Target,
    value: u64,
    notify: Notify,
) -> Result<Ticket, Error> {
    loop {
        match ring.atomic_write(target, Word::ne(value), notify, OpContext::new(value)) {
            Err(Error::Full { .. }) => {
                match ring.doorbell() {
                    Ok(_) | Err(Error::Full { .. }) => {}
                    Err(error) => return Err(error),
                }
                ring.poll_with(|_| {})?;
            }
            other => return other,
        }
    }
}

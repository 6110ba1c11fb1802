//! What the subcommands that go over a fabric have in common.

use anyhow::Context;
use farword::verbs::{ConnConfig, ConnError, Connection, Connector, Incoming, Listener, Path};

use crate::cli::output::explain as explain_on_stderr;
use crate::cli::stop::{self, Wake};

/// Which peer, and by which path.
#[derive(Debug, clap::Args)]
pub(super) struct Peer {
    /// Go over a fabric, to a peer that listens there.
    ///
    /// A host name, an IPv4 address or an IPv6 address in brackets, with its
    /// scope where it needs one: storage-7:7000, 10.9.0.1:7000, [fd09::1]:7000,
    /// [fe80::1%eth0]:7000.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["engine"])]
    connect: Option<String>,

    /// Use the device's ATOMIC WRITE, or fail if it has none.
    #[arg(long, requires = "connect", conflicts_with = "fallback")]
    native: bool,

    /// Use inline RDMA WRITEs of 8 bytes, whatever the device has.
    #[arg(long, requires = "connect")]
    fallback: bool,
}

/// A peer that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen<'a> {
    to: &'a str,
    path: Option<Path>,
}

impl Peer {
    /// The peer, if one was asked for.
    pub(super) fn chosen(&self) -> Option<Chosen<'_>> {
        let path = match (self.native, self.fallback) {
            (true, _) => Some(Path::Native),
            (_, true) => Some(Path::PostSend),
            _ => None,
        };
        self.connect.as_deref().map(|to| Chosen { to, path })
    }
}

impl Chosen<'_> {
    /// Connects, with room for at least `depth` requests.
    pub(super) fn connect(&self, depth: u32) -> Result<Connection, ConnError> {
        let mut config = ConnConfig::default().with_sq_depth(depth);
        config.path = self.path;
        let connector = Connector::new(config)?;
        let waker = connector.waker();
        let _wake = stop::wake_with(move || waker.wake());
        connector.connect(self.to, &[])
    }
}

/// Listens, until a stop is requested, and says where on standard error, once
/// `prepare` is done.
pub(super) fn listen(
    to: &str,
    prepare: impl FnOnce(&Listener) -> anyhow::Result<()>,
) -> anyhow::Result<(Listener, Wake)> {
    let listener = Listener::bind(to)?;
    prepare(&listener)?;
    let waker = listener.waker();
    let wake = stop::wake_with(move || waker.wake());
    let at = listener.local_address().context("the listener has no address")?;
    explain_on_stderr(&format!("farword: listening on {at}\n"));
    Ok((listener, wake))
}

/// The next peer, or `None` once a stop is requested.
pub(super) fn next_peer(listener: &Listener) -> anyhow::Result<Option<Incoming>> {
    loop {
        match listener.next(None) {
            Ok(request) => return Ok(Some(request)),
            Err(error) if error.is_woken() && stop::requested() => return Ok(None),
            Err(error) if error.is_woken() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Puts what a ring's failure means for its connection behind an error.
pub(super) fn explain(
    error: anyhow::Error,
    connection: &Connection,
    why: Option<farword::Why>,
) -> anyhow::Error {
    match why {
        Some(why) => error.context(connection.explain(why).to_string()),
        None => error,
    }
}

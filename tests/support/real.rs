//! Real queue pairs as a fabric: both ends in this process, over the RDMA device
//! with the address in the environment variable `RDMA_ADDRESS`.

use core::net::SocketAddr;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use farword::verbs::{
    ConnConfig, Connection, Connector, Device, Listener, Mr, Pages, Path, Pd, VerbsQp,
};
use farword::wr::Wc;
use farword::{
    Capabilities, Chain, DeviceFault, LocalSlice, PostError, Provider, RemoteRegion, Usage,
};

use super::{Fabric, Sides, WORDS};

/// How a queue pair of a [`Real`] fabric is driven.
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub path: Path,
    /// By reads, also where it has FLUSH.
    pub emulate_flush: bool,
}

impl How {
    pub const POST_SEND: How = How { path: Path::PostSend, emulate_flush: false };
    pub const WR_CALLS: How = How { path: Path::WrCalls, emulate_flush: false };
    pub const NATIVE: How = How { path: Path::Native, emulate_flush: false };

    pub const fn emulating_flush(self) -> How {
        How { path: self.path, emulate_flush: true }
    }
}

/// Two memories on one device, and the listener that queue pairs are made by.
pub struct Real {
    how: How,
    listener: Listener,
    to: SocketAddr,
    server: Pd,
    client: Pd,
    memories: Memories,
    /// The far ends: a queue pair works for as long as its own is there.
    accepted: Mutex<Vec<Connection>>,
}

struct Memories {
    remote: Mr<Arc<[AtomicU64]>>,
    read_only: Mr<Arc<[AtomicU64]>>,
    doomed: Mutex<Option<Mr<Arc<[AtomicU64]>>>>,
    doomed_region: RemoteRegion,
    local: Mr<Pages>,
}

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(20);

pub fn with_real<R>(how: How, run: impl FnOnce(&Real) -> R) -> R {
    let address = std::env::var("RDMA_ADDRESS").expect("RDMA_ADDRESS: a device's IP address");
    let listener = Listener::bind(&format!("{address}:0")).expect("it is a device's address");
    let to = listener.local_address().expect("it is bound");
    let device = Device::open_by_address(to).expect("it opens");
    let domain = || Pd::new(&device).expect("a domain");
    let (server, client) = (domain(), domain());
    let memories = Memories::new(&server, &client);
    run(&Real { how, listener, to, server, client, memories, accepted: Mutex::default() })
}

impl Memories {
    fn new(server: &Pd, client: &Pd) -> Self {
        let memory: Arc<[AtomicU64]> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let register =
            |usage| Mr::register(server, Arc::clone(&memory), usage).expect("it is registered");
        // A device that has FLUSH to persistence refuses it for such memory.
        let every_use = Usage::from_bits(!Usage::FLUSH_PERSISTENT.bits());
        let doomed = register(every_use);
        let local = Mr::alloc(client, 8 * WORDS, Usage::WRITE_SRC | Usage::READ_DST);
        Memories {
            remote: register(every_use),
            read_only: register(Usage::READ_SRC),
            doomed_region: doomed.remote(),
            doomed: Mutex::new(Some(doomed)),
            local: local.expect("it is registered"),
        }
    }
}

impl Sides for Memories {
    fn remote_memory(&self) -> &[AtomicU64] {
        self.remote.words()
    }

    /// As told by a peer whose memory is persistent.
    fn remote(&self) -> RemoteRegion {
        let told = self.remote.remote();
        RemoteRegion::new(told.base(), told.size(), told.rkey(), Usage::from_bits(0xff))
    }

    fn read_only(&self) -> RemoteRegion {
        self.read_only.remote()
    }

    fn doomed(&self) -> RemoteRegion {
        self.doomed_region
    }

    fn deregister_doomed(&self) {
        let doomed = self.doomed.lock().unwrap_or_else(PoisonError::into_inner).take();
        assert!(doomed.is_some(), "it was registered");
    }

    fn local_memory(&self) -> &[AtomicU64] {
        self.local.words()
    }

    fn local(&self) -> LocalSlice {
        self.local.local()
    }
}

impl Fabric for Real {
    type Qp = Exact;

    fn qp(&self, sq_depth: u32, cq_depth: u32) -> Exact {
        // No case is about a silent peer, and an emulated machine can be silent for
        // longer than a real one.
        let patient = ConnConfig::default()
            .with_ack_timeout(Some(18))
            .with_address_timeout(LONG)
            .with_route_timeout(LONG)
            .with_connect_timeout(LONG);
        let config = patient.with_sq_depth(sq_depth).with_path(self.how.path);
        let (listener, server) = (&self.listener, &self.server);
        let connector = Connector::new(config).expect("a connector").with_pd(&self.client);
        let (near, far) = thread::scope(|scope| {
            let accepted = scope.spawn(move || {
                let request = listener.next(Some(LONG)).expect("a request");
                request.accept(server, &[], &patient).expect("accepting")
            });
            let near = connector.connect_address(self.to, &[]).expect("connecting");
            (near, accepted.join().expect("no panic"))
        });
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(far);
        Exact::new(near, self.how, sq_depth, cq_depth)
    }

    fn sides(&self) -> &dyn Sides {
        &self.memories
    }
}

/// A queue pair that says of its queues what was asked for; a device may grant
/// more.
#[derive(Debug)]
pub struct Exact {
    inner: VerbsQp,
    sq_depth: u32,
    cq_depth: u32,
}

impl Exact {
    fn new(mut connection: Connection, how: How, sq_depth: u32, cq_depth: u32) -> Self {
        assert_eq!(connection.path(), how.path);
        if how.emulate_flush {
            assert!(connection.emulate_flush(), "it can be emulated everywhere");
        }
        let inner = connection.take_provider().expect("nobody took it");
        let granted = inner.capabilities();
        assert!(granted.sq_depth >= sq_depth, "{granted:?}");
        Exact { inner, sq_depth, cq_depth }
    }
}

impl Provider for Exact {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.sq_depth = self.sq_depth;
        capabilities.cq_depth = self.cq_depth;
        capabilities
    }

    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        self.inner.post(chain)
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        self.inner.poll(into)
    }

    fn abort(&mut self) {
        self.inner.abort();
    }
}

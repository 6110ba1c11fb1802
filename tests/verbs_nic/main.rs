//! The code that drives real queue pairs, against a software NIC: what it posts,
//! what it makes of each provider's habits, and what it does when the device
//! fails. What is the same for every provider is in the semantics suite, which
//! runs on this NIC too.

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "capi")]
mod capi;
mod events;
mod faults;
mod posts;
mod refusals;

use farword::verbs::Path;
use farword::verbs::VerbsQp;
use farword::verbs::nic::NicQp;
use farword::{Capabilities, Chain, DeviceFault, PostError, Provider, wr::Wc};

const PATHS: [Path; 3] = [Path::PostSend, Path::WrCalls, Path::Native];

type NicProvider<'d> = VerbsQp<NicQp<'d>>;

/// Says that its queues are deeper than they are, so that a ring fills them.
#[derive(Debug)]
struct Boastful<P>(P);

impl<P: Provider> Provider for Boastful<P> {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.capabilities();
        capabilities.sq_depth = 256;
        capabilities.cq_depth = 256;
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

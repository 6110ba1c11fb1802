//! The software NIC as a fabric: the code that drives real queue pairs, on each
//! of its paths.

use farword::soft::Mode;
use farword::verbs::nic::{NicConfig, NicQp};
use farword::verbs::{Path, VerbsQp};

use super::Fabric;
use super::soft::{OnDevice, with_sides};

/// Two memories that queue pairs of a software NIC reach.
pub struct Nic<'d> {
    pub sides: OnDevice<'d>,
    pub path: Path,
    pub native_flush: bool,
}

/// A NIC that offers this path and nothing better.
pub fn with_nic<R>(path: Path, run: impl FnOnce(&Nic<'_>) -> R) -> R {
    with_sides(Mode::Emulated, |sides| run(&Nic { sides, path, native_flush: true }))
}

/// A NIC with ATOMIC WRITE and without FLUSH, as Soft-RoCE under rdma-core 44.
pub fn with_half_native_nic<R>((): (), run: impl FnOnce(&Nic<'_>) -> R) -> R {
    with_sides(Mode::Emulated, |sides| run(&Nic { sides, path: Path::Native, native_flush: false }))
}

impl<'d> Nic<'d> {
    pub fn config(&self, sq_depth: u32, cq_depth: u32) -> NicConfig {
        NicConfig::default()
            .with_depths(sq_depth, cq_depth)
            .with_best(self.path)
            .with_native_flush(self.native_flush)
    }

    pub fn make(&self, config: NicConfig) -> VerbsQp<NicQp<'d>> {
        let qp = NicQp::new(self.sides.device, config).expect("depths are right");
        let provider = qp.into_provider().expect("the path is offered");
        assert_eq!(provider.path(), config.path.unwrap_or(self.path));
        provider
    }
}

impl<'d> Fabric for Nic<'d> {
    type Qp = VerbsQp<NicQp<'d>>;

    fn qp(&self, sq_depth: u32, cq_depth: u32) -> Self::Qp {
        self.make(self.config(sq_depth, cq_depth))
    }

    fn sides(&self) -> &dyn super::Sides {
        &self.sides
    }
}

//! Any fabric behind the fault provider, whose completions come late by chance:
//! the guarantees do not depend on when they come.

use core::cell::Cell;

use farword::fault::{Fault, FaultPlan, Rates};
use farword::soft::Mode;

use super::{Fabric, Sides, soft};

/// A fabric each of whose queue pairs is wrapped.
pub struct Faulty<'f, F> {
    pub inner: &'f F,
    seed: Cell<u64>,
}

impl<'f, F> Faulty<'f, F> {
    fn new(inner: &'f F) -> Self {
        Faulty { inner, seed: Cell::new(1) }
    }
}

pub fn with_inline<R>(mode: Mode, run: impl FnOnce(&Faulty<'_, soft::Inline<'_>>) -> R) -> R {
    soft::with_inline(mode, |fabric| run(&Faulty::new(fabric)))
}

pub fn with_threaded<R>(mode: Mode, run: impl FnOnce(&Faulty<'_, soft::Threaded<'_>>) -> R) -> R {
    soft::with_threaded(mode, |fabric| run(&Faulty::new(fabric)))
}

impl<F: Fabric> Fabric for Faulty<'_, F> {
    type Qp = Fault<F::Qp>;

    fn qp(&self, sq_depth: u32, cq_depth: u32) -> Self::Qp {
        let seed = self.seed.replace(self.seed.get() + 1);
        let late = Rates { delay_per_1024: 512, max_delay: 5, ..Rates::NONE };
        let plan = FaultPlan::new(seed).with_rates(late);
        Fault::new(self.inner.qp(sq_depth, cq_depth), plan).expect("the plan can be carried out")
    }

    fn sides(&self) -> &dyn Sides {
        self.inner.sides()
    }
}

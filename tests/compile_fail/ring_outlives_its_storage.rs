use farword::soft::{InlineQp, QpConfig, SoftDevice};
use farword::{Ring, RingConfig, RingStorage};

fn main() {
    let device = SoftDevice::new();
    let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
    let mut storage = RingStorage::<64, 16>::new();
    let ring = Ring::new(qp, RingConfig::default(), &mut storage).unwrap();
    drop(storage);
    drop(ring);
}

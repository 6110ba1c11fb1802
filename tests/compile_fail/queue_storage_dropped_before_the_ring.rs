use farword::soft::{InlineQp, QpConfig, QpStorage, SoftDevice};
use farword::{Ring, RingConfig};

fn main() {
    let device = SoftDevice::new();
    let mut queue = QpStorage::<16>::new();
    let qp = InlineQp::new(&device, QpConfig::default(), &mut queue).unwrap();
    let mut ring = Ring::boxed(qp, RingConfig::new(16, 8)).unwrap();
    drop(queue);
    let _ = ring.doorbell();
}

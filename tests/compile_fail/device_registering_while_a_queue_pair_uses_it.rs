use core::sync::atomic::AtomicU64;
use farword::Usage;
use farword::soft::{InlineQp, QpConfig, SoftDevice};

fn main() {
    let memory = [AtomicU64::new(0)];
    let mut device = SoftDevice::new();
    let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
    device.register(&memory, Usage::WRITE_DST).unwrap();
    let _ = qp.scratch();
}

use farword::soft::{InlineQp, QpConfig, SoftDevice};

fn main() {
    let device = SoftDevice::new();
    let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
    drop(device);
    drop(qp);
}

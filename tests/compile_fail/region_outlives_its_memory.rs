use core::sync::atomic::AtomicU64;
use farword::Usage;
use farword::soft::SoftDevice;

fn main() {
    let mut device = SoftDevice::new();
    {
        let memory = [const { AtomicU64::new(0) }; 8];
        device.register(&memory, Usage::WRITE_DST).unwrap();
    }
    drop(device);
}

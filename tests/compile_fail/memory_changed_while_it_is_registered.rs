use core::sync::atomic::AtomicU64;
use farword::Usage;
use farword::soft::SoftDevice;

fn main() {
    let mut memory = [const { AtomicU64::new(0) }; 8];
    let mut device = SoftDevice::new();
    device.register(&memory, Usage::WRITE_DST).unwrap();
    *memory[0].get_mut() = 1;
    drop(device);
}

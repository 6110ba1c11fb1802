//! CASES 6 and 7: the completion queue, the queue pair or the device dies.

use farword::{
    DeviceFault, Errno, Error, Invalid, Notify, Outcome, Provider, Ring, RingConfig, WaitError,
    Why, Word,
};

use crate::support::nic::with_nic;
use crate::support::{Fabric, ctx, drained, ring, told};
use crate::{Boastful, PATHS};

const FAULTS: [DeviceFault; 6] = [
    DeviceFault::CompletionQueue,
    DeviceFault::QueuePair,
    DeviceFault::Device,
    DeviceFault::Port,
    DeviceFault::Connection,
    DeviceFault::Poll(Errno::EIO),
];

fn stage<P: Provider>(ring: &mut Ring<'_, P>, fabric: &impl Fabric, at: u64) {
    ring.atomic_write(fabric.word(at as u32), Word::ne(at + 1), Notify::Always, ctx(at)).unwrap();
}

/// What was posted to a dead device never completes; the ring says so instead of
/// hanging.
#[test]
fn a_dead_device_ends_what_is_pending() {
    for path in PATHS {
        for fault in FAULTS {
            with_nic(path, |fabric| {
                let mut ring = fabric.ring(16, 8);
                ring.provider_mut().nic().break_down(fault).unwrap();
                for at in 0..4 {
                    stage(&mut ring, fabric, at);
                }
                ring.doorbell().unwrap();
                let failed = Error::Failed { why: Why::Device(fault) };
                let expected = (told(0..4, Outcome::Unknown), Err(WaitError::Ring(failed)));
                assert_eq!(drained(&mut ring), expected, "{path:?}");
                assert_eq!(fabric.seen(0), 0);
            });
        }
    }
}

/// A fault is no reason to lose completions that came before it.
#[test]
fn what_completed_before_the_fault_is_confirmed_first() {
    for path in PATHS {
        for fault in &FAULTS[..5] {
            with_nic(path, |fabric| {
                let mut ring = fabric.ring(16, 8);
                stage(&mut ring, fabric, 0);
                stage(&mut ring, fabric, 1);
                ring.doorbell().unwrap();
                ring.provider_mut().nic().break_down(*fault).unwrap();
                stage(&mut ring, fabric, 2);
                ring.doorbell().unwrap();
                let mut expected = told(0..2, Outcome::Confirmed);
                expected.extend(told(2..3, Outcome::Unknown));
                let (all, end) = drained(&mut ring);
                assert_eq!(all, expected, "{path:?} {fault:?}");
                let failed = Error::Failed { why: Why::Device(*fault) };
                assert_eq!(end, Err(WaitError::Ring(failed)));
                assert_eq!(ring.provider().fault(), Some(*fault));
            });
        }
    }
}

/// CASES 6.
#[test]
fn a_completion_queue_smaller_than_the_send_queue_is_refused() {
    with_nic(PATHS[0], |fabric| {
        let refused = Ring::boxed(fabric.qp(16, 8), RingConfig::new(16, 8)).map(drop);
        let which = Invalid::CqTooSmall { cq: 8, sq: 16 };
        assert_eq!(refused, Err(Error::Invalid { which }));
    });
}

/// CASES 6: a device whose completion queue overflows all the same.
#[test]
fn an_overrun_completion_queue_fails_the_ring_and_ends() {
    for path in PATHS {
        with_nic(path, |fabric| {
            let mut ring = ring(Boastful(fabric.qp(32, 4)), 32, 16);
            for at in 0..8 {
                stage(&mut ring, fabric, at);
            }
            ring.doorbell().unwrap();
            let mut expected = told(0..4, Outcome::Confirmed);
            expected.extend(told(4..8, Outcome::Unknown));
            let why = Why::Device(DeviceFault::CompletionQueue);
            let end = Err(WaitError::Ring(Error::Failed { why }));
            assert_eq!(drained(&mut ring), (expected, end), "{path:?}");
        });
    }
}

//! Waiting for a completion queue instead of polling it.

use core::time::Duration;

use farword::verbs::Path;
use farword::{DeviceFault, Error, Notify, Ring, Why, Word};

use crate::support::nic::{Nic, with_nic};
use crate::support::{Fabric, ctx, ring};
use crate::{NicProvider, PATHS};

const NOW: Duration = Duration::ZERO;
/// Long enough for a test that would otherwise hang to fail.
const LONG: Duration = Duration::from_secs(60);

fn waiting<'d>(fabric: &Nic<'d>) -> Ring<'d, NicProvider<'d>> {
    ring(fabric.make(fabric.config(64, 64).with_channel(true)), 64, 16)
}

fn post<'d>(fabric: &Nic<'d>, ring: &mut Ring<'d, NicProvider<'d>>, notify: Notify) {
    ring.atomic_write(fabric.word(0), Word::ne(1), notify, ctx(1)).unwrap();
    ring.doorbell().unwrap();
}

fn arm(ring: &mut Ring<'_, NicProvider<'_>>) {
    ring.provider_mut().events().unwrap().arm().unwrap();
}

fn has_event(ring: &mut Ring<'_, NicProvider<'_>>) -> bool {
    ring.provider_mut().events().unwrap().wait(NOW).unwrap()
}

#[test]
fn an_armed_queue_gives_one_event_with_the_next_completion() {
    for path in PATHS {
        with_nic(path, |fabric| {
            let mut ring = waiting(fabric);
            assert!(!has_event(&mut ring));
            arm(&mut ring);
            assert!(!has_event(&mut ring), "nothing has completed");
            post(fabric, &mut ring, Notify::Always);
            post(fabric, &mut ring, Notify::Always);
            assert!(has_event(&mut ring));
            assert!(!has_event(&mut ring), "one arm, one event");
            assert_eq!(ring.poll_with(|_| {}), Ok(2));
        });
    }
}

/// The race that the order of arm and poll is for.
#[test]
fn a_completion_from_before_the_arm_gives_no_event_and_is_found_by_the_second_poll() {
    with_nic(Path::PostSend, |fabric| {
        let mut ring = waiting(fabric);
        assert_eq!(ring.poll_with(|_| {}), Ok(0), "the first poll");
        post(fabric, &mut ring, Notify::Always);
        arm(&mut ring);
        assert!(!has_event(&mut ring));
        assert_eq!(ring.poll_with(|_| {}), Ok(1), "the second poll");
    });
}

#[test]
fn events_are_acknowledged_in_groups_and_each_once() {
    with_nic(Path::WrCalls, |fabric| {
        let mut ring = waiting(fabric);
        for round in 1..=100 {
            arm(&mut ring);
            post(fabric, &mut ring, Notify::Always);
            assert!(has_event(&mut ring));
            assert_eq!(ring.poll_with(|_| {}), Ok(1));
            let (given, acknowledged) = ring.provider().owner().events();
            assert_eq!(given, round);
            assert!(acknowledged <= given && given - acknowledged < 32, "{acknowledged}/{given}");
        }
    });
}

#[test]
fn a_sleep_posts_what_is_staged_and_ends_with_its_completion() {
    for path in PATHS {
        with_nic(path, |fabric| {
            let mut ring = waiting(fabric);
            ring.atomic_write(fabric.word(0), Word::ne(7), Notify::Always, ctx(3)).unwrap();
            let mut contexts = Vec::new();
            let told = ring.poll_or_sleep(LONG, |told| contexts.push(told.context.get()));
            assert_eq!((told, contexts), (Ok(1), vec![3]));
            assert_eq!(fabric.seen(0), 7);
            assert_eq!(ring.poll_or_sleep(LONG, |_| {}), Ok(0), "idle: nothing to sleep for");
        });
    }
}

#[test]
fn a_sleep_for_a_silent_request_ends_with_its_timeout() {
    with_nic(Path::PostSend, |fabric| {
        let silent = |mut ring: Ring<'_, NicProvider<'_>>| {
            ring.atomic_write(fabric.word(0), Word::ne(7), Notify::OnError, ctx(3)).unwrap();
            assert_eq!(ring.poll_or_sleep(Duration::from_millis(5), |_| {}), Ok(0));
            assert_eq!(ring.in_flight(), 1);
        };
        silent(waiting(fabric));
        // Without a channel it polls busily, to the same end.
        silent(fabric.ring(64, 16));
    });
}

/// No completion event tells of a dead device.
#[test]
fn a_sleep_ends_when_the_device_dies() {
    with_nic(Path::PostSend, |fabric| {
        let mut ring = waiting(fabric);
        ring.provider_mut().nic().break_down(DeviceFault::Device).unwrap();
        post(fabric, &mut ring, Notify::Always);
        let mut told = 0;
        let first = ring.poll_or_sleep(LONG, |_| told += 1);
        assert_eq!((first, told), (Ok(1), 1), "the request is given back as unknown");
        let why = Why::Device(DeviceFault::Device);
        assert_eq!(ring.poll_or_sleep(LONG, |_| {}), Err(Error::Failed { why }));
    });
}

//! Posts that are not taken whole.

use farword::verbs::Path;
use farword::verbs::nic::Refusal;
use farword::{Errno, Error, Notify, Outcome, Remedy, Why, Word};

use crate::support::nic::with_nic;
use crate::support::{Fabric, ctx, drained, polled, ring, told};
use crate::{Boastful, PATHS};

/// The habits that say how much was taken.
const EXACT: [Refusal; 3] = [Refusal::Errno, Refusal::MinusOne, Refusal::Negative];
/// The habits that do not.
const LOST: [Refusal; 3] = [Refusal::BadWrUnset, Refusal::BadWrNull, Refusal::BadWrForeign];

/// CASES 3: each length of chain against each room in the queue.
#[test]
fn what_fits_of_a_chain_is_posted_once_and_the_rest_by_the_next_doorbell() {
    for path in PATHS {
        for room in 1..=9u32 {
            for len in 1..=16u64 {
                with_nic(path, |fabric| {
                    let config = fabric.config(room, 64).with_records(true);
                    let mut ring = ring(Boastful(fabric.make(config)), 64, 16);
                    for at in 0..len {
                        let word = Word::ne(at + 1);
                        ring.atomic_write(fabric.word(at as u32), word, Notify::Always, ctx(at))
                            .unwrap();
                    }
                    let (mut contexts, mut rounds) = (Vec::new(), 0);
                    while ring.staged() > 0 {
                        let fits = u64::from(room).min(ring.staged().into());
                        match ring.doorbell() {
                            Ok(posted) => assert_eq!(u64::from(posted), fits),
                            Err(Error::Full { remedy: Remedy::Poll { .. } }) => {
                                assert_eq!(ring.in_flight(), room, "{path:?}");
                            }
                            Err(error) => panic!("{path:?} {room} {len}: {error}"),
                        }
                        let told = polled(&mut ring, fits as usize);
                        contexts.extend(told.iter().map(|told| told.context.get()));
                        rounds += 1;
                    }
                    assert_eq!(rounds, len.div_ceil(room.into()));
                    assert_eq!(contexts, (0..len).collect::<Vec<_>>());
                    let given = ring.provider().0.owner().given();
                    let ids: Vec<_> = given.iter().map(|given| given.wr_id as u32).collect();
                    assert_eq!(ids, (0..len as u32).collect::<Vec<_>>(), "each once, in order");
                    for at in 0..len {
                        assert_eq!(fabric.seen(at as usize), at + 1);
                    }
                });
            }
        }
    }
}

/// CASES 3 with a request in the middle that the provider will not have.
#[test]
fn a_refused_request_stops_the_chain_right_before_itself() {
    for path in PATHS {
        for taken in 0..8 {
            with_nic(path, |fabric| {
                let config = fabric.config(32, 32).with_records(true);
                let mut ring = ring(fabric.make(config), 32, 8);
                for at in 0..8 {
                    ring.atomic_write(fabric.word(at), Word::ne(1), Notify::Always, ctx(at.into()))
                        .unwrap();
                }
                ring.provider_mut().nic().refuse_after(taken, Errno::EINVAL);
                for _ in 0..2 {
                    let refused = Err(Error::Provider(Errno::EINVAL));
                    assert_eq!(ring.doorbell(), refused, "{path:?}");
                    assert_eq!((ring.in_flight(), ring.staged()), (taken, 8 - taken), "{path:?}");
                }
                ring.provider_mut().nic().accept_all();
                assert_eq!(ring.doorbell(), Ok(8 - taken));
                assert_eq!(polled(&mut ring, 8).len(), 8);
                assert_eq!(ring.provider().owner().posted(), 8);
            });
        }
    }
}

/// CASES 4.
#[test]
fn each_habit_of_returning_an_errno_gives_the_same_error() {
    for habit in EXACT {
        for errno in [Errno::ENOMEM, Errno::EINVAL, Errno::ENOSPC, Errno(1000)] {
            with_nic(Path::PostSend, |fabric| {
                let config = fabric.config(32, 32).with_refusal(habit);
                let mut ring = ring(fabric.make(config), 32, 8);
                for at in 0..8 {
                    ring.atomic_write(fabric.word(at), Word::ne(1), Notify::Always, ctx(at.into()))
                        .unwrap();
                }
                ring.provider_mut().nic().refuse_after(3, errno);
                let refused = ring.doorbell().unwrap_err();
                let full = Error::Full { remedy: Remedy::Poll { occupied: 8, depth: 32 } };
                let no_room = matches!(errno, Errno::ENOMEM | Errno::ENOSPC);
                let expected = if no_room { full } else { Error::Provider(errno) };
                assert_eq!(refused, expected, "{habit:?}");
                assert_eq!((ring.in_flight(), ring.staged()), (3, 5), "{habit:?}");
                ring.provider_mut().nic().accept_all();
                assert_eq!(ring.doorbell(), Ok(5));
                assert_eq!(polled(&mut ring, 8).len(), 8);
            });
        }
    }
}

/// CASES 4: whether three, or none, or all were taken nobody can say.
#[test]
fn a_refusal_without_a_usable_bad_wr_fails_the_ring() {
    for habit in LOST {
        with_nic(Path::PostSend, |fabric| {
            let config = fabric.config(32, 32).with_refusal(habit);
            let mut ring = ring(fabric.make(config), 32, 8);
            for at in 0..5 {
                ring.atomic_write(fabric.word(at), Word::ne(1), Notify::Always, ctx(at.into()))
                    .unwrap();
            }
            ring.provider_mut().nic().refuse_after(3, Errno::EIO);
            let failed = Error::Failed { why: Why::PostUnknown(Errno::EIO) };
            assert_eq!(ring.doorbell(), Err(failed), "{habit:?}");
            // What completed is confirmed; of the rest nobody knows.
            let (all, _) = {
                ring.abandon();
                drained(&mut ring)
            };
            let contexts: Vec<_> = all.iter().map(|told| told.0).collect();
            assert_eq!(contexts, (0..5).collect::<Vec<_>>(), "each context once");
            assert!(all.iter().skip(3).all(|told| told.1 == Outcome::Unknown), "{all:?}");
        });
    }
}

/// With `wr_*` calls there is no `bad_wr`, and no doubt.
#[test]
fn with_wr_calls_no_habit_leaves_a_doubt() {
    for path in [Path::WrCalls, Path::Native] {
        for habit in LOST {
            with_nic(path, |fabric| {
                let config = fabric.config(5, 32).with_refusal(habit);
                let mut ring = ring(Boastful(fabric.make(config)), 32, 8);
                for at in 0..8 {
                    ring.atomic_write(fabric.word(at), Word::ne(1), Notify::Always, ctx(at.into()))
                        .unwrap();
                }
                let remedy = Remedy::Poll { occupied: 8, depth: 32 };
                assert_eq!(ring.doorbell(), Err(Error::Full { remedy }));
                assert_eq!((ring.in_flight(), ring.staged()), (5, 3));
                assert_eq!(ring.provider().0.owner().posted(), 5);
            });
        }
    }
}

/// A refusal that says ENOSPC, as rxe's `wr_complete` does, means no room too.
#[test]
fn a_full_queue_under_wr_calls_is_full_and_not_broken() {
    for path in [Path::WrCalls, Path::Native] {
        with_nic(path, |fabric| {
            let mut ring = ring(Boastful(fabric.make(fabric.config(4, 32))), 32, 16);
            for at in 0..4 {
                ring.atomic_write(fabric.word(at), Word::ne(1), Notify::Always, ctx(at.into()))
                    .unwrap();
            }
            assert_eq!(ring.doorbell(), Ok(4));
            ring.atomic_write(fabric.word(4), Word::ne(1), Notify::Always, ctx(4)).unwrap();
            let remedy = Remedy::Poll { occupied: 5, depth: 32 };
            assert_eq!(ring.doorbell(), Err(Error::Full { remedy }));
            assert_eq!(ring.provider().0.owner().doorbells(), 1, "it did not ring for nothing");
            polled(&mut ring, 4);
            assert_eq!(drained(&mut ring), (told(4..5, Outcome::Confirmed), Ok(())));
        });
    }
}

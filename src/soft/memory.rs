//! Bytes in a slice of atomic words.
//!
//! Every access is a whole aligned word, so accesses of different width never
//! meet. Whole words are stored as one; the ragged ends of a range are merged
//! into their word by compare-and-swap, so that neighbours are never touched.

use core::sync::atomic::{AtomicU64, Ordering};

/// Stores bytes at a byte offset; what does not fit is left out.
///
/// Returns how many bytes were stored.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use farword::soft::{load_bytes, store_bytes};
///
/// let memory = [const { AtomicU64::new(0) }; 4];
/// assert_eq!(store_bytes(&memory, 5, b"record"), 6);
/// let mut back = [0; 6];
/// load_bytes(&memory, 5, &mut back);
/// assert_eq!(&back, b"record");
/// ```
pub fn store_bytes(memory: &[AtomicU64], offset: u64, bytes: &[u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let Some(places @ [word, ..]) = memory.get((at / 8) as usize..) else {
            break;
        };
        let skip = (at % 8) as usize;
        let (words, _) = bytes[done..].as_chunks::<8>();
        if skip == 0 && !words.is_empty() {
            for (place, word) in places.iter().zip(words) {
                place.store(u64::from_ne_bytes(*word), Ordering::Release);
            }
            done += 8 * words.len().min(places.len());
            continue;
        }
        let take = (8 - skip).min(bytes.len() - done);
        let mut lanes = [0; 8];
        lanes[skip..skip + take].copy_from_slice(&bytes[done..done + take]);
        merge(word, u64::from_ne_bytes(lanes), lanes_mask(skip, take));
        done += take;
    }
    done
}

/// Loads bytes from a byte offset; what lies outside is left as it is.
///
/// Returns how many bytes were loaded.
pub fn load_bytes(memory: &[AtomicU64], offset: u64, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let Some(places @ [word, ..]) = memory.get((at / 8) as usize..) else {
            break;
        };
        let skip = (at % 8) as usize;
        let (words, _) = bytes[done..].as_chunks_mut::<8>();
        if skip == 0 && !words.is_empty() {
            let count = words.len().min(places.len());
            for (place, word) in places.iter().zip(words) {
                *word = place.load(Ordering::Acquire).to_ne_bytes();
            }
            done += 8 * count;
            continue;
        }
        let lanes = word.load(Ordering::Acquire).to_ne_bytes();
        let take = (8 - skip).min(bytes.len() - done);
        bytes[done..done + take].copy_from_slice(&lanes[skip..skip + take]);
        done += take;
    }
    done
}

/// Copies `len` bytes between two byte offsets that the caller has checked.
pub(super) fn copy(from: &[AtomicU64], source: u64, to: &[AtomicU64], target: u64, len: u64) {
    let mut done = 0;
    while done < len {
        let at = target + done;
        let skip = at % 8;
        let words = (len - done) / 8;
        if skip == 0 && words > 0 {
            let first = (at / 8) as usize;
            copy_words(from, source + done, &to[first..first + words as usize]);
            done += 8 * words;
            continue;
        }
        let take = (8 - skip).min(len - done);
        // The source bytes, moved to the lanes that they take in the target.
        let lanes = gather(from, source + done, skip, take);
        merge(&to[(at / 8) as usize], lanes, lanes_mask(skip as usize, take as usize));
        done += take;
    }
}

/// Fills whole words from a byte offset that need not be aligned.
fn copy_words(from: &[AtomicU64], source: u64, to: &[AtomicU64]) {
    let from = &from[(source / 8) as usize..];
    let shift = 8 * (source % 8) as u32;
    if shift == 0 {
        for (target, source) in to.iter().zip(from) {
            target.store(source.load(Ordering::Acquire), Ordering::Release);
        }
        return;
    }
    // Each word is the end of one and the start of the next. Little-endian
    // numbers have the earlier bytes in the lower bits.
    let mut low = u64::from_le(from[0].load(Ordering::Acquire));
    for (target, source) in to.iter().zip(&from[1..]) {
        let high = u64::from_le(source.load(Ordering::Acquire));
        target.store((low >> shift | high << (64 - shift)).to_le(), Ordering::Release);
        low = high;
    }
}

/// `take` bytes from a byte offset on, in the lanes from `skip` on.
fn gather(from: &[AtomicU64], at: u64, skip: u64, take: u64) -> u64 {
    let mut lanes = [0; 8];
    load_bytes(from, at, &mut lanes[skip as usize..(skip + take) as usize]);
    u64::from_ne_bytes(lanes)
}

fn merge(word: &AtomicU64, lanes: u64, mask: u64) {
    if mask == u64::MAX {
        word.store(lanes, Ordering::Release);
        return;
    }
    let mut old = word.load(Ordering::Relaxed);
    loop {
        let new = old & !mask | lanes & mask;
        match word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(found) => old = found,
        }
    }
}

fn lanes_mask(skip: usize, take: usize) -> u64 {
    let mut lanes = [0u8; 8];
    lanes[skip..skip + take].fill(0xff);
    u64::from_ne_bytes(lanes)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn words(count: usize, fill: u64) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(fill)).collect()
    }

    #[test]
    fn every_offset_and_length_copies_its_bytes_and_no_others() {
        let pattern: Vec<u8> = (0..64).collect();
        let source = words(8, 0);
        store_bytes(&source, 0, &pattern);
        for from in 0..16 {
            for to in 0..16 {
                for len in 0..24 {
                    let target = words(8, u64::MAX);
                    copy(&source, from, &target, to, len);
                    let mut found = [0; 64];
                    load_bytes(&target, 0, &mut found);
                    for (at, byte) in found.iter().enumerate() {
                        let at = at as u64;
                        let expected =
                            if at >= to && at < to + len { (at - to + from) as u8 } else { 0xff };
                        assert_eq!(*byte, expected, "{from} {to} {len} at {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_offset_and_length_stores_and_loads_its_bytes_and_no_others() {
        let pattern: Vec<u8> = (1..=40).collect();
        for at in 0..17 {
            for len in 0..=pattern.len() {
                let memory = words(8, u64::MAX);
                assert_eq!(store_bytes(&memory, at, &pattern[..len]), len);
                let mut found = [0; 64];
                for (index, byte) in found.iter_mut().enumerate() {
                    assert_eq!(load_bytes(&memory, index as u64, core::slice::from_mut(byte)), 1);
                }
                let start = at as usize;
                assert_eq!(found[start..start + len], pattern[..len], "{at} {len}");
                assert!(found[..start].iter().chain(&found[start + len..]).all(|b| *b == 0xff));
                let mut back = [0; 40];
                assert_eq!(load_bytes(&memory, at, &mut back[..len]), len);
                assert_eq!(back[..len], pattern[..len], "{at} {len}");
                assert!(back[len..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn what_lies_outside_is_left_out() {
        let memory = words(1, 0);
        assert_eq!(store_bytes(&memory, 6, b"abcd"), 2);
        assert_eq!(store_bytes(&memory, 8, b"abcd"), 0);
        assert_eq!(store_bytes(&memory, 800, b"abcd"), 0);
        assert_eq!(store_bytes(&words(2, 0), 6, &[1; 26]), 10);
        assert_eq!(load_bytes(&words(2, 0), 6, &mut [1; 26]), 10);
        let mut back = [9; 4];
        assert_eq!(load_bytes(&memory, 6, &mut back), 2);
        assert_eq!(back, [b'a', b'b', 9, 9]);
    }
}

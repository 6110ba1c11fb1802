//! A power-of-two array that is indexed by an ever-growing number.
//!
//! The memory is lent by the caller or, with `std`, boxed. It is reached
//! through one raw pointer only, so that pointers into it that a provider was
//! handed (a work request's `next` and `sg_list`) stay valid while the array's
//! owner moves.

#![allow(unsafe_code, reason = "index by mask without a bounds check; links between elements")]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::error::Invalid;

/// What may travel between processors as one: two cache lines of 64 bytes, which
/// some of them fetch together.
pub(crate) const LINE: usize = 128;

/// The longest array, so that an index fits 31 bits.
pub(crate) const MAX_SLOTS: u64 = 1 << 20;

pub(crate) struct Slots<'m, T> {
    /// The first element. All `mask + 1` elements are initialised.
    base: NonNull<T>,
    /// The length, a power of two, less one.
    mask: u32,
    owned: bool,
    lent: PhantomData<&'m mut [T]>,
}

// SAFETY: a `Slots` is the only way to its elements (they were lent as `&mut` or
// boxed), so sending it sends them, as it would a `&mut [T]` or a `Box<[T]>`.
unsafe impl<T: Send> Send for Slots<'_, T> {}

impl<'m, T> Slots<'m, T> {
    /// Over memory that the caller lends.
    pub(crate) fn lent(memory: &'m mut [T]) -> Result<Self, Invalid> {
        let mask = mask_for(memory.len() as u64)?;
        Ok(Slots { base: NonNull::from(memory).cast(), mask, owned: false, lent: PhantomData })
    }

    /// Over memory of its own, on cache lines of its own.
    #[cfg(feature = "std")]
    pub(crate) fn boxed(len: u32, mut fill: impl FnMut() -> T) -> Result<Self, Invalid> {
        const { assert!(size_of::<T>() > 0) }
        let mask = mask_for(u64::from(len))?;
        let Some(layout) = layout_of::<T>(len) else {
            return Err(Invalid::Depth { got: len.into(), min: 1, max: MAX_SLOTS });
        };
        // SAFETY: `len` is a power of two, so at least 1, and elements have a
        // size: the layout's is not 0.
        let memory = unsafe { std::alloc::alloc(layout) };
        let Some(base) = NonNull::new(memory.cast::<T>()) else {
            std::alloc::handle_alloc_error(layout);
        };
        for index in 0..len as usize {
            // SAFETY: the allocation has room for `len` elements.
            let element = unsafe { base.add(index) };
            // SAFETY: as above, and the layout is aligned for them.
            unsafe { element.write(fill()) };
        }
        Ok(Slots { base, mask, owned: true, lent: PhantomData })
    }

    pub(crate) fn len(&self) -> u32 {
        self.mask + 1
    }

    /// The address of an element.
    #[inline]
    pub(crate) fn at(&self, number: u64) -> *mut T {
        // SAFETY: the masked index is at most `mask`, and the allocation behind
        // `base` has `mask + 1` elements, so the sum stays within it.
        unsafe { self.base.as_ptr().add((number as u32 & self.mask) as usize) }
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> &T {
        // SAFETY: `at` is an initialised element of memory that this value alone
        // reaches; `&self` keeps it from being changed for as long as the
        // reference lives. Providers hold pointers to elements only during a
        // post, in which the ring forms no reference.
        unsafe { &*self.at(number) }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> &mut T {
        // SAFETY: as for `get`, and `&mut self` makes the reference the only one.
        unsafe { &mut *self.at(number) }
    }

    /// The array, to be read for as long as the borrow lasts. A copy of base and
    /// mask, which a loop can keep in registers.
    #[inline]
    pub(crate) fn view(&self) -> View<'_, T> {
        View { base: self.base, mask: self.mask, lent: PhantomData }
    }
}

/// A shared borrow of [`Slots`].
pub(crate) struct View<'a, T> {
    base: NonNull<T>,
    mask: u32,
    lent: PhantomData<&'a [T]>,
}

impl<'a, T> View<'a, T> {
    #[inline]
    pub(crate) fn get(&self, number: u64) -> &'a T {
        let index = (number as u32 & self.mask) as usize;
        // SAFETY: as in `Slots::at`: the masked index is within the allocation.
        let element = unsafe { self.base.add(index) };
        // SAFETY: the element is initialised, and the `Slots` stay borrowed for
        // `'a`, so that nobody forms a `&mut` to it.
        unsafe { element.as_ref() }
    }
}

impl<'a, T> View<'a, T> {
    /// The `count` elements from `number` on, at most all: those up to the
    /// array's end, and those from its start on.
    #[inline]
    pub(crate) fn slices(&self, number: u64, count: u32) -> [&'a [T]; 2] {
        let len = self.mask as usize + 1;
        let start = (number as u32 & self.mask) as usize;
        let count = (count as usize).min(len);
        let ahead = count.min(len - start);
        let base = self.base.as_ptr();
        // SAFETY: `start` is at most `mask`, so it is an index of the allocation.
        let first = unsafe { base.add(start) };
        // SAFETY: `ahead` is at most `len - start`, so these are initialised
        // elements of the allocation. They stay borrowed for `'a`, so nobody
        // forms a `&mut` to them.
        let upper = unsafe { core::slice::from_raw_parts(first, ahead) };
        // SAFETY: as above, and `count - ahead` is at most `len`.
        let lower = unsafe { core::slice::from_raw_parts(base, count - ahead) };
        [upper, lower]
    }
}

fn mask_for(len: u64) -> Result<u32, Invalid> {
    if len.is_power_of_two() && len <= MAX_SLOTS {
        Ok(len as u32 - 1)
    } else {
        Err(Invalid::Depth { got: len, min: 1, max: MAX_SLOTS })
    }
}

/// The layout of boxed elements: whole cache lines, which nothing else then
/// shares.
#[cfg(feature = "std")]
fn layout_of<T>(len: u32) -> Option<core::alloc::Layout> {
    let elements = core::alloc::Layout::array::<T>(len as usize).ok()?;
    Some(elements.align_to(LINE).ok()?.pad_to_align())
}

impl<T> Drop for Slots<'_, T> {
    fn drop(&mut self) {
        #[cfg(feature = "std")]
        if self.owned {
            let all = core::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.len() as usize);
            // SAFETY: `owned` is set by `boxed` alone, which wrote `len` elements
            // at `base`; no reference to them outlives this value.
            unsafe { core::ptr::drop_in_place(all) };
            if let Some(layout) = layout_of::<T>(self.len()) {
                // SAFETY: `boxed` allocated it with this very layout, and nothing
                // else frees it.
                unsafe { std::alloc::dealloc(self.base.as_ptr().cast(), layout) };
            }
        }
        #[cfg(not(feature = "std"))]
        debug_assert!(!self.owned);
    }
}

impl<T> fmt::Debug for Slots<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("len", &self.len()).field("owned", &self.owned).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_are_taken() {
        let mut memory = [0u8; 12];
        for len in 0..12 {
            let taken = Slots::lent(&mut memory[..len]).is_ok();
            assert_eq!(taken, len.is_power_of_two(), "{len}");
        }
    }

    #[test]
    fn numbers_wrap_around_the_array() {
        let mut memory = [0u32; 4];
        let mut slots = Slots::lent(&mut memory).unwrap();
        for number in u64::MAX - 3..=u64::MAX {
            *slots.get_mut(number) = number as u32;
        }
        let [upper, lower] = slots.view().slices(u64::MAX - 1, 3);
        assert_eq!((upper, lower), (&[u32::MAX - 1, u32::MAX][..], &[u32::MAX - 3][..]));
        assert_eq!(slots.view().slices(0, 9).map(<[u32]>::len), [4, 0], "at most all");
    }

    /// Two rings on two threads must not meet in a cache line.
    #[cfg(feature = "std")]
    #[test]
    fn boxed_arrays_have_cache_lines_of_their_own() {
        let slots: std::vec::Vec<_> =
            (0..64u32).map(|at| Slots::boxed(1 << (at % 4), || at).unwrap()).collect();
        let mut lines: std::vec::Vec<usize> =
            slots.iter().map(|slots| slots.at(0).addr() / LINE).collect();
        for (at, slots) in (0u32..).zip(&slots) {
            assert!(slots.at(0).addr().is_multiple_of(LINE));
            assert_eq!((slots.len(), *slots.get(0)), (1 << (at % 4), at));
        }
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), slots.len(), "each begins in a line of its own");
    }

    #[cfg(feature = "std")]
    #[test]
    fn boxed_elements_are_dropped_once() {
        let count = std::sync::Arc::new(());
        let slots = Slots::boxed(8, || count.clone()).unwrap();
        assert_eq!(std::sync::Arc::strong_count(&count), 9);
        drop(slots);
        assert_eq!(std::sync::Arc::strong_count(&count), 1);
    }
}

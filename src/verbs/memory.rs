//! Memory that can be registered: whose it is, and how it is kept.

#![allow(unsafe_code, reason = "memory that others write is seen as atomics")]

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use std::fs::File;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

use crate::error::Errno;
use crate::verbs::device::DeviceError;

/// Memory that may be registered, or the right to use such memory.
///
/// The memory is seen as atomic words, so that a peer's device, or this one's,
/// may write to it at any moment.
///
/// # Safety
/// Until it is dropped, [`words`](Self::words) gives the same memory every time,
/// wherever the value itself is moved; and while it lives nobody else holds a
/// `&mut` to that memory or frees it.
pub unsafe trait Memory: Send + Sync {
    /// The memory.
    fn words(&self) -> &[AtomicU64];
}

// SAFETY: a shared borrow gives the same memory as long as it lives, and keeps
// it from being freed or borrowed for good.
unsafe impl Memory for &[AtomicU64] {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

// SAFETY: as above.
unsafe impl<const N: usize> Memory for &[AtomicU64; N] {
    fn words(&self) -> &[AtomicU64] {
        *self
    }
}

// SAFETY: the memory is the value itself, which stays where it is as long as
// whoever shares it (`Arc`) holds it.
unsafe impl Memory for [AtomicU64] {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

// SAFETY: the value that is shared stays where it is while the count is above
// zero, and keeps its contract.
unsafe impl<M: Memory + ?Sized> Memory for Arc<M> {
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }
}

/// Words of the caller's own, borrowed for good for as long as they are
/// registered.
///
/// ```
/// use farword::verbs::{Memory, Words};
/// let mut mine = [1u64, 2, 3];
/// let words = Words::from(&mut mine[..]);
/// assert_eq!(words.words().len(), 3);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a [AtomicU64]);

impl<'a> From<&'a mut [u64]> for Words<'a> {
    fn from(words: &'a mut [u64]) -> Self {
        const { assert!(align_of::<u64>() == align_of::<AtomicU64>()) }
        let (first, len) = (words.as_mut_ptr().cast::<AtomicU64>(), words.len());
        // SAFETY: an `AtomicU64` has the size and bit validity of a `u64`, and,
        // as asserted, its alignment; the exclusive borrow lasts as long.
        Words(unsafe { core::slice::from_raw_parts(first, len) })
    }
}

// SAFETY: as for `&[AtomicU64]`.
unsafe impl Memory for Words<'_> {
    fn words(&self) -> &[AtomicU64] {
        self.0
    }
}

/// Page-aligned memory of our own, zeroed; or a file's, mapped.
///
/// ```
/// use farword::verbs::{Memory, Pages};
/// let pages = Pages::zeroed(100)?;
/// assert_eq!(pages.words().len(), 13, "100 bytes, rounded up to whole words");
/// assert_eq!(pages.words().as_ptr().addr() % 4096, 0);
/// # Ok::<(), farword::verbs::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct Pages {
    map: MmapRaw,
    words: usize,
}

impl Pages {
    /// So many bytes, rounded up to whole words.
    ///
    /// # Errors
    /// [`DeviceError::Empty`] for none, [`DeviceError::Memory`].
    pub fn zeroed(bytes: usize) -> Result<Self, DeviceError> {
        if bytes == 0 {
            return Err(DeviceError::Empty);
        }
        let len = bytes.checked_next_multiple_of(8).unwrap_or(bytes);
        match MmapOptions::new().len(len).map_anon() {
            Ok(map) => Ok(Pages { map: map.into(), words: len / 8 }),
            Err(error) => Err(failed(len, &error)),
        }
    }

    /// The whole of a file, shared: what is written to the memory is written to
    /// the file. Its length must be a multiple of 8.
    ///
    /// Some kinds of files cannot be registered with some devices (a file of a
    /// network file system, a DAX file without on-demand paging), and shrinking
    /// the file while it is mapped ends a program that touches what is gone
    /// (SIGBUS).
    ///
    /// # Errors
    /// [`DeviceError::Empty`] for an empty file, [`DeviceError::Memory`] for
    /// one that cannot be mapped or (EINVAL) whose length is no multiple of 8.
    pub fn map_file(file: &File) -> Result<Self, DeviceError> {
        let len = match file.metadata() {
            Ok(metadata) => metadata.len() as usize,
            Err(error) => return Err(failed(0, &error)),
        };
        if len == 0 {
            return Err(DeviceError::Empty);
        }
        if !len.is_multiple_of(8) {
            return Err(DeviceError::Memory { asked: len as u64, errno: Errno::EINVAL });
        }
        match MmapOptions::new().len(len).map_raw(file) {
            Ok(map) => Ok(Pages { map, words: len / 8 }),
            Err(error) => Err(failed(len, &error)),
        }
    }

    /// Writes what was changed in a mapped file to the disk, and waits for it.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn sync(&self) -> Result<(), DeviceError> {
        self.map.flush().map_err(|error| failed(self.words * 8, &error))
    }
}

// SAFETY: the mapping stays where it is until it is dropped, and is reached in
// no other way.
unsafe impl Memory for Pages {
    fn words(&self) -> &[AtomicU64] {
        let first = self.map.as_mut_ptr().cast::<AtomicU64>();
        let Some(first) = NonNull::new(first) else {
            return &[];
        };
        // SAFETY: the mapping is page-aligned, readable, writable, at least that
        // long and lives as long as `self`; any bits are valid words.
        unsafe { core::slice::from_raw_parts(first.as_ptr(), self.words) }
    }
}

fn failed(asked: usize, error: &std::io::Error) -> DeviceError {
    let errno = Errno(error.raw_os_error().unwrap_or(Errno::EIO.0));
    DeviceError::Memory { asked: asked as u64, errno }
}

//! Thread domains: a promise to the provider that takes its locks away.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::fmt;
use core::ptr::NonNull;

use rdma_sys::{ibv_context, ibv_dealloc_pd, ibv_pd, ibv_td};

use crate::verbs::ffi;

/// A protection domain over another one, whose queue pairs are used by one
/// thread at a time, so that the provider needs no lock.
pub(crate) struct ThreadDomain {
    context: NonNull<ibv_context>,
    td: NonNull<ibv_td>,
    parent: NonNull<ibv_pd>,
}

// SAFETY: verbs objects may be used from any thread.
unsafe impl Send for ThreadDomain {}
// SAFETY: as above; through a shared reference only a pointer can be had.
unsafe impl Sync for ThreadDomain {}

impl ThreadDomain {
    /// `None` where the device has no such thing: then the plain domain serves,
    /// at the price of the provider's own lock.
    ///
    /// # Safety
    /// The context is open and the domain is alive and of this context, both for
    /// as long as this value is.
    pub(crate) unsafe fn new(context: NonNull<ibv_context>, pd: NonNull<ibv_pd>) -> Option<Self> {
        // SAFETY: this function's own condition.
        let td = unsafe { ffi::alloc_td(context.as_ptr()) }.ok()?;
        // SAFETY: as above, and the thread domain was just made.
        let parent = unsafe { ffi::alloc_parent_domain(context.as_ptr(), pd, td) };
        let Ok(parent) = parent else {
            // SAFETY: it was just made and nothing uses it.
            let _ = unsafe { ffi::dealloc_td(context.as_ptr(), td) };
            return None;
        };
        Some(ThreadDomain { context, td, parent })
    }

    /// The domain to create the queue pair with. Registered memory of the plain
    /// domain can be used with it.
    pub(crate) fn pd(&self) -> NonNull<ibv_pd> {
        self.parent
    }
}

impl Drop for ThreadDomain {
    fn drop(&mut self) {
        // SAFETY: what was created with it is gone, says whoever drops it; a
        // provider refuses otherwise, which leaks it and harms nothing.
        unsafe { ibv_dealloc_pd(self.parent.as_ptr()) };
        // SAFETY: as above, and its parent domain is gone.
        let _ = unsafe { ffi::dealloc_td(self.context.as_ptr(), self.td) };
    }
}

impl fmt::Debug for ThreadDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadDomain").field("parent", &self.parent).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_int;
    use core::mem;
    use core::ptr;
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::boxed::Box;

    use rdma_sys::{ibv_parent_domain_init_attr, ibv_td_init_attr, verbs_context};

    use super::*;
    use crate::verbs::ffi::EXTENDED;

    static FREED: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn alloc_td(_: *mut ibv_context, _: *mut ibv_td_init_attr) -> *mut ibv_td {
        ptr::dangling_mut()
    }

    unsafe extern "C" fn dealloc_td(_: *mut ibv_td) -> c_int {
        FREED.fetch_add(1, Ordering::Relaxed);
        0
    }

    unsafe extern "C" fn no_parent(
        _: *mut ibv_context,
        _: *mut ibv_parent_domain_init_attr,
    ) -> *mut ibv_pd {
        ptr::null_mut()
    }

    /// A device's context that has only these calls.
    fn domain_of(prepare: impl Fn(&mut verbs_context)) -> Option<ThreadDomain> {
        // SAFETY: a C struct of pointers and numbers, for which zeros are valid.
        let mut context: Box<verbs_context> = Box::new(unsafe { mem::zeroed() });
        context.sz = size_of::<verbs_context>();
        context.context.abi_compat = ptr::without_provenance_mut(EXTENDED);
        prepare(&mut context);
        let whole: *mut verbs_context = &mut *context;
        // SAFETY: a field of a live context.
        let raw = unsafe { &raw mut (*whole).context };
        let raw = NonNull::new(raw).expect("it is a field's address");
        // SAFETY: the context is live, and the calls that it has look at nothing.
        unsafe { ThreadDomain::new(raw, NonNull::dangling()) }
    }

    #[test]
    fn a_device_without_thread_domains_is_used_without_one() {
        assert!(domain_of(|_| {}).is_none());
        // One that has them, and cannot put a queue pair into one: nothing is
        // left behind.
        let none = domain_of(|context| {
            context.alloc_td = Some(alloc_td);
            context.dealloc_td = Some(dealloc_td);
            context.alloc_parent_domain = Some(no_parent);
        });
        assert!(none.is_none());
        assert_eq!(FREED.load(Ordering::Relaxed), 1);
    }
}

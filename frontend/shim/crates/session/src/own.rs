//! What each thread of the program has for itself and needs at nearly every call: its counts, and what the layers above keep for it.
//!
//! The thread's block (`frame`) points to it once the thread has made a call: a thread-local of this library is found by a call of the
//! dynamic linker's. Without a block (other architectures than x86-64) it is found in that way. A thread that is ending has none any more.
//!
//! A layer above keeps a value of its own for each thread in a [`Slot`], one static of one type for each [`Use`].

use std::any::TypeId;
use std::cell::OnceCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::frame;
use crate::tally::{self, Tally};

/// What a thread has for itself beside its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The kernels that it has found.
    Kernels,
    /// The launch configurations that it has pushed.
    Configurations,
    /// Its stack of contexts.
    Contexts,
}

const USES: usize = Use::Contexts as usize + 1;

/// See the module's comment.
pub struct Own {
    pub tally: Arc<Tally>,
    kept: [OnceCell<Kept>; USES],
}

struct Kept {
    value: *mut (),
    of: TypeId,
    end: unsafe fn(*mut ()),
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: made from a box of that type (`Slot::keep`), and not used again.
        unsafe { (self.end)(self.value) };
    }
}

/// A value of type `T` for each thread, made when the thread first needs it.
pub struct Slot<T> {
    place: Use,
    of: PhantomData<fn() -> T>,
}

impl<T: Default + 'static> Slot<T> {
    /// The only slot of that use.
    pub const fn new(place: Use) -> Self {
        Self { place, of: PhantomData }
    }

    /// Runs `body` with this thread's value; `None` when the thread is ending.
    #[inline(always)]
    pub fn with<R>(&self, body: impl FnOnce(&T) -> R) -> Option<R> {
        own(|own| body(self.of(own)))
    }

    #[inline(always)]
    fn of<'a>(&self, own: &'a Own) -> &'a T {
        let kept = match own.kept[self.place as usize].get() {
            Some(kept) => kept,
            None => self.keep(own),
        };
        assert!(kept.of == TypeId::of::<T>(), "two slots of one use");
        // SAFETY: a box of this type, which lives as long as `own`.
        unsafe { &*kept.value.cast::<T>() }
    }

    #[cold]
    fn keep<'a>(&self, own: &'a Own) -> &'a Kept {
        /// # Safety
        /// `value` came from a box of that type.
        unsafe fn end<T>(value: *mut ()) {
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(value.cast::<T>()) });
        }
        own.kept[self.place as usize].get_or_init(|| Kept {
            value: Box::into_raw(Box::<T>::default()).cast(),
            of: TypeId::of::<T>(),
            end: end::<T>,
        })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        frame::set_own(std::ptr::null());
        tally::end(&self.tally);
    }
}

thread_local! {
    static OWN: Own = Own { tally: tally::begin(), kept: [const { OnceCell::new() }; USES] };
}

/// Runs `body` with what this thread has; `None` when it is ending.
#[inline(always)]
pub fn own<T>(body: impl FnOnce(&Own) -> T) -> Option<T> {
    let known = frame::own();
    if known.is_null() {
        return find(body);
    }
    // SAFETY: this thread's, and null before it goes.
    Some(body(unsafe { &*known }))
}

#[cold]
fn find<T>(body: impl FnOnce(&Own) -> T) -> Option<T> {
    let run = |own: &Own| {
        frame::set_own(own);
        body(own)
    };
    OWN.try_with(run).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn each_thread_has_its_own() {
        let place = |own: &Own| std::ptr::from_ref(own) as usize;
        let here = own(place);
        assert!(here.is_some() && own(place) == here);
        assert_ne!(std::thread::spawn(move || own(place)).join().unwrap(), here);
    }

    #[test]
    fn a_slot_keeps_a_value_for_each_thread_until_it_ends() {
        static ENDED: AtomicU32 = AtomicU32::new(0);
        #[derive(Default)]
        struct Value(Cell<u32>);
        impl Drop for Value {
            fn drop(&mut self) {
                ENDED.fetch_add(1, Relaxed);
            }
        }
        static SLOT: Slot<Value> = Slot::new(Use::Kernels);
        let count = || SLOT.with(|Value(count)| count.replace(count.get() + 1));
        assert_eq!((count(), count()), (Some(0), Some(1)));
        assert_eq!(std::thread::spawn(count).join().unwrap(), Some(0));
        assert_eq!(ENDED.load(Relaxed), 1, "the other thread's");
    }

    #[test]
    #[should_panic(expected = "two slots of one use")]
    fn a_use_has_one_type() {
        static FIRST: Slot<u32> = Slot::new(Use::Contexts);
        static SECOND: Slot<u64> = Slot::new(Use::Contexts);
        FIRST.with(|_| ());
        SECOND.with(|_| ());
    }
}

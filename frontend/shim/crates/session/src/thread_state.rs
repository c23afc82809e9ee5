//! What each thread of the program has for itself and needs at nearly every call: its counts, its permissions, and what
//! the layers above keep for it.
//!
//! The thread's block (`frame`) points to it once the thread has made a call: a thread-local of this library is found
//! by a call of the dynamic linker's. Without a block (other architectures than x86-64) it is found in that way. A
//! thread that is ending has none any more.
//!
//! A layer above keeps a value of its own for each thread in a [`Slot`], one static of one type for each [`Use`].

pub mod counters;

use std::any::TypeId;
use std::cell::OnceCell;
use std::marker::PhantomData;
use std::sync::Arc;

use self::counters::Counters;
use crate::frame;
use crate::permission::Thread as Permissions;

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
pub struct ThreadState {
    counters: Arc<Counters>,
    pub(crate) permissions: Permissions,
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
        with_state(|state| body(self.of(state)))
    }

    #[inline(always)]
    fn of<'a>(&self, state: &'a ThreadState) -> &'a T {
        let kept = match state.kept[self.place as usize].get() {
            Some(kept) => kept,
            None => self.keep(state),
        };
        assert!(kept.of == TypeId::of::<T>(), "two slots of one use");
        // SAFETY: a box of this type, which lives as long as `state`.
        unsafe { &*kept.value.cast::<T>() }
    }

    #[cold]
    fn keep<'a>(&self, state: &'a ThreadState) -> &'a Kept {
        /// # Safety
        /// `value` came from a box of that type.
        unsafe fn end<T>(value: *mut ()) {
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(value.cast::<T>()) });
        }
        state.kept[self.place as usize].get_or_init(|| Kept {
            value: Box::into_raw(Box::<T>::default()).cast(),
            of: TypeId::of::<T>(),
            end: end::<T>,
        })
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        frame::set_state(self);
        self.permissions.end(); // with all that the thread has: what it owes is of a context
        frame::set_state(std::ptr::null());
        counters::end(&self.counters);
    }
}

thread_local! {
    static STATE: ThreadState = ThreadState {
        counters: counters::begin(),
        permissions: Permissions::new(),
        kept: [const { OnceCell::new() }; USES],
    };
}

/// Runs `body` with what this thread has; `None` when it is ending.
#[inline(always)]
pub fn with_state<T>(body: impl FnOnce(&ThreadState) -> T) -> Option<T> {
    let known = frame::state();
    if known.is_null() {
        return find(body);
    }
    // SAFETY: this thread's, and null before it goes.
    Some(body(unsafe { &*known }))
}

/// The same, of a thread that has made a call; `None` as well where it is known that it has not.
pub fn with_known_state<T>(body: impl FnOnce(&ThreadState) -> T) -> Option<T> {
    if frame::has_state() == Some(false) {
        return None;
    }
    with_state(body)
}

#[cold]
fn find<T>(body: impl FnOnce(&ThreadState) -> T) -> Option<T> {
    let run = |state: &ThreadState| {
        frame::set_state(state);
        body(state)
    };
    STATE.try_with(run).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn each_thread_has_its_own() {
        let place = |state: &ThreadState| std::ptr::from_ref(state) as usize;
        let here = with_state(place);
        assert!(here.is_some() && with_state(place) == here);
        assert_ne!(std::thread::spawn(move || with_state(place)).join().unwrap(), here);
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

//! Context-local storage: what an embedded runtime keeps in a context, under keys of its own.
//!
//! A runtime reads its value at nearly every call, so that a read takes no lock: each context has a list of places, one
//! for each key, that only ever grows; a value that is deleted leaves its place, which the key's next value takes.
//! Runtimes have one key each, so lists are short.
//! Locking: writers hold one mutex, which nothing else is taken under; destructors run without it.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, PoisonError};

use abi::driver::CUcontext;

/// What a runtime has called when the context ends: with the context, the key and the value.
pub type Destructor = unsafe extern "C" fn(CUcontext, *mut c_void, *mut c_void);

/// A key's place.
#[derive(Debug)]
struct Place {
    key: usize,
    present: AtomicBool,
    value: AtomicPtr<c_void>,
    destructor: Mutex<Option<Destructor>>,
    next: *const Place,
}

/// The places of one context.
#[derive(Debug, Default)]
pub struct Storage {
    first: AtomicPtr<Place>,
}

// SAFETY: places are never freed, their pointers are written before the list shows them, and the rest is atomic or
// locked.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

static WRITING: Mutex<()> = Mutex::new(());

impl Storage {
    fn places(&self) -> impl Iterator<Item = &Place> {
        // SAFETY: null or a place, which is never freed.
        let mut next = unsafe { self.first.load(Acquire).as_ref() };
        std::iter::from_fn(move || {
            let place = next?;
            // SAFETY: as above.
            next = unsafe { place.next.as_ref() };
            Some(place)
        })
    }

    fn place(&self, key: usize) -> Option<&Place> {
        self.places().find(|place| place.key == key)
    }

    /// The key's value, if there is one.
    pub fn get(&self, key: usize) -> Option<*mut c_void> {
        let place = self.place(key)?;
        place.present.load(Acquire).then(|| place.value.load(Acquire))
    }

    /// Puts a value in the place of an earlier one, whose destructor is not called.
    pub fn put(&self, key: usize, value: *mut c_void, destructor: Option<Destructor>) {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = self.place(key) else {
            let next = self.first.load(Acquire).cast_const();
            let (present, value) = (AtomicBool::new(true), AtomicPtr::new(value));
            let place = Place { key, present, value, destructor: Mutex::new(destructor), next };
            self.first.store(ptr::from_mut(Box::leak(Box::new(place))), Release);
            return;
        };
        *place.destructor.lock().unwrap_or_else(PoisonError::into_inner) = destructor;
        place.value.store(value, Release);
        place.present.store(true, Release);
    }

    /// Takes the key's value away, whose destructor is not called; false when there is none.
    pub fn delete(&self, key: usize) -> bool {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        self.place(key).is_some_and(|place| place.present.swap(false, Release))
    }

    /// The context ends: every value goes, and its destructor is called.
    pub fn end(&self, context: CUcontext) {
        for place in self.places() {
            let taken = {
                let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
                place.present.swap(false, Release).then(|| {
                    let destructor = place.destructor.lock().unwrap_or_else(PoisonError::into_inner).take();
                    (place.value.load(Acquire), destructor)
                })
            };
            if let Some((value, Some(destructor))) = taken {
                // SAFETY: the runtime gave it for this key and value.
                unsafe { destructor(context, ptr::without_provenance_mut(place.key), value) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    static ENDED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn ended(context: CUcontext, key: *mut c_void, value: *mut c_void) {
        ENDED.fetch_add(context as usize + key as usize + value as usize, Release);
    }

    fn pointer(value: usize) -> *mut c_void {
        ptr::without_provenance_mut(value)
    }

    #[test]
    fn a_key_has_one_value_in_each_context() {
        let (one, two) = (Storage::default(), Storage::default());
        one.put(1, pointer(10), None);
        one.put(2, pointer(20), None);
        two.put(1, pointer(11), None);
        assert_eq!((one.get(1), one.get(2), one.get(3)), (Some(pointer(10)), Some(pointer(20)), None));
        assert_eq!((two.get(1), two.get(2)), (Some(pointer(11)), None));
        one.put(1, pointer(0), None);
        assert_eq!(one.get(1), Some(pointer(0)));
        assert!(one.delete(1) && !one.delete(1) && !one.delete(7));
        assert_eq!((one.get(1), one.get(2)), (None, Some(pointer(20))));
        one.put(1, pointer(12), None);
        assert_eq!(one.get(1), Some(pointer(12)));
    }

    #[test]
    fn the_end_calls_the_destructors_of_what_is_left_once() {
        let storage = Storage::default();
        storage.put(1000, pointer(100), Some(ended));
        storage.put(2000, pointer(200), Some(ended));
        storage.put(3000, pointer(300), None);
        storage.delete(2000);
        storage.end(pointer(10_000).cast());
        storage.end(pointer(10_000).cast());
        assert_eq!(ENDED.load(Acquire), 11_100);
        assert_eq!(storage.get(3000), None);
    }

    #[test]
    fn reads_beside_writes_see_a_value_of_their_key() {
        let storage = Storage::default();
        std::thread::scope(|scope| {
            scope
                .spawn(|| (0..2000).for_each(|round| storage.put(round % 50 + 1, pointer((round % 50 + 1) * 7), None)));
            for _ in 0..20_000 {
                for key in [1, 25, 50] {
                    assert!(storage.get(key).is_none_or(|value| value == pointer(key * 7)));
                }
            }
        });
        assert_eq!(storage.get(50), Some(pointer(350)));
    }
}

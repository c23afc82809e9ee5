//! User objects: things of the program that end when the last graph or holder lets go of them.
#![allow(non_snake_case)] // C's names

use super::state::{graph_id, state, Id};
use crate::types::{GraphHandle, HostFunction, UserObjectHandle};
use session::call::{Error, Outcome};
use session::work::handle::{decode, encode, Tag};
use std::collections::HashMap;
use std::ffi::{c_uint, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

const NO_DESTRUCTOR_SYNC: c_uint = 1;
const MOVE: c_uint = 1;

#[derive(Debug, Clone, Copy)]
struct Object {
    pointer: usize,
    destroy: unsafe extern "C" fn(*mut c_void),
    count: u64,
}

static OBJECTS: LazyLock<Mutex<HashMap<Id, Object>>> = LazyLock::new(Mutex::default);

fn id(object: UserObjectHandle) -> Outcome<Id> {
    decode(Tag::UserObject, object as usize).ok_or(Error::INVALID_VALUE)
}

fn retain(id: Id, count: c_uint) -> Outcome {
    let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    let object = objects.get_mut(&id).filter(|_| count != 0).ok_or(Error::INVALID_VALUE)?;
    object.count += u64::from(count);
    Ok(())
}

fn release(id: Id, count: c_uint) -> Outcome {
    let ended = {
        let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
        let object = objects.get_mut(&id).filter(|_| count != 0).ok_or(Error::INVALID_VALUE)?;
        object.count = object.count.checked_sub(u64::from(count)).ok_or(Error::INVALID_VALUE)?;
        if object.count == 0 {
            objects.remove(&id)
        } else {
            None
        }
    };
    if let Some(object) = ended {
        // SAFETY: the program says that this ends it.
        unsafe { (object.destroy)(object.pointer as *mut c_void) };
    }
    Ok(())
}

/// A graph holds these from now on.
pub fn retain_all(held: &HashMap<Id, u32>) -> Outcome {
    held.iter().try_for_each(|(id, count)| retain(*id, *count))
}

/// A graph ended that held these.
pub fn release_all(held: &HashMap<Id, u32>) {
    for (id, count) in held {
        let _ = release(*id, *count);
    }
}

pub unsafe fn user_object_create(
    object_out: *mut UserObjectHandle,
    ptr: *mut c_void,
    destroy: HostFunction,
    initialRefcount: c_uint,
    flags: c_uint,
) -> Outcome {
    let destroy = destroy.ok_or(Error::INVALID_VALUE)?;
    if initialRefcount == 0 || initialRefcount > i32::MAX as u32 || flags != NO_DESTRUCTOR_SYNC {
        return Err(Error::INVALID_VALUE);
    }
    let id = state().mint();
    // SAFETY: the program says that it is such a place, or null.
    unsafe { super::give(object_out, encode(Tag::UserObject, id) as UserObjectHandle) }?;
    let object = Object { pointer: ptr as usize, destroy, count: initialRefcount.into() };
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner).insert(id, object);
    Ok(())
}

pub unsafe fn user_object_retain(object: UserObjectHandle, count: c_uint) -> Outcome {
    retain(id(object)?, count)
}

pub unsafe fn user_object_release(object: UserObjectHandle, count: c_uint) -> Outcome {
    release(id(object)?, count)
}

pub unsafe fn retain_user_object(
    graph: GraphHandle,
    object: UserObjectHandle,
    count: c_uint,
    flags: c_uint,
) -> Outcome {
    if flags & !MOVE != 0 || count == 0 {
        return Err(Error::INVALID_VALUE);
    }
    let object = id(object)?;
    let mut state = state();
    let held = state.graph_mut(graph_id(graph)?)?.objects.entry(object).or_default();
    if flags & MOVE == 0 {
        retain(object, count)?;
    }
    *held += count;
    Ok(())
}

pub unsafe fn release_user_object(graph: GraphHandle, object: UserObjectHandle, count: c_uint) -> Outcome {
    let object = id(object)?;
    {
        let mut state = state();
        let graph = state.graph_mut(graph_id(graph)?)?;
        let held = graph.objects.get_mut(&object).ok_or(Error::INVALID_VALUE)?;
        *held = held.checked_sub(count).ok_or(Error::INVALID_VALUE)?;
        if *held == 0 {
            graph.objects.remove(&object);
        }
    }
    release(object, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static ENDED: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn end(pointer: *mut c_void) {
        ENDED.fetch_add(pointer as usize as u32, Relaxed);
    }

    #[test]
    fn an_object_ends_with_its_last_holder() {
        let mut object: UserObjectHandle = std::ptr::null_mut();
        // SAFETY: a place for the handle.
        unsafe {
            user_object_create(&mut object, 5 as *mut c_void, Some(end), 1, 1).unwrap();
            user_object_retain(object, 2).unwrap();
            user_object_release(object, 2).unwrap();
            assert_eq!(user_object_release(object, 2), Err(Error::INVALID_VALUE));
            assert_eq!(ENDED.load(Relaxed), 0);
            user_object_release(object, 1).unwrap();
        }
        assert_eq!(ENDED.load(Relaxed), 5);
        assert_eq!(retain(id(object).unwrap(), 1), Err(Error::INVALID_VALUE));
    }
}

//! All contexts of the process: the primary one of each device, which the runtime API uses too, and those that the
//! program creates.
//!
//! A context is never freed and its number never used again: a handle of a destroyed context stays recognizable. The
//! contexts of a process share its session; what each holds is `operations::ownership`'s. Locking: one mutex around the
//! list and the primary contexts' counts, a leaf.
//!
//! Rooms: `current` (each thread's stack of them), `context` (the functions of the API about contexts), `resources`
//! (the parts of a device).

pub(crate) mod context;
pub mod current;
pub(crate) mod resources;

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use abi::driver::CUcontext;
use session::call::{Error, Outcome};
use session::contexts as tape_contexts;
use session::work::handle::{decode, encode, Tag};

/// Handles of contexts begin here, as all handles do.
const FIRST: u32 = 16;

/// One context.
#[derive(Debug)]
pub struct Context {
    number: u32,
    pub device: c_int,
    pub primary: bool,
    flags: AtomicU32,
    state: AtomicU8,
    /// What embedded runtimes keep in it.
    #[cfg(feature = "interop")]
    pub storage: super::interop::storage::Storage,
}

const ENDED: u8 = 0;
const ALIVE: u8 = 1;
/// Alive, and the runtime API may use it without retaining it first: so are all contexts but a primary one that it has
/// not used yet.
const IN_USE: u8 = 2;

impl Context {
    /// The program's handle.
    pub fn handle(&self) -> CUcontext {
        encode(Tag::Context, self.number) as CUcontext
    }

    /// Its number on the tape.
    pub fn tape(&self) -> u32 {
        if self.primary {
            tape_contexts::PRIMARY
        } else {
            self.number
        }
    }

    /// A number that no other context of the process ever has (cuCtxGetId).
    pub fn id(&self) -> u64 {
        self.number.into()
    }

    #[inline]
    pub fn is_alive(&self) -> bool {
        self.state.load(Acquire) != ENDED
    }

    #[inline]
    pub fn is_in_use(&self) -> bool {
        self.state.load(Acquire) == IN_USE
    }

    /// Those of a primary context are the device's, which the runtime API sets, too.
    pub fn flags(&self) -> c_uint {
        if self.primary {
            operations::device::primary_flags(self.device)
        } else {
            self.flags.load(Relaxed)
        }
    }

    pub fn set_flags(&self, flags: c_uint) -> Outcome {
        if self.primary {
            return operations::device::set_primary_flags(self.device, flags);
        }
        self.flags.store(flags, Relaxed);
        Ok(())
    }

    /// False when it has ended before.
    fn mark_ended(&self) -> bool {
        self.state.swap(ENDED, Release) != ENDED
    }

    /// It has ended: embedded runtimes' values in it go. Not under the lock, for that calls functions of theirs.
    fn clear(&self) {
        #[cfg(feature = "interop")]
        self.storage.end(self.handle());
    }
}

/// A device's primary context.
struct Primary {
    context: &'static Context,
    /// By cuDevicePrimaryCtxRetain.
    retained: u32,
}

struct Contexts {
    all: Vec<&'static Context>,
    primary: Vec<Primary>,
}

static CONTEXTS: Mutex<Contexts> = Mutex::new(Contexts { all: Vec::new(), primary: Vec::new() });

fn lock() -> MutexGuard<'static, Contexts> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Contexts {
    fn add(&mut self, device: c_int, primary: bool, flags: c_uint) -> Outcome<&'static Context> {
        let number = u32::try_from(self.all.len()).ok().and_then(|count| count.checked_add(FIRST));
        let number = number.ok_or(Error::MEMORY_ALLOCATION)?;
        let context: &'static Context = Box::leak(Box::new(Context {
            number,
            device,
            primary,
            flags: AtomicU32::new(flags),
            state: AtomicU8::new(if primary { ENDED } else { IN_USE }),
            #[cfg(feature = "interop")]
            storage: super::interop::storage::Storage::default(),
        }));
        self.all.push(context);
        Ok(context)
    }

    fn primary(&mut self, device: c_int) -> Outcome<&mut Primary> {
        let place = match self.primary.iter().position(|primary| primary.context.device == device) {
            Some(place) => place,
            None => {
                let context = self.add(device, true, 0)?;
                self.primary.push(Primary { context, retained: 0 });
                self.primary.len() - 1
            }
        };
        Ok(&mut self.primary[place])
    }
}

/// A context that the program creates.
///
/// # Errors
/// cudaErrorMemoryAllocation after 2^32 of them.
pub fn create(device: c_int, flags: c_uint) -> Outcome<&'static Context> {
    tape_contexts::begin(super::current::tape_number)?;
    let context = lock().add(device, false, flags)?;
    tape_contexts::renew(context.tape());
    Ok(context)
}

/// Whether a context that the program created is alive.
pub fn any_created() -> bool {
    lock().all.iter().any(|context| !context.primary && context.is_alive())
}

/// The context of that number on the tape; the primary one is that of device 0.
pub fn of_tape(number: u32) -> Option<&'static Context> {
    lock().all.iter().find(|context| context.tape() == number).copied()
}

/// The context that the handle names, alive or not; `None` for what never was a handle.
pub fn find(handle: CUcontext) -> Option<&'static Context> {
    let number = decode(Tag::Context, handle as usize)?;
    lock().all.get((number - FIRST) as usize).copied()
}

/// As [`find`], for a context that must be alive.
///
/// # Errors
/// CUDA_ERROR_INVALID_CONTEXT for what is no handle, or that of a destroyed context; CUDA_ERROR_CONTEXT_IS_DESTROYED
/// for a primary one that is not active. So cuda.h has it: the latter code is for contexts that are current to the
/// calling thread, and for inactive primary ones.
pub fn living(handle: CUcontext) -> Outcome<&'static Context> {
    let context = find(handle).ok_or(super::entry::INVALID_CONTEXT)?;
    if context.is_alive() {
        Ok(context)
    } else if context.primary {
        Err(super::entry::CONTEXT_IS_DESTROYED)
    } else {
        Err(super::entry::INVALID_CONTEXT)
    }
}

/// Ends a context that the program created; false when it has ended before.
pub fn end(context: &'static Context) -> bool {
    let ended = context.mark_ended();
    if ended {
        context.clear();
    }
    ended
}

/// The device's primary context, which the runtime API uses from now on.
pub fn use_primary(device: c_int) -> Outcome<&'static Context> {
    let mut contexts = lock();
    let primary = contexts.primary(device)?;
    primary.context.state.store(IN_USE, Release);
    Ok(primary.context)
}

/// cuDevicePrimaryCtxRetain.
pub fn retain_primary(device: c_int) -> Outcome<&'static Context> {
    let mut contexts = lock();
    let primary = contexts.primary(device)?;
    primary.retained = primary.retained.checked_add(1).ok_or(Error::INVALID_VALUE)?;
    if !primary.context.is_alive() {
        primary.context.state.store(ALIVE, Release);
    }
    Ok(primary.context)
}

/// cuDevicePrimaryCtxRelease; true when that was the last use of it, so that what it holds is to be freed.
///
/// # Errors
/// CUDA_ERROR_INVALID_CONTEXT when it is not retained.
pub fn release_primary(device: c_int) -> Outcome<bool> {
    let mut contexts = lock();
    let primary = contexts.primary(device)?;
    primary.retained = primary.retained.checked_sub(1).ok_or(super::entry::INVALID_CONTEXT)?;
    Ok(primary.retained == 0 && !primary.context.is_in_use() && primary.context.mark_ended())
}

/// The device was reset: its primary context is inactive until the next use. Who has retained it still has to release
/// it, says CUDA's documentation.
pub fn reset_primary(device: c_int) -> Outcome {
    let context = {
        let mut contexts = lock();
        let primary = contexts.primary(device)?;
        primary.context.mark_ended();
        primary.context
    };
    context.clear();
    Ok(())
}

/// The primary context's flags, and whether it is active.
pub fn primary_state(device: c_int) -> Outcome<(c_uint, bool)> {
    let mut contexts = lock();
    let context = contexts.primary(device)?.context;
    Ok((context.flags(), context.is_alive()))
}

/// cuDevicePrimaryCtxSetFlags.
pub fn set_primary_flags(device: c_int, flags: c_uint) -> Outcome {
    lock().primary(device)?.context.set_flags(flags)
}

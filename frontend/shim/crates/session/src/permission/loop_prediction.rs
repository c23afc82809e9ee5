//! A loop as its manifest predicts it at the first call: the launches of an iteration, the arguments that they have,
//! and by how much these grow.
//!
//! Where all of that is known, the shim sends the loop's template before its first record is on the tape
//! (`launch::predicted` makes the records, crate `recorder` compares them with what the program does). Tried once for
//! each loop: from its second execution on the recorder knows it.
//!
//! Source: protos/manifest.md, "Layout" (arguments).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use manifest::Manifest;

use super::prediction::Here;
use crate::frame;
use crate::manifests::Site;

/// Some thread has predicted a loop that its next launch begins.
static WAITING: AtomicBool = AtomicBool::new(false);

/// Kinds of arguments.
const CONSTANT: u8 = 0;
const INVARIANT: u8 = 1;
const AFFINE: u8 = 2;

/// The name of a launch that tells its kernel by a handle, and the number of the argument that this is.
const BY_HANDLE: &str = "launch";
const HANDLE: u8 = 255;

/// An iteration, predicted at its first call.
#[derive(Debug)]
pub struct Iteration {
    /// Iterations of the loop, this one included.
    pub count: u64,
    pub launches: Vec<Planned>,
}

/// A launch of it.
#[derive(Debug)]
pub struct Planned {
    /// Return address.
    pub site: usize,
    /// The kernel's host symbol, or `BY_HANDLE`.
    pub kernel: &'static str,
    pub arguments: Vec<Argument>,
}

impl Planned {
    /// The handle that the kernel is launched by, for a launch of the driver API.
    pub fn handle(&self) -> Option<&Argument> {
        self.arguments.iter().find(|argument| self.kernel == BY_HANDLE && argument.index == HANDLE)
    }
}

/// What is known of an argument.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    /// As in the manifest.
    pub index: u8,
    pub width: u8,
    /// In this iteration; the first launch has its own.
    pub now: Option<u64>,
    /// By how much it grows; `None`: it changes otherwise.
    pub step: Option<u64>,
}

impl Argument {
    /// Its value in the next iteration. Of what is not known the low half is taken to change: a wider hole is sent in
    /// full each time.
    pub fn after(&self, now: u64) -> u64 {
        let low = u64::MAX >> (64 - 4 * u32::from(self.width.clamp(2, 8)));
        self.step.map_or(now ^ low, |step| now.wrapping_add(step))
    }
}

/// Whether a launch may be the first one of a loop that was predicted.
#[inline(always)]
pub fn waits() -> bool {
    WAITING.load(Relaxed)
}

/// The thread's next launch takes up what it has predicted, or it is forgotten.
pub fn taken() {
    WAITING.store(false, Relaxed);
}

/// The iteration that begins at a site, whose call is under way. `remaining`: how often the site is reached again.
#[cold]
pub fn at(site: &'static Site, remaining: u64) -> Option<Box<Iteration>> {
    let each = site.in_loop();
    if !each.predictable.swap(false, Relaxed) {
        return None;
    }
    let count = remaining.checked_add(1)?;
    let registers = frame::registers()?;
    let here = Here::new(&registers, site.used.object);
    let (manifest, bias): (&'static Manifest, usize) = (&site.used.manifest, site.used.object.bias);
    let launches: Option<Vec<Planned>> = (each.launches.iter().enumerate())
        .map(|(position, launch)| {
            let arguments: Option<Vec<Argument>> = manifest
                .arguments(launch)
                .map(|argument| {
                    let now = match (argument.kind, argument.first) {
                        (CONSTANT, _) => Some(argument.value.cast_unsigned()),
                        (_, Some(code)) => manifest.expression(code)?.evaluate(&here),
                        _ => None,
                    };
                    let step = match argument.kind {
                        CONSTANT | INVARIANT => Some(0),
                        AFFINE => Some(argument.value.cast_unsigned()),
                        _ => None,
                    };
                    (position == 0 || now.is_some()).then_some(Argument {
                        index: argument.index,
                        width: argument.width,
                        now,
                        step,
                    })
                })
                .collect();
            let site = bias.wrapping_add(launch.return_address as usize);
            Some(Planned { site, kernel: manifest.name_of(launch), arguments: arguments? })
        })
        .collect();
    let iteration = Box::new(Iteration { count, launches: launches? });
    WAITING.store(true, Relaxed);
    Some(iteration)
}

//! Predictions in use: how often a site is still reached, whether it is reached again, and what became of either.
//!
//! A prediction is compared with what happens and changes only when the tape is sent: at the last call of the last
//! iteration. It is evaluated where a loop begins, where it should end, and now and then between. What is mispredicted
//! is counted; the calls themselves are recorded and replayed the same with and without it, so nothing is lost or
//! repeated.
//!
//! Everything is the thread's own, but for the counters.
//!
//! Source: protos/manifest.md, "Layout" (sites).

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use manifest::{Machine, DEFER_READ};

use crate::frame::{self, Registers};
use crate::manifests::Site;
use crate::objects::Object;

static PREDICTED: AtomicU64 = AtomicU64::new(0);
static MISPREDICTED: AtomicU64 = AtomicU64::new(0);

/// Predictions that came true, and those that did not.
pub fn counts() -> (u64, u64) {
    (PREDICTED.load(Relaxed), MISPREDICTED.load(Relaxed))
}

/// What is expected of a site.
#[derive(Debug, Clone, Copy, Default)]
struct Expected {
    /// What `remaining` will be when it is next reached.
    remaining: Option<u64>,
    /// How often the site was reached, as expected, since `remaining` was looked at.
    reached: u64,
}

/// In the middle of a loop, its count is looked at every so many iterations.
const LOOK: u64 = 64;

/// What a thread expects of the call under way, and of the sites that it has reached.
pub struct Predictions {
    /// The call's site is reached again in this execution of its loop.
    more: Cell<bool>,
    /// How often; when that is known.
    remaining: Cell<Option<u64>>,
    /// By number of site.
    expected: RefCell<Vec<Expected>>,
    /// By number of loop: the iteration is the last one.
    last_iteration: RefCell<Vec<bool>>,
}

impl Predictions {
    pub const fn new() -> Self {
        Self {
            more: Cell::new(false),
            remaining: Cell::new(None),
            expected: RefCell::new(Vec::new()),
            last_iteration: RefCell::new(Vec::new()),
        }
    }

    /// Another call is under way.
    pub fn forget(&self) {
        self.more.set(false);
        self.remaining.set(None);
    }

    /// How often the call's site is reached again in this execution of its loop, where that was looked at.
    pub fn remaining(&self) -> Option<u64> {
        self.remaining.get()
    }

    /// The call is from another site than was thought: how often that one is reached says nothing of it.
    pub fn forget_count(&self) {
        self.remaining.set(None);
    }

    /// Whether the call's site is known to be reached again in this execution of its loop.
    pub fn reached_again(&self) -> bool {
        self.more.get()
    }

    /// Whether the call, from `site`, is the last one of the last iteration of its loop and of those around it. Asked
    /// once a call.
    pub fn is_last_of_all(&self, site: Option<&'static Site>) -> bool {
        self.remaining.take() == Some(0) && site.is_some_and(|site| site.ends_iteration() && self.ends_everything(site))
    }

    /// The program is at a site.
    pub fn evaluate(&self, site: &'static Site) {
        let needs_more = site.entry.permissions & DEFER_READ != 0;
        let look = site.remaining.is_some() && !self.goes_on(site);
        if !(needs_more || look) {
            return;
        }
        let Some(registers) = frame::registers() else { return };
        let here = Here::new(&registers, site.used.object);
        if needs_more {
            self.more.set(site.more.as_ref().and_then(|more| more.evaluate(&here)) == Some(1));
        }
        if look {
            let remaining = site.remaining.as_ref().and_then(|remaining| remaining.evaluate(&here));
            self.compare(site, remaining);
            self.remaining.set(remaining);
        }
    }

    /// Whether the site is in the middle of its loop, as far as the loop's count was last known. What the count says
    /// now is of no consequence there, so it is not asked. Asked once a call, but for its being false.
    pub fn goes_on(&self, site: &'static Site) -> bool {
        let mut expected = self.expected.borrow_mut();
        let Expected { remaining, reached } = at(&mut expected, site.number);
        match remaining {
            Some(left) if *left > 0 && *left % LOOK != 0 => {
                *left -= 1;
                *reached += 1;
                true
            }
            _ => false,
        }
    }

    /// Compares what was predicted when the site was last reached with what it says now.
    fn compare(&self, site: &'static Site, remaining: Option<u64>) {
        let mut expected = self.expected.borrow_mut();
        let mut last_iteration = self.last_iteration.borrow_mut();
        let next = Expected { remaining: remaining.and_then(|remaining| remaining.checked_sub(1)), reached: 0 };
        let before = std::mem::replace(at(&mut expected, site.number), next);
        if let Some(left) = before.remaining {
            // A wrong count makes what was expected since it was last looked at worth nothing.
            let counter = if remaining == Some(left) { &PREDICTED } else { &MISPREDICTED };
            counter.fetch_add(before.reached + 1, Relaxed);
        }
        *at(&mut last_iteration, site.in_loop().number) = remaining == Some(0);
    }

    /// Whether no loop around the site's goes on.
    fn ends_everything(&self, site: &'static Site) -> bool {
        let last_iteration = self.last_iteration.borrow();
        let mut parent = site.in_loop().parent;
        while let Some(index) = parent {
            let Some(outer) = site.used.loops.get(index as usize) else { return false };
            if last_iteration.get(outer.number as usize) != Some(&true) {
                return false;
            }
            parent = outer.parent;
        }
        true
    }
}

/// The element of a list that grows as needed.
fn at<T: Default>(list: &mut Vec<T>, number: u32) -> &mut T {
    let index = number as usize;
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

/// The program at its call instruction.
pub struct Here<'a> {
    registers: &'a Registers,
    object: &'static Object,
}

impl<'a> Here<'a> {
    pub fn new(registers: &'a Registers, object: &'static Object) -> Self {
        Self { registers, object }
    }
}

impl Machine for Here<'_> {
    fn register(&self, number: u8) -> Option<u64> {
        self.registers.numbered(number)
    }

    fn frame(&self, offset: u32, size: u8) -> Option<u64> {
        self.registers.frame(offset.into(), size.into()).map(number)
    }

    fn global(&self, address: u64, size: u8) -> Option<u64> {
        if !self.object.holds(address, size.into()) {
            return None;
        }
        let start = self.object.bias.wrapping_add(address as usize) as *const u8;
        let mut bytes = [0; 8];
        for (index, byte) in bytes.iter_mut().take(size.into()).enumerate() {
            // SAFETY: inside a readable segment of an object that is never unloaded. Volatile: the program may be
            // writing it.
            *byte = unsafe { start.wrapping_add(index).read_volatile() };
        }
        Some(u64::from_le_bytes(bytes))
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(padded)
}

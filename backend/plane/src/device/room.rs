//! What the guest allocates in a window: the rules, the books, and the pages behind it.
//!
//! One place decides about allocations of devices whose memory is this process's: the replay asks it for plain records, Python for the
//! others and for the variables of modules. Python has the words for a refusal. Where something looks at memory (a model of it, checks),
//! pages are mapped through [`Hooks`] instead, and Python alone comes here.
//!
//! One thread at a time changes a room.

use super::allocations::{Allocation, Allocations, Label};
use super::pages::{Pages, PAGE};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// The memory of a device, which its sessions share. Any thread may use it.
#[derive(Debug)]
pub struct Budget {
    pub limit: u64,
    used: AtomicU64,
}

impl Budget {
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether so much was left.
    #[allow(deprecated)] // newer compilers call it try_update; 1.88 does not know that name
    pub fn take(&self, size: u64) -> bool {
        let more = |used: u64| used.checked_add(size).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub fn give(&self, size: u64) {
        self.used.fetch_sub(size, Ordering::Relaxed);
    }
}

/// Why there is no such allocation; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal<E> {
    /// It is no range of the window that a guest may have.
    Range,
    /// The session may not have so much.
    Quota,
    /// There are too many.
    Count,
    /// Another one is there.
    Clash,
    /// The device has not so much left.
    Budget,
    /// No allocation starts there.
    Unknown,
    /// The pages cannot be mapped.
    Pages(E),
}

/// How pages are mapped.
pub trait Hooks {
    type Error;

    /// Makes pages accessible for this allocation; some at the edges may be already.
    ///
    /// # Errors
    /// It cannot.
    fn map(&self, first: u64, last: u64, flags: u8, allocation: &Allocation) -> Result<(), Self::Error>;

    /// # Errors
    /// The system's.
    fn unmap(&self, first: u64, last: u64) -> Result<(), Self::Error>;

    /// Clears bytes of mapped pages.
    ///
    /// # Errors
    /// They are not to be had.
    fn zero(&self, start: u64, size: u64) -> Result<(), Self::Error>;
}

/// Nothing looks at memory.
pub struct Plain<'a>(pub Option<&'a Pages>);

impl Hooks for Plain<'_> {
    type Error = i32;

    fn map(&self, first: u64, last: u64, flags: u8, _: &Allocation) -> Result<(), i32> {
        self.0.map_or(Ok(()), |pages| pages.map(first, last, flags, true))
    }

    fn unmap(&self, first: u64, last: u64) -> Result<(), i32> {
        self.0.map_or(Ok(()), |pages| pages.unmap(first, last))
    }

    fn zero(&self, start: u64, size: u64) -> Result<(), i32> {
        if let Some(pages) = self.0 {
            pages.clear(start, size);
        }
        Ok(())
    }
}

/// What a guest may allocate.
pub struct Limits {
    pub base: u64,
    pub size: u64,
    /// Of addresses.
    pub alignment: u64,
    pub count: usize,
}

/// See the module's page.
pub struct Room {
    allocations: Arc<Allocations>,
    limits: Limits,
    quota: AtomicU64,
    /// Of the quota: the guest's allocations, and physical memory.
    used: AtomicU64,
    budget: Option<Arc<Budget>>,
    pages: Option<Arc<Pages>>,
    /// The plane does nothing here by itself.
    attended: AtomicBool,
}

const ACCESS: u32 = 3;

impl Room {
    #[must_use]
    pub fn new(
        allocations: Arc<Allocations>,
        limits: Limits,
        quota: u64,
        budget: Option<Arc<Budget>>,
        pages: Option<Arc<Pages>>,
    ) -> Self {
        Self {
            allocations,
            limits,
            quota: AtomicU64::new(quota),
            used: AtomicU64::new(0),
            budget,
            pages,
            attended: AtomicBool::new(false),
        }
    }

    #[must_use]
    pub fn is_attended(&self) -> bool {
        self.attended.load(Ordering::Relaxed)
    }

    pub fn attend(&self, attended: bool) {
        self.attended.store(attended, Ordering::Relaxed);
    }

    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn set_quota(&self, quota: u64) {
        self.quota.store(quota, Ordering::Relaxed);
    }

    #[must_use]
    pub fn plain(&self) -> Plain<'_> {
        Plain(self.pages.as_deref())
    }

    /// Backs an address that the guest minted.
    ///
    /// # Errors
    /// It does not.
    pub fn allocate<H: Hooks>(&self, start: u64, size: u64, hooks: &H) -> Result<(), Refusal<H::Error>> {
        let Limits { base, size: whole, alignment, count } = self.limits;
        let end = start.checked_add(size).filter(|&end| size > 0 && start >= base && end - base <= whole);
        let end = end.filter(|_| start.is_multiple_of(alignment)).ok_or(Refusal::Range)?;
        if self.used().saturating_add(size) > self.quota.load(Ordering::Relaxed) {
            return Err(Refusal::Quota);
        }
        if self.allocations.len() >= count {
            return Err(Refusal::Count);
        }
        self.back(Allocation { start, end, label: Label::Allocation, access: ACCESS }, 3, hooks)?;
        self.used.fetch_add(size, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the guest's allocation that starts there.
    ///
    /// # Errors
    /// There is none.
    pub fn free<H: Hooks>(&self, start: u64, hooks: &H) -> Result<Allocation, Refusal<H::Error>> {
        if start < self.limits.base || start - self.limits.base >= self.limits.size {
            return Err(Refusal::Range);
        }
        let ended = self.end(start).ok_or(Refusal::Unknown)?;
        self.used.fetch_sub(ended.size(), Ordering::Relaxed);
        self.unback(&ended, hooks)?;
        Ok(ended)
    }

    /// The guest has nothing any more: what it had was released.
    pub fn reset(&self) {
        self.used.store(0, Ordering::Relaxed);
    }

    /// Takes memory without an address from the quota and the budget.
    ///
    /// # Errors
    /// There is not so much.
    pub fn take(&self, size: u64) -> Result<(), Refusal<i32>> {
        if self.used().saturating_add(size) > self.quota.load(Ordering::Relaxed) {
            return Err(Refusal::Quota);
        }
        if self.budget.as_ref().is_some_and(|budget| !budget.take(size)) {
            return Err(Refusal::Budget);
        }
        self.used.fetch_add(size, Ordering::Relaxed);
        Ok(())
    }

    pub fn give(&self, size: u64) {
        self.used.fetch_sub(size, Ordering::Relaxed);
        if let Some(budget) = &self.budget {
            budget.give(size);
        }
    }

    /// Puts memory behind an allocation.
    ///
    /// # Errors
    /// It does not.
    pub fn back<H: Hooks>(&self, allocation: Allocation, flags: u8, hooks: &H) -> Result<(), Refusal<H::Error>> {
        if self.allocations.overlaps(allocation.start, allocation.end) {
            return Err(Refusal::Clash);
        }
        let (first, last) = whole(&allocation);
        let shared = self.shared(first, last);
        let budget = self.budget.as_ref();
        if budget.is_some_and(|budget| !budget.take(allocation.size())) {
            return Err(Refusal::Budget);
        }
        let done = hooks.map(first, last, flags, &allocation).and_then(|()| {
            shared.into_iter().flatten().try_for_each(|page| {
                let (low, high) = (page.max(allocation.start), (page + PAGE).min(allocation.end));
                hooks.zero(low, high - low)
            })
        });
        if let Err(error) = done {
            if let Some(budget) = budget {
                budget.give(allocation.size());
            }
            return Err(Refusal::Pages(error));
        }
        self.allocations.add(allocation);
        Ok(())
    }

    /// Ends an allocation.
    ///
    /// # Errors
    /// None starts there; or its pages stay as they were, and it has ended.
    pub fn release<H: Hooks>(&self, start: u64, hooks: &H) -> Result<Allocation, Refusal<H::Error>> {
        let ended = self.end(start).ok_or(Refusal::Unknown)?;
        self.unback(&ended, hooks)?;
        Ok(ended)
    }

    /// Takes the allocation that starts there out of the map and the budget.
    fn end(&self, start: u64) -> Option<Allocation> {
        self.allocations.holding(start).filter(|found| found.start == start && found.label != Label::Mapped)?;
        let ended = self.allocations.take(start)?;
        self.allocations.remember(ended.clone());
        if let Some(budget) = &self.budget {
            budget.give(ended.size());
        }
        Some(ended)
    }

    /// Takes the pages away that nothing else uses.
    fn unback<H: Hooks>(&self, ended: &Allocation, hooks: &H) -> Result<(), Refusal<H::Error>> {
        let (mut first, mut last) = whole(ended);
        for page in self.shared(first, last).into_iter().flatten() {
            if page == first {
                first += PAGE;
            } else {
                last -= PAGE;
            }
        }
        if first < last {
            hooks.unmap(first, last).map_err(Refusal::Pages)?;
        }
        Ok(())
    }

    /// The pages of an allocation that is not in the map which others in it use too: at most its first and its last.
    fn shared(&self, first: u64, last: u64) -> [Option<u64>; 2] {
        let used = |page: u64| self.allocations.overlaps(page, page + PAGE).then_some(page);
        [used(first), if last - first > PAGE { used(last - PAGE) } else { None }]
    }
}

/// The whole pages around an allocation.
fn whole(allocation: &Allocation) -> (u64, u64) {
    (allocation.start / PAGE * PAGE, allocation.end.div_ceil(PAGE) * PAGE)
}

#[cfg(test)]
mod tests;

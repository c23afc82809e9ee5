//! A window's books and pages, as Python gives them to the plane and works on them.

use crate::device::Ranges;
use plane::device::allocations::{Allocation, Label};
use plane::device::room::{Hooks, Limits, Refusal};
use plane::device::{allocations, pages, room};
use pyo3::prelude::*;
use std::sync::Arc;

/// The label of mapped physical memory, and of the guest's allocations.
const MAPPED: &str = "mapped physical memory";
const GUESTS: &str = "allocation";

/// start, size, label, access: the fields of Python's Allocation.
type Given = (u64, u64, String, u32);

fn given(allocation: &Allocation) -> Given {
    let label = match &allocation.label {
        Label::Allocation => GUESTS,
        Label::Mapped => MAPPED,
        Label::Named(name) => name,
    };
    (allocation.start, allocation.size(), label.to_owned(), allocation.access)
}

fn taken((start, size, label, access): Given) -> Allocation {
    let label = match label.as_str() {
        GUESTS => Label::Allocation,
        MAPPED => Label::Mapped,
        name => Label::Named(name.into()),
    };
    Allocation { start, end: start + size, label, access }
}

/// The memory of a device, which its sessions share.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Budget {
    pub inner: Arc<room::Budget>,
}

#[pymethods]
impl Budget {
    #[new]
    fn new(limit: u64) -> Self {
        Self { inner: Arc::new(room::Budget::new(limit)) }
    }

    #[getter]
    fn limit(&self) -> u64 {
        self.inner.limit
    }

    #[getter]
    fn used(&self) -> u64 {
        self.inner.used()
    }

    /// Whether so much was left.
    fn take(&self, size: u64) -> bool {
        self.inner.take(size)
    }

    fn give(&self, size: u64) {
        self.inner.give(size);
    }
}

/// Which parts of a window belong to what.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct AllocationMap {
    pub inner: Arc<allocations::Allocations>,
}

#[pymethods]
impl AllocationMap {
    #[new]
    fn new(ranges: &Ranges) -> Self {
        Self { inner: Arc::new(allocations::Allocations::new(ranges.inner.clone())) }
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    #[getter]
    fn version(&self) -> u64 {
        self.inner.version()
    }

    fn changed(&self) {
        self.inner.changed();
    }

    fn since(&self, address: u64) -> Vec<Given> {
        self.inner.since(address).iter().map(given).collect()
    }

    fn add(&self, allocation: Given) {
        self.inner.add(taken(allocation));
    }

    fn take(&self, start: u64) -> Option<Given> {
        self.inner.take(start).as_ref().map(given)
    }

    fn remember(&self, ended: Given) {
        self.inner.remember(taken(ended));
    }

    fn ended(&self) -> Vec<Given> {
        self.inner.ended().iter().map(given).collect()
    }

    fn holding(&self, address: u64) -> Option<Given> {
        self.inner.holding(address).as_ref().map(given)
    }

    fn overlapping(&self, start: u64, end: u64) -> Option<Given> {
        self.inner.overlapping(start, end).as_ref().map(given)
    }

    fn around(&self, address: u64) -> (Option<Given>, Option<Given>) {
        let (below, above) = self.inner.around(address);
        (below.as_ref().map(given), above.as_ref().map(given))
    }

    fn clear(&self) {
        self.inner.clear();
    }
}

/// The pages of a window.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Pages {
    inner: Arc<pages::Pages>,
}

fn refused(number: i32) -> PyErr {
    std::io::Error::from_raw_os_error(number).into()
}

#[pymethods]
impl Pages {
    #[new]
    #[pyo3(signature = (base, size, flags, file = None))]
    fn new(base: u64, size: u64, flags: usize, file: Option<i32>) -> Self {
        // SAFETY: the caller has reserved both, and uses this no longer than them.
        Self { inner: Arc::new(unsafe { pages::Pages::new(base, size, flags as *mut u8, file) }) }
    }

    #[getter]
    fn used_address(&self) -> usize {
        self.inner.used_address()
    }

    fn map(&self, py: Python<'_>, start: u64, end: u64, flags: u8, huge: bool) -> PyResult<()> {
        py.detach(|| self.inner.map(start, end, flags, huge)).map_err(refused)
    }

    fn unmap(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<()> {
        py.detach(|| self.inner.unmap(start, end)).map_err(refused)
    }

    fn discard(&self, start: u64, size: u64) -> PyResult<()> {
        self.inner.discard(start, size).map_err(refused)
    }

    fn settle(&self, start: u64, end: u64) {
        self.inner.settle(start, end);
    }

    fn set_used(&self, start: u64, end: u64, used: bool) {
        self.inner.set_used(start, end, used);
    }
}

/// Python maps the pages.
struct Asked<'a, 'py>(&'a Bound<'py, PyAny>);

impl Hooks for Asked<'_, '_> {
    type Error = PyErr;

    fn map(&self, first: u64, last: u64, flags: u8, allocation: &Allocation) -> PyResult<()> {
        self.0.call_method1("map_pages", (first, last, flags, given(allocation).2)).map(drop)
    }

    fn unmap(&self, first: u64, last: u64) -> PyResult<()> {
        self.0.call_method1("unmap_pages", (first, last)).map(drop)
    }

    fn zero(&self, start: u64, size: u64) -> PyResult<()> {
        self.0.call_method1("zero", (start, size)).map(drop)
    }
}

/// Why something was refused, for Python to word; what mapping raised is raised again.
fn reason(refusal: Refusal<PyErr>) -> PyResult<&'static str> {
    Ok(match refusal {
        Refusal::Range => "range",
        Refusal::Quota => "quota",
        Refusal::Count => "count",
        Refusal::Clash => "clash",
        Refusal::Budget => "budget",
        Refusal::Unknown => "unknown",
        Refusal::Pages(raised) => return Err(raised),
    })
}

fn raised(refusal: Refusal<i32>) -> Refusal<PyErr> {
    match refusal {
        Refusal::Range => Refusal::Range,
        Refusal::Quota => Refusal::Quota,
        Refusal::Count => Refusal::Count,
        Refusal::Clash => Refusal::Clash,
        Refusal::Budget => Refusal::Budget,
        Refusal::Unknown => Refusal::Unknown,
        Refusal::Pages(number) => Refusal::Pages(refused(number)),
    }
}

fn told<T>(done: Result<T, Refusal<PyErr>>) -> PyResult<Option<&'static str>> {
    done.map_or_else(|refusal| reason(refusal).map(Some), |_| Ok(None))
}

/// What a guest may allocate in a window.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Room {
    pub inner: Arc<room::Room>,
}

#[pymethods]
impl Room {
    #[new]
    #[pyo3(signature = (allocations, base, size, quota, *, alignment = 1, count = usize::MAX, budget = None, pages = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        allocations: &AllocationMap,
        base: u64,
        size: u64,
        quota: u64,
        alignment: u64,
        count: usize,
        budget: Option<&Budget>,
        pages: Option<&Pages>,
    ) -> Self {
        let (budget, pages) = (budget.map(|budget| budget.inner.clone()), pages.map(|pages| pages.inner.clone()));
        let limits = Limits { base, size, alignment, count };
        Self { inner: Arc::new(room::Room::new(allocations.inner.clone(), limits, quota, budget, pages)) }
    }

    #[getter]
    fn used(&self) -> u64 {
        self.inner.used()
    }

    fn set_quota(&self, quota: u64) {
        self.inner.set_quota(quota);
    }

    fn attend(&self, attended: bool) {
        self.inner.attend(attended);
    }

    fn allocate(&self, address: u64, size: u64, hooks: Option<Bound<'_, PyAny>>) -> PyResult<Option<&'static str>> {
        told(match hooks {
            Some(hooks) => self.inner.allocate(address, size, &Asked(&hooks)),
            None => self.inner.allocate(address, size, &self.inner.plain()).map_err(raised),
        })
    }

    fn free(&self, address: u64, hooks: Option<Bound<'_, PyAny>>) -> PyResult<Option<&'static str>> {
        told(match hooks {
            Some(hooks) => self.inner.free(address, &Asked(&hooks)),
            None => self.inner.free(address, &self.inner.plain()).map_err(raised),
        })
    }

    fn back(&self, allocation: Given, flags: u8, hooks: Option<Bound<'_, PyAny>>) -> PyResult<Option<&'static str>> {
        let allocation = taken(allocation);
        told(match hooks {
            Some(hooks) => self.inner.back(allocation, flags, &Asked(&hooks)),
            None => self.inner.back(allocation, flags, &self.inner.plain()).map_err(raised),
        })
    }

    fn release(&self, address: u64, hooks: Option<Bound<'_, PyAny>>) -> PyResult<Option<&'static str>> {
        told(match hooks {
            Some(hooks) => self.inner.release(address, &Asked(&hooks)),
            None => self.inner.release(address, &self.inner.plain()).map_err(raised),
        })
    }

    fn take(&self, size: u64) -> PyResult<Option<&'static str>> {
        told(self.inner.take(size).map_err(raised))
    }

    fn give(&self, size: u64) {
        self.inner.give(size);
    }

    fn reset(&self) {
        self.inner.reset();
    }
}

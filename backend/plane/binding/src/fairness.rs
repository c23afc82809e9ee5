//! Fair sharing of the device's time, as Python sees it.

use parking_lot::Mutex;
use plane::fairness::member::Terms;
use plane::fairness::pace::MachineCode;
use plane::fairness::process;
use plane::fairness::scheduler;
use plane::fairness::slot::{self, Bell};
use pyo3::prelude::*;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

/// What a session and the listener share.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Page {
    pub inner: Arc<slot::Page>,
}

#[pymethods]
impl Page {
    /// `shared`: with another process, by a descriptor. Raises OSError.
    #[new]
    #[pyo3(signature = (*, shared = false))]
    fn new(shared: bool) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(if shared { slot::Page::create_file()? } else { slot::Page::create()? }) })
    }

    #[getter]
    fn descriptor(&self) -> Option<RawFd> {
        self.inner.descriptor()
    }
}

/// A session's side: operations wait for it.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Place {
    pub inner: Arc<slot::Place>,
}

#[pymethods]
impl Place {
    /// Of a session whose listener is another process. The descriptors are the place's from now on.
    ///
    /// Raises OSError.
    #[staticmethod]
    fn attach(page: RawFd, bell: RawFd) -> PyResult<Self> {
        // SAFETY: the caller gives the descriptors away.
        let (page, bell) = unsafe { (OwnedFd::from_raw_fd(page), OwnedFd::from_raw_fd(bell)) };
        let page = Arc::new(slot::Page::map(page)?);
        Ok(Self { inner: Arc::new(slot::Place::new(page, Bell::There(bell))) })
    }

    /// Of the word that kernels look at between two blocks.
    #[getter]
    fn word(&self) -> usize {
        self.inner.word()
    }

    /// Other threads have worked for the session for so many nanoseconds.
    fn add(&self, nanoseconds: u64) {
        self.inner.add(nanoseconds);
    }

    /// Whether other sessions wait.
    #[getter]
    fn crowded(&self) -> bool {
        self.inner.is_crowded()
    }

    /// Calls machine code that does not call back: `int run(first, second)`. The place is the session's meanwhile.
    fn run(&self, py: Python<'_>, run: usize, first: usize, second: usize) -> i32 {
        // SAFETY: the caller gives the address of such a function.
        let run = unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut u8, *mut u8) -> i32>(run) };
        // SAFETY: the caller keeps what its parameters point to, and uses none of it meanwhile.
        py.detach(|| unsafe { self.inner.run(MachineCode { run, first: first as *mut u8, second: second as *mut u8 }) })
    }

    #[getter]
    fn waited(&self) -> u64 {
        self.inner.waited()
    }
}

/// A session's process where the task manager of shared device memory, and not a scheduler, says who works.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Process {
    inner: Mutex<process::Process>,
}

#[pymethods]
impl Process {
    /// A child of this process. Raises OSError: there is no such one.
    #[new]
    fn new(id: i32) -> PyResult<Self> {
        Ok(Self { inner: Mutex::new(process::Process::new(id)?) })
    }

    #[getter]
    fn stopped(&self) -> bool {
        self.inner.lock().is_stopped()
    }

    /// Nanoseconds of the processors that it has used since the last look. `granted`: it was to use them.
    fn look(&self, granted: bool) -> u64 {
        self.inner.lock().look(Instant::now(), granted)
    }

    /// Stops it where it has used too much without being granted that. Whether it was stopped now.
    fn stop_overrun(&self) -> bool {
        self.inner.lock().stop_overrun()
    }

    /// It is its turn: it goes on.
    fn enter(&self) {
        self.inner.lock().enter();
    }
}

/// The listener's side.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Scheduler {
    inner: Arc<scheduler::Scheduler>,
}

#[pymethods]
impl Scheduler {
    /// Raises OSError.
    #[new]
    fn new(places: usize) -> PyResult<Self> {
        Ok(Self { inner: scheduler::Scheduler::start(places)? })
    }

    #[getter]
    fn bell(&self) -> RawFd {
        self.inner.bell()
    }

    /// Raises OSError.
    #[pyo3(signature = (page, *, priority = 0, weight = 1.0, share = None, owner = "", process = None))]
    fn join(
        &self,
        page: &Page,
        priority: u8,
        weight: f64,
        share: Option<f64>,
        owner: &str,
        process: Option<i32>,
    ) -> PyResult<u64> {
        let terms = Terms { priority: priority.min(9), weight, share, owner: owner.to_owned() };
        Ok(self.inner.join(page.inner.clone(), terms, process)?)
    }

    fn place(&self, page: &Page) -> Place {
        Place { inner: Arc::new(self.inner.place(page.inner.clone())) }
    }

    fn leave(&self, number: u64) {
        self.inner.leave(number);
    }

    /// Nanoseconds on the device, and of waiting; how often its process was stopped; whether it waits now.
    fn served(&self, number: u64) -> Option<(u64, u64, u64, bool)> {
        self.inner.served(number).map(|served| (served.service, served.waited, served.stopped, served.waits))
    }

    fn close(&self) {
        self.inner.close();
    }
}

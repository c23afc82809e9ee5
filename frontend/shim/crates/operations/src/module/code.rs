//! One module: an image, what is in it, and its handle on the host.
//!
//! Everything happens on first use: finding the image in memory, reading it for the session's device, uploading it when
//! the host does not hold it, opening it. Each step's outcome, good or bad, is kept and logged once; a bad one spoils
//! this module's kernels and variables only.
//!
//! Room: `opening` (the module on the host). Each context has handles of its own (`OfContext`), until what it holds
//! ends.

mod opening;
mod progress;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::module::mapped::Map;
use image::Target;
use session::call::{Error, Outcome};
use session::process;
use session::{contexts, log};

use super::kernel::Kernel;
use super::managed::Managed;
use super::of_context::OfContext;
use super::source::{Origin, Source};
use super::variable::Variable;

/// Why an image is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub error: Error,
    /// For the caller's log; empty where there is nothing more to say.
    pub message: String,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused { error, message: String::new() }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        refused.error
    }
}

/// How the process came by a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Start-up code registered it.
    Registered,
    /// cudaLibraryLoadData and its relatives.
    Library,
    /// cuModuleLoad and its relatives.
    Module,
}

#[derive(Debug)]
pub struct Module {
    pub kind: Kind,
    /// The context that a module of the driver API was loaded in, and whose it is alone. The others are opened in each
    /// context that uses them.
    pub context: Option<u32>,
    origin: Origin,
    /// Whether a kernel or variable was registered: an image without any is never needed.
    used: AtomicBool,
    source: OnceLock<Outcome<Source>>,
    contents: Mutex<Option<Outcome<Arc<image::Module>>>>,
    pub managed: Managed,
    minted: OfContext,
    opening: Mutex<()>,
    closed: AtomicBool,
    /// Those that the program knows of, by name.
    kernels: Mutex<HashMap<&'static [u8], &'static Kernel>>,
    variables: Mutex<HashMap<&'static str, &'static Variable>>,
    /// Held while the host is asked where variables lie.
    asking: Mutex<()>,
}

impl Module {
    pub fn from_wrapper(address: usize) -> Module {
        Module::new(Kind::Registered, Origin::Wrapper(address))
    }

    #[cfg(test)]
    pub fn from_bytes(bytes: Vec<u8>) -> Module {
        Module::new(Kind::Library, Origin::Bytes(bytes))
    }

    pub fn new(kind: Kind, origin: Origin) -> Module {
        Module {
            kind,
            context: (kind == Kind::Module).then(contexts::acting),
            origin,
            used: AtomicBool::new(false),
            source: OnceLock::new(),
            contents: Mutex::new(None),
            managed: Managed::default(),
            minted: OfContext::default(),
            opening: Mutex::new(()),
            closed: AtomicBool::new(false),
            kernels: Mutex::default(),
            variables: Mutex::default(),
            asking: Mutex::new(()),
        }
    }

    /// The value that the program holds as `cudaLibrary_t` or `CUmodule`.
    pub fn handle(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// The kernel of that name that the program knows of.
    pub fn kernel_named(&self, name: &str) -> Option<&'static Kernel> {
        lock(&self.kernels).get(name.as_bytes()).copied()
    }

    /// Notes a kernel; the first one of a name counts.
    pub fn add_kernel(&self, kernel: &'static Kernel) {
        lock(&self.kernels).entry(kernel.name().to_bytes()).or_insert(kernel);
    }

    /// The variable of that name; of that size, where the program does not know of it.
    pub fn variable(&'static self, name: &str, size: usize) -> &'static Variable {
        let mut variables = lock(&self.variables);
        if let Some(known) = variables.get(name) {
            return known;
        }
        let new: &'static Variable = Box::leak(Box::new(Variable::new(self, name.to_owned(), size)));
        variables.insert(new.name(), new);
        new
    }

    /// Held by a thread that asks the host where variables lie.
    pub fn ask_alone(&self) -> MutexGuard<'_, ()> {
        lock(&self.asking)
    }

    /// Whether the device can run something of a loaded image: reported at once, where that takes no decompression.
    /// A text, or what was linked, the host is asked about.
    pub fn check(&self) -> Result<(), Refused> {
        let refused = |error: image::Error| Refused { error: self.refuse(&error), message: error.to_string() };
        if let Some(container) = self.origin.container() {
            return image::check_container(container, &target()?).map_err(refused);
        }
        if let Origin::Bytes(bytes) = &self.origin {
            let contents = image::Module::read(bytes, &target()?).map_err(refused)?;
            let asks = contents.source == image::Source::Ptx;
            lock(&self.contents).get_or_insert(Ok(Arc::new(contents)));
            return if asks { self.verify(false) } else { Ok(()) };
        }
        Ok(self.contents().map(drop)?)
    }

    /// Damage or a late version of an image that the program loads is the load's own result, and no news.
    #[cold]
    fn refuse(&self, error: &image::Error) -> Error {
        match error {
            image::Error::Malformed(_) | image::Error::TooNew(_) if self.kind != Kind::Registered => {
                log::info(format_args!("{}: {error}", self.origin));
            }
            image::Error::NoUsableEntry(_) => {
                let known: Vec<_> = lock(&self.kernels).keys().map(|name| String::from_utf8_lossy(name)).collect();
                let kernels = image::some_names(known.iter().map(AsRef::as_ref).collect());
                log::error(format_args!("{}{kernels}: {error}", self.origin));
            }
            _ => log::error(format_args!("{}: {error}", self.origin)),
        }
        error_of(error)
    }

    /// Notes that something in the image has a name that the program can use.
    pub fn note_use(&self) {
        self.used.store(true, Relaxed);
    }

    /// Bytes of the image, if the module is of any use and needs no device to choose its image: then it may be named
    /// ahead.
    pub fn bytes_for_hello(&self, map: &Map) -> Option<usize> {
        if !self.used.load(Relaxed) || self.origin.needs_device(map) {
            return None;
        }
        Some(self.origin.registered_bytes(map).unwrap_or(0))
    }

    /// The digests that Hello names: of what one device or another gets of the image. A damaged image has none here;
    /// using its module reports the damage.
    pub fn digests_for_hello(&self, map: &Map) -> Vec<[u8; 32]> {
        if let Some(cuts) = Source::digests_of_cuts(&self.origin, map) {
            return cuts;
        }
        let Ok(source) = Source::find(&self.origin, None, map) else { return Vec::new() };
        self.source.get_or_init(|| Ok(source)).iter().map(|source| source.digest).collect()
    }

    /// What is in the image, for the session's device.
    ///
    /// # Errors
    /// cudaErrorInvalidKernelImage, cudaErrorNoKernelImageForDevice; cudaErrorNotSupported when managed variables have
    /// no memory.
    pub fn contents(&self) -> Outcome<Arc<image::Module>> {
        self.managed.check()?;
        // This opens the session. A child that is forked while the lock is held is a child of an opened session, then,
        // and waits for no lock.
        let target = target();
        let mut contents = lock(&self.contents);
        if let Some(known) = &*contents {
            return known.clone();
        }
        let found = self.read(&target?);
        contents.insert(found).clone()
    }

    fn read(&self, target: &Target) -> Outcome<Arc<image::Module>> {
        let source = self.source(Some(target))?;
        let module = source.bytes(&self.origin).and_then(|bytes| image::Module::read(bytes, target));
        module.map(Arc::new).map_err(|error| self.refuse(&error))
    }

    fn source(&self, target: Option<&Target>) -> Outcome<&Source> {
        let found = self
            .source
            .get_or_init(|| Source::find(&self.origin, target, &Map::read()).map_err(|error| self.refuse(&error)));
        found.as_ref().map_err(|error| *error)
    }

    /// Gives managed variables memory: the program is about to touch them.
    pub fn back_managed(&'static self) {
        self.managed.back(self);
    }

    /// The same where a call asks for them.
    ///
    /// # Errors
    /// cudaErrorNotSupported when the program and the kernels would not see the same.
    pub fn share_managed(&'static self) -> Outcome {
        if self.kind == Kind::Registered {
            self.back_managed();
            return self.managed.check();
        }
        self.managed.share_loaded(self)
    }
}

/// What the session's device runs.
pub fn target() -> Outcome<Target> {
    let device = process::device()?;
    Ok(Target {
        compute: device.compute,
        takes_ptx: device.description.takes_ptx,
        takes_machine_code: device.description.takes_machine_code,
        takes_any_ptx: device.description.takes_any_ptx,
    })
}

pub fn error_of(error: &image::Error) -> Error {
    match error {
        image::Error::NoUsableEntry(_) => Error::NO_KERNEL_IMAGE_FOR_DEVICE,
        image::Error::Malformed(_) | image::Error::TooLarge(_) => Error::INVALID_KERNEL_IMAGE,
        image::Error::TooNew(_) => Error::UNSUPPORTED_PTX_VERSION,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_module_is_not_announced() {
        let module = Module::from_bytes(vec![1, 2, 3]);
        let map = Map::read();
        assert_eq!(module.bytes_for_hello(&map), None);
        module.note_use();
        assert_eq!(module.bytes_for_hello(&map), Some(0));
        assert_eq!(module.digests_for_hello(&map), [image::digest(&[1, 2, 3])]);
    }
}

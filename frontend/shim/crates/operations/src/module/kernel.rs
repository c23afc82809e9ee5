//! One kernel: its name, its signature, its handle on the host, what the program set for it.
//!
//! A kernel's address is its handle (`cudaKernel_t`, `cudaFunction_t`): it is never freed, and only found through the
//! registration table, so that a program's stray value is not followed.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use crate::launch::clusters;
use session::call::{Error, Outcome};
use session::process::{self, HandleKind};
use session::{log, work};
use tape::generated_operations as operation;

use super::code::Module;
use super::of_context::OfContext;
use super::resources::{self, Limits};

#[derive(Debug)]
pub struct Kernel {
    pub module: &'static Module,
    name: CString,
    /// The address by which the program names it; 0 for a library's kernel, which has none.
    symbol: usize,
    signature: OnceLock<Outcome<Signature>>,
    minted: OfContext,
    pub max_dynamic_shared: Setting,
    pub carveout: Setting,
    pub non_portable_clusters: Setting,
    /// The extents that the program requires: x, y and z, 10 bits each.
    required_cluster: Setting,
}

/// How its parameters lie, and what a launch of it may ask for.
#[derive(Debug)]
pub struct Signature {
    pub image: image::Kernel,
    pub limits: Limits,
}

/// A function attribute that the program set, in one context; the end of what that holds forgets it.
#[derive(Debug, Default)]
pub struct Setting(OfContext);

impl Setting {
    pub fn set(&self, value: i32) {
        self.0.set(value as u32);
    }

    #[inline]
    pub fn get(&self) -> Option<i32> {
        self.0.get().map(|word| word as i32)
    }
}

impl Kernel {
    pub fn new(module: &'static Module, name: String, symbol: usize) -> Kernel {
        Kernel {
            module,
            // A name with a NUL in it came from no compiler; nothing is called that.
            name: CString::new(name).unwrap_or_default(),
            symbol,
            signature: OnceLock::new(),
            minted: OfContext::default(),
            max_dynamic_shared: Setting::default(),
            carveout: Setting::default(),
            non_portable_clusters: Setting::default(),
            required_cluster: Setting::default(),
        }
    }

    /// The value that the program holds as `cudaKernel_t` or `cudaFunction_t`.
    pub fn handle(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// What the program compares a graph node's function with: its symbol, also where its launch passed the handle, as
    /// nvcc's stubs do from CUDA 13 on.
    pub fn address(&self) -> usize {
        if self.symbol == 0 {
            self.handle()
        } else {
            self.symbol
        }
    }

    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// How its parameters lie and what it needs.
    ///
    /// # Errors cudaErrorInvalidDeviceFunction when the image has no such kernel, or one whose parameters are not
    /// known; the module's error otherwise.
    #[inline]
    pub fn signature(&self) -> Outcome<&Signature> {
        match self.signature.get() {
            Some(Ok(signature)) => Ok(signature),
            _ => self.find_signature(),
        }
    }

    #[cold]
    fn find_signature(&self) -> Outcome<&Signature> {
        // Outside the cell: a session that is not there (any more) is no property of the kernel.
        let (contents, device) = (self.module.contents()?, process::device()?);
        let found = self.signature.get_or_init(|| {
            let name = self.name.to_string_lossy();
            match contents.kernels.get(name.as_ref()) {
                Some(Ok(kernel)) => Ok(Signature { image: kernel.clone(), limits: resources::limits(kernel, device) }),
                Some(Err(reason)) => {
                    log::error(format_args!("kernel {name}: its parameters are not understood ({reason})"));
                    Err(Error::INVALID_KERNEL_IMAGE)
                }
                None => {
                    log::error(format_args!("kernel {name} is not in the image that it was registered with"));
                    Err(Error::INVALID_DEVICE_FUNCTION)
                }
            }
        });
        found.as_ref().map_err(|error| *error)
    }

    /// The most dynamic shared memory that a launch may ask for now.
    #[inline]
    pub fn max_dynamic_shared(&self, limits: &Limits) -> u64 {
        self.max_dynamic_shared.get().map_or(limits.dynamic_shared, |set| set.max(0) as u64)
    }

    /// The cluster that the program requires of every launch; extents of 0 where it has set only some.
    #[inline]
    pub fn set_cluster(&self) -> Option<[u32; 3]> {
        let packed = self.required_cluster.get().filter(|packed| *packed != 0)? as u32;
        Some([0, 10, 20].map(|shift| packed >> shift & 1023))
    }

    /// One of the extents; 0: none is required.
    pub fn require_cluster(&self, axis: usize, extent: i32) {
        let packed = self.required_cluster.get().unwrap_or(0) & !(1023 << (10 * axis));
        self.required_cluster.set(packed | extent << (10 * axis));
    }

    /// What it says of its clusters now.
    pub fn cluster_bounds(&self) -> Outcome<clusters::Bounds> {
        let image = &self.signature()?.image;
        Ok(clusters::Bounds {
            required: image.required_cluster.or(self.set_cluster()),
            most_blocks: image.most_cluster_blocks,
            explicit: image.explicit_cluster,
            non_portable: self.non_portable_clusters.get().unwrap_or(0) != 0,
        })
    }

    /// Whether the host has it open.
    pub fn is_open(&self) -> bool {
        self.minted.get().is_some()
    }

    /// Its handle on the tape, opened now if it was not.
    #[inline]
    pub fn function(&self) -> Outcome<u32> {
        match self.minted.get() {
            Some(handle) => Ok(handle),
            None => self.open(),
        }
    }

    /// Opens it now, and waits for what the host says of it.
    pub fn load(&self) -> Outcome {
        if self.is_open() {
            return Ok(());
        }
        self.function()?;
        self.module.confirm()
    }

    #[cold]
    fn open(&self) -> Outcome<u32> {
        self.signature()?;
        self.module.open_part(&self.minted, HandleKind::Function, |w, handle, module| {
            operation::function_open(w, handle, module, self.name.to_bytes());
        })
    }

    /// Records that the program set an attribute.
    pub fn send_attribute(&self, attribute: i32, value: i32) -> Outcome {
        let function = self.function()?;
        work::append(|w| operation::function_attribute(w, function, attribute as u32, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_keep_their_sign_and_end_with_a_reset() {
        let _alone = super::super::of_context::RESETTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let setting = Setting::default();
        assert_eq!(setting.get(), None);
        for value in [-1, 0, 65536, i32::MAX, i32::MIN] {
            setting.set(value);
            assert_eq!(setting.get(), Some(value));
        }
        session::contexts::device_was_reset();
        assert_eq!(setting.get(), None);
    }
}

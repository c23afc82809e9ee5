//! What the session has to ask of the layer above it: the images to name when it opens, and what holds while the
//! process forks.
//!
//! That layer installs itself with the first call of the program, before anything here can need it.

use std::sync::OnceLock;

use client::Section;

/// The layer above: the operations.
pub trait Above: Sync {
    /// The digests of the images that the process has, for Hello.
    fn image_digests(&self) -> Vec<[u8; 32]>;

    /// The host holds these images.
    fn host_holds(&self, digests: &[Vec<u8>]);

    /// The calling thread is about to fork: what another thread may have locked is to be held until `after_fork`, on
    /// both sides.
    fn before_fork(&self);

    /// The fork is over, in the parent or in the child.
    fn after_fork(&self);

    /// Whether a kernel may write to memory that the program reads without a call.
    fn device_may_write_host_memory(&self) -> bool;

    /// Its counts, for the report.
    fn sections(&self) -> Vec<Section>;
}

static ABOVE: OnceLock<&'static dyn Above> = OnceLock::new();

/// From now on this layer is asked; the first one counts.
#[inline]
pub fn install(layer: &'static dyn Above) {
    if ABOVE.get().is_none() {
        let _ = ABOVE.set(layer);
    }
}

/// The layer, once there is one.
#[inline]
pub fn above() -> Option<&'static dyn Above> {
    ABOVE.get().copied()
}

/// Whether a kernel may write to memory that the program reads without a call.
pub fn device_may_write_host_memory() -> bool {
    above().is_some_and(Above::device_may_write_host_memory)
}

//! Launches by the driver that are laid out: everything but their parameters, which Python has checked the size of.

use super::Cuda;
use crate::device::objects::Stream;
use crate::device::work::Fault;
use std::any::Any;
use std::sync::Arc;

/// See the module's page.
pub struct Kernel {
    pub cuda: Arc<Cuda>,
    /// The driver's handle.
    pub function: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub stream: Arc<Stream>,
    pub parameters: Parameters,
    /// It may print: there is output to be fetched at the end of the group.
    pub prints: bool,
    /// What the addresses are in.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// The buffer in which a kernel's parameters go to the driver. It copies them at once, so one launch after another uses it.
pub struct Parameters {
    pub address: usize,
    pub size: usize,
    /// An array with the address of each parameter.
    pub pointers: usize,
}

impl Kernel {
    pub(in crate::device) fn size(&self) -> usize {
        self.parameters.size
    }

    /// Issues it, with parameters of its size.
    pub(in crate::device) fn launch(&self, parameters: &[u8]) -> Result<(), Fault> {
        self.cuda.follow(&self.stream)?;
        let buffer = &self.parameters;
        // SAFETY: Python has laid it out: `size` bytes have a place, and this session's thread alone uses it.
        unsafe { parameters.as_ptr().copy_to_nonoverlapping(buffer.address as *mut u8, buffer.size) };
        let ([x, y, z], [block_x, block_y, block_z]) = (self.grid, self.block);
        let (shared, stream) = (self.shared_bytes, self.stream.handle);
        self.cuda.functions.launch_kernel(
            self.function,
            x,
            y,
            z,
            block_x,
            block_y,
            block_z,
            shared,
            stream,
            buffer.pointers,
            0,
        )
    }
}

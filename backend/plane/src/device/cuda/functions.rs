//! The driver's functions that the plane calls.
//!
//! Their addresses are those of the library that CuPy has loaded, whichever that is. Handles and device addresses are numbers, as Python has
//! them. Every function returns a CUresult.
//!
//! Source: CUDA driver API, cuda.h.

use super::rows::Box2D;
use crate::device::objects::Stream;
use crate::device::work::Fault;

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ident: $kind:ty),*);)*) => {
        /// Their addresses.
        pub struct Functions {
            $($field: unsafe extern "C" fn($($kind),*) -> i32,)*
        }

        /// The names under which the library exports them.
        pub const NAMES: &[&str] = &[$($name),*];

        impl Functions {
            /// # Safety
            /// `address` gives each function's address in a library that stays.
            ///
            /// # Errors
            /// The name of one that is not there.
            pub unsafe fn new(address: impl Fn(&str) -> Option<usize>) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let found = address($name).filter(|&found| found != 0).ok_or($name)?;
                        // SAFETY: the caller's promise.
                        unsafe { std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> i32>(found) }
                    },)*
                })
            }

            $(
                #[allow(clippy::too_many_arguments)]
                pub(super) fn $field(&self, $($argument: $kind),*) -> Result<(), Fault> {
                    // SAFETY: handles are the driver's; where places are passed, the caller in this folder owns them. An address that is
                    // no memory is an error of the driver's.
                    let code = unsafe { (self.$field)($($argument),*) };
                    if code == 0 {
                        Ok(())
                    } else {
                        Err(Fault { call: $name, code })
                    }
                }
            )*
        }
    };
}

functions! {
    set_current = "cuCtxSetCurrent"(context: usize);
    synchronize = "cuCtxSynchronize"();
    allocate_pinned = "cuMemHostAlloc"(address: *mut usize, size: usize, flags: u32);
    free_pinned = "cuMemFreeHost"(address: usize);
    copy_to_device = "cuMemcpyHtoDAsync_v2"(to: u64, from: usize, size: usize, stream: usize);
    copy_to_host = "cuMemcpyDtoHAsync_v2"(to: usize, from: u64, size: usize, stream: usize);
    copy_within = "cuMemcpyDtoDAsync_v2"(to: u64, from: u64, size: usize, stream: usize);
    copy_2d = "cuMemcpy2DAsync_v2"(copy: usize, stream: usize);
    set_8 = "cuMemsetD8Async"(address: u64, value: u8, count: usize, stream: usize);
    set_16 = "cuMemsetD16Async"(address: u64, value: u16, count: usize, stream: usize);
    set_32 = "cuMemsetD32Async"(address: u64, value: u32, count: usize, stream: usize);
    set_rows_8 = "cuMemsetD2D8Async"(address: u64, pitch: usize, value: u8, width: usize, height: usize, stream: usize);
    set_rows_16 = "cuMemsetD2D16Async"(address: u64, pitch: usize, value: u16, width: usize, height: usize, stream: usize);
    set_rows_32 = "cuMemsetD2D32Async"(address: u64, pitch: usize, value: u32, width: usize, height: usize, stream: usize);
    launch_kernel = "cuLaunchKernel"(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared_bytes: u32,
        stream: usize, parameters: usize, extra: usize
    );
    create_event = "cuEventCreate"(event: *mut usize, flags: u32);
    destroy_event = "cuEventDestroy_v2"(event: usize);
    record_event = "cuEventRecord"(event: usize, stream: usize);
    query_event = "cuEventQuery"(event: usize);
    synchronize_event = "cuEventSynchronize"(event: usize);
    elapsed = "cuEventElapsedTime"(milliseconds: *mut f32, start: usize, end: usize);
    wait_event = "cuStreamWaitEvent"(stream: usize, event: usize, flags: u32);
    query_stream = "cuStreamQuery"(stream: usize);
    synchronize_stream = "cuStreamSynchronize"(stream: usize);
    change_kernel = "cuGraphExecKernelNodeSetParams_v2"(executable: usize, node: usize, structure: usize);
    change_set = "cuGraphExecMemsetNodeSetParams"(executable: usize, node: usize, structure: usize, context: usize);
    change_copy = "cuGraphExecMemcpyNodeSetParams"(executable: usize, node: usize, structure: usize, context: usize);
    launch_graph = "cuGraphLaunch"(executable: usize, stream: usize);
}

const PORTABLE: u32 = 1; // CU_MEMHOSTALLOC_PORTABLE
const DISABLE_TIMING: u32 = 2; // CU_EVENT_DISABLE_TIMING

impl Functions {
    /// Pinned memory of this size.
    pub(super) fn pinned(&self, size: usize) -> Result<usize, Fault> {
        let mut address = 0;
        self.allocate_pinned(&raw mut address, size, PORTABLE)?;
        Ok(address)
    }

    /// Copies rows.
    pub(super) fn copy_rows(&self, copy: &Box2D, stream: &Stream) -> Result<(), Fault> {
        self.copy_2d(std::ptr::from_ref(copy) as usize, stream.handle)
    }

    /// An event without timing.
    pub(super) fn event(&self) -> Result<usize, Fault> {
        let mut event = 0;
        self.create_event(&raw mut event, DISABLE_TIMING)?;
        Ok(event)
    }
}

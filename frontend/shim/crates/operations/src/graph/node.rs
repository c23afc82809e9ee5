//! What one node does, made from the parameters that the program gives and checked as the call itself would be.

use crate::event::Event;
use crate::launch::{self, clusters, Launch};
use crate::memory::{self, End, Extent, Layout};
use crate::module::{kernel_of, Kernel};
use crate::stream::memory_operations::Batch;
use crate::types::{Copy3D, CopyKind, GraphNodeType, HostNodeParams, KernelNodeParams, MemsetParams, PitchedPtr, Pos};
use session::call::{Error, Outcome};
use std::ffi::c_void;
use std::sync::Arc;
use tape::generated_operations as operation;
use tape::Writer;

use super::attributes::Attributes;
use super::conditional::ConditionalWork;
use super::state::Id;

/// What a node does.
#[derive(Debug, Clone)]
pub enum Work {
    Empty,
    Kernel(Arc<KernelWork>),
    Memset(MemsetParams),
    Copy(Arc<CopyWork>),
    Host(HostNodeParams),
    /// A graph that belongs to the node.
    Child(Id),
    EventRecord(Arc<Event>),
    EventWait(Arc<Event>),
    /// `size` is what the program asked for; the memory may be larger.
    Allocate {
        memory: Arc<memory::GraphMemory>,
        size: usize,
    },
    /// The address is checked when the node is made, what is there when it is launched.
    Free(u64),
    Conditional(Arc<ConditionalWork>),
    MemoryOperations(Arc<Batch>),
}

// SAFETY: the pointers in it are the program's: they are handed back to it, or followed when it launches the graph, on
// whichever thread it does; nothing here follows them otherwise. The same holds for all of these.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}
// SAFETY: as above.
unsafe impl Send for KernelWork {}
// SAFETY: as above.
unsafe impl Sync for KernelWork {}
// SAFETY: as above.
unsafe impl Send for CopyWork {}
// SAFETY: as above.
unsafe impl Sync for CopyWork {}

/// A launch, with its parameters as they were.
#[derive(Debug)]
pub struct KernelWork {
    kernel: &'static Kernel,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    cooperative: bool,
    cluster: Option<[u32; 3]>,
    parameters: Box<[u8]>,
    /// Into `parameters`: what the program is given when it asks.
    pointers: Box<[*mut c_void]>,
    pub(super) attributes: Attributes,
}

/// A copy: its ends, and the parameters as the program gave them.
#[derive(Debug)]
pub struct CopyWork {
    pub to: End,
    pub from: End,
    pub extent: Extent,
    parameters: Copy3D,
}

impl Work {
    pub fn kind(&self) -> GraphNodeType {
        match self {
            Self::Kernel(_) => crate::types::GRAPH_NODE_TYPE_KERNEL,
            Self::Copy(_) => crate::types::GRAPH_NODE_TYPE_MEMCPY,
            Self::Memset(_) => crate::types::GRAPH_NODE_TYPE_MEMSET,
            Self::Host(_) => crate::types::GRAPH_NODE_TYPE_HOST,
            Self::Child(_) => crate::types::GRAPH_NODE_TYPE_GRAPH,
            Self::Empty => crate::types::GRAPH_NODE_TYPE_EMPTY,
            Self::EventWait(_) => crate::types::GRAPH_NODE_TYPE_WAIT_EVENT,
            Self::EventRecord(_) => crate::types::GRAPH_NODE_TYPE_EVENT_RECORD,
            Self::Allocate { .. } => crate::types::GRAPH_NODE_TYPE_MEM_ALLOC,
            Self::Free(_) => crate::types::GRAPH_NODE_TYPE_MEM_FREE,
            Self::Conditional(_) => crate::types::GRAPH_NODE_TYPE_CONDITIONAL,
            Self::MemoryOperations(_) => crate::types::GRAPH_NODE_TYPE_MEMORY_OPERATIONS,
        }
    }

    /// Not a copy or memset of several rows.
    pub fn is_linear(&self) -> bool {
        match self {
            Self::Copy(copy) => copy.extent.height * copy.extent.depth == 1,
            Self::Memset(set) => set.height == 1,
            _ => true,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Copy(_) => "memcpy",
            Self::Memset(_) => "memset",
            Self::Host(_) => "host",
            Self::Child(_) => "graph",
            Self::Empty => "empty",
            Self::EventWait(_) => "event wait",
            Self::EventRecord(_) => "event record",
            Self::Allocate { .. } => "allocate",
            Self::Free(_) => "free",
            Self::Conditional(_) => "conditional",
            Self::MemoryOperations(_) => "memory operations",
        }
    }

    /// The graphs that belong to the node.
    pub fn inner(&self) -> &[Id] {
        match self {
            Self::Child(child) => std::slice::from_ref(child),
            Self::Conditional(conditional) => &conditional.bodies,
            _ => &[],
        }
    }

    /// New parameters for the node that did `old`: a kernel's attributes stay.
    pub(super) fn instead_of(self, old: &Self) -> Self {
        match (self, old) {
            (Self::Kernel(new), Self::Kernel(old)) => Self::Kernel(Arc::new(new.with(old.attributes.clone()))),
            (new, _) => new,
        }
    }

    /// # Safety
    /// The parameters are as the kernel's signature says.
    pub unsafe fn kernel(params: *const KernelNodeParams) -> Outcome<Self> {
        // SAFETY: the program says that it is such a struct, or null.
        let params = unsafe { params.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        let launch = Launch {
            grid: params.gridDim,
            block: params.blockDim,
            shared_bytes: params.sharedMemBytes as usize,
            stream: std::ptr::null_mut(),
            cooperative: false,
            cluster: None,
        };
        if params.extra.is_null() {
            // SAFETY: the caller's promise.
            return unsafe { Self::launch(params.func, &launch, params.kernelParams) };
        }
        if !params.kernelParams.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let mut pointers = unsafe { packed(params.func, params.extra) }?;
        // SAFETY: as above; the pointers lead into the program's buffer.
        unsafe { Self::launch(params.func, &launch, pointers.as_mut_ptr()) }
    }

    /// # Safety
    /// As above.
    pub unsafe fn launch(function: *const c_void, launch: &Launch, args: *mut *mut c_void) -> Outcome<Self> {
        // SAFETY: the caller's promise.
        let prepared = unsafe { launch::prepare(function, launch, args) }?;
        let image = &prepared.signature.image;
        let mut parameters = vec![0; image.parameter_bytes as usize].into_boxed_slice();
        prepared.arguments.fill(&mut parameters);
        let start = parameters.as_mut_ptr();
        // SAFETY: the offset of a parameter lies in the buffer, which does not move.
        let pointers = image.parameters.iter().map(|place| unsafe { start.add(place.offset as usize) }.cast());
        Ok(Self::Kernel(Arc::new(KernelWork {
            kernel: prepared.kernel,
            grid: prepared.grid,
            block: prepared.block,
            shared_bytes: launch.shared_bytes as u32,
            cooperative: launch.cooperative,
            cluster: prepared.cluster,
            pointers: pointers.collect(),
            parameters,
            attributes: Attributes::of(launch.cooperative, prepared.cluster),
        })))
    }

    /// # Safety
    /// `params` is null or such a struct.
    pub unsafe fn memset(params: *const MemsetParams) -> Outcome<Self> {
        // SAFETY: the caller's promise.
        let params = *unsafe { params.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        memory::check_set(&params)?;
        Ok(Self::Memset(params))
    }

    /// # Safety
    /// `params` is null or such a struct.
    pub unsafe fn copy(params: *const Copy3D) -> Outcome<Self> {
        // SAFETY: the caller's promise.
        let parameters = *unsafe { params.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        let (to, from, extent) = memory::ends(&parameters)?;
        Ok(Self::Copy(Arc::new(CopyWork { to, from, extent, parameters })))
    }

    /// A copy of `count` bytes, as parameters of a copy of a box.
    pub fn line(dst: *mut c_void, src: *const c_void, count: usize, kind: CopyKind) -> Copy3D {
        let row = |ptr: *mut c_void| PitchedPtr { ptr, pitch: count, xsize: count, ysize: 1 };
        Copy3D {
            srcArray: std::ptr::null_mut(),
            srcPos: Pos::default(),
            srcPtr: row(src.cast_mut()),
            dstArray: std::ptr::null_mut(),
            dstPos: Pos::default(),
            dstPtr: row(dst),
            extent: crate::types::BoxExtent { width: count, height: 1, depth: 1 },
            kind,
        }
    }

    /// A copy to a variable.
    pub fn to_symbol(
        symbol: *const c_void,
        src: *const c_void,
        count: usize,
        offset: usize,
        kind: CopyKind,
    ) -> Outcome<Self> {
        let (to, from, extent) = memory::ends_to_symbol(symbol, src, count, offset, kind)?;
        Ok(Self::captured_copy(to, from, extent))
    }

    /// A copy from a variable.
    pub fn from_symbol(
        dst: *mut c_void,
        symbol: *const c_void,
        count: usize,
        offset: usize,
        kind: CopyKind,
    ) -> Outcome<Self> {
        let (to, from, extent) = memory::ends_from_symbol(dst, symbol, count, offset, kind)?;
        Ok(Self::captured_copy(to, from, extent))
    }

    /// A copy that a stream was asked to make.
    pub fn captured_copy(to: End, from: End, extent: Extent) -> Self {
        let pointer = |end: &End| {
            let Layout { pitch, slice } = end.layout();
            let rows = slice.checked_div(pitch).unwrap_or(0).max(extent.height);
            let (pitch, xsize, ysize) = (pitch as usize, extent.width as usize, rows as usize);
            PitchedPtr { ptr: end.pointer(), pitch, xsize, ysize }
        };
        let (dst, src) = (pointer(&to), pointer(&from));
        let mut parameters = Self::line(std::ptr::null_mut(), std::ptr::null(), 0, crate::types::MEMCPY_DEFAULT);
        (parameters.dstPtr, parameters.srcPtr) = (dst, src);
        let Extent { width, height, depth } = extent;
        parameters.extent =
            crate::types::BoxExtent { width: width as usize, height: height as usize, depth: depth as usize };
        Self::Copy(Arc::new(CopyWork { to, from, extent, parameters }))
    }

    /// # Safety
    /// `params` is null or such a struct.
    pub unsafe fn host(params: *const HostNodeParams) -> Outcome<Self> {
        // SAFETY: the caller's promise.
        let params = *unsafe { params.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        params.fn_.ok_or(Error::INVALID_VALUE)?;
        Ok(Self::Host(params))
    }
}

/// Where the parameters lie in a buffer that the program has packed as the kernel takes them. `extra` lists keys and
/// values: 1 is followed by the buffer, 2 by the place of its size, 0 is the end.
///
/// # Safety
/// `extra` is such a list, and the buffer has as many bytes as it says.
unsafe fn packed(function: *const c_void, extra: *mut *mut c_void) -> Outcome<Vec<*mut c_void>> {
    let (mut buffer, mut size, mut at) = (std::ptr::null_mut::<u8>(), None, 0);
    loop {
        // SAFETY: the caller's promise: the list goes on until its end.
        let (key, value) = match unsafe { extra.add(at).read() } as usize {
            0 => break,
            // SAFETY: as above.
            key => (key, unsafe { extra.add(at + 1).read() }),
        };
        match key {
            1 => buffer = value.cast(),
            // SAFETY: as above.
            2 => size = unsafe { value.cast::<usize>().as_ref() }.copied(),
            _ => return Err(Error::INVALID_VALUE),
        }
        at += 2;
    }
    let image = &kernel_of(function)?.signature()?.image;
    if image.parameters.is_empty() {
        return Ok(Vec::new());
    }
    if buffer.is_null() || size.is_none_or(|size| size < image.parameter_bytes as usize) {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: a parameter's offset lies in the buffer.
    Ok(image.parameters.iter().map(|place| unsafe { buffer.add(place.offset as usize) }.cast()).collect())
}

impl KernelWork {
    /// The same launch with these attributes.
    pub(super) fn with(&self, attributes: Attributes) -> Self {
        let cluster = attributes.cluster();
        let mut parameters = self.parameters.clone();
        let (old, new) = (self.parameters.as_ptr() as usize, parameters.as_mut_ptr());
        // SAFETY: a parameter's offset lies in the buffer, which does not move.
        let pointers = self.pointers.iter().map(|place| unsafe { new.add(*place as usize - old) }.cast());
        Self {
            kernel: self.kernel,
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            cooperative: attributes.cooperative(),
            cluster,
            pointers: pointers.collect(),
            parameters,
            attributes,
        }
    }

    pub fn parameters(&self) -> KernelNodeParams {
        let dim = |extents: [u32; 3]| crate::types::Dim3 { x: extents[0], y: extents[1], z: extents[2] };
        KernelNodeParams {
            func: self.kernel.address() as *mut c_void,
            gridDim: dim(self.grid),
            blockDim: dim(self.block),
            sharedMemBytes: self.shared_bytes,
            kernelParams: self.pointers.as_ptr().cast_mut(),
            extra: std::ptr::null_mut(),
        }
    }

    pub fn write(&self, w: &mut Writer, stream: u32) -> Outcome {
        let (function, shared) = (self.kernel.function()?, self.shared_bytes);
        let cluster = clusters::number(self.cluster);
        operation::launch(
            w,
            function,
            stream,
            self.grid,
            self.block,
            shared,
            self.cooperative,
            cluster,
            &self.parameters,
        );
        Ok(())
    }
}

impl CopyWork {
    pub fn parameters(&self) -> Copy3D {
        self.parameters
    }
}

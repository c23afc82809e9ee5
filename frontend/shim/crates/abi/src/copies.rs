//! Parameters of copies, allocations and pointer queries.

use std::ffi::{c_int, c_uint, c_void};

use crate::{cudaArray_t, cudaMemLocation};

pub type cudaMemcpyKind = c_int;
pub const cudaMemcpyHostToHost: cudaMemcpyKind = 0;
pub const cudaMemcpyHostToDevice: cudaMemcpyKind = 1;
pub const cudaMemcpyDeviceToHost: cudaMemcpyKind = 2;
pub const cudaMemcpyDeviceToDevice: cudaMemcpyKind = 3;
pub const cudaMemcpyDefault: cudaMemcpyKind = 4;

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct cudaExtent {
        pub width: usize,
        pub height: usize,
        pub depth: usize,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct cudaPos {
        pub x: usize,
        pub y: usize,
        pub z: usize,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaPitchedPtr {
        pub ptr: *mut c_void,
        pub pitch: usize,
        pub xsize: usize,
        pub ysize: usize,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaMemcpy3DParms {
        pub srcArray: cudaArray_t,
        pub srcPos: cudaPos,
        pub srcPtr: cudaPitchedPtr,
        pub dstArray: cudaArray_t,
        pub dstPos: cudaPos,
        pub dstPtr: cudaPitchedPtr,
        pub extent: cudaExtent,
        pub kind: cudaMemcpyKind,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaMemcpy3DPeerParms {
        pub srcArray: cudaArray_t,
        pub srcPos: cudaPos,
        pub srcPtr: cudaPitchedPtr,
        pub srcDevice: c_int,
        pub dstArray: cudaArray_t,
        pub dstPos: cudaPos,
        pub dstPtr: cudaPitchedPtr,
        pub dstDevice: c_int,
        pub extent: cudaExtent,
    }
}

/// Place in an array, in elements: cudaPos under another name.
pub type cudaOffset3D = cudaPos;

pub type cudaMemcpy3DOperandType = c_int;
pub const cudaMemcpyOperandTypePointer: cudaMemcpy3DOperandType = 1;
pub const cudaMemcpyOperandTypeArray: cudaMemcpy3DOperandType = 2;

/// The anonymous structure of an operand that is memory; lengths count elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OperandPointer {
    pub ptr: *mut c_void,
    pub rowLength: usize,
    pub layerHeight: usize,
    pub locHint: cudaMemLocation,
}

/// The anonymous structure of an operand that is an array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OperandArray {
    pub array: cudaArray_t,
    pub offset: cudaOffset3D,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union OperandUnion {
    pub ptr: OperandPointer,
    pub array: OperandArray,
}

c_struct! {
    #[derive(Clone, Copy)]
    pub struct cudaMemcpy3DOperand {
        pub type_: cudaMemcpy3DOperandType,
        pub op: OperandUnion,
    }
}

c_struct! {
    #[derive(Clone, Copy)]
    pub struct cudaMemcpy3DBatchOp {
        pub src: cudaMemcpy3DOperand,
        pub dst: cudaMemcpy3DOperand,
        pub extent: cudaExtent,
        pub srcAccessOrder: c_int,
        pub flags: c_uint,
    }
}

pub type cudaMemoryType = c_int;
pub const cudaMemoryTypeUnregistered: cudaMemoryType = 0;
pub const cudaMemoryTypeHost: cudaMemoryType = 1;
pub const cudaMemoryTypeDevice: cudaMemoryType = 2;
pub const cudaMemoryTypeManaged: cudaMemoryType = 3;

c_struct! {
    /// CUDA 12's whole structure and the part of CUDA 13's that is defined (reserved fields follow it there): what both
    /// libraries may write.
    #[derive(Clone, Copy, Debug)]
    pub struct cudaPointerAttributes {
        pub type_: cudaMemoryType,
        pub device: c_int,
        pub devicePointer: *mut c_void,
        pub hostPointer: *mut c_void,
    }
}

pub const cudaHostAllocDefault: c_uint = 0;
pub const cudaHostAllocPortable: c_uint = 1;
pub const cudaHostAllocMapped: c_uint = 2;
pub const cudaHostAllocWriteCombined: c_uint = 4;
pub const cudaHostRegisterDefault: c_uint = 0;
pub const cudaHostRegisterPortable: c_uint = 1;
pub const cudaHostRegisterMapped: c_uint = 2;
pub const cudaHostRegisterIoMemory: c_uint = 4;
pub const cudaHostRegisterReadOnly: c_uint = 8;

pub type cudaMemAllocationType = c_int;
pub const cudaMemAllocationTypePinned: cudaMemAllocationType = 1;
pub type cudaMemAccessFlags = c_int;
pub const cudaMemAccessFlagsProtNone: cudaMemAccessFlags = 0;
pub const cudaMemAccessFlagsProtReadWrite: cudaMemAccessFlags = 3;
pub const cudaMemLocationTypeDevice: c_int = 1;
pub type cudaMemPoolAttr = c_int;
pub const cudaMemPoolReuseFollowEventDependencies: cudaMemPoolAttr = 1;
pub const cudaMemPoolReuseAllowOpportunistic: cudaMemPoolAttr = 2;
pub const cudaMemPoolReuseAllowInternalDependencies: cudaMemPoolAttr = 3;
pub const cudaMemPoolAttrReleaseThreshold: cudaMemPoolAttr = 4;
pub const cudaMemPoolAttrReservedMemCurrent: cudaMemPoolAttr = 5;
pub const cudaMemPoolAttrReservedMemHigh: cudaMemPoolAttr = 6;
pub const cudaMemPoolAttrUsedMemCurrent: cudaMemPoolAttr = 7;
pub const cudaMemPoolAttrUsedMemHigh: cudaMemPoolAttr = 8;

/// Which attribute of a managed range is asked for: cudaMemRangeAttributeReadMostly (1) to
/// cudaMemRangeAttributeLastPrefetchLocationId (8).
pub type cudaMemRangeAttribute = c_int;
pub type cudaMemoryAdvise = c_int;

//! Copies of boxes as the driver API describes them (CUDA_MEMCPY3D), in the structure that the operations take, and back.
//!
//! Source: CUDA driver API, cuMemcpy3D.

use std::ffi::c_void;

use abi::driver::{
    CUarray, CUmemorytype, CUDA_MEMCPY3D, CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST,
    CU_MEMORYTYPE_UNIFIED,
};
use abi::{cudaExtent, cudaMemcpy3DParms, cudaPitchedPtr, cudaPos, CudaError};

use crate::call::CudaResult;
use crate::memory::array_of;

/// One end as CUDA_MEMCPY3D has it.
#[derive(Clone, Copy)]
struct Given {
    kind: CUmemorytype,
    position: [usize; 3],
    host: *mut c_void,
    device: u64,
    array: CUarray,
    pitch: usize,
    height: usize,
}

/// One end as cudaMemcpy3DParms has it.
struct End {
    pointer: cudaPitchedPtr,
    position: cudaPos,
    array: CUarray,
    /// Bytes of a texel, where it is an array.
    texel: Option<usize>,
}

impl Given {
    fn end(self, extent: [usize; 3]) -> CudaResult<End> {
        let Self { kind, position: [x, y, z], pitch, height, .. } = self;
        if kind == CU_MEMORYTYPE_ARRAY {
            let texel = usize::try_from(array_of(self.array)?.texel).map_err(|_| CudaError::INVALID_VALUE)?;
            if x % texel != 0 {
                return Err(CudaError::INVALID_VALUE);
            }
            let pointer = cudaPitchedPtr { ptr: std::ptr::null_mut(), pitch: 0, xsize: 0, ysize: 0 };
            return Ok(End {
                pointer,
                position: cudaPos { x: x / texel, y, z },
                array: self.array,
                texel: Some(texel),
            });
        }
        let start = match kind {
            CU_MEMORYTYPE_HOST => self.host,
            CU_MEMORYTYPE_DEVICE | CU_MEMORYTYPE_UNIFIED => self.device as *mut c_void,
            _ => return Err(CudaError::INVALID_VALUE),
        };
        // A pitch and a height that are left out are the box's own.
        let pitch = if pitch == 0 { extent[0] + x } else { pitch };
        let height = if height == 0 { extent[1] + y } else { height };
        let pointer = cudaPitchedPtr { ptr: start, pitch, xsize: pitch, ysize: height };
        Ok(End { pointer, position: cudaPos { x, y, z }, array: std::ptr::null_mut(), texel: None })
    }
}

/// # Errors
/// cudaErrorInvalidValue for unknown kinds of memory, and places within a texel.
pub fn parameters(given: &CUDA_MEMCPY3D) -> CudaResult<cudaMemcpy3DParms> {
    let extent = [given.WidthInBytes, given.Height, given.Depth];
    let from = Given {
        kind: given.srcMemoryType,
        position: [given.srcXInBytes, given.srcY, given.srcZ],
        host: given.srcHost.cast_mut(),
        device: given.srcDevice,
        array: given.srcArray,
        pitch: given.srcPitch,
        height: given.srcHeight,
    };
    let to = Given {
        kind: given.dstMemoryType,
        position: [given.dstXInBytes, given.dstY, given.dstZ],
        host: given.dstHost,
        device: given.dstDevice,
        array: given.dstArray,
        pitch: given.dstPitch,
        height: given.dstHeight,
    };
    let (from, to) = (from.end(extent)?, to.end(extent)?);
    let texel = to.texel.or(from.texel).unwrap_or(1);
    if given.srcLOD != 0 || given.dstLOD != 0 || !given.WidthInBytes.is_multiple_of(texel) {
        return Err(CudaError::INVALID_VALUE);
    }
    let on_host = |kind| kind == CU_MEMORYTYPE_HOST;
    let anywhere = [given.srcMemoryType, given.dstMemoryType].contains(&CU_MEMORYTYPE_UNIFIED);
    let kind = match (on_host(given.dstMemoryType), on_host(given.srcMemoryType)) {
        _ if anywhere => abi::cudaMemcpyDefault,
        (true, true) => abi::cudaMemcpyHostToHost,
        (false, true) => abi::cudaMemcpyHostToDevice,
        (true, false) => abi::cudaMemcpyDeviceToHost,
        (false, false) => abi::cudaMemcpyDeviceToDevice,
    };
    Ok(cudaMemcpy3DParms {
        srcArray: from.array,
        srcPos: from.position,
        srcPtr: from.pointer,
        dstArray: to.array,
        dstPos: to.position,
        dstPtr: to.pointer,
        extent: cudaExtent { width: given.WidthInBytes / texel, height: given.Height, depth: given.Depth },
        kind,
    })
}

/// The other way round. Memory of a copy whose kind says nothing is unified.
///
/// # Errors
/// As for an array that is no more.
pub fn described(given: &cudaMemcpy3DParms) -> CudaResult<CUDA_MEMCPY3D> {
    let texel =
        |array: CUarray| if array.is_null() { Ok(1) } else { array_of(array).map(|array| array.texel as usize) };
    let (from, to) = (texel(given.srcArray)?, texel(given.dstArray)?);
    let kind = |array: CUarray, host: &[i32]| match given.kind {
        _ if !array.is_null() => CU_MEMORYTYPE_ARRAY,
        abi::cudaMemcpyDefault => CU_MEMORYTYPE_UNIFIED,
        kind if host.contains(&kind) => CU_MEMORYTYPE_HOST,
        _ => CU_MEMORYTYPE_DEVICE,
    };
    let src = kind(given.srcArray, &[abi::cudaMemcpyHostToHost, abi::cudaMemcpyHostToDevice]);
    let dst = kind(given.dstArray, &[abi::cudaMemcpyHostToHost, abi::cudaMemcpyDeviceToHost]);
    let host =
        |kind, pointer: &cudaPitchedPtr| if kind == CU_MEMORYTYPE_HOST { pointer.ptr } else { std::ptr::null_mut() };
    let device = |kind, pointer: &cudaPitchedPtr| if kind == CU_MEMORYTYPE_HOST { 0 } else { pointer.ptr as u64 };
    Ok(CUDA_MEMCPY3D {
        srcXInBytes: given.srcPos.x * from,
        srcY: given.srcPos.y,
        srcZ: given.srcPos.z,
        srcLOD: 0,
        srcMemoryType: src,
        srcHost: host(src, &given.srcPtr),
        srcDevice: device(src, &given.srcPtr),
        srcArray: given.srcArray,
        reserved0: std::ptr::null_mut(),
        srcPitch: given.srcPtr.pitch,
        srcHeight: given.srcPtr.ysize,
        dstXInBytes: given.dstPos.x * to,
        dstY: given.dstPos.y,
        dstZ: given.dstPos.z,
        dstLOD: 0,
        dstMemoryType: dst,
        dstHost: host(dst, &given.dstPtr),
        dstDevice: device(dst, &given.dstPtr),
        dstArray: given.dstArray,
        reserved1: std::ptr::null_mut(),
        dstPitch: given.dstPtr.pitch,
        dstHeight: given.dstPtr.ysize,
        WidthInBytes: given.extent.width * from.max(to),
        Height: given.extent.height,
        Depth: given.extent.depth,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_come_back_as_they_were_given() {
        // SAFETY: an all-zero value of this C structure is valid.
        let mut given: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
        (given.srcMemoryType, given.srcHost, given.srcPitch, given.srcHeight) =
            (CU_MEMORYTYPE_HOST, 0x1000 as *const c_void, 64, 8);
        (given.dstMemoryType, given.dstDevice) = (CU_MEMORYTYPE_DEVICE, 0x2000);
        (given.WidthInBytes, given.Height, given.Depth, given.srcXInBytes, given.srcY) = (16, 4, 2, 8, 3);
        let made = parameters(&given).unwrap();
        assert_eq!((made.kind, made.srcPtr.pitch, made.dstPtr.pitch), (abi::cudaMemcpyHostToDevice, 64, 16));
        assert_eq!((made.srcPos.x, made.srcPos.y, made.dstPtr.ysize), (8, 3, 4));
        let again = described(&made).unwrap();
        assert_eq!((again.srcMemoryType, again.srcHost, again.dstDevice), (CU_MEMORYTYPE_HOST, given.srcHost, 0x2000));
        assert_eq!((again.WidthInBytes, again.srcXInBytes, again.dstMemoryType), (16, 8, CU_MEMORYTYPE_DEVICE));
        given.srcMemoryType = 9;
        assert_eq!(parameters(&given).err(), Some(CudaError::INVALID_VALUE));
    }
}

//! Copies of boxes as the driver API describes them (CUDA_MEMCPY3D), in the structure that the operations take, and
//! back.
//!
//! Source: CUDA driver API, cuMemcpy3D.

use std::ffi::c_void;

use abi::driver::{
    CUarray, CUmemorytype, CUDA_MEMCPY3D, CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST,
    CU_MEMORYTYPE_UNIFIED,
};
use operations::memory::array_of;
use operations::types::{BoxExtent, Copy3D, PitchedPtr, Pos};
use session::call::{Error, Outcome};

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
    pointer: PitchedPtr,
    position: Pos,
    array: CUarray,
    /// Bytes of a texel, where it is an array.
    texel: Option<usize>,
}

impl Given {
    fn end(self, extent: [usize; 3]) -> Outcome<End> {
        let Self { kind, position: [x, y, z], pitch, height, .. } = self;
        if kind == CU_MEMORYTYPE_ARRAY {
            let texel = usize::try_from(array_of(self.array)?.texel).map_err(|_| Error::INVALID_VALUE)?;
            if x % texel != 0 {
                return Err(Error::INVALID_VALUE);
            }
            let pointer = PitchedPtr { ptr: std::ptr::null_mut(), pitch: 0, xsize: 0, ysize: 0 };
            return Ok(End { pointer, position: Pos { x: x / texel, y, z }, array: self.array, texel: Some(texel) });
        }
        let start = match kind {
            CU_MEMORYTYPE_HOST => self.host,
            CU_MEMORYTYPE_DEVICE | CU_MEMORYTYPE_UNIFIED => self.device as *mut c_void,
            _ => return Err(Error::INVALID_VALUE),
        };
        // A pitch and a height that are left out are the box's own.
        let pitch = if pitch == 0 { extent[0] + x } else { pitch };
        let height = if height == 0 { extent[1] + y } else { height };
        let pointer = PitchedPtr { ptr: start, pitch, xsize: pitch, ysize: height };
        Ok(End { pointer, position: Pos { x, y, z }, array: std::ptr::null_mut(), texel: None })
    }
}

/// # Errors
/// cudaErrorInvalidValue for unknown kinds of memory, and places within a texel.
pub fn parameters(given: &CUDA_MEMCPY3D) -> Outcome<Copy3D> {
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
        return Err(Error::INVALID_VALUE);
    }
    let on_host = |kind| kind == CU_MEMORYTYPE_HOST;
    let anywhere = [given.srcMemoryType, given.dstMemoryType].contains(&CU_MEMORYTYPE_UNIFIED);
    let kind = match (on_host(given.dstMemoryType), on_host(given.srcMemoryType)) {
        _ if anywhere => operations::types::MEMCPY_DEFAULT,
        (true, true) => operations::types::MEMCPY_HOST_TO_HOST,
        (false, true) => operations::types::MEMCPY_HOST_TO_DEVICE,
        (true, false) => operations::types::MEMCPY_DEVICE_TO_HOST,
        (false, false) => operations::types::MEMCPY_DEVICE_TO_DEVICE,
    };
    Ok(Copy3D {
        srcArray: from.array,
        srcPos: from.position,
        srcPtr: from.pointer,
        dstArray: to.array,
        dstPos: to.position,
        dstPtr: to.pointer,
        extent: BoxExtent { width: given.WidthInBytes / texel, height: given.Height, depth: given.Depth },
        kind,
    })
}

/// The other way round. Memory of a copy whose kind says nothing is unified.
///
/// # Errors
/// As for an array that is no more.
pub fn described(given: &Copy3D) -> Outcome<CUDA_MEMCPY3D> {
    let texel =
        |array: CUarray| if array.is_null() { Ok(1) } else { array_of(array).map(|array| array.texel as usize) };
    let (from, to) = (texel(given.srcArray)?, texel(given.dstArray)?);
    let kind = |array: CUarray, host: &[i32]| match given.kind {
        _ if !array.is_null() => CU_MEMORYTYPE_ARRAY,
        operations::types::MEMCPY_DEFAULT => CU_MEMORYTYPE_UNIFIED,
        kind if host.contains(&kind) => CU_MEMORYTYPE_HOST,
        _ => CU_MEMORYTYPE_DEVICE,
    };
    let src = kind(given.srcArray, &[operations::types::MEMCPY_HOST_TO_HOST, operations::types::MEMCPY_HOST_TO_DEVICE]);
    let dst = kind(given.dstArray, &[operations::types::MEMCPY_HOST_TO_HOST, operations::types::MEMCPY_DEVICE_TO_HOST]);
    let host = |kind, pointer: &PitchedPtr| if kind == CU_MEMORYTYPE_HOST { pointer.ptr } else { std::ptr::null_mut() };
    let device = |kind, pointer: &PitchedPtr| if kind == CU_MEMORYTYPE_HOST { 0 } else { pointer.ptr as u64 };
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
        assert_eq!(
            (made.kind, made.srcPtr.pitch, made.dstPtr.pitch),
            (operations::types::MEMCPY_HOST_TO_DEVICE, 64, 16)
        );
        assert_eq!((made.srcPos.x, made.srcPos.y, made.dstPtr.ysize), (8, 3, 4));
        let again = described(&made).unwrap();
        assert_eq!((again.srcMemoryType, again.srcHost, again.dstDevice), (CU_MEMORYTYPE_HOST, given.srcHost, 0x2000));
        assert_eq!((again.WidthInBytes, again.srcXInBytes, again.dstMemoryType), (16, 8, CU_MEMORYTYPE_DEVICE));
        given.srcMemoryType = 9;
        assert_eq!(parameters(&given).err(), Some(Error::INVALID_VALUE));
    }
}

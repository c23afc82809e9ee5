//! From the program's array of pointers to the parameter buffer that the image describes.

use std::ffi::c_void;

use image::Kernel;
use session::call::{Error, Outcome};

/// The pointers, checked: one for each parameter, none of them null.
pub struct Arguments<'a> {
    kernel: &'a Kernel,
    pointers: *mut *mut c_void,
}

impl<'a> Arguments<'a> {
    /// # Safety `pointers` has one pointer for each parameter of the kernel, each to as many bytes as the parameter
    /// has; all of it stays so while this value lives.
    ///
    /// # Errors
    /// cudaErrorInvalidValue when a pointer is null.
    #[inline]
    pub unsafe fn new(kernel: &'a Kernel, pointers: *mut *mut c_void) -> Outcome<Arguments<'a>> {
        let count = kernel.parameters.len();
        if count > 0 && pointers.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        for index in 0..count {
            // SAFETY: the caller's promise.
            if unsafe { pointers.add(index).read_unaligned() }.is_null() {
                return Err(Error::INVALID_VALUE);
            }
        }
        Ok(Arguments { kernel, pointers })
    }

    /// Where the parameters stand in the program's memory, each with its length.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.kernel.parameters.iter().enumerate().map(|(index, place)| {
            // SAFETY: the promise made to `new`.
            let source = unsafe { self.pointers.add(index).read_unaligned() };
            (source as usize, place.size as usize)
        })
    }

    /// Every value that may be an address: the aligned words of each parameter.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.kernel.parameters.iter().enumerate().flat_map(|(index, place)| {
            // SAFETY: the promise made to `new`.
            let source = unsafe { self.pointers.add(index).read_unaligned() }.cast::<u64>();
            // SAFETY: as above; whole words of the parameter.
            (0..place.size as usize / 8).map(move |word| unsafe { source.add(word).read_unaligned() })
        })
    }

    /// Fills the parameter buffer, which is zero and has `parameter_bytes` bytes.
    #[inline]
    pub fn fill(&self, buffer: &mut [u8]) {
        for (index, place) in self.kernel.parameters.iter().enumerate() {
            let (start, size) = (place.offset as usize, place.size as usize);
            let target = &mut buffer[start..start + size];
            // SAFETY: the promise made to `new`.
            unsafe {
                let source = self.pointers.add(index).read_unaligned().cast::<u8>();
                match size {
                    // Nearly all parameters: no call for each.
                    4 => std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), 4),
                    8 => std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), 8),
                    _ => std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), size),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Parameter;

    #[test]
    fn parameters_go_to_their_places_and_gaps_stay_zero() {
        let places = [(0, 1), (8, 8), (16, 3)].map(|(offset, size)| Parameter { offset, size });
        let kernel = Kernel { parameters: places.to_vec(), parameter_bytes: 19, ..Kernel::default() };
        let (mut a, mut b, mut c) = (0xffu8, u64::MAX - 1, [1u8, 2, 3]);
        let mut pointers: [*mut c_void; 3] = [(&raw mut a).cast(), (&raw mut b).cast(), (&raw mut c).cast()];
        let mut buffer = [0u8; 19];
        // SAFETY: three pointers to values of the sizes above.
        unsafe { Arguments::new(&kernel, pointers.as_mut_ptr()) }.unwrap().fill(&mut buffer);
        assert_eq!(buffer[..8], [0xff, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(buffer[8..16], (u64::MAX - 1).to_le_bytes());
        assert_eq!(buffer[16..], [1, 2, 3]);
        // SAFETY: as above.
        let arguments = unsafe { Arguments::new(&kernel, pointers.as_mut_ptr()) }.unwrap();
        assert!(arguments.words().eq([u64::MAX - 1]));
    }

    #[test]
    fn missing_pointers_are_an_error() {
        let kernel =
            Kernel { parameters: vec![Parameter { offset: 0, size: 4 }], parameter_bytes: 4, ..Kernel::default() };
        let mut pointers: [*mut c_void; 1] = [std::ptr::null_mut()];
        // SAFETY: null pointers are not followed.
        unsafe {
            assert!(Arguments::new(&kernel, pointers.as_mut_ptr()).is_err());
            assert!(Arguments::new(&kernel, std::ptr::null_mut()).is_err());
            assert!(Arguments::new(&Kernel::default(), std::ptr::null_mut()).is_ok());
        }
    }
}

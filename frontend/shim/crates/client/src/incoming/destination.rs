//! Memory of the program that a read fills.

/// Where a read goes: `height` rows of `width` bytes, `pitch` bytes apart.
#[derive(Debug, Clone, Copy)]
pub struct Destination {
    pub ptr: *mut u8,
    pub pitch: usize,
    pub width: usize,
    pub height: usize,
}

impl Destination {
    /// Copies packed bytes, which start `offset` bytes into the packed rows, to where they belong.
    ///
    /// # Safety
    /// `offset + data.len()` is at most `width * height`, and the rows are writable.
    pub(crate) unsafe fn store(&self, offset: u64, mut data: &[u8]) {
        #[allow(clippy::cast_possible_truncation)] // at most width * height, which fits the address space
        let offset = offset as usize;
        if data.is_empty() {
            return;
        }
        let (mut row, mut column) = (offset / self.width, offset % self.width);
        while !data.is_empty() {
            let piece = data.len().min(self.width - column);
            // SAFETY: row < height and column + piece <= width, by the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.ptr.add(row * self.pitch + column), piece) };
            data = &data[piece..];
            row += 1;
            column = 0;
        }
    }
}

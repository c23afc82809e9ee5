//! The shapes of copies and sets: boxes of rows, reduced to the plain ranges and row sets that the tape's operations
//! take.
//!
//! Pure arithmetic on addresses; knows neither the tape nor what lies at an address. All of it is overflow-checked,
//! because the numbers are the program's.

/// `depth` slices of `height` rows of `width` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl Extent {
    pub const fn line(width: u64) -> Self {
        Self { width, height: 1, depth: 1 }
    }

    pub const fn plane(width: u64, height: u64) -> Self {
        Self { width, height, depth: 1 }
    }

    pub const fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }
}

/// How a box lies in memory: bytes from row to row and from slice to slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub pitch: u64,
    pub slice: u64,
}

impl Layout {
    /// One row, or one slice of rows: the slice distance is of no consequence.
    pub const fn plane(pitch: u64) -> Self {
        Self { pitch, slice: 0 }
    }

    /// Bytes from the first byte of the box to the end of its last row; `None` when that overflows.
    pub fn span(&self, extent: &Extent) -> Option<u64> {
        if extent.is_empty() {
            return Some(0);
        }
        let rows = self.pitch.checked_mul(extent.height - 1)?;
        let slices = self.slice.checked_mul(extent.depth - 1)?;
        rows.checked_add(slices)?.checked_add(extent.width)
    }
}

/// Rows at offsets from the start of the source and of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub to: u64,
    pub from: u64,
    pub width: u64,
    pub height: u64,
}

/// Cuts a box into the fewest row sets: one when the slices of both sides follow each other as their rows do, otherwise
/// one for each slice. Rows that touch on both sides become one row. The spans were checked.
pub fn parts(extent: Extent, to: Layout, from: Layout) -> impl Iterator<Item = Part> {
    let Extent { mut width, mut height, mut depth } = extent;
    if extent.is_empty() {
        depth = 0;
    }
    let joined = |side: &Layout| side.pitch.checked_mul(height) == Some(side.slice);
    if depth > 1 && joined(&to) && joined(&from) {
        height *= depth;
        depth = 1;
    }
    if height > 1 && to.pitch == width && from.pitch == width {
        width *= height;
        height = 1;
    }
    (0..depth).map(move |slice| Part { to: slice * to.slice, from: slice * from.slice, width, height })
}

/// Cuts rows into pieces of at most `limit` bytes: several rows each, or parts of one row when rows are longer than
/// that. Offsets count from the part's own, with the given pitches.
pub fn pieces(part: Part, to_pitch: u64, from_pitch: u64, limit: u64) -> impl Iterator<Item = Part> {
    let rows = (limit / part.width.max(1)).max(1);
    let step = part.width.min(limit).max(1);
    let starts = (0..part.height).step_by(usize::try_from(rows).unwrap_or(usize::MAX));
    starts.flat_map(move |row| {
        let height = rows.min(part.height - row);
        let columns = (0..part.width).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        columns.map(move |column| Part {
            to: part.to + row * to_pitch + column,
            from: part.from + row * from_pitch + column,
            width: step.min(part.width - column),
            height,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(extent: Extent, to: Layout, from: Layout) -> Vec<(u64, u64, u64, u64)> {
        parts(extent, to, from).map(|p| (p.to, p.from, p.width, p.height)).collect()
    }

    #[test]
    fn rows_and_slices_that_touch_are_joined() {
        let tight = Layout { pitch: 8, slice: 32 };
        let box_ = Extent { width: 8, height: 4, depth: 3 };
        assert_eq!(cut(box_, tight, tight), [(0, 0, 96, 1)]);
        let pitched = Layout { pitch: 512, slice: 2048 };
        assert_eq!(cut(box_, tight, pitched), [(0, 0, 8, 12)]);
        assert_eq!(
            cut(box_, Layout { pitch: 8, slice: 64 }, tight),
            [(0, 0, 32, 1), (64, 32, 32, 1), (128, 64, 32, 1)]
        );
    }

    #[test]
    fn empty_boxes_have_no_parts_and_no_span() {
        for (width, height, depth) in [(0, 4, 4), (4, 0, 4), (4, 4, 0)] {
            let extent = Extent { width, height, depth };
            let layout = Layout { pitch: u64::MAX, slice: u64::MAX };
            assert_eq!((cut(extent, layout, layout), layout.span(&extent)), (vec![], Some(0)));
        }
    }

    #[test]
    fn spans_end_with_the_last_row_and_never_overflow() {
        let layout = Layout { pitch: 512, slice: 4096 };
        assert_eq!(layout.span(&Extent { width: 10, height: 3, depth: 2 }), Some(4096 + 1024 + 10));
        assert_eq!(Layout { pitch: 1 << 40, slice: 0 }.span(&Extent::plane(1, 1 << 40)), None);
        assert_eq!(Layout::plane(2).span(&Extent::plane(u64::MAX, 2)), None);
        assert_eq!(Layout::plane(u64::MAX).span(&Extent::line(7)), Some(7));
    }

    #[test]
    fn pieces_cover_every_byte_once_and_stay_within_the_limit() {
        for (width, height, to_pitch, from_pitch, limit) in [
            (10, 7, 16, 12, 25),
            (10, 7, 16, 12, 4),
            (100, 1, 0, 0, 30),
            (3, 3, 3, 3, 1),
            (5, 1, 5, 5, 5),
            (8, 64, 9, 8, 64),
        ] {
            let part = Part { to: 1000, from: 5, width, height };
            let mut seen = std::collections::BTreeMap::new();
            for piece in pieces(part, to_pitch, from_pitch, limit) {
                assert!(piece.width * piece.height <= limit && piece.height > 0);
                for (row, column) in (0..piece.height).flat_map(|r| (0..piece.width).map(move |c| (r, c))) {
                    let to = piece.to + row * to_pitch + column;
                    assert_eq!(seen.insert(to, piece.from + row * from_pitch + column), None);
                }
            }
            let all =
                (0..height).flat_map(|r| (0..width).map(move |c| (1000 + r * to_pitch + c, 5 + r * from_pitch + c)));
            assert!(seen.into_iter().eq(all), "{width} {height} {limit}");
        }
    }

    #[test]
    fn long_plain_ranges_are_cut_in_order() {
        let part = Part { to: 0, from: 0, width: (2 << 20) + 5, height: 1 };
        let cut: Vec<_> = pieces(part, 0, 0, 1 << 20).map(|p| (p.to, p.width)).collect();
        assert_eq!(cut, [(0, 1 << 20), (1 << 20, 1 << 20), (2 << 20, 5)]);
    }
}

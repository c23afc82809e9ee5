//! Where deferred copies will be written: a bounded set of ranges that holds at least what was added.

/// More are joined to the nearest.
const MOST: usize = 64;

#[derive(Debug)]
pub struct Ranges(Vec<(usize, usize)>);

impl Ranges {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub fn add(&mut self, start: usize, end: usize) {
        if let Some(near) = self.0.iter_mut().rev().find(|(low, high)| *low <= end && start <= *high) {
            *near = (near.0.min(start), near.1.max(end));
            return;
        }
        if self.0.len() < MOST {
            self.0.push((start, end));
            return;
        }
        let distance = |range: &(usize, usize)| if range.0 > end { range.0 - end } else { start - range.1 };
        if let Some(near) = self.0.iter_mut().min_by_key(|range| distance(range)) {
            *near = (near.0.min(start), near.1.max(end));
        }
    }

    pub fn touch(&self, start: usize, end: usize) -> bool {
        self.0.iter().any(|(low, high)| *low < end && start < *high)
    }

    /// Forgets everything, unless it is needed again.
    pub fn clear_unless(&mut self, needed: impl Fn() -> bool) {
        if !needed() {
            self.0.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_touched_however_much_it_is() {
        let mut ranges = Ranges::new();
        assert!(!ranges.touch(0, usize::MAX));
        for index in 0..1000 {
            ranges.add(index * 100, index * 100 + 10);
            ranges.add(index * 100 + 10, index * 100 + 20);
        }
        assert!(ranges.0.len() <= MOST);
        for index in 0..1000 {
            assert!(ranges.touch(index * 100 + 19, index * 100 + 20) && ranges.touch(index * 100, index * 100 + 1));
        }
        assert!(!ranges.touch(20, 100) && !ranges.touch(99_920, usize::MAX));
        ranges.clear_unless(|| true);
        assert!(ranges.touch(0, 1));
        ranges.clear_unless(|| false);
        assert!(!ranges.touch(0, usize::MAX));
    }
}

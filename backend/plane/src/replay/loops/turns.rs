//! Iterations of a template that are to be done, and the values of their holes.

use super::columns::Columns;
use super::template::Template;
use std::sync::Arc;

/// Iterations of a template, from one on.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    pub(crate) template: Arc<Template>,
    /// The values of the holes.
    pub(crate) columns: Arc<Columns>,
    /// The next iteration.
    pub(crate) at: u64,
    /// Iterations that are to be done.
    pub(crate) left: u64,
    /// The values that are the same in every iteration are in the body.
    begun: bool,
}

impl Turns {
    pub(crate) fn new(template: Arc<Template>, columns: Arc<Columns>, first: u64, count: u64) -> Self {
        Self { template, columns, at: first, left: count, begun: false }
    }

    /// Makes `body` the records of the next iteration. It is the template's, or what the call before has made of it.
    pub(crate) fn fill(&mut self, body: &mut [u8]) {
        let columns = &self.columns;
        for (index, hole) in self.template.holes.iter().enumerate() {
            if self.begun && columns.fixed(index) {
                continue;
            }
            let width = usize::from(hole.width);
            let value = columns.value(index, self.at).to_le_bytes();
            body[hole.offset..hole.offset + width].copy_from_slice(&value[..width]);
        }
        self.begun = true;
    }

    /// The same, for a body that was not filled yet.
    pub(crate) fn again(mut self) -> Self {
        self.begun = false;
        self
    }

    /// So many iterations are done.
    pub(crate) fn advance(&mut self, count: u64) {
        self.at = self.at.wrapping_add(count);
        self.left -= count.min(self.left);
    }
}

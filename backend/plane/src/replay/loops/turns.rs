//! Iterations of a template that are to be done, and where the values of their holes come from.

use super::columns::Columns;
use super::template::Template;
use std::sync::Arc;

/// Where the values of the holes come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A REPEAT's columns: known for every iteration before the first one.
    Columns(Arc<Columns>),
}

/// Iterations of a template, from one on.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    pub(crate) template: Arc<Template>,
    pub(crate) source: Source,
    /// The next iteration.
    pub(crate) at: u64,
    /// Iterations that are to be done.
    pub(crate) left: u64,
    /// The values that are the same in every iteration are in the body.
    begun: bool,
}

impl Turns {
    pub(crate) fn new(template: Arc<Template>, columns: Arc<Columns>, first: u64, count: u64) -> Self {
        Self { template, source: Source::Columns(columns), at: first, left: count, begun: false }
    }

    /// The columns, where all iterations' values are known: only such loops can be a device's own.
    pub(crate) fn columns(&self) -> Option<&Arc<Columns>> {
        let Source::Columns(columns) = &self.source;
        Some(columns)
    }

    /// Makes `body` the records of the next iteration. It is the template's, or what the call before has made of it.
    pub(crate) fn fill(&mut self, body: &mut [u8]) {
        let Source::Columns(columns) = &self.source;
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

//! Which shared memory of the module a kernel uses: what it and the functions it reaches mention.
//!
//! nvcc declares a kernel's own `__shared__` variables in its body, those of device functions at module scope. A name
//! must be declared before it is mentioned (PTX ISA), so one pass suffices.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::body::Body;
use super::declaration::Declaration;
use crate::error::Error;

/// ptxas rounds a kernel's shared memory up to this many bytes.
const GRANULE: u64 = 16;

/// A name of module scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Name {
    Shared(u32),
    Function(u32),
}

#[derive(Debug, Default)]
struct Node {
    shared: Vec<(u64, u64)>,
    mentions: Vec<Name>,
}

/// Module-scope shared variables, functions, and who mentions them.
#[derive(Debug, Default)]
pub(super) struct References<'a> {
    names: HashMap<&'a [u8], Name>,
    /// Size and alignment of each module-scope shared variable.
    shared: Vec<(u64, u64)>,
    bodies: HashMap<&'a str, Node>,
    functions: Vec<&'a str>,
}

/// Bytes used after placing variables (size, alignment) in order behind `used` bytes.
pub(super) fn laid_out(used: u64, variables: impl Iterator<Item = (u64, u64)>) -> u64 {
    variables.fold(used, |used, (size, align)| {
        used.checked_next_multiple_of(align.max(1)).and_then(|start| start.checked_add(size)).unwrap_or(u64::MAX)
    })
}

impl<'a> References<'a> {
    /// Whether bodies can mention anything of interest.
    pub(super) fn matter(&self) -> bool {
        !self.names.is_empty()
    }

    pub(super) fn find(&self, word: &[u8]) -> Option<Name> {
        self.names.get(word).copied()
    }

    pub(super) fn declare_function(&mut self, name: &'a str) {
        let number = self.functions.len() as u32;
        if self.declare(name, Name::Function(number)) {
            self.functions.push(name);
        }
    }

    pub(super) fn declare_shared(&mut self, variable: Declaration<'a>) {
        let Some(size) = variable.size else { return };
        let number = self.shared.len() as u32;
        if self.declare(variable.name, Name::Shared(number)) {
            self.shared.push((size, variable.align));
        }
    }

    /// False when the name is there already (a prototype before the definition).
    fn declare(&mut self, name: &'a str, value: Name) -> bool {
        match self.names.entry(name.as_bytes()) {
            Entry::Vacant(vacant) => {
                vacant.insert(value);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    pub(super) fn add_body(&mut self, name: &'a str, body: Body) {
        self.bodies.insert(name, Node { shared: body.shared, mentions: body.mentions });
    }

    /// Bytes of shared memory that a kernel declares or reaches.
    ///
    /// # Errors
    /// When following the calls takes more than `budget` steps, which are used up.
    pub(super) fn shared_bytes(&self, kernel: &str, budget: &mut usize) -> Result<u64, Error> {
        let Some(start) = self.bodies.get(kernel) else { return Ok(0) };
        let mut used = laid_out(0, start.shared.iter().copied());
        let mut seen: Vec<Name> = start.mentions.clone();
        let mut position = 0;
        let mut known: HashSet<Name> = seen.iter().copied().collect();
        while let Some(name) = seen.get(position).copied() {
            position += 1;
            match name {
                Name::Shared(number) => used = laid_out(used, self.shared.get(number as usize).copied().into_iter()),
                Name::Function(number) => {
                    let body = self.functions.get(number as usize).and_then(|name| self.bodies.get(name));
                    let Some(body) = body else { continue };
                    *budget = budget.checked_sub(1 + body.mentions.len()).ok_or_else(too_entangled)?;
                    used = laid_out(used, body.shared.iter().copied());
                    seen.extend(body.mentions.iter().filter(|name| known.insert(**name)));
                }
            }
        }
        Ok(used.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX))
    }
}

fn too_entangled() -> Error {
    Error::too_large("a module whose functions call each other too often")
}

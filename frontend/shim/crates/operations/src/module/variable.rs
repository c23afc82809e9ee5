//! One `__device__` or `__constant__` variable: its name, its handle on the host, its address once that was asked for.

use std::sync::Mutex;

use tape::generated_operations as operation;
use tape::Writer;

use super::code::Module;
use super::loading;
use super::of_context::OfContext;
use crate::memory::addresses;
use session::call::{Error, Outcome};
use session::process::HandleKind;
use session::work;

/// Variables whose addresses are asked for at once: few modules have more.
const MOST_AT_ONCE: usize = 128;

#[derive(Debug)]
pub struct Variable {
    pub module: &'static Module,
    name: String,
    pub size: usize,
    minted: OfContext,
    /// Addresses, each with the handle of the variable that lies there.
    addresses: Mutex<Vec<(u32, u64)>>,
}

impl Variable {
    pub fn new(module: &'static Module, name: String, size: usize) -> Variable {
        Variable { module, name, size, minted: OfContext::default(), addresses: Mutex::default() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its handle on the tape, opened now if it was not.
    pub fn handle(&self) -> Outcome<u32> {
        if let Some(handle) = self.minted.get() {
            return Ok(handle);
        }
        self.module.open_part(&self.minted, HandleKind::Variable, |w, handle, module| {
            self.write_open(w, handle, module);
        })
    }

    fn write_open(&self, w: &mut Writer, handle: u32, module: u32) {
        operation::variable_open(w, handle, module, self.size as u64, self.name.as_bytes());
    }

    /// Its device address. Where it is not known, the host is asked for it and for the module's other variables: one
    /// round trip for all.
    pub fn address(&self) -> Outcome<u64> {
        if let Some(address) = self.known_address() {
            return Ok(address);
        }
        let _asking = self.module.ask_alone();
        if let Some(address) = self.known_address() {
            return Ok(address);
        }
        let others = loading::variables(self.module)?;
        let others = others.into_iter().filter(|other| !std::ptr::eq(*other, self) && other.known_address().is_none());
        let asked: Vec<&Variable> = std::iter::once(self).chain(others).take(MOST_AT_ONCE).collect();
        let minted: Vec<&OfContext> = asked.iter().map(|variable| &variable.minted).collect();
        self.module.open_parts(&minted, HandleKind::Variable, |w, index, handle, module| {
            asked[index].write_open(w, handle, module);
        })?;
        let handle = |minted: &&OfContext| minted.get().ok_or(Error::UNKNOWN);
        let handles: Vec<u32> = minted.iter().map(handle).collect::<Outcome<_>>()?;
        let answers = work::request_all(handles.len(), |w, slot| {
            for (place, handle) in (0u32..).zip(&handles) {
                operation::variable_address(w, *handle, slot + place);
            }
        })?;
        for ((variable, handle), answer) in asked.iter().zip(handles).zip(answers) {
            // One that the host does not find is refused when the program asks for it.
            let Ok(address) = answer else { continue };
            addresses()?.tell(address, variable.size as u64);
            variable.lock().push((handle, address));
        }
        self.known_address().ok_or(Error::UNKNOWN)
    }

    /// Its address in the context that the calling thread works for.
    fn known_address(&self) -> Option<u64> {
        let handle = self.minted.get()?;
        self.lock().iter().find(|(of, _)| *of == handle).map(|(_, address)| *address)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(u32, u64)>> {
        self.addresses.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

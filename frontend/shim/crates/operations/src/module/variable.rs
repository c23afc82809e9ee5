//! One `__device__` or `__constant__` variable: its name, its handle on the host, its address once that was asked for.

use std::sync::Mutex;

use tape::generated_operations as operation;

use super::code::{Module, OfContext};
use crate::memory::addresses;
use session::call::Outcome;
use session::process::HandleKind;
use session::work;

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
            operation::variable_open(w, handle, module, self.size as u64, self.name.as_bytes());
        })
    }

    /// Its device address: one round trip, the first time.
    pub fn address(&self) -> Outcome<u64> {
        let handle = self.handle()?;
        let mut known = self.addresses.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, address)) = known.iter().find(|(of, _)| *of == handle) {
            return Ok(*address);
        }
        let address = work::request(|w, slot| operation::variable_address(w, handle, slot))?;
        addresses()?.tell(address, self.size as u64);
        known.push((handle, address));
        Ok(address)
    }
}

//! How a program finds a device: by PCI address, or by the properties it wants.

use std::ffi::{c_char, c_int, CStr};

use crate::types::{
    DEV_ATTR_MULTI_PROCESSOR_COUNT, DEV_ATTR_PCI_BUS_ID, DEV_ATTR_PCI_DEVICE_ID, DEV_ATTR_PCI_DOMAIN_ID,
};
use session::call::{Error, Outcome};
use session::process::{self, Device};

use super::{attribute, device_of, give};

/// A PCI address without its function, which CUDA ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PciAddress {
    domain: u32,
    bus: u32,
    device: u32,
}

/// `[domain:]bus:device[.function]`, in hexadecimal.
fn parse_address(text: &str) -> Option<PciAddress> {
    let (address, function) =
        text.rsplit_once('.').map_or((text, None), |(address, function)| (address, Some(function)));
    if function.is_some_and(|function| hexadecimal(function, 0xf).is_none()) {
        return None;
    }
    let parts: Vec<&str> = address.split(':').collect();
    let (domain, bus, device) = match parts.as_slice() {
        [domain, bus, device] => (hexadecimal(domain, u32::MAX)?, bus, device),
        [bus, device] => (0, bus, device),
        _ => return None,
    };
    Some(PciAddress { domain, bus: hexadecimal(bus, 0xff)?, device: hexadecimal(device, 0x1f)? })
}

fn hexadecimal(text: &str, limit: u32) -> Option<u32> {
    if text.starts_with('+') {
        return None; // from_str_radix would take it
    }
    u32::from_str_radix(text, 16).ok().filter(|value| *value <= limit)
}

/// What the host said, or the attributes that say the same.
fn address_of(device: &Device) -> PciAddress {
    parse_address(&device.description.pci_bus_id).unwrap_or_else(|| {
        let part = |name| attribute(device, name).unwrap_or(0).cast_unsigned();
        PciAddress {
            domain: part(DEV_ATTR_PCI_DOMAIN_ID),
            bus: part(DEV_ATTR_PCI_BUS_ID),
            device: part(DEV_ATTR_PCI_DEVICE_ID),
        }
    })
}

pub unsafe fn get_pci_bus_id(pciBusId: *mut c_char, len: c_int, device: c_int) -> Outcome {
    let PciAddress { domain, bus, device } = address_of(device_of(device)?);
    let text = format!("{domain:04X}:{bus:02X}:{device:02X}.0\0");
    if pciBusId.is_null() || usize::try_from(len).map_or(true, |space| space < text.len()) {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program says that there are `len` bytes, and that is enough.
    unsafe { text.as_ptr().copy_to_nonoverlapping(pciBusId.cast(), text.len()) };
    Ok(())
}

pub unsafe fn get_by_pci_bus_id(device: *mut c_int, pciBusId: *const c_char) -> Outcome {
    if pciBusId.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: not null, and the program says that it is a string.
    let text = unsafe { CStr::from_ptr(pciBusId) };
    let wanted = text.to_str().ok().and_then(parse_address).ok_or(Error::INVALID_VALUE)?;
    let found = process::devices()?.iter().position(|device| address_of(device) == wanted);
    let number = found.and_then(|number| c_int::try_from(number).ok()).ok_or(Error::INVALID_DEVICE)?;
    // SAFETY: the caller's place for the number.
    unsafe { give(device, number) }
}

/// The properties that a choice compares; 0 means that the program does not care.
pub struct DeviceOptions {
    pub compute: (c_int, c_int),
    pub memory: usize,
    pub multiprocessors: c_int,
}

/// The device that meets most of the options; the first one of several.
pub fn choose(options: &DeviceOptions) -> Outcome<c_int> {
    let score = |device: &Device| {
        let compute = (device.compute.0.cast_signed(), device.compute.1.cast_signed());
        let processors = attribute(device, DEV_ATTR_MULTI_PROCESSOR_COUNT).unwrap_or(0);
        let memory = usize::try_from(device.description.total_memory).unwrap_or(usize::MAX);
        u32::from(compute >= options.compute)
            + u32::from(memory >= options.memory)
            + u32::from(processors >= options.multiprocessors)
    };
    let devices = process::devices()?;
    // `min_by_key` gives the first of equals, `max_by_key` would give the last.
    let best = devices.iter().enumerate().min_by_key(|(_, device)| std::cmp::Reverse(score(device)));
    best.and_then(|(number, _)| c_int::try_from(number).ok()).ok_or(Error::NO_DEVICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_form_that_cuda_documents() {
        let address = PciAddress { domain: 0, bus: 0x3b, device: 0x1f };
        assert_eq!(parse_address("0000:3b:1F.0"), Some(address));
        assert_eq!(parse_address("0000:3b:1f"), Some(address));
        assert_eq!(parse_address("3b:1f.0"), Some(address));
        assert_eq!(parse_address("10000:01:00.0"), Some(PciAddress { domain: 0x10000, bus: 1, device: 0 }));
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for text in ["", ":", "::", "3b", "1:2:3:4", "0:100:0", "0:0:20", "0:0:0.10", "0:0:0.", "+1:0", "g:0", " 1:0"] {
            assert_eq!(parse_address(text), None, "{text}");
        }
    }
}

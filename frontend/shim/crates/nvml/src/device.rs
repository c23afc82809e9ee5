//! Which devices there are, and what they are: everything that does not change.

use crate::answer::{enter, give, give_text, Code, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED};
use crate::state::{device, devices, handle, Handle};
use client::DeviceDescription;
use std::ffi::{c_char, c_int, c_uint, CStr};

// CUdevice_attribute
const CLOCK_RATE: i32 = 13;
const MULTIPROCESSORS: i32 = 16;
const COMPUTE_MODE: i32 = 20;
const MEMORY_CLOCK_RATE: i32 = 36;
const MEMORY_BUS_WIDTH: i32 = 37;
const GRAPHICS_CLOCK: c_uint = 0;
const SM_CLOCK: c_uint = 1;
const MEMORY_CLOCK: c_uint = 2;
const ARCHITECTURE_UNKNOWN: c_uint = u32::MAX;

/// nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3.
#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_and_vendor: c_uint,
    subsystem: c_uint,
    bus_id: [u8; 32],
}

/// Domain, bus and device.
type Address = (u32, u32, u32);

fn parse(text: &str) -> Option<Address> {
    let part = |text: &str| u32::from_str_radix(text, 16).ok();
    let address = text.split_once('.').map_or(text, |(address, _)| address);
    let parts: Vec<&str> = address.split(':').collect();
    match parts.as_slice() {
        [domain, bus, device] => Some((part(domain)?, part(bus)?, part(device)?)),
        [bus, device] => Some((0, part(bus)?, part(device)?)),
        _ => None,
    }
}

fn address(description: &DeviceDescription) -> Address {
    parse(&description.pci_bus_id).unwrap_or_default()
}

fn uuid(description: &DeviceDescription) -> String {
    let mut text = "GPU".to_owned();
    for (at, byte) in description.uuid.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

unsafe fn find(place: *mut Handle, is: impl Fn(usize, &DeviceDescription) -> bool, none: Code) -> Result<(), Code> {
    let found = devices()?.iter().enumerate().position(|(index, description)| is(index, description)).ok_or(none)?;
    // SAFETY: the caller's place.
    unsafe { give(place, handle(found)) }
}

/// A string of the program's, if it is one.
unsafe fn text<'a>(string: *const c_char) -> Result<&'a str, Code> {
    if string.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and the program says that it is a string.
    unsafe { CStr::from_ptr(string) }.to_str().map_err(|_| INVALID_ARGUMENT)
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> Code {
    // SAFETY: the caller's place.
    enter(|| unsafe { give(count, c_uint::try_from(devices()?.len()).unwrap_or(c_uint::MAX)) })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetCount(count: *mut c_uint) -> Code {
    // SAFETY: the same function.
    unsafe { nvmlDeviceGetCount_v2(count) }
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Handle) -> Code {
    // SAFETY: the caller's place.
    enter(|| unsafe { find(device, |at, _| at == index as usize, INVALID_ARGUMENT) })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex(index: c_uint, device: *mut Handle) -> Code {
    // SAFETY: the same function.
    unsafe { nvmlDeviceGetHandleByIndex_v2(index, device) }
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(wanted: *const c_char, device: *mut Handle) -> Code {
    enter(|| {
        // SAFETY: the caller's string.
        let wanted = unsafe { text(wanted)? };
        // SAFETY: the caller's place.
        unsafe { find(device, |_, description| uuid(description).eq_ignore_ascii_case(wanted), NOT_FOUND) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(wanted: *const c_char, device: *mut Handle) -> Code {
    enter(|| {
        // SAFETY: the caller's string.
        let wanted = parse(unsafe { text(wanted)? }).ok_or(INVALID_ARGUMENT)?;
        // SAFETY: the caller's place.
        unsafe { find(device, |_, description| address(description) == wanted, NOT_FOUND) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId(wanted: *const c_char, device: *mut Handle) -> Code {
    // SAFETY: the same function.
    unsafe { nvmlDeviceGetHandleByPciBusId_v2(wanted, device) }
}

/// No device tells a serial number.
#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetHandleBySerial(wanted: *const c_char, device: *mut Handle) -> Code {
    enter(|| {
        // SAFETY: the caller's string.
        unsafe { text(wanted)? };
        // SAFETY: the caller's place.
        unsafe { find(device, |_, _| false, NOT_FOUND) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetName(handle: Handle, name: *mut c_char, length: c_uint) -> Code {
    // SAFETY: the caller's buffer.
    enter(|| unsafe { give_text(name, length, &device(handle)?.1.name) })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetUUID(handle: Handle, place: *mut c_char, length: c_uint) -> Code {
    // SAFETY: the caller's buffer.
    enter(|| unsafe { give_text(place, length, &uuid(&device(handle)?.1)) })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(handle: Handle, info: *mut PciInfo) -> Code {
    enter(|| {
        let (domain, bus, slot) = address(&device(handle)?.1);
        let mut info_of_device = PciInfo {
            bus_id_legacy: [0; 16],
            domain,
            bus,
            device: slot,
            device_and_vendor: 0,
            subsystem: 0,
            bus_id: [0; 32],
        };
        let short = format!("{:04X}:{bus:02X}:{slot:02X}.0", domain & 0xffff);
        info_of_device.bus_id_legacy[..short.len()].copy_from_slice(short.as_bytes());
        let long = format!("{domain:08X}:{bus:02X}:{slot:02X}.0");
        info_of_device.bus_id[..long.len()].copy_from_slice(long.as_bytes());
        // SAFETY: the caller's place.
        unsafe { give(info, info_of_device) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    handle: Handle,
    major: *mut c_int,
    minor: *mut c_int,
) -> Code {
    enter(|| {
        let description = device(handle)?.1;
        // SAFETY: the caller's places.
        unsafe {
            give(major, description.compute_major.cast_signed())?;
            give(minor, description.compute_minor.cast_signed())
        }
    })
}

/// Defines a function that gives one number of a device.
macro_rules! number {
    ($($name:ident = |$index:ident, $description:ident| $value:expr;)*) => {
        $(
            #[no_mangle]
            pub unsafe extern "C" fn $name(handle: Handle, value: *mut c_uint) -> Code {
                enter(|| {
                    let ($index, $description) = device(handle)?;
                    let _ = (&$index, &$description);
                    // SAFETY: the caller's place.
                    unsafe { give(value, $value) }
                })
            }
        )*
    };
}

fn attribute(description: &DeviceDescription, number: i32) -> Result<c_uint, Code> {
    description.attributes.get(&number).and_then(|value| c_uint::try_from(*value).ok()).ok_or(NOT_SUPPORTED)
}

number! {
    nvmlDeviceGetIndex = |index, description| c_uint::try_from(index).unwrap_or(c_uint::MAX);
    nvmlDeviceGetMinorNumber = |index, description| c_uint::try_from(index).unwrap_or(c_uint::MAX);
    nvmlDeviceGetBrand = |index, description| 0; // NVML_BRAND_UNKNOWN
    nvmlDeviceGetArchitecture = |index, description| architecture(description.compute_major, description.compute_minor);
    nvmlDeviceGetNumGpuCores = |index, description| cores(&description)?;
    nvmlDeviceGetMemoryBusWidth = |index, description| attribute(&description, MEMORY_BUS_WIDTH)?;
    nvmlDeviceGetComputeMode = |index, description| attribute(&description, COMPUTE_MODE).unwrap_or(0);
    nvmlDeviceGetPersistenceMode = |index, description| 1; // the host keeps it open
    nvmlDeviceGetDisplayMode = |index, description| 0;
    nvmlDeviceGetDisplayActive = |index, description| 0;
    nvmlDeviceGetMultiGpuBoard = |index, description| 0;
    nvmlDeviceIsMigDeviceHandle = |index, description| 0;
    nvmlDeviceGetMaxMigDeviceCount = |index, description| 0;
}

/// nvmlDeviceArchitecture_t.
fn architecture(major: u32, minor: u32) -> c_uint {
    match (major, minor) {
        (7, 0..=4) => 5,    // Volta
        (7, _) => 6,        // Turing
        (8, 9) => 8,        // Ada
        (8, _) => 7,        // Ampere
        (9, _) => 9,        // Hopper
        (10..=12, _) => 10, // Blackwell
        _ => ARCHITECTURE_UNKNOWN,
    }
}

/// Lanes for single precision: CUDA C++ Programming Guide, "Arithmetic instructions".
fn cores(description: &DeviceDescription) -> Result<c_uint, Code> {
    let each = match (description.compute_major, description.compute_minor) {
        (7, _) | (8, 0) => 64,
        _ => 128,
    };
    Ok(attribute(description, MULTIPROCESSORS)? * each)
}

/// What the device's attributes say, in MHz. The host does not measure the present clocks.
#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(handle: Handle, kind: c_uint, clock: *mut c_uint) -> Code {
    enter(|| {
        let description = device(handle)?.1;
        let khz = match kind {
            GRAPHICS_CLOCK | SM_CLOCK => attribute(&description, CLOCK_RATE)?,
            MEMORY_CLOCK => attribute(&description, MEMORY_CLOCK_RATE)?,
            3 => return Err(NOT_SUPPORTED),
            _ => return Err(INVALID_ARGUMENT),
        };
        // SAFETY: the caller's place.
        unsafe { give(clock, khz / 1000) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity() {
        let description = DeviceDescription { uuid: (0..16).collect(), ..Default::default() };
        assert_eq!(uuid(&description), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(parse("00000001:0A:1f.0"), Some((1, 10, 31)));
        assert_eq!(parse("0a:00.0"), Some((0, 10, 0)));
        assert_eq!(parse("a"), None);
    }

    #[test]
    fn structs_are_as_long_as_in_the_header() {
        assert_eq!(std::mem::size_of::<PciInfo>(), 68);
    }
}

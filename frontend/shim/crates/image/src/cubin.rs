//! Machine code: kernel layouts and needs from the `.nv.info` sections.
//!
//! A `.nv.info` section is a list of attributes: u8 format, u8 attribute, u16 value or length of the value that
//! follows. `.nv.info` itself speaks of symbols by index, `.nv.info.NAME` of the kernel NAME. A kernel whose parameters
//! do not fill the parameter buffer that it declares is refused: nothing is guessed. Source: files written by ptxas
//! 13.0, compared with the PTX they came from (tests of module.rs).

pub(crate) mod elf;

use std::collections::HashMap;

use self::elf::{Elf, Symbol};
use crate::bytes::{u16_at, u32_at};
use crate::error::Error;
use crate::limits;
use crate::module::{Kernel, Module, Parameter, Source, Variable};

const FORMAT_SIZED: u8 = 4;

const MAX_THREADS: u8 = 0x05;
const REQUIRED_THREADS: u8 = 0x10;
const FRAME_SIZE: u8 = 0x11;
const PARAMETER: u8 = 0x17;
const PARAMETER_BUFFER: u8 = 0x19;
const REGISTERS: u8 = 0x2f;
/// A parameter, in kernels with some that are too large for the 14 bits of [`PARAMETER`].
const LARGE_PARAMETER: u8 = 0x45;

/// In a symbol's `other`: it is a kernel.
const ENTRY: u8 = 0x10;

/// In a symbol's `other`: it is a managed variable.
const MANAGED: u8 = 0x04;

/// In a symbol's `info`: it is a variable.
const OBJECT: u8 = 1;

/// One attribute: its value is the u16 itself for formats without a length.
struct Attribute<'a> {
    code: u8,
    short: u16,
    value: &'a [u8],
}

/// Reads a machine-code file.
///
/// # Errors
/// When its headers do not fit it.
pub(crate) fn read(data: &[u8]) -> Result<Module, Error> {
    let elf = Elf::parse(data).map_err(|what| Error::malformed(format!("damaged machine code: {what}")))?;
    let symbols = elf.symbols();
    let mut kernels: HashMap<&str, Result<Kernel, String>> = HashMap::new();
    for symbol in symbols.iter().filter(|symbol| symbol.other & ENTRY != 0) {
        if kernels.len() == limits::KERNELS {
            return Err(Error::too_large(format!("a module with more than {} kernels", limits::KERNELS)));
        }
        kernels.insert(symbol.name, Ok(Kernel::default()));
    }
    for section in &elf.sections {
        if let Some(name) = section.name.strip_prefix(".nv.info.") {
            if let Some(kernel) = kernels.get_mut(name) {
                *kernel = read_kernel(section.data);
            }
        }
    }
    let prints = symbols.iter().any(|symbol| symbol.name == limits::PRINT);
    kernels.values_mut().flatten().for_each(|kernel| kernel.prints = prints);
    // The rest needs the layouts in place.
    for section in &elf.sections {
        if let Some(name) = section.name.strip_prefix(".nv.shared.") {
            if let Some(Ok(kernel)) = kernels.get_mut(name) {
                kernel.static_shared_bytes = section.size;
            }
        }
    }
    for attribute in attributes(elf.section(".nv.info").map_or(&[][..], |section| section.data)) {
        let Some((symbol, value)) = u32_at(attribute.value, 0).zip(u32_at(attribute.value, 4)) else { continue };
        let name = symbols.get(symbol as usize).map_or("", |symbol| symbol.name);
        if let Some(Ok(kernel)) = kernels.get_mut(name) {
            match attribute.code {
                REGISTERS => kernel.registers = Some(value),
                FRAME_SIZE => kernel.local_bytes = u64::from(value),
                _ => {}
            }
        }
    }
    let variables = symbols.iter().filter(|symbol| symbol.info & 0xf == OBJECT && symbol.section != 0);
    Ok(Module {
        source: Source::MachineCode,
        architecture: elf.architecture,
        kernels: kernels.into_iter().map(|(name, kernel)| (name.to_owned(), kernel)).collect(),
        variables: variables.map(|symbol| (symbol.name.to_owned(), variable(symbol))).collect(),
        constant_bytes: elf.section(".nv.constant3").map_or(0, |section| section.size),
        prints,
    })
}

fn variable(symbol: &Symbol<'_>) -> Variable {
    Variable { size: symbol.size, managed: symbol.other & MANAGED != 0 }
}

fn attributes(data: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (format, code, short) = (*rest.first()?, *rest.get(1)?, u16_at(rest, 2)?);
        rest = &rest[4..];
        let mut value = &[][..];
        if format == FORMAT_SIZED {
            // A length past the end ends the list.
            value = rest.get(..usize::from(short))?;
            rest = &rest[value.len()..];
        }
        Some(Attribute { code, short, value })
    })
}

fn read_kernel(data: &[u8]) -> Result<Kernel, String> {
    let mut kernel = Kernel::default();
    let mut placed: Vec<(u16, Parameter)> = Vec::new();
    let mut buffer = 0u32;
    for attribute in attributes(data) {
        match attribute.code {
            PARAMETER | LARGE_PARAMETER => {
                let found = read_parameter(&attribute).ok_or("a damaged parameter attribute")?;
                if placed.len() == limits::PARAMETERS {
                    return Err("too many parameters".to_owned());
                }
                placed.push(found);
            }
            PARAMETER_BUFFER => buffer = u32::from(attribute.short),
            MAX_THREADS => kernel.max_threads = read_shape(attribute.value),
            REQUIRED_THREADS => kernel.required_threads = read_shape(attribute.value),
            _ => {}
        }
    }
    placed.sort_by_key(|(ordinal, _)| *ordinal);
    let mut end = 0;
    for (position, (ordinal, parameter)) in placed.iter().enumerate() {
        if usize::from(*ordinal) != position || parameter.offset < end {
            return Err(format!("parameter {position} is missing or overlaps another"));
        }
        end = parameter.offset.saturating_add(parameter.size);
        kernel.parameters.push(*parameter);
    }
    if end != buffer || end > limits::PARAMETER_BYTES {
        return Err(format!("its parameters end at byte {end} of a parameter buffer of {buffer} bytes"));
    }
    kernel.parameter_bytes = buffer;
    Ok(kernel)
}

/// u32 index, u16 ordinal, u16 offset, then the size: bits 18 to 31 of a word, or the whole word.
fn read_parameter(attribute: &Attribute<'_>) -> Option<(u16, Parameter)> {
    let value = attribute.value;
    let word = u32_at(value, 8)?;
    let size = if attribute.code == LARGE_PARAMETER { word } else { word >> 18 };
    Some((u16_at(value, 4)?, Parameter { offset: u32::from(u16_at(value, 6)?), size }))
}

fn read_shape(value: &[u8]) -> Option<[u32; 3]> {
    Some([u32_at(value, 0)?, u32_at(value, 4)?, u32_at(value, 8)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::CUBIN;

    fn sized(code: u8, value: &[u8]) -> Vec<u8> {
        let mut data = vec![FORMAT_SIZED, code];
        data.extend((value.len() as u16).to_le_bytes());
        data.extend(value);
        data
    }

    fn parameter(ordinal: u16, offset: u16, size: u32) -> Vec<u8> {
        let mut value = vec![0; 4];
        value.extend(ordinal.to_le_bytes());
        value.extend(offset.to_le_bytes());
        value.extend((size << 18 | 0x1f000).to_le_bytes());
        sized(PARAMETER, &value)
    }

    fn buffer(bytes: u16) -> Vec<u8> {
        [vec![3, PARAMETER_BUFFER], bytes.to_le_bytes().to_vec()].concat()
    }

    #[test]
    fn what_ptxas_wrote() {
        let module = read(CUBIN).unwrap();
        let kernel = |name: &str| module.kernels[name].clone().unwrap();
        assert_eq!(module.architecture, 75);
        assert_eq!(module.constant_bytes, 88);
        let mixed = kernel("mixed");
        let places: Vec<_> = mixed.parameters.iter().map(|place| (place.offset, place.size)).collect();
        assert_eq!(places, [(0, 8), (8, 4), (16, 32), (48, 1), (50, 2), (56, 8)]);
        assert_eq!((mixed.parameter_bytes, mixed.static_shared_bytes), (64, 256));
        assert_eq!((mixed.max_threads, mixed.registers), (Some([128, 1, 1]), Some(16)));
        let large = kernel("large");
        let places: Vec<_> = large.parameters.iter().map(|place| (place.offset, place.size)).collect();
        assert_eq!(places, [(0, 8), (8, 20000), (20008, 5), (20013, 1)]);
        assert_eq!(large.local_bytes, 8);
        assert_eq!(kernel("nothing").parameters, []);
    }

    #[test]
    fn a_layout_with_a_hole_in_it_is_refused() {
        let good = [parameter(1, 8, 4), parameter(0, 0, 8), buffer(12)].concat();
        assert_eq!(read_kernel(&good).unwrap().parameter_bytes, 12);
        for bad in [
            [parameter(1, 8, 4), buffer(12)].concat(),
            [parameter(0, 0, 8), parameter(0, 8, 4), buffer(12)].concat(),
            [parameter(0, 0, 8), parameter(1, 4, 8), buffer(12)].concat(),
            [parameter(0, 0, 8), buffer(12)].concat(),
            buffer(8),
            [sized(PARAMETER, &[0; 5]), buffer(0)].concat(),
        ] {
            assert!(read_kernel(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn unknown_attributes_are_passed_over() {
        let data =
            [sized(0xee, &[1; 40]), vec![1, 0xef, 0, 0], parameter(0, 0, 8), buffer(8), vec![4, 1, 255]].concat();
        assert_eq!(read_kernel(&data).unwrap().parameter_bytes, 8);
    }
}

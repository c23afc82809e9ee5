//! What an image tells about its kernels, for one device.
//!
//! The parameter layout comes from the entry that the device will run. Register counts come from machine code for the
//! same major architecture, when the image has some beside its PTX; PTX itself does not say.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::container::joined;
use crate::container::{Container, Kind, CONTAINER_MAGIC};
use crate::cubin::elf;
use crate::error::Error;
use crate::select::{self, Target};
use crate::{bytes, cubin, ptx};

/// One kernel parameter's place in the parameter buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub offset: u32,
    pub size: u32,
}

/// What a kernel takes and needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// In order of their offsets.
    pub parameters: Vec<Parameter>,
    /// Bytes of the parameter buffer, gaps included.
    pub parameter_bytes: u32,
    /// Shared memory that the kernel declares itself.
    pub static_shared_bytes: u64,
    /// Local memory per thread; for PTX what is declared in the kernel's own body.
    pub local_bytes: u64,
    /// `.maxntid`: the block may have at most as many threads as the product.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`: the block must have exactly this shape.
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`: the cluster must have exactly this shape.
    pub required_cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`: the most blocks of a cluster.
    pub most_cluster_blocks: Option<u32>,
    /// `.explicitcluster`: it is launched with clusters only.
    pub explicit_cluster: bool,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
    /// Its image has code that prints (device-side `printf`), which it may reach.
    pub prints: bool,
    /// Registers per thread, where machine code tells.
    pub registers: Option<u32>,
}

/// What a module was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Ptx,
    MachineCode,
}

/// The kernels of one image, as the device will run them.
#[derive(Clone, Debug)]
pub struct Module {
    pub source: Source,
    /// Architecture of the chosen code, major version times ten plus minor.
    pub architecture: u32,
    /// By mangled name. A kernel that could not be read says why.
    pub kernels: HashMap<String, Result<Kernel, String>>,
    /// Each variable that is not external, by name.
    pub variables: HashMap<String, Variable>,
    /// Bytes of `__constant__` variables.
    pub constant_bytes: u64,
    /// Some function prints.
    pub prints: bool,
}

/// A variable of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    pub size: u64,
    /// `__managed__`: the program reaches it, too.
    pub managed: bool,
}

impl Module {
    /// Reads an image: a fat binary container, PTX text or machine code.
    ///
    /// # Errors
    /// When the image is damaged, or holds nothing that runs on `target`.
    pub fn read(image: &[u8], target: &Target) -> Result<Module, Error> {
        if bytes::u32_at(image, 0) == Some(CONTAINER_MAGIC) {
            return read_container(image, target);
        }
        if joined::is_joined(image) {
            return read_joined(image, target);
        }
        if elf::is_elf(image) {
            let module = cubin::read(image)?;
            select::check_machine_code(&module, target)?;
            return Ok(module);
        }
        if ptx::is_ptx(image) {
            let (module, reach) = ptx::read(image)?;
            select::check_ptx(&module, reach, target)?;
            return Ok(module);
        }
        refuse_tiles(image)?;
        Err(Error::malformed("it is neither a fat binary, nor PTX, nor machine code"))
    }
}

/// How long the image is that `data` begins with: a joined image, machine code, or PTX up to its NUL. Fat binaries have
/// `container_length`.
///
/// # Errors
/// When it is none of them, or its end is not there.
pub fn length(data: &[u8]) -> Result<usize, Error> {
    if joined::is_joined(data) {
        return joined::length(data);
    }
    if elf::is_elf(data) {
        return elf::machine_code_length(data).ok_or_else(|| Error::malformed("its machine code is damaged"));
    }
    if ptx::is_ptx(data) {
        let end = data.iter().position(|byte| *byte == 0);
        return end.ok_or_else(|| Error::malformed("the PTX text has no end"));
    }
    refuse_tiles(data)?;
    Err(Error::malformed("it is neither a fat binary, nor PTX, nor machine code"))
}

/// CUDA Tile IR is compiled by NVIDIA's driver alone. cuBLASLt has kernels in it.
fn refuse_tiles(image: &[u8]) -> Result<(), Error> {
    if image.starts_with(b"\x7fTileIR\0") {
        return Err(Error::NoUsableEntry("the image is CUDA Tile IR, which no device here takes".to_owned()));
    }
    Ok(())
}

/// Whether a fat binary holds something that runs on the target, without reading it.
///
/// # Errors
/// When it is damaged, or nothing in it runs there.
pub fn check_container(image: &[u8], target: &Target) -> Result<(), Error> {
    let container = Container::parse(image)?;
    select::choose(&container, target).map(drop)
}

fn read_container(image: &[u8], target: &Target) -> Result<Module, Error> {
    let container = Container::parse(image)?;
    let chosen = select::choose(&container, target)?;
    let payload = chosen.payload()?;
    let mut module = match chosen.kind {
        Kind::MachineCode => cubin::read(&payload)?,
        _ => ptx::read(&payload)?.0,
    };
    module.architecture = chosen.architecture;
    if module.source == Source::Ptx {
        add_registers(&mut module, &container, target);
    }
    Ok(module)
}

/// What the parts of a joined image have together. What a kernel reaches in another part (shared memory) is not
/// followed.
fn read_joined(image: &[u8], target: &Target) -> Result<Module, Error> {
    let mut whole: Option<Module> = None;
    for part in joined::parts(image)? {
        if joined::is_joined(part) {
            return Err(Error::malformed("a joined image in a joined image"));
        }
        let module = Module::read(part, target)?;
        let Some(known) = &mut whole else {
            whole = Some(module);
            continue;
        };
        known.prints |= module.prints;
        known.architecture = known.architecture.max(module.architecture);
        known.constant_bytes = known.constant_bytes.saturating_add(module.constant_bytes);
        // As the host links them: a name that several parts keep to themselves is that of the first part.
        for (name, variable) in module.variables {
            known.variables.entry(name).or_insert(variable);
        }
        for (name, kernel) in module.kernels {
            known.kernels.entry(name).or_insert(kernel);
        }
    }
    let mut whole = whole.ok_or_else(|| Error::malformed("a joined image without parts"))?;
    let prints = whole.prints;
    whole.kernels.values_mut().flatten().for_each(|kernel| kernel.prints = prints);
    Ok(whole)
}

/// Register counts from machine code beside the PTX. It is advice: damage in it is no error.
fn add_registers(module: &mut Module, container: &Container<'_>, target: &Target) {
    let Some(entry) = select::nearest_machine_code(container, target) else { return };
    let Ok(compiled) = entry.payload().and_then(|payload: Cow<'_, [u8]>| cubin::read(&payload)) else { return };
    for (name, kernel) in &mut module.kernels {
        if let (Ok(kernel), Some(Ok(compiled))) = (kernel, compiled.kernels.get(name)) {
            kernel.registers = compiled.registers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    const BOTH: Target = Target { compute: (7, 5), takes_ptx: true, takes_machine_code: true, takes_any_ptx: false };
    const PTX_ONLY: Target = Target { takes_machine_code: false, ..BOTH };

    fn image() -> Vec<u8> {
        samples::container(&[
            samples::entry(2, 75, 0, samples::CUBIN),
            samples::zstd_entry(75, samples::PTX.as_bytes()),
        ])
    }

    fn layouts(module: &Module) -> Vec<(String, Vec<Parameter>, u32)> {
        let mut all: Vec<_> = module
            .kernels
            .iter()
            .map(|(name, kernel)| {
                let kernel = kernel.as_ref().unwrap();
                (name.clone(), kernel.parameters.clone(), kernel.parameter_bytes)
            })
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    #[test]
    fn ptx_and_machine_code_agree_on_every_layout() {
        let ptx = Module::read(&image(), &PTX_ONLY).unwrap();
        let code = Module::read(&image(), &BOTH).unwrap();
        assert_eq!((ptx.source, code.source), (Source::Ptx, Source::MachineCode));
        assert_eq!(layouts(&ptx), layouts(&code));
        assert!(ptx.kernels.len() >= 6);
    }

    #[test]
    fn ptx_and_machine_code_agree_on_what_kernels_need() {
        let ptx = Module::read(&image(), &PTX_ONLY).unwrap();
        let code = Module::read(&image(), &BOTH).unwrap();
        for (name, kernel) in &ptx.kernels {
            let (kernel, compiled) = (kernel.as_ref().unwrap(), code.kernels[name].as_ref().unwrap());
            assert_eq!(kernel.static_shared_bytes, compiled.static_shared_bytes, "{name}");
            assert_eq!(kernel.registers, compiled.registers, "{name}");
            assert_eq!(kernel.max_threads, compiled.max_threads, "{name}");
            assert_eq!(kernel.required_threads, compiled.required_threads, "{name}");
        }
        assert_eq!(ptx.constant_bytes, code.constant_bytes);
        assert_eq!(ptx.variables, code.variables);
        assert_eq!(ptx.variables["counter"], Variable { size: 4, managed: false });
    }

    #[test]
    fn a_joined_image_has_what_its_parts_have() {
        const OTHER: &[u8] =
            b".version 8.0\n.target sm_80\n.extern .func vprintf();\n.global .u32 more[4];\n.func other() { ret; }";
        const SAME_NAME: &[u8] = b".version 8.0\n.target sm_80\n.global .u32 more[5];\n";
        let image = image();
        let joined = crate::join(&[&image, OTHER, SAME_NAME]);
        let target = Target { compute: (8, 6), ..PTX_ONLY };
        let (whole, first) = (Module::read(&joined, &target).unwrap(), Module::read(&image, &target).unwrap());
        assert_eq!(whole.kernels.len(), first.kernels.len());
        let sizes = ["counter", "more"].map(|name| whole.variables[name].size);
        assert_eq!((sizes, whole.architecture), ([4, 16], 80));
        assert!(whole.kernels.values().all(|kernel| kernel.as_ref().unwrap().prints));
        let nested = crate::join(&[&joined]);
        assert!(matches!(Module::read(&nested, &target), Err(Error::Malformed(_))));
        assert!(matches!(Module::read(&joined[..joined.len() - 8], &target), Err(Error::Malformed(_))));
    }

    #[test]
    fn bare_ptx_and_bare_machine_code() {
        assert_eq!(Module::read(samples::PTX.as_bytes(), &PTX_ONLY).unwrap().source, Source::Ptx);
        assert_eq!(Module::read(samples::CUBIN, &BOTH).unwrap().source, Source::MachineCode);
        assert!(matches!(Module::read(samples::CUBIN, &PTX_ONLY), Err(Error::NoUsableEntry(_))));
        let older = Target { compute: (7, 0), ..PTX_ONLY };
        assert!(matches!(Module::read(samples::PTX.as_bytes(), &older), Err(Error::NoUsableEntry(_))));
        let any = Target { takes_any_ptx: true, ..older };
        assert_eq!(Module::read(samples::PTX.as_bytes(), &any).unwrap().architecture, 75);
        assert_eq!(Module::read(&image(), &any).unwrap().architecture, 75);
        assert!(matches!(Module::read(samples::CUBIN, &any), Err(Error::NoUsableEntry(_))));
        assert!(matches!(Module::read(b"#!/bin/sh", &BOTH), Err(Error::Malformed(_))));
        assert!(matches!(Module::read(b"", &BOTH), Err(Error::Malformed(_))));
        let tiles = b"\x7fTileIR\0\x0d\x01";
        assert!(matches!(Module::read(tiles, &BOTH), Err(Error::NoUsableEntry(_))));
        assert!(matches!(length(tiles), Err(Error::NoUsableEntry(_))));
    }
}

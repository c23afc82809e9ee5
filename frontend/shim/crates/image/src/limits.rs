//! Bounds on what an image may make this crate hold. They are far above anything a compiler writes; past them the
//! image is refused, so that a hostile or damaged one costs neither the memory nor the time of its process.

/// Bytes of one fat binary container, header included.
pub const CONTAINER_BYTES: u64 = 2 << 30;
/// Entries looked at in one container.
pub const ENTRIES: usize = ::limits::CONTAINER_ENTRIES;
/// Bytes of one entry once decompressed.
pub const PAYLOAD_BYTES: u64 = 512 << 20;
/// Of the memory that a zstd frame may ask of who reads it (its window), as a power of two.
pub const ZSTD_WINDOW_LOG: u32 = ::limits::ZSTD_WINDOW_LOG as u32;
/// Kernels of one module.
pub const KERNELS: usize = 1 << 17;
/// Parameters of one kernel.
pub const PARAMETERS: usize = 4096;
/// Bytes of one kernel's parameter buffer.
pub const PARAMETER_BYTES: u32 = abi::MAX_PARAMETER_BYTES;
/// Bytes of a name.
pub const NAME_BYTES: usize = 1 << 16;
/// Steps taken while following calls to the shared memory that a kernel's callees use.
pub const REFERENCE_STEPS: usize = 4_000_000;
/// Sections of one machine-code file.
pub const SECTIONS: usize = 1 << 19;

/// The function of the device that `printf` becomes.
pub const PRINT: &str = "vprintf";

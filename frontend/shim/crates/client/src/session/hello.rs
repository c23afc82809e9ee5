//! What a guest says of itself as its session opens.

use crate::generated_farlane_v1::Object;

/// What the guest says first.
#[derive(Debug, Clone)]
pub struct HelloInfo {
    /// Base name of the executable.
    pub program: String,
    pub pid: u32,
    /// BLAKE2b-256 of every image registered so far.
    pub module_digests: Vec<[u8; 32]>,
    /// The objects of the program that may call CUDA; mode loops only.
    pub objects: Vec<Object>,
    /// What the host is to look for in kernels.
    pub checks: Vec<String>,
    /// The priority that it asks for.
    pub priority: Option<u32>,
}

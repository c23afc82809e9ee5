//! The C types of the CUDA runtime's ABI. No logic.

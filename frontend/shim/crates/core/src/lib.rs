//! The shim's core library.

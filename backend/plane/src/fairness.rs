//! Fair sharing of a device's time between sessions.
//!
//! A device has as many *places* as sessions can run on it at once. The listening process gives them out: to sessions of a higher priority
//! first, then to the session that has had the least service for its weight (start-time fair queueing). A session loses its place at
//! the end of an operation, or at a launch's next block boundary. One whose launch gives way to all other threads loses it at once.
//!
//! - [`slot`]: the memory that a session and the listener share, and the session's side of it
//! - [`policy`]: who gets a place and who loses one: pure
//! - [`pace`]: whether a session works without end, and the thread that runs the kernels of one that does
//! - [`member`]: a session, as the listener knows it: what it has been charged; [`process`]: its process
//! - [`scheduler`]: the listener's side: charges service, gives and takes places
//!
//! Source: P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queueing", 1996.

pub mod member;
pub mod pace;
pub mod policy;
pub mod process;
pub mod scheduler;
pub mod slot;

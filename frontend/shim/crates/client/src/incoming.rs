//! What comes from the host: results, errors and output, and the threads of the program that wait for them.
//!
//! `ledger` has the groups on their way, `pace` how long the host takes for them, `awaited` what is awaited of each,
//! `waiter` a thread that waits, `destination` where a read goes, `contexts` the errors of each context, `output` what
//! kernels have printed, `reading` decides which thread reads, `resuming` what it does when the connection breaks,
//! `direct` reads bulk data from a ring to where it belongs.

pub(crate) mod awaited;
pub(crate) mod contexts;
pub(crate) mod destination;
mod direct;
pub(crate) mod ledger;
pub(crate) mod output;
mod pace;
pub(crate) mod reading;
mod resuming;
pub(crate) mod waiter;

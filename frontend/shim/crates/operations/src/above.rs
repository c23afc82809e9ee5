//! What the session asks of the operations (`session::above`).

use std::cell::RefCell;

use crate::module::{images, table};
use crate::{hostmem, memory, testing};
use client::Section;
use session::above::Above;

/// The layer, to be installed.
pub static OPERATIONS: Operations = Operations;

pub struct Operations;

thread_local! {
    /// The lock of the table of modules, held by the forking thread from before the fork until after it, on both sides.
    static HELD: RefCell<Option<table::Held>> = const { RefCell::new(None) };
}

impl Above for Operations {
    fn image_digests(&self) -> Vec<[u8; 32]> {
        images::digests_for_hello()
    }

    fn host_holds(&self, digests: &[Vec<u8>]) {
        images::host_knows(digests);
    }

    fn before_fork(&self) {
        let _ = HELD.try_with(|held| *held.borrow_mut() = Some(table::hold()));
    }

    fn after_fork(&self) {
        let _ = HELD.try_with(|held| held.borrow_mut().take());
    }

    fn device_may_write_host_memory(&self) -> bool {
        hostmem::any_device_written()
    }

    fn sections(&self) -> Vec<Section> {
        let mut sections = vec![memory::payloads::section()];
        if testing::on() {
            sections.push(Section { name: "test", counts: testing::section() });
        }
        sections
    }
}

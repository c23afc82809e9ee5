//! A device whose memory is this process's own, and whose work is over when a call returns: the simulated one, and the null device.

use super::objects::{Event, Stream};
use super::ranges::Rows;
use super::work::{Awaited, Fault, Timed, Tried, Work, PIECE};
use crate::fairness::pace::MachineCode;
use std::any::Any;
use std::ops::Range;
use std::sync::LazyLock;

/// What reading memory that holds nothing shows.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; PIECE]);

/// See the module's page.
pub struct Host {
    /// Whether addresses are memory; else nothing is there, and reads show zeros.
    pub backed: bool,
}

impl Work for Host {
    fn timed(&self) -> Timed {
        if self.backed {
            Timed::Work
        } else {
            Timed::Nothing
        }
    }

    fn has_driver(&self) -> bool {
        false
    }

    fn enter(&self) {}

    fn write(&self, to: &Rows, data: &[u8], _: &Stream) -> Tried {
        if !self.backed {
            return Ok(true);
        }
        let target = to.address as *mut u8;
        if to.contiguous() {
            // SAFETY: one allocation holds all of it (Direct); `data` is no device memory.
            unsafe { data.as_ptr().copy_to_nonoverlapping(target, data.len()) };
        } else {
            for (number, row) in data.chunks_exact(narrow(to.width)).enumerate() {
                // SAFETY: the same.
                unsafe { row.as_ptr().copy_to_nonoverlapping(target.add(number * narrow(to.pitch)), row.len()) };
            }
        }
        Ok(true)
    }

    fn copy(&self, to: &Rows, from: &Rows, _: &Stream) -> Tried {
        let (Some(to_span), Some(from_span), Some(size)) = (to.span(), from.span(), from.size()) else {
            return Ok(false);
        };
        let plain = to.contiguous() && from.contiguous();
        let apart =
            to.address.saturating_add(to_span) <= from.address || from.address.saturating_add(from_span) <= to.address;
        if !plain && !apart {
            return Ok(false);
        }
        if !self.backed {
            return Ok(true);
        }
        let (target, source) = (to.address as *mut u8, from.address as *const u8);
        if plain {
            // SAFETY: allocations hold all of both (Direct).
            unsafe { source.copy_to(target, narrow(size)) };
        } else {
            for row in 0..narrow(to.height) {
                // SAFETY: the same; they do not overlap.
                unsafe {
                    source
                        .add(row * narrow(from.pitch))
                        .copy_to_nonoverlapping(target.add(row * narrow(to.pitch)), narrow(to.width));
                }
            }
        }
        Ok(true)
    }

    fn set(&self, rows: &Rows, value: u32, element: u32, _: &Stream) -> Tried {
        if !self.backed {
            return Ok(true);
        }
        let bytes = value.to_le_bytes();
        let pattern = &bytes[..element as usize];
        let (width, count) = match rows.size() {
            Some(size) if rows.contiguous() => (narrow(size), 1),
            _ => (narrow(rows.width), narrow(rows.height)),
        };
        for row in 0..count {
            let first = (rows.address as *mut u8).wrapping_add(row * narrow(rows.pitch));
            // SAFETY: one allocation holds all of it (Direct); nothing else uses it meanwhile.
            fill(unsafe { std::slice::from_raw_parts_mut(first, width) }, pattern);
        }
        Ok(true)
    }

    fn fetch(&self, _: &Rows, _: u64, _: &Stream) -> Tried {
        Ok(true)
    }

    fn show(&self, rows: &Rows, part: Range<u64>, look: &mut dyn FnMut(&[u8])) {
        let size = narrow(part.end - part.start).min(PIECE);
        if self.backed {
            let first = (rows.address + part.start) as *const u8;
            // SAFETY: one allocation holds all of it. Kernels run on this thread alone, and so does what ends allocations.
            look(unsafe { std::slice::from_raw_parts(first, size) });
        } else {
            look(&ZEROS[..size]);
        }
    }

    fn place(&self, rows: &Rows, _: &Stream) -> Option<*mut u8> {
        self.backed.then_some(rows.address as *mut u8)
    }

    fn arrived(&self, _: &Rows, _: &Stream) -> Result<(), Fault> {
        Ok(())
    }

    fn record(&self, event: &Event, _: &Stream) -> Tried {
        event.record();
        Ok(true)
    }

    fn wait(&self, _: &Stream, _: &Event) -> Tried {
        Ok(true)
    }

    fn synchronize(&self, _: Awaited<'_>) -> Tried {
        Ok(true)
    }

    fn is_done(&self, _: Awaited<'_>) -> Result<bool, Fault> {
        Ok(true)
    }

    fn elapsed(&self, start: &Event, end: &Event) -> Result<Option<f32>, Fault> {
        let (Some(from), Some(to), true, true) = (start.nanoseconds(), end.nanoseconds(), start.timed, end.timed)
        else {
            return Ok(None); // no time: Python has the words
        };
        Ok(Some((to.cast_signed().wrapping_sub(from.cast_signed()) as f64 / 1e6) as f32))
    }
}

/// A launch of compiled code that is laid out: everything but its parameters and its number.
pub struct Code {
    /// The kernel: `int run(launch, worker)`.
    pub run: unsafe extern "C" fn(*mut u8, *mut u8) -> i32,
    pub launch: *mut u8,
    pub worker: *mut u8,
    pub parameters: *mut u8,
    pub size: usize,
    /// Where in the launch these stand.
    pub next_block: usize,
    pub end_block: usize,
    pub grid_id: usize,
    pub abort: usize,
    /// Its code is to be replaced by better one once it has run for long: how long it runs is said.
    pub provisional: bool,
    /// A launch that takes longer, in nanoseconds, is the last one here: the next ones are worth more threads, or have to run in parts.
    pub limit: u64,
    /// It calls back into Python, which no thread may do that gives way to others.
    pub calls_back: bool,
    /// What the addresses are in.
    pub keep: Box<dyn Any + Send + Sync>,
}

// SAFETY: one thread at a time runs it (the gate); all it points to stays as long as `keep`.
unsafe impl Send for Code {}
// SAFETY: the same.
unsafe impl Sync for Code {}

impl Code {
    /// Makes it ready, with parameters of its size.
    pub(super) fn begin(&self, number: u64, parameters: &[u8]) {
        // SAFETY: Python has laid it out, for this thread; `size` bytes of parameters have a place.
        unsafe {
            parameters.as_ptr().copy_to_nonoverlapping(self.parameters, self.size);
            self.launch.add(self.grid_id).cast::<u64>().write(number);
            self.launch.add(self.next_block).cast::<u64>().write(0);
        }
    }

    /// What runs it, or goes on where it has stopped. Returns 0 at its end, or where it has stopped at the boundary of a block.
    pub(super) const fn machine_code(&self) -> MachineCode {
        MachineCode { run: self.run, first: self.launch, second: self.worker }
    }

    /// Whether blocks are left.
    pub(super) fn has_stopped(&self) -> bool {
        // SAFETY: the same; it does not run.
        let word = |at| unsafe { self.launch.add(at).cast::<u64>().read() };
        word(self.next_block) < word(self.end_block)
    }
}

/// Numbers of bytes that an allocation of this process holds.
const fn narrow(bytes: u64) -> usize {
    bytes as usize // x86-64 and AArch64: as wide
}

fn fill(row: &mut [u8], pattern: &[u8]) {
    if pattern.iter().all(|&byte| byte == pattern[0]) {
        row.fill(pattern[0]);
        return;
    }
    for place in row.chunks_exact_mut(pattern.len()) {
        place.copy_from_slice(pattern);
    }
}

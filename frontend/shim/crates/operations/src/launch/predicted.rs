//! The records of an iteration that a manifest predicts (`permission::loop_prediction`), made like those of the
//! launches themselves.
//!
//! Only a guess: nothing is checked that the launches will check, and where something is not known nothing is sent.

use std::ffi::c_void;

use crate::module::table;
use crate::module::{self, Kernel};
use crate::stream;
use crate::types::StreamHandle;
use client::PredictedLaunch;
use session::function::DefaultStream;
use session::permission::loop_prediction::{Argument, Iteration, Planned};
use session::{frame, process};
use tape::generated_operations as operation;
use tape::Writer;

use super::{clusters, Prepared};

/// Arguments of a launch, by their number in a manifest: grid, block, shared bytes, stream, and from here on the
/// kernel's.
const BLOCK: usize = 3;
const SHARED: usize = 6;
const STREAM: usize = 7;
const PARAMETERS: usize = 8;

/// A launch as its record has it.
#[derive(Debug, Clone)]
struct Shape {
    function: u32,
    stream: u32,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    cluster: u16,
    values: Vec<u8>,
}

impl Shape {
    fn record(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        let Self { function, stream, grid, block, shared, cluster, values } = self;
        operation::launch(&mut writer, *function, *stream, *grid, *block, *shared, false, *cluster, values);
        writer.as_slice().to_vec()
    }

    /// The launch of the next iteration. `None` where that is not known.
    fn next(&self, kernel: &Kernel, arguments: &[Argument]) -> Option<Self> {
        let mut next = self.clone();
        let all = known(kernel, arguments)?;
        for (index, argument) in all.iter().enumerate() {
            match index {
                0..BLOCK => next.grid[index] = argument.after(self.grid[index].into()) as u32,
                BLOCK..SHARED => next.block[index - BLOCK] = argument.after(self.block[index - BLOCK].into()) as u32,
                SHARED => next.shared = argument.after(self.shared.into()) as u32,
                STREAM if argument.step != Some(0) => return None,
                STREAM => {}
                _ => {
                    let bytes = next.values.get_mut(place(kernel, index)?)?;
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    let word = argument.after(u64::from_le_bytes(word)).to_le_bytes();
                    bytes.copy_from_slice(&word[..bytes.len()]);
                }
            }
        }
        Some(next)
    }
}

/// Where in the buffer a parameter lies, which fits a register.
fn place(kernel: &Kernel, index: usize) -> Option<std::ops::Range<usize>> {
    let place = kernel.signature().ok()?.image.parameters.get(index - PARAMETERS)?;
    let start = place.offset as usize;
    (place.size <= 8).then(|| start..start + place.size as usize)
}

/// What is known of the arguments, by their numbers; `None` unless that is something of each, and of its whole width.
fn known(kernel: &Kernel, arguments: &[Argument]) -> Option<Vec<Argument>> {
    let parameters = &kernel.signature().ok()?.image.parameters;
    let mut all = Vec::with_capacity(PARAMETERS + parameters.len());
    for index in 0..PARAMETERS + parameters.len() {
        let argument = arguments.iter().find(|argument| usize::from(argument.index) == index)?;
        let width = match index {
            0..SHARED => 4,
            SHARED | STREAM => 8,
            _ => parameters[index - PARAMETERS].size,
        };
        if u32::from(argument.width) != width {
            return None;
        }
        all.push(*argument);
    }
    Some(all)
}

/// A later launch of the iteration.
fn planned(default: DefaultStream, kernel: &Kernel, launch: &Planned) -> Option<Shape> {
    let all = known(kernel, &launch.arguments)?;
    let now: Vec<u64> = all.iter().map(|argument| argument.now).collect::<Option<_>>()?;
    let word = |index: usize| now[index] as u32;
    let image = &kernel.signature().ok()?.image;
    let mut values = vec![0; image.parameter_bytes as usize];
    for (index, value) in now.iter().enumerate().skip(PARAMETERS) {
        let bytes = values.get_mut(place(kernel, index)?)?;
        bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]);
    }
    let stream = stream::resolve_briefly(default, now[STREAM] as StreamHandle).ok()?;
    Some(Shape {
        function: kernel.function().ok()?,
        stream: stream.number,
        grid: [word(0), word(1), word(2)],
        block: [word(BLOCK), word(BLOCK + 1), word(BLOCK + 2)],
        shared: word(SHARED),
        cluster: clusters::number(kernel.set_cluster()),
        values,
    })
}

/// Tells the host the loop that a launch begins, which is ready to be recorded.
#[cold]
pub fn tell(default: DefaultStream, prepared: &Prepared<'_>, shared: u32, stream: u32, iteration: &Iteration) {
    let _ = records(default, prepared, shared, stream, iteration).and_then(|records| {
        let (thread, _) = frame::thread_and_site();
        process::session().ok().map(|session| session.predict(thread as u64, iteration.count, &records))
    });
}

/// The kernel of a later launch: by its handle, which stays, or by its host symbol.
fn planned_kernel(launch: &Planned) -> Option<&'static Kernel> {
    let Some(handle) = launch.handle() else {
        return table::with(|table| table.kernel_named(launch.kernel));
    };
    module::kernel_of(handle.now.filter(|_| handle.step == Some(0))? as *const c_void).ok()
}

fn records(
    default: DefaultStream,
    prepared: &Prepared<'_>,
    shared: u32,
    stream: u32,
    iteration: &Iteration,
) -> Option<Vec<PredictedLaunch>> {
    let Prepared { kernel, signature, grid, block, cluster, arguments } = prepared;
    let mut values = vec![0; signature.image.parameter_bytes as usize];
    arguments.fill(&mut values);
    let function = kernel.function().ok()?;
    let (grid, block, cluster) = (*grid, *block, clusters::number(*cluster));
    let first = Shape { function, stream, grid, block, shared, cluster, values };
    let mut shapes = vec![(*kernel, first)];
    for launch in iteration.launches.iter().skip(1) {
        let kernel = planned_kernel(launch)?;
        shapes.push((kernel, planned(default, kernel, launch)?));
    }
    let predicted = |((kernel, shape), launch): (&(&Kernel, Shape), &Planned)| {
        let next = shape.next(kernel, &launch.arguments)?;
        Some(PredictedLaunch { site: launch.site as u64, now: shape.record(), next: next.record() })
    };
    shapes.iter().zip(&iteration.launches).map(predicted).collect()
}

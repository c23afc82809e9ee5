//! The launch family.
//!
//! Owns the way from a launch to its LAUNCH record: the kernel, its parameters, the checks that CUDA makes at once.
//! What goes wrong later is reported by the next synchronizing call. Owns neither kernels (`module`) nor streams
//! (`stream`).
//!
//! The path of a repeated launch takes no lock but the session's: the kernel is in the thread's own cache
//! (`module::table::find_kernel`), its signature and handle are read from atomics.
//!
//! Source: crt/device_functions.h and crt/host_runtime.h of CUDA 12 and 13; CUDA runtime API, "Execution Control".

use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::module::{kernel_of, Kernel, Signature};
use crate::types::{
    Dim3, HostFunction, HostNodeParams, LaunchConfig, StreamHandle, DEV_ATTR_CLUSTER_LAUNCH,
    DEV_ATTR_COOPERATIVE_LAUNCH, DEV_ATTR_MULTI_PROCESSOR_COUNT,
};
use crate::{graph, hostmem, managed, occupancy, stream};
use session::call::{error_of, Error, Outcome};
use session::function::DefaultStream;
use session::work::order::Stream;
use session::{contexts, lazy_readback, log, output, permission, process, trace, work};
use tape::generated_operations as operation;
use tape::Writer;

pub mod attributes;
mod checks;
pub mod clusters;
mod parameters;
mod predicted;

use checks::{Bounds, Limits};
use parameters::Arguments;

/// More attributes than there are kinds of them.
const MOST_ATTRIBUTES: usize = 64;

/// A launch as the program asked for it.
pub struct Launch {
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: usize,
    pub stream: StreamHandle,
    pub cooperative: bool,
    /// The extents of its clusters, where the launch gives them.
    pub cluster: Option<[u32; 3]>,
}

/// A launch that passed the checks that CUDA makes at once.
pub struct Prepared<'a> {
    pub kernel: &'static Kernel,
    pub signature: &'static Signature,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// The launch's own cluster, or the one that the program requires of all launches of the kernel.
    pub cluster: Option<[u32; 3]>,
    pub arguments: Arguments<'a>,
}

pub unsafe fn launch_kernel(
    default: DefaultStream,
    func: *const c_void,
    gridDim: Dim3,
    blockDim: Dim3,
    args: *mut *mut c_void,
    sharedMem: usize,
    stream: StreamHandle,
) -> Outcome {
    let launch =
        Launch { grid: gridDim, block: blockDim, shared_bytes: sharedMem, stream, cooperative: false, cluster: None };
    // SAFETY: the caller's promise.
    unsafe { submit(default, func, launch, args) }
}

pub unsafe fn launch_cooperative_kernel(
    default: DefaultStream,
    func: *const c_void,
    gridDim: Dim3,
    blockDim: Dim3,
    args: *mut *mut c_void,
    sharedMem: usize,
    stream: StreamHandle,
) -> Outcome {
    let launch =
        Launch { grid: gridDim, block: blockDim, shared_bytes: sharedMem, stream, cooperative: true, cluster: None };
    // SAFETY: the caller's promise.
    unsafe { submit(default, func, launch, args) }
}

pub unsafe fn launch_kernel_ex_c(
    default: DefaultStream,
    config: *const LaunchConfig,
    func: *const c_void,
    args: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the program's promise.
    let (config, meaning) = unsafe { read_config("cudaLaunchKernelExC", config) }?;
    let launch = Launch {
        grid: config.gridDim,
        block: config.blockDim,
        shared_bytes: config.dynamicSmemBytes,
        stream: config.stream,
        cooperative: meaning.cooperative,
        cluster: meaning.cluster,
    };
    // SAFETY: the caller's promise.
    unsafe { submit(default, func, launch, args) }
}

/// A launch's configuration, and what its attributes mean.
///
/// # Safety
/// `config` is null or such a struct, with as many attributes as it says.
pub unsafe fn read_config(name: &str, config: *const LaunchConfig) -> Outcome<(LaunchConfig, attributes::Meaning)> {
    // SAFETY: the caller's promise.
    let config = *unsafe { config.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    let count = config.numAttrs as usize;
    if count > MOST_ATTRIBUTES || (count > 0 && config.attrs.is_null()) {
        return Err(Error::INVALID_VALUE);
    }
    let given = match count {
        0 => &[][..],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(config.attrs, count) },
    };
    let meaning = attributes::read(given).map_err(|refused| {
        log::error(format_args!("{name}: {} is not supported yet", refused.0));
        Error::NOT_SUPPORTED
    })?;
    Ok((config, meaning))
}

pub unsafe fn launch_host_func(
    default: DefaultStream,
    stream: StreamHandle,
    r#fn: HostFunction,
    userData: *mut c_void,
) -> Outcome {
    let function = r#fn.ok_or(Error::INVALID_VALUE)?;
    let captured = stream::resolve(default, stream)?;
    if graph::diverts(&captured) {
        let host = HostNodeParams { fn_: r#fn, userData };
        return graph::divert(&captured, graph::Work::Host(host));
    }
    stream::then(default, stream, move |waited| {
        // After an error of the context CUDA does not call it.
        if waited.is_ok() {
            // SAFETY: the program says that it is such a function.
            unsafe { function(userData) };
        }
    })
}

/// With the mode of the thread that waits for host functions: none does here, so a valid mode makes no difference.
pub unsafe fn launch_host_func_v2(
    default: DefaultStream,
    stream: StreamHandle,
    r#fn: HostFunction,
    userData: *mut c_void,
    syncMode: c_uint,
) -> Outcome {
    // cudaHostTaskBlocking and cudaHostTaskSpinWait.
    if syncMode > 1 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { launch_host_func(default, stream, r#fn, userData) }
}

/// Checks a launch.
///
/// # Safety
/// `args` is as the kernel's signature says.
#[inline(always)]
pub unsafe fn prepare<'a>(func: *const c_void, launch: &Launch, args: *mut *mut c_void) -> Outcome<Prepared<'a>> {
    let kernel = kernel_of(func)?;
    let signature = kernel.signature()?;
    let (grid, block) =
        ([launch.grid.x, launch.grid.y, launch.grid.z], [launch.block.x, launch.block.y, launch.block.z]);
    let bounds = Bounds {
        max_threads: signature.limits.threads,
        declared_threads: signature.limits.declared_threads,
        required_threads: signature.image.required_threads,
        max_dynamic_shared: kernel.max_dynamic_shared(&signature.limits),
    };
    limits()?.check(grid, block, launch.shared_bytes, &bounds)?;
    if launch.cooperative {
        check_cooperative(func, grid, block, launch.shared_bytes)?;
    }
    let cluster = launch.cluster.or(kernel.set_cluster());
    if cluster.is_some() || signature.image.required_cluster.is_some() || signature.image.explicit_cluster {
        check_clusters(kernel, cluster, grid)?;
    }
    // SAFETY: the caller's promise.
    let arguments = unsafe { Arguments::new(&signature.image, args) }?;
    if permission::touches_any(arguments.places()) {
        work::fence(); // a copy that waits goes to what the kernel is passed
    }
    if hostmem::any() {
        reach(&arguments)?;
    }
    if output::may_print(signature.image.prints) {
        output::found_printing();
    }
    Ok(Prepared { kernel, signature, grid, block, cluster, arguments })
}

/// Pinned memory of which the kernel is given an address becomes memory of the device, too.
fn reach(arguments: &Arguments<'_>) -> Outcome {
    for word in arguments.words() {
        let address = word as usize;
        if hostmem::near_placed(address) {
            hostmem::reach_from(address)?;
        } else if hostmem::is_registered(address) {
            hostmem::reach_registered(address)?;
        }
    }
    Ok(())
}

/// Records a launch, or adds it to a capture.
///
/// # Safety
/// `args` is as the kernel's signature says.
#[inline]
pub unsafe fn submit(default: DefaultStream, func: *const c_void, launch: Launch, args: *mut *mut c_void) -> Outcome {
    if trace::on() {
        // SAFETY: the caller's promise.
        unsafe { write_trace(func, &launch, args) }?;
    }
    // SAFETY: the caller's promise.
    let prepared = unsafe { prepare(func, &launch, args) }?;
    let stream = stream::resolve_briefly(default, launch.stream)?;
    if stream.context.is_some_and(|context| context != contexts::acting()) {
        return Err(Error::INVALID_RESOURCE_HANDLE);
    }
    if graph::diverts(&stream) {
        // SAFETY: the caller's promise.
        return graph::divert(&stream, unsafe { graph::Work::launch(func, &launch, args) }?);
    }
    let function = prepared.kernel.function()?;
    let stream: &Stream = &stream;
    let (number, shared, cooperative) = (stream.number, launch.shared_bytes as u32, launch.cooperative);
    let as_calls = managed::any() || lazy_readback::active() || !process::session()?.defers();
    if let Some(iteration) = permission::take_predicted().filter(|_| !as_calls && !cooperative) {
        predicted::tell(default, &prepared, shared, number, &iteration);
    }
    let Prepared { signature, grid, block, cluster, arguments, .. } = prepared;
    let cluster = clusters::number(cluster);
    let bytes = signature.image.parameter_bytes as usize;
    if as_calls {
        let record = |w: &mut Writer, values: &[u8]| {
            operation::launch(w, function, number, grid, block, shared, cooperative, cluster, values);
        };
        submit_values(stream, &arguments, bytes, record)?;
    } else {
        let mut append = work::begin(stream)?;
        let (w, fill) = (append.writer(), |buffer: &mut [u8]| arguments.fill(buffer));
        operation::launch_with(w, function, number, grid, block, shared, cooperative, cluster, bytes, fill);
        append.finish().map_err(error_of)?;
    }
    if output::may_print(signature.image.prints) {
        output::launched();
    }
    Ok(())
}

/// The program's values are read before its managed memory is out of reach, and with no lock: a lazy readback may have
/// them.
#[inline(never)]
fn submit_values(
    stream: &Stream,
    arguments: &Arguments<'_>,
    bytes: usize,
    record: impl FnOnce(&mut Writer, &[u8]),
) -> Outcome {
    let mut values = vec![0; bytes];
    arguments.fill(&mut values);
    let _held = managed::hand_over()?;
    work::defer(stream, |w| record(w, &values))
}

/// # Safety
/// `args` is as the kernel's signature says.
#[cold]
unsafe fn write_trace(func: *const c_void, launch: &Launch, args: *mut *mut c_void) -> Outcome {
    let known = kernel_of(func)?;
    let image = &known.signature()?.image;
    let mut parameters = Vec::new();
    // SAFETY: the caller's promise.
    if let Ok(arguments) = unsafe { Arguments::new(image, args) } {
        let mut buffer = vec![0; image.parameter_bytes as usize];
        arguments.fill(&mut buffer);
        let bytes = |place: &image::Parameter| buffer[place.offset as usize..][..place.size as usize].to_vec();
        parameters = image.parameters.iter().map(bytes).collect();
    }
    let Launch { grid, block, shared_bytes: shared, stream, .. } = *launch;
    let kernel = &known.name().to_string_lossy();
    trace::launch(&trace::Launch { kernel, grid, block, shared, stream: stream as u64, parameters });
    Ok(())
}

#[inline]
fn limits() -> Outcome<&'static Limits> {
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    match LIMITS.get() {
        Some(limits) => Ok(limits),
        None => process::device().map(|device| LIMITS.get_or_init(|| Limits::of(device))),
    }
}

/// # Errors
/// cudaErrorInvalidClusterSize; cudaErrorNotSupported where the device has no clusters of the launch's choice.
#[cold]
fn check_clusters(kernel: &Kernel, asked: Option<[u32; 3]>, grid: [u32; 3]) -> Outcome {
    if process::device()?.attribute(DEV_ATTR_CLUSTER_LAUNCH).unwrap_or(0) == 0 {
        // What a kernel was compiled for is between it and the device.
        return if asked.is_some() { Err(Error::NOT_SUPPORTED) } else { Ok(()) };
    }
    kernel.cluster_bounds()?.check(asked, grid)
}

/// All blocks of a cooperative launch run at once, or none does.
fn check_cooperative(func: *const c_void, grid: [u32; 3], block: [u32; 3], shared_bytes: usize) -> Outcome {
    let device = process::device()?;
    if device.attribute(DEV_ATTR_COOPERATIVE_LAUNCH) == Some(0) {
        return Err(Error::NOT_SUPPORTED);
    }
    let product = |extents: [u32; 3]| extents.iter().map(|extent| u64::from(*extent)).product::<u64>();
    let threads = c_int::try_from(product(block)).map_err(|_| Error::INVALID_CONFIGURATION)?;
    let mut resident: c_int = 0;
    // SAFETY: a place for the number.
    unsafe { occupancy::max_active_blocks_per_multiprocessor(&mut resident, func, threads, shared_bytes) }?;
    let multiprocessors = device.attribute(DEV_ATTR_MULTI_PROCESSOR_COUNT).unwrap_or(1);
    let most = u64::try_from(resident).unwrap_or(0) * u64::try_from(multiprocessors).unwrap_or(0);
    if product(grid) > most {
        return Err(Error::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}

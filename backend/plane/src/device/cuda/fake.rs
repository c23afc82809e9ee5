//! A driver for tests: memory is this process's, work is done at once, and a thread's calls are kept.

use super::functions::Functions;
use super::Cuda;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

const NOT_READY: i32 = 600;

#[derive(Default)]
struct Driver {
    calls: BTreeMap<&'static str, usize>,
    failures: BTreeMap<&'static str, i32>,
    pinned: BTreeMap<usize, Vec<u8>>,
    events: usize,
    busy: bool,
    launched: Vec<(usize, usize, u64)>,
}

thread_local!(static DRIVER: RefCell<Driver> = RefCell::default());

fn call(name: &'static str, work: impl FnOnce(&mut Driver)) -> i32 {
    DRIVER.with_borrow_mut(|driver| {
        *driver.calls.entry(name).or_default() += 1;
        let code = driver.failures.get(name).copied().unwrap_or_default();
        if code == 0 {
            work(driver);
        }
        code
    })
}

/// How often this thread has called a function.
pub(crate) fn calls(name: &str) -> usize {
    DRIVER.with_borrow(|driver| driver.calls.get(name).copied().unwrap_or_default())
}

/// From now on the function ends with this code and does nothing.
pub(crate) fn fail(name: &'static str, code: i32) {
    DRIVER.with_borrow_mut(|driver| driver.failures.insert(name, code));
}

/// Whether queries say that work is not done.
pub(crate) fn set_busy(busy: bool) {
    DRIVER.with_borrow_mut(|driver| driver.busy = busy);
}

/// (pinned memory, events) that was not given back.
pub(crate) fn left() -> (usize, usize) {
    DRIVER.with_borrow(|driver| (driver.pinned.len(), driver.events))
}

/// The launches: function, stream, the first parameter.
pub(crate) fn launched() -> Vec<(usize, usize, u64)> {
    DRIVER.with_borrow_mut(|driver| std::mem::take(&mut driver.launched))
}

pub(crate) fn cuda() -> Arc<Cuda> {
    // SAFETY: they have the types of the table.
    let functions = unsafe { Functions::new(address) }.expect("all are there");
    Arc::new(Cuda::new(functions, 7))
}

fn address(name: &str) -> Option<usize> {
    Some(match name {
        "cuMemHostAlloc" => allocate_pinned as *const () as usize,
        "cuMemFreeHost" => free_pinned as *const () as usize,
        "cuMemcpyHtoDAsync_v2" => copy_to_device as *const () as usize,
        "cuMemcpyDtoHAsync_v2" => copy_to_host as *const () as usize,
        "cuMemcpyDtoDAsync_v2" => copy_within as *const () as usize,
        "cuMemsetD8Async" => set_8 as *const () as usize,
        "cuMemsetD16Async" => set_16 as *const () as usize,
        "cuMemsetD32Async" => set_32 as *const () as usize,
        "cuLaunchKernel" => launch as *const () as usize,
        "cuEventCreate" => create_event as *const () as usize,
        "cuEventDestroy_v2" => destroy_event as *const () as usize,
        "cuEventRecord" => record as *const () as usize,
        "cuStreamWaitEvent" => wait as *const () as usize,
        "cuEventQuery" => query_event as *const () as usize,
        "cuStreamQuery" => query_stream as *const () as usize,
        "cuEventSynchronize" => synchronize_event as *const () as usize,
        "cuStreamSynchronize" => synchronize_stream as *const () as usize,
        "cuCtxSynchronize" => synchronize as *const () as usize,
        "cuCtxSetCurrent" => set_current as *const () as usize,
        "cuEventElapsedTime" => elapsed as *const () as usize,
        // Rows that are apart, graphs: they do nothing here, with as many arguments as fit into registers.
        _ => nothing as *const () as usize,
    })
}

extern "C" fn allocate_pinned(place: *mut usize, size: usize, _: u32) -> i32 {
    call("cuMemHostAlloc", |driver| {
        let mut memory = vec![0; size];
        let address = memory.as_mut_ptr() as usize;
        driver.pinned.insert(address, memory);
        // SAFETY: the caller's place.
        unsafe { *place = address };
    })
}

extern "C" fn free_pinned(address: usize) -> i32 {
    call("cuMemFreeHost", |driver| assert!(driver.pinned.remove(&address).is_some()))
}

fn copy(name: &'static str, to: usize, from: usize, size: usize) -> i32 {
    // SAFETY: the test's memory, which the plane has checked, and pinned memory.
    call(name, |_| unsafe { (from as *const u8).copy_to(to as *mut u8, size) })
}

extern "C" fn copy_to_device(to: u64, from: usize, size: usize, _: usize) -> i32 {
    copy("cuMemcpyHtoDAsync_v2", to as usize, from, size)
}

extern "C" fn copy_to_host(to: usize, from: u64, size: usize, _: usize) -> i32 {
    copy("cuMemcpyDtoHAsync_v2", to, from as usize, size)
}

extern "C" fn copy_within(to: u64, from: u64, size: usize, _: usize) -> i32 {
    copy("cuMemcpyDtoDAsync_v2", to as usize, from as usize, size)
}

fn set(name: &'static str, address: u64, pattern: &[u8], count: usize) -> i32 {
    call(name, |_| {
        // SAFETY: the test's memory, which the plane has checked.
        let memory = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, count * pattern.len()) };
        memory.chunks_exact_mut(pattern.len()).for_each(|place| place.copy_from_slice(pattern));
    })
}

extern "C" fn set_8(address: u64, value: u8, count: usize, _: usize) -> i32 {
    set("cuMemsetD8Async", address, &[value], count)
}

extern "C" fn set_16(address: u64, value: u16, count: usize, _: usize) -> i32 {
    set("cuMemsetD16Async", address, &value.to_le_bytes(), count)
}

extern "C" fn set_32(address: u64, value: u32, count: usize, _: usize) -> i32 {
    set("cuMemsetD32Async", address, &value.to_le_bytes(), count)
}

#[allow(clippy::too_many_arguments)]
extern "C" fn launch(
    function: usize,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    stream: usize,
    parameters: usize,
    _: usize,
) -> i32 {
    call("cuLaunchKernel", |driver| {
        // SAFETY: an array with the address of each parameter.
        let first = unsafe { **(parameters as *const *const u64) };
        driver.launched.push((function, stream, first));
    })
}

extern "C" fn create_event(place: *mut usize, _: u32) -> i32 {
    call("cuEventCreate", |driver| {
        driver.events += 1;
        // SAFETY: the caller's place.
        unsafe { *place = 1000 + driver.calls["cuEventCreate"] };
    })
}

extern "C" fn destroy_event(_: usize) -> i32 {
    call("cuEventDestroy_v2", |driver| driver.events -= 1)
}

extern "C" fn record(_: usize, _: usize) -> i32 {
    call("cuEventRecord", |_| {})
}

extern "C" fn wait(_: usize, _: usize, _: u32) -> i32 {
    call("cuStreamWaitEvent", |_| {})
}

fn query(name: &'static str) -> i32 {
    let mut busy = false;
    let code = call(name, |driver| busy = driver.busy);
    if busy {
        NOT_READY
    } else {
        code
    }
}

extern "C" fn query_event(_: usize) -> i32 {
    query("cuEventQuery")
}

extern "C" fn query_stream(_: usize) -> i32 {
    query("cuStreamQuery")
}

extern "C" fn synchronize_event(_: usize) -> i32 {
    call("cuEventSynchronize", |_| {})
}

extern "C" fn synchronize_stream(_: usize) -> i32 {
    call("cuStreamSynchronize", |_| {})
}

extern "C" fn synchronize() -> i32 {
    call("cuCtxSynchronize", |_| {})
}

extern "C" fn set_current(_: usize) -> i32 {
    call("cuCtxSetCurrent", |_| {})
}

extern "C" fn elapsed(place: *mut f32, _: usize, _: usize) -> i32 {
    // SAFETY: the caller's place.
    call("cuEventElapsedTime", |_| unsafe { *place = 1.5 })
}

extern "C" fn nothing(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> i32 {
    0
}

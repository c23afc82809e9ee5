//! `FARLANE_TRACE=FILE`: one JSON line for each CUDA call, with what the program's registers and frame held at the call
//! instruction.
//!
//! For checking manifests against programs (protos/manifest.md, "Trace"), never for speed. Off, it costs one load. A
//! launch is written by the launching call, with the registers and the frame of its push; the other calls of the launch
//! protocol and the compilers' start-up calls have no line. `%p` in the name stands for the process's number, for
//! programs of several processes.
//!
//! Locking: one mutex around the file, a leaf. Lines are whole; the child of a fork writes none. `finish` completes the
//! file.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::frame::{self, Part, Registers};
use crate::function::Function;
use crate::{log, objects};
use abi::dim3;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static SINK: OnceLock<Option<Sink>> = OnceLock::new();
const FRAME_BYTES: usize = 1024;
const BUFFER_BYTES: usize = 1 << 20;

struct Sink {
    file: Mutex<BufWriter<File>>,
    process: u32,
}

thread_local! {
    /// Registers and frame of the pushes whose launches have not come, by site.
    static PUSHED: RefCell<HashMap<usize, String>> = RefCell::new(HashMap::new());
}

/// What a launch's line has besides.
pub struct Launch<'a> {
    pub kernel: &'a str,
    pub grid: dim3,
    pub block: dim3,
    pub shared: usize,
    pub stream: u64,
    /// The bytes of each parameter.
    pub parameters: Vec<Vec<u8>>,
}

#[inline]
pub fn on() -> bool {
    match STATE.load(Relaxed) {
        OFF => false,
        ON => true,
        _ => open(),
    }
}

#[cold]
fn open() -> bool {
    let sink = SINK.get_or_init(|| {
        let name = std::env::var_os("FARLANE_TRACE").filter(|name| !name.is_empty())?;
        let process = std::process::id();
        let name = name.to_string_lossy().replace("%p", &process.to_string());
        match File::create(&name) {
            Ok(file) => Some(Sink { file: Mutex::new(BufWriter::with_capacity(BUFFER_BYTES, file)), process }),
            Err(error) => {
                log::error(format_args!("cannot write the trace to {name} (FARLANE_TRACE): {error}"));
                None
            }
        }
    });
    STATE.store(if sink.is_some() { ON } else { OFF }, Relaxed);
    sink.is_some()
}

/// A call of the program has begun (`frame::begin` was called).
#[cold]
pub fn call(function: Function) {
    match Part::of(function.operation()) {
        Part::Whole => line(function.name(), &place(frame::registers()), None),
        Part::Push => {
            let place = place(frame::registers());
            let _ = PUSHED.try_with(|pushed| pushed.borrow_mut().insert(frame::site(), place));
        }
        Part::Stub | Part::Launch | Part::Registration => {}
    }
}

/// A kernel is launched, by whichever function: it is called cudaLaunchKernel here.
#[cold]
pub fn launch(launch: &Launch<'_>) {
    let pushed = PUSHED.try_with(|pushed| pushed.borrow_mut().remove(&frame::site())).ok().flatten();
    let place = pushed.unwrap_or_else(|| place(frame::registers()));
    line(Function::cudaLaunchKernel.name(), &place, Some(launch));
}

/// A function without a row in the API table was called.
#[cold]
pub fn unsupported(name: &str) {
    frame::begin(Part::Whole);
    line(name, &place(frame::registers()), None);
}

/// Completes the file. Later lines are lost.
pub fn finish() {
    if let Some(Some(sink)) = SINK.get() {
        if sink.process == std::process::id() {
            STATE.store(OFF, Relaxed);
            let _ = sink.file.lock().unwrap_or_else(PoisonError::into_inner).flush();
        }
    }
}

/// The part of a line that tells where the program stands.
fn place(registers: Option<Registers>) -> String {
    let registers = registers.unwrap_or_default();
    let mut text = String::with_capacity(2400);
    let [rdi, rsi, rdx, rcx, r8, r9] = registers.arguments;
    let Registers { rbx, rbp, r12, r13, r14, r15, .. } = registers;
    // Writing into a String cannot fail.
    let _ = write!(
        text,
        "\"arguments\":[{rdi},{rsi},{rdx},{rcx},{r8},{r9}],\"registers\":{{\"rbx\":{rbx},\"rsp\":{},\"rbp\":{rbp},\"r12\":{r12},\
         \"r13\":{r13},\"r14\":{r14},\"r15\":{r15}}},\"frame\":\"",
        registers.rsp()
    );
    let size = registers.frame_size().min(FRAME_BYTES);
    push_hex(&mut text, registers.frame(0, size).unwrap_or_default());
    text.push('"');
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
}

fn line(function: &str, place: &str, launch: Option<&Launch<'_>>) {
    let Some(Some(sink)) = SINK.get() else { return };
    if sink.process != std::process::id() {
        return;
    }
    let object = objects::locate(frame::site());
    let site = object.and_then(|object| object.link_time(frame::site())).unwrap_or(0);
    let bias = object.map_or(0, |object| object.bias);
    let identity = object.and_then(objects::Object::identity).map(|identity| identity.hex()).unwrap_or_default();
    // SAFETY: no argument, no failure.
    let thread = unsafe { libc::gettid() };
    let mut text = String::with_capacity(place.len() + 512);
    let _ = write!(
        text,
        "{{\"object\":\"{identity}\",\"bias\":{bias},\"site\":{site},\"function\":\"{function}\",{place},\"thread\":{thread}"
    );
    if let Some(Launch { kernel, grid, block, shared, stream, parameters }) = launch {
        let _ = write!(
            text,
            ",\"kernel\":\"{}\",\"grid\":[{},{},{}],\"block\":[{},{},{}],\"shared\":{shared},\"stream\":{stream},\"parameters\":[",
            kernel.escape_default(),
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z
        );
        for (index, parameter) in parameters.iter().enumerate() {
            text.push_str(if index > 0 { ",\"" } else { "\"" });
            push_hex(&mut text, parameter);
            text.push('"');
        }
        text.push(']');
    }
    text.push_str("}\n");
    let mut file = sink.file.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = file.write_all(text.as_bytes()) {
        STATE.store(OFF, Relaxed);
        log::error(format_args!("cannot write the trace: {error}; it ends here"));
    }
}

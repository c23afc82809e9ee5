//! Without an auditor: the loader calls an indirect function of this library while it relocates it. At the start of a
//! process all objects are mapped by then, and no constructor has run: the objects are redirected there. Where an
//! auditor was there before, nothing is left to do.
//!
//! In a library that is opened later, constructors of the others have run: nothing is done then.

use core::arch::global_asm;
use core::ffi::c_int;

use crate::loaded::{Farlane, LinkMap};
use crate::redirecting;

/// `struct r_debug` (link.h).
#[repr(C)]
struct Debug {
    version: c_int,
    map: *const LinkMap,
    breakpoint: usize,
    state: c_int,
    loader: usize,
}

/// Objects are being added: at the start it lasts until all are relocated, in `dlopen` only until they are mapped.
const ADDING: c_int = 1;

// The relocation of `called` is the last one of this library. The weak reference is null in an auditor's namespace.
global_asm!(
    ".pushsection .text",
    ".type farlane_redirect_hook, @gnu_indirect_function",
    "farlane_redirect_hook:",
    "    sub rsp, 8",
    "    mov rdi, [rip + _r_debug@GOTPCREL]",
    "    call {at_start}",
    "    lea rax, [rip + 2f]",
    "    add rsp, 8",
    "2:  ret",
    ".weak _r_debug",
    ".popsection",
    ".pushsection .data.rel.ro, \"aw\"",
    ".p2align 3",
    ".globl farlane_redirect_called",
    ".hidden farlane_redirect_called",
    "farlane_redirect_called: .quad farlane_redirect_hook",
    ".popsection",
    at_start = sym at_start,
);

extern "C" {
    static farlane_redirect_called: usize;
}

/// Keeps the relocation.
#[no_mangle]
pub extern "C" fn farlane_redirect_hook_address() -> usize {
    // SAFETY: a constant after relocation.
    unsafe { farlane_redirect_called }
}

unsafe extern "C" fn at_start(debug: *const Debug) {
    // SAFETY: the loader's own, or null.
    let Some(debug) = (unsafe { debug.as_ref() }) else { return };
    if debug.state != ADDING {
        return;
    }
    let mut farlane = Farlane::NONE;
    each(debug.map, |map| farlane.note(map));
    each(debug.map, |map| {
        redirecting::redirect(map, &farlane);
    });
}

fn each(mut map: *const LinkMap, mut visit: impl FnMut(&'static LinkMap)) {
    // SAFETY: the loader's list, which does not change meanwhile.
    while let Some(this) = unsafe { map.as_ref() } {
        visit(this);
        map = this.next;
    }
}

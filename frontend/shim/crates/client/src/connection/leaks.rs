//! LeakSanitizer in the program: what the connection's thread holds is not reported as leaked.
//!
//! It lives as long as the process. In the child of a fork that thread does not exist, so nothing leads to its memory
//! any more, and at a process's end the thread may be ending itself. Both are found by the sanitizer, which the program
//! has or has not: its functions are looked up.

use std::mem;
use std::sync::OnceLock;

/// Until it is dropped, what this thread allocates is no leak.
pub struct Ignored(());

impl Ignored {
    #[must_use]
    pub fn begin() -> Ignored {
        static DISABLE: Function = OnceLock::new();
        call(&DISABLE, c"__lsan_disable");
        Ignored(())
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        static ENABLE: Function = OnceLock::new();
        call(&ENABLE, c"__lsan_enable");
    }
}

type Function = OnceLock<Option<extern "C" fn()>>;

fn call(function: &Function, name: &std::ffi::CStr) {
    let found = function.get_or_init(|| {
        // SAFETY: looks up a name; the sanitizer's functions of these names take and return nothing.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            (!found.is_null()).then(|| mem::transmute::<*mut libc::c_void, extern "C" fn()>(found))
        }
    });
    if let Some(function) = found {
        function();
    }
}

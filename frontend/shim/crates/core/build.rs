//! Link options of the core library.

fn main() {
    // The session's threads run this library's code until the process ends: it must never be unmapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Both thin libraries name it as needed; one name, one copy in the process.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfarlane_core.so");
    println!("cargo::rerun-if-changed=build.rs");
}

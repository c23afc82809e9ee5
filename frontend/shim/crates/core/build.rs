//! How the core library is linked. The loader finds it by its SONAME; it is never unloaded, because its threads' code and
//! its handlers must not vanish under a program that closes the library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfarlane_core.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

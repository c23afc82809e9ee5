//! Link options of the management library.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}

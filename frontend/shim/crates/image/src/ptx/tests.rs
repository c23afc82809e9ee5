//! Tests of the scanner as a whole.

use super::*;
use crate::samples::PTX;

const PREFIX: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

fn module(text: &str) -> Module {
    read(format!("{PREFIX}{text}").as_bytes()).unwrap().0
}

fn kernel(module: &Module, name: &str) -> Kernel {
    module.kernels[name].clone().unwrap()
}

fn places(kernel: &Kernel) -> Vec<(u32, u32)> {
    kernel.parameters.iter().map(|place| (place.offset, place.size)).collect()
}

#[test]
fn what_nvcc_wrote() {
    let (module, reach) = read(PTX.as_bytes()).unwrap();
    assert_eq!((module.architecture, reach), (75, Reach::Forward));
    let mixed = kernel(&module, "mixed");
    assert_eq!(places(&mixed), [(0, 8), (8, 4), (16, 32), (48, 1), (50, 2), (56, 8)]);
    assert_eq!((mixed.parameter_bytes, mixed.max_threads), (64, Some([128, 1, 1])));
    assert_eq!(places(&kernel(&module, "aligned")), [(0, 1), (16, 16), (32, 1), (48, 16), (64, 24)]);
    assert_eq!(kernel(&module, "nothing"), Kernel::default());
}

#[test]
fn shared_memory_of_callees_is_the_kernels_too() {
    let module = module(
        ".shared .align 4 .b8 used[100];\n.shared .b8 unused[1000];\n.extern .shared .b8 dynamic[];
        .func leaf() { mov.u32 %r1, used; ret; }
        .func middle(.param .b32 x) { call leaf, (); call middle, (); ret; }
        .visible .entry far() { call middle, (%r1); }
        .visible .entry own() { .shared .align 8 .f64 mine[2]; mov.u32 %r1, dynamic; }
        .visible .entry none() { mov.u32 %used, %r1; // used
        }",
    );
    assert_eq!(kernel(&module, "far").static_shared_bytes, 112);
    assert_eq!(kernel(&module, "own").static_shared_bytes, 16);
    assert_eq!(kernel(&module, "none").static_shared_bytes, 0);
}

#[test]
fn kernels_of_a_module_with_printf_may_print() {
    let printing = module(
        ".extern .func (.param .b32 r) vprintf ( .param .b64 a, .param .b64 b ) ;
        .visible .entry k() { call (r), vprintf, (a, b); }
        .visible .entry other() { ret; }",
    );
    assert!(kernel(&printing, "k").prints && kernel(&printing, "other").prints);
    assert!(!kernel(&module(".extern .func printing(); .entry k() { call printing; }"), "k").prints);
}

#[test]
fn directives_behind_the_signature() {
    let module = module(
        ".visible .entry a(.param .u64 p)\n.reqntid 16, 4\n.maxnreg 40\n.minnctapersm 2\n.unheard 3, 4\n.pragma \"{;\";\n{ ret; }
        .entry b\n.maxntid 64\n{ .local .align 8 .b8 depot[40]; { ret; } }
        .weak .entry c();\n.global .u32 g[2] = { 1, 2 };\n.const .b32 k, l[2];",
    );
    // `.pragma "{;";` ends in a semicolon of its own; the body still belongs to the kernel.
    assert_eq!(places(&kernel(&module, "a")), [(0, 8)]);
    assert_eq!(kernel(&module, "a").required_threads, Some([16, 4, 1]));
    assert_eq!(kernel(&module, "a").max_registers, Some(40));
    assert_eq!(kernel(&module, "b").max_threads, Some([64, 1, 1]));
    assert_eq!(kernel(&module, "b").local_bytes, 40);
    assert_eq!(module.constant_bytes, 12);
    assert!(module.kernels.contains_key("c"));
}

#[test]
fn a_signature_that_is_not_understood_spoils_only_its_kernel() {
    let module = module(
        ".entry odd(.param .wide p, .param .u32 q) { ret; }
        .entry unsized(.param .b8 p[]) { ret; }
        .entry huge(.param .b8 p[32765]) { ret; }
        .entry good(.param .b8 p[32764]) { ret; }",
    );
    for name in ["odd", "unsized", "huge"] {
        assert!(module.kernels[name].is_err(), "{name}");
    }
    assert_eq!(kernel(&module, "good").parameter_bytes, 32764);
}

#[test]
fn a_definition_replaces_a_prototype_and_not_the_reverse() {
    let module = module(".entry a(.param .u32 p);\n.entry a(.param .u64 p) { }\n.entry a(.param .u8 p);");
    assert_eq!(places(&kernel(&module, "a")), [(0, 8)]);
}

#[test]
fn targets() {
    for (text, expected) in
        [("sm_90a", (90, Reach::Exact)), ("sm_100f", (100, Reach::Family)), ("sm_86, debug", (86, Reach::Forward))]
    {
        let (module, reach) = read(format!("// c\n.version 8.0 .target {text}\n").as_bytes()).unwrap();
        assert_eq!((module.architecture, reach), expected, "{text}");
    }
    assert!(read(b".version 8.0\n").is_err());
    assert!(is_ptx(b"  // comment\n/* another */\n.version 7.0"));
    assert!(!is_ptx(b"\x7fELF") && !is_ptx(b"") && !is_ptx(b"// .version"));
}

#[test]
fn versions() {
    let (major, minor) = NEWEST;
    for (version, known) in [
        ("1.0".to_owned(), true),
        (format!("{major}.{minor}"), true),
        (format!("{}.99", major - 1), true),
        (format!("{major}.{}", minor + 1), false),
        (format!("{major}.10"), false),
        (format!("{}.0", major + 1), false),
    ] {
        let found = read(format!(".version {version}\n.target sm_75\n").as_bytes());
        assert_eq!(found.is_ok(), known, "{version}");
        assert!(found.is_ok() || matches!(found, Err(Error::TooNew(_))), "{version}");
    }
}

#[test]
fn functions_that_call_each_other_without_end_are_bounded() {
    let mut text = String::from(".shared .b8 s[4];\n");
    for number in 0..3000 {
        text.push_str(&format!(".func f{number}();\n"));
    }
    let calls: String = (0..3000).map(|number| format!("call f{number};")).collect();
    for number in 0..300 {
        text.push_str(&format!(".func f{number}() {{ {calls} }}\n"));
    }
    for number in 0..100 {
        text.push_str(&format!(".entry k{number}() {{ call f0; }}\n"));
    }
    assert!(matches!(read(format!("{PREFIX}{text}").as_bytes()), Err(Error::TooLarge(_))));
}

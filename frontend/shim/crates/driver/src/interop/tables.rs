//! The tables that cuGetExportTable gives, by their UUIDs as they are in memory.
//!
//! Word 0 of a table is its size in bytes, except in that of context-local storage, whose word 0 is a function already.
//! What is called, by which library, is in docs/explanation/interoperability.md; the other slots hold `slots::refuse`.

use std::ffi::c_void;
use std::ptr;

use super::slots::{self, refuse};

/// A word of a table: its size, or a function.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Word(*const c_void);

// SAFETY: sizes and addresses of functions; nothing is written.
unsafe impl Sync for Word {}

/// The names under which public sources know the tables; a table's number is its place here.
pub const NAMES: [&str; 10] = [
    "",
    "CUDART_INTERFACE",
    "TOOLS_TLS",
    "TOOLS_RUNTIME_CALLBACK_HOOKS",
    "CONTEXT_LOCAL_STORAGE",
    "CONTEXT_CHECKS",
    "INTEGRITY_CHECK",
    "ToolsContext",
    "ToolsModule",
    "1734dc26",
];

/// A table whose slots refuse, but for those that are given. `sized` puts the table's size in word 0.
macro_rules! table {
    ($number:literal, $count:literal, sized, [$($slot:literal)*], { $($index:literal => $function:path,)* }) => {{
        let mut words = table!($number, $count, unsized, [$($slot)*], { $($index => $function,)* });
        words[0] = Word(ptr::without_provenance($count * size_of::<usize>()));
        words
    }};
    ($number:literal, $count:literal, unsized, [$($slot:literal)*], { $($index:literal => $function:path,)* }) => {{
        let mut words: [Word; $count] = [$(Word(refuse::<$number, $slot> as *const c_void)),*];
        $(words[$index] = Word($function as *const c_void);)*
        words
    }};
}

static RUNTIME: [Word; 13] = table!(1, 13, sized, [0 1 2 3 4 5 6 7 8 9 10 11 12], {
    2 => slots::primary_context,
    // The shared 13.5 calls it without arguments when it starts, and goes on where it succeeds.
    12 => slots::nothing_to_do,
});
static THREADS: [Word; 4] = table!(2, 4, sized, [0 1 2 3], { 2 => slots::current_context, });
static HOOKS: [Word; 7] = table!(3, 7, sized, [0 1 2 3 4 5 6], {
    1 => slots::nothing_to_do,
    2 => slots::many_hooks,
    4 => slots::nothing_to_do,
    6 => slots::few_hooks,
});
static STORAGE: [Word; 4] = table!(4, 4, unsized, [0 1 2 3], {
    0 => slots::storage_put,
    1 => slots::storage_delete,
    2 => slots::storage_get,
});
static CHECKS: [Word; 4] = table!(5, 4, sized, [0 1 2 3], {
    2 => slots::check_context,
    3 => slots::check_nothing,
});
static INTEGRITY: [Word; 3] = table!(6, 3, sized, [0 1 2], { 1 => slots::check_integrity, });
#[rustfmt::skip]
static TOOLS: [Word; 95] = table!(7, 95, sized, [
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
    24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
    48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71
    72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94
], {
    4 => slots::context_id,
    39 => slots::object_tools,
    51 => slots::stream_tools,
});

/// How long NVIDIA's is, is not known: cuFFT calls one slot of it.
static MODULES: [Word; 16] =
    table!(8, 16, sized, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15], { 7 => slots::each_function, });

/// What else is in it, and how long it is, is not known: cuBLASLt calls one slot, for Hopper, and needs the table.
static CHIP: [Word; 8] = table!(9, 8, sized, [0 1 2 3 4 5 6 7], { 4 => slots::places_of_processors, });

/// The table of that UUID.
pub fn find(id: &[u8; 16]) -> Option<*const c_void> {
    let table: &[Word] = match u128::from_be_bytes(*id) {
        0x6bd5_fb6c_5bf4_e74a_8987_d939_12fd_9df9 => &RUNTIME,
        0x42d8_5a81_23f6_cb47_8298_f6e7_8a3a_ecdc => &THREADS,
        0xa094_798c_2e74_2e74_93f2_0800_200c_0a66 => &HOOKS,
        0xc693_336e_1121_df11_a8c3_68f3_55d8_9593 => &STORAGE,
        0x263e_8860_7cd2_6143_92f6_bbd5_006d_fa7e => &CHECKS,
        0xd408_2055_bde6_704b_8d34_ba12_3c66_e1f2 => &INTEGRITY,
        0x2131_8c60_9714_3248_8ca6_41ff_7324_c8f2 => &TOOLS,
        0x6e16_3fbe_b958_444d_835c_e182_aff1_991e => &MODULES,
        0x1734_dc26_800d_4745_8726_c0f1_e7dd_8bca => &CHIP,
        _ => return None,
    };
    Some(table.as_ptr().cast())
}

/// The addresses that the handshake signs: the runtime's table, the integrity table, and that one's function.
pub fn signed() -> [u64; 3] {
    [RUNTIME.as_ptr() as u64, INTEGRITY.as_ptr() as u64, INTEGRITY[1].0 as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::driver::CUresult;

    fn bytes(text: &str) -> [u8; 16] {
        std::array::from_fn(|index| u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).unwrap())
    }

    /// The UUIDs and the sizes of the tables that say theirs.
    const TABLES: [(&str, usize); 8] = [
        ("6bd5fb6c5bf4e74a8987d93912fd9df9", 13),
        ("42d85a8123f6cb478298f6e78a3aecdc", 4),
        ("a094798c2e742e7493f20800200c0a66", 7),
        ("263e88607cd2614392f6bbd5006dfa7e", 4),
        ("d4082055bde6704b8d34ba123c66e1f2", 3),
        ("21318c60971432488ca641ff7324c8f2", 95),
        ("6e163fbeb958444d835ce182aff1991e", 16),
        ("1734dc26800d47458726c0f1e7dd8bca", 8),
    ];

    fn words(id: &str, count: usize) -> &'static [usize] {
        // SAFETY: the table's size, which the test of sizes compares.
        unsafe { std::slice::from_raw_parts(find(&bytes(id)).unwrap().cast(), count) }
    }

    #[test]
    fn every_table_says_its_size() {
        for (id, count) in TABLES {
            assert_eq!(words(id, count)[0], count * size_of::<usize>(), "{id}");
        }
        assert!(find(&bytes("f8cff95121468b4eb9e2fb469e7c0dd9")).is_none());
    }

    #[test]
    fn every_slot_holds_a_function_and_those_that_are_not_known_refuse() {
        for (number, (id, count)) in [1, 2, 3, 5, 6, 7, 8, 9].into_iter().zip(TABLES) {
            assert!(words(id, count).iter().all(|word| *word != 0), "{number}");
        }
        // SAFETY: a slot of the table, whose function looks at no argument.
        let refused: unsafe extern "C" fn() -> CUresult = unsafe { std::mem::transmute(words(TABLES[5].0, 95)[94]) };
        // SAFETY: as above.
        assert_eq!(unsafe { refused() }, CUresult(801));
        assert_ne!(words(TABLES[5].0, 95)[94], words(TABLES[5].0, 95)[93]);
    }

    #[test]
    fn the_storages_table_has_no_size() {
        let table = words("c693336e1121df11a8c368f355d89593", 3);
        assert_eq!(
            table,
            [
                slots::storage_put as *const () as usize,
                slots::storage_delete as *const () as usize,
                slots::storage_get as *const () as usize
            ]
        );
    }
}

//! cuBLAS's functions for products whose types the caller chooses: where the device takes PTX alone, products of half
//! and bfloat16 with sums in float ask for the library's pedantic kernels.
//!
//! For a device that it does not know, cuBLASLt prefers kernels in CUDA Tile IR for these, which no device here takes,
//! and tries no other when one does not load. The pedantic way of the same sums is a kernel that it has as PTX. cuBLAS
//! computes; one argument of the call changes. Preloaded, this library's functions come before cuBLAS's own, and who
//! looks them up gets them as well (`steering`). On a real GPU, and with `FARLANE_STEERING=off`, they pass everything
//! on as it is.

#![allow(non_snake_case, clippy::too_many_arguments)]

use std::ffi::{c_int, c_void, CStr};
use std::mem::transmute;

use parking_lot::ReentrantMutex;

use crate::steering;

/// Those that `steering` gives to who looks them up.
pub const NAMES: [&[u8]; 8] = [
    b"cublasGemmEx",
    b"cublasGemmEx_64",
    b"cublasGemmBatchedEx",
    b"cublasGemmBatchedEx_64",
    b"cublasGemmStridedBatchedEx",
    b"cublasGemmStridedBatchedEx_64",
    b"cublasLtMatmul",
    b"cublasLtMatmulAlgoGetHeuristic",
];

const LIBRARIES: [&CStr; 4] = [c"libcublas.so.13", c"libcublas.so.12", c"libcublasLt.so.13", c"libcublasLt.so.12"];

/// cublasStatus_t.
const NOT_INITIALIZED: c_int = 1;
/// cudaDataType.
const HALF: c_int = 2;
const BFLOAT16: c_int = 14;
/// cublasComputeType_t.
const COMPUTE_32F: c_int = 68;
const COMPUTE_32F_PEDANTIC: c_int = 69;
/// Attributes of cuBLASLt's descriptions: cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t.
const DESCRIPTION_COMPUTE_TYPE: c_int = 0;
const LAYOUT_TYPE: c_int = 0;

type Pointer = *mut c_void;

fn own(name: &CStr) -> Pointer {
    session::real::function_of(&LIBRARIES, name)
}

/// The type of computation for operands of this type.
fn compute(operand: c_int, asked: c_int) -> c_int {
    let narrow = matches!(operand, HALF | BFLOAT16);
    if narrow && asked == COMPUTE_32F && steering::takes_ptx_alone() {
        return COMPUTE_32F_PEDANTIC;
    }
    asked
}

/// A function of cuBLAS's with its parameters, of which the last two, computation and algorithm, are added; `kind` is
/// the first operand's type.
macro_rules! product {
    ($name:ident, $symbol:literal, $kind:ident: ($($parameter:ident: $type:ty),*)) => {
        /// # Safety
        /// cuBLAS's.
        #[no_mangle]
        pub unsafe extern "C" fn $name($($parameter: $type,)* compute_type: c_int, algorithm: c_int) -> c_int {
            let function = own($symbol);
            if function.is_null() {
                return NOT_INITIALIZED;
            }
            // SAFETY: cuBLAS's function of that name has this type.
            unsafe {
                let function: unsafe extern "C" fn($($type,)* c_int, c_int) -> c_int = transmute(function);
                function($($parameter,)* compute($kind, compute_type), algorithm)
            }
        }
    };
}

/// The functions whose numbers of rows are of type `int`.
macro_rules! products {
    ($int:ty, $one:ident $one_symbol:literal, $batched:ident $batched_symbol:literal, $strided:ident $strided_symbol:literal) => {
        product!($one, $one_symbol, a_type: (handle: Pointer, ta: c_int, tb: c_int, m: $int, n: $int, k: $int,
            alpha: Pointer, a: Pointer, a_type: c_int, lda: $int, b: Pointer, b_type: c_int, ldb: $int,
            beta: Pointer, c: Pointer, c_type: c_int, ldc: $int));
        product!($batched, $batched_symbol, a_type: (handle: Pointer, ta: c_int, tb: c_int, m: $int, n: $int, k: $int,
            alpha: Pointer, a: Pointer, a_type: c_int, lda: $int, b: Pointer, b_type: c_int, ldb: $int,
            beta: Pointer, c: Pointer, c_type: c_int, ldc: $int, count: $int));
        product!($strided, $strided_symbol, a_type: (handle: Pointer, ta: c_int, tb: c_int, m: $int, n: $int, k: $int,
            alpha: Pointer, a: Pointer, a_type: c_int, lda: $int, stride_a: i64, b: Pointer, b_type: c_int, ldb: $int,
            stride_b: i64, beta: Pointer, c: Pointer, c_type: c_int, ldc: $int, stride_c: i64, count: $int));
    };
}

products!(c_int, cublasGemmEx c"cublasGemmEx", cublasGemmBatchedEx c"cublasGemmBatchedEx",
    cublasGemmStridedBatchedEx c"cublasGemmStridedBatchedEx");
products!(i64, cublasGemmEx_64 c"cublasGemmEx_64", cublasGemmBatchedEx_64 c"cublasGemmBatchedEx_64",
    cublasGemmStridedBatchedEx_64 c"cublasGemmStridedBatchedEx_64");

type Get = unsafe extern "C" fn(Pointer, c_int, *mut c_int, usize, *mut usize) -> c_int;
type Set = unsafe extern "C" fn(Pointer, c_int, *const c_int, usize) -> c_int;

/// Held while a description is changed: threads may share one. cuBLASLt may call itself, through our functions.
static CHANGED: ReentrantMutex<()> = ReentrantMutex::new(());

/// Runs `call` with the description's type of computation changed, if it is to be, and changed back afterwards.
///
/// # Safety
/// The caller's promises are cuBLASLt's.
unsafe fn described(description: Pointer, operand: Pointer, call: impl FnOnce() -> c_int) -> c_int {
    let (get, set) = (own(c"cublasLtMatmulDescGetAttribute"), own(c"cublasLtMatmulDescSetAttribute"));
    let get_layout = own(c"cublasLtMatrixLayoutGetAttribute");
    if get.is_null() || set.is_null() || get_layout.is_null() || description.is_null() || operand.is_null() {
        return call();
    }
    // SAFETY: cuBLASLt's functions of these names have these types; each attribute has four bytes.
    unsafe {
        let (get, set) = (transmute::<Pointer, Get>(get), transmute::<Pointer, Set>(set));
        let get_layout: Get = transmute(get_layout);
        let (mut asked, mut kind, mut written) = (-1, -1, 0);
        get_layout(operand, LAYOUT_TYPE, &raw mut kind, 4, &raw mut written);
        if compute(kind, COMPUTE_32F) == COMPUTE_32F {
            return call();
        }
        let _turn = CHANGED.lock();
        get(description, DESCRIPTION_COMPUTE_TYPE, &raw mut asked, 4, &raw mut written);
        let changed = compute(kind, asked);
        if changed == asked || set(description, DESCRIPTION_COMPUTE_TYPE, &raw const changed, 4) != 0 {
            return call();
        }
        let status = call();
        set(description, DESCRIPTION_COMPUTE_TYPE, &raw const asked, 4);
        status
    }
}

/// # Safety
/// cuBLASLt's.
#[no_mangle]
pub unsafe extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    handle: Pointer,
    description: Pointer,
    a: Pointer,
    b: Pointer,
    c: Pointer,
    d: Pointer,
    preference: Pointer,
    wanted: c_int,
    results: Pointer,
    count: Pointer,
) -> c_int {
    type Function = unsafe extern "C" fn(
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        c_int,
        Pointer,
        Pointer,
    ) -> c_int;
    let function = own(c"cublasLtMatmulAlgoGetHeuristic");
    if function.is_null() {
        return NOT_INITIALIZED;
    }
    // SAFETY: the caller's promises.
    unsafe {
        let function: Function = transmute(function);
        described(description, a, || function(handle, description, a, b, c, d, preference, wanted, results, count))
    }
}

/// # Safety
/// cuBLASLt's.
#[no_mangle]
pub unsafe extern "C" fn cublasLtMatmul(
    handle: Pointer,
    description: Pointer,
    alpha: Pointer,
    a: Pointer,
    a_layout: Pointer,
    b: Pointer,
    b_layout: Pointer,
    beta: Pointer,
    c: Pointer,
    c_layout: Pointer,
    d: Pointer,
    d_layout: Pointer,
    algorithm: Pointer,
    workspace: Pointer,
    size: usize,
    stream: Pointer,
) -> c_int {
    type Function = unsafe extern "C" fn(
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        Pointer,
        usize,
        Pointer,
    ) -> c_int;
    let function = own(c"cublasLtMatmul");
    if function.is_null() {
        return NOT_INITIALIZED;
    }
    // SAFETY: the caller's promises.
    unsafe {
        let function: Function = transmute(function);
        described(description, a_layout, || {
            function(
                handle,
                description,
                alpha,
                a,
                a_layout,
                b,
                b_layout,
                beta,
                c,
                c_layout,
                d,
                d_layout,
                algorithm,
                workspace,
                size,
                stream,
            )
        })
    }
}

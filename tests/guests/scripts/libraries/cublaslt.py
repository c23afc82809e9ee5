"""cuBLASLt: products whose epilogue adds a bias and applies a function, by its own interface: neither CuPy nor NumPy has one."""

from __future__ import annotations

import ctypes

import cupy
import ml_dtypes
import numpy
from comparison import Cases, close, of

case = Cases()

COMPUTE_32F = 68
# cudaDataType of the operands, and the tolerance of results in them.
KINDS = {numpy.dtype("f"): (0, 1e-4), numpy.dtype("e"): (2, 2e-3), numpy.dtype(ml_dtypes.bfloat16): (14, 2e-2)}
REAL_32F = 0
EPILOGUE, BIAS_POINTER = 7, 8  # cublasLtMatmulDescAttributes_t
DEFAULT, RELU, BIAS, RELU_BIAS, GELU, GELU_BIAS = 1, 2, 4, 6, 32, 36
WORKSPACE_BYTES = 1  # of cublasLtMatmulPreferenceAttributes_t
WORKSPACE = 1 << 20

_FOLDER = numpy.__path__[0].rsplit("/", 1)[0] + "/nvidia/cu13/lib/"
_library = ctypes.CDLL(_FOLDER + "libcublasLt.so.13")


def call(name: str, *arguments: object) -> None:
    status = getattr(_library, name)(*arguments)
    assert status == 0, f"{name}: {status}"


def place(array: cupy.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.data.ptr)


def made(name: str, *arguments: object) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    call(name, ctypes.byref(handle), *arguments)
    return handle


def product(a: numpy.ndarray, b: numpy.ndarray, epilogue: int, bias: numpy.ndarray) -> numpy.ndarray:
    """Results are of the operands' type; `bias` has an element for each row of them."""
    (m, k), n, kind = a.shape, b.shape[1], KINDS[a.dtype][0]
    # Bytes in Fortran's order: CuPy knows no bfloat16.
    first, second, added = (cupy.asarray(numpy.ascontiguousarray(x.T).view("u1")) for x in (a, b, bias))
    result, work = cupy.zeros(m * n * a.dtype.itemsize, "u1"), cupy.zeros(WORKSPACE, "u1")
    cupy.cuda.Device().synchronize()
    library = made("cublasLtCreate")
    description = made("cublasLtMatmulDescCreate", COMPUTE_32F, REAL_32F)
    wanted, pointer = ctypes.c_int(epilogue), place(added)
    call("cublasLtMatmulDescSetAttribute", description, EPILOGUE, ctypes.byref(wanted), ctypes.c_size_t(4))
    if epilogue & BIAS:
        call("cublasLtMatmulDescSetAttribute", description, BIAS_POINTER, ctypes.byref(pointer), ctypes.c_size_t(8))
    layouts = [
        made("cublasLtMatrixLayoutCreate", kind, ctypes.c_uint64(i), ctypes.c_uint64(j), ctypes.c_int64(i))
        for i, j in ((m, k), (k, n), (m, n))
    ]
    preference, size = made("cublasLtMatmulPreferenceCreate"), ctypes.c_size_t(WORKSPACE)
    call("cublasLtMatmulPreferenceSetAttribute", preference, WORKSPACE_BYTES, ctypes.byref(size), ctypes.c_size_t(8))
    chosen, count = ctypes.create_string_buffer(256), ctypes.c_int()
    at, bt, ct = layouts
    call(
        "cublasLtMatmulAlgoGetHeuristic", library, description, at, bt, ct, ct, preference, 1, chosen,
        ctypes.byref(count),
    )  # fmt: skip
    assert count.value == 1
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    call(
        "cublasLtMatmul", library, description, ctypes.byref(one), place(first), at, place(second), bt,
        ctypes.byref(zero), place(result), ct, place(result), ct, chosen, place(work), ctypes.c_size_t(WORKSPACE), None,
    )  # fmt: skip
    cupy.cuda.Device().synchronize()
    for handle in layouts:
        call("cublasLtMatrixLayoutDestroy", handle)
    call("cublasLtMatmulPreferenceDestroy", preference)
    call("cublasLtMatmulDescDestroy", description)
    call("cublasLtDestroy", library)
    return result.get().view(a.dtype).reshape(n, m).T


def gelu(x: numpy.ndarray) -> numpy.ndarray:
    return 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))


def compare(kind: numpy.dtype) -> None:
    for m, n, k in ((64, 32, 48), (36, 20, 17)):
        a, b, bias = (of("f", *shape).astype(kind) for shape in ((m, k), (k, n), (m,)))
        plain = a.astype("d") @ b.astype("d")
        biased = plain + bias.astype("d")[:, None]
        for epilogue, right in (
            (DEFAULT, plain),
            (BIAS, biased),
            (RELU, numpy.maximum(plain, 0)),
            (RELU_BIAS, numpy.maximum(biased, 0)),
            (GELU, gelu(plain)),
            (GELU_BIAS, gelu(biased)),
        ):
            try:
                close(numpy.ascontiguousarray(product(a, b, epilogue, bias)).astype("d"), right, KINDS[kind][1])
            except AssertionError as error:
                raise AssertionError(f"epilogue {epilogue}, {m} x {n} x {k}: {error}") from None


@case
def single() -> None:
    compare(numpy.dtype("f"))


@case
def half() -> None:
    compare(numpy.dtype("e"))


@case
def bfloat16() -> None:
    compare(numpy.dtype(ml_dtypes.bfloat16))

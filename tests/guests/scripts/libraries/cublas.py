"""cuBLAS: products of every type, levels 1 to 3, batches."""

from __future__ import annotations

from collections.abc import Iterator

import cupy
import ml_dtypes
import numpy
from comparison import TOLERANCE, Cases, close, of
from cupy import cublas as level
from cupy.cuda import device
from cupy_backends.cuda.libs import cublas as library

case = Cases()

# cudaDataType and cublasComputeType_t.
REAL_16F, REAL_32F, REAL_16BF, REAL_8I, REAL_32I = 2, 0, 14, 3, 10
COMPUTE_16F, COMPUTE_32F, COMPUTE_32F_16F, COMPUTE_32F_16BF, COMPUTE_32F_TF32, COMPUTE_32I = 64, 68, 74, 75, 77, 72
SHAPES = ((64, 32, 48), (33, 65, 17), (130, 70, 257))
SMALL = ((1, 8, 8), (8, 1, 64), (7, 7, 7))


def pairs(kind: str) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
    for m, n, k in SHAPES:
        yield of(kind, m, k), of(kind, k, n)


def products(kind: str) -> None:
    for a, b in pairs(kind):
        close(cupy.asarray(a) @ cupy.asarray(b), a @ b, TOLERANCE[kind] * a.shape[1])
        close(cupy.asarray(a).T @ cupy.asarray(a), a.T @ a, TOLERANCE[kind] * a.shape[0])


def product_by(a: numpy.ndarray, b: numpy.ndarray, kinds: tuple[int, int, int], out: str) -> numpy.ndarray:
    """cublasGemmEx: `kinds` are the types of the operands, of the result, and of the computation."""
    m, k = a.shape
    n = b.shape[1]
    # Bytes in Fortran's order: CuPy knows no bfloat16.
    first, second = (cupy.asarray(numpy.ascontiguousarray(x.T).view(numpy.uint8)) for x in (a, b))
    result = cupy.zeros(m * n * numpy.dtype(out).itemsize, "u1")
    scalar = {COMPUTE_16F: "e", COMPUTE_32I: "i"}.get(kinds[2], "f")
    one, zero = numpy.ones(1, scalar), numpy.zeros(1, scalar)
    operand, produced, compute = kinds
    library.gemmEx(
        device.get_cublas_handle(), 0, 0, m, n, k, one.ctypes.data, first.data.ptr, operand, m, second.data.ptr,
        operand, k, zero.ctypes.data, result.data.ptr, produced, m, compute, -1,
    )  # fmt: skip
    return result.get().view(out).reshape(n, m).T


@case
def single() -> None:
    products("f")


@case
def double() -> None:
    products("d")


@case
def complex_single() -> None:
    products("F")


@case
def complex_double() -> None:
    products("D")


@case
def half_sums_in_single() -> None:
    """Results in either precision; the library would have tiles for the larger ones (docs/reference/libraries.md)."""
    for m, n, k in SMALL + SHAPES:
        a, b = of("e", m, k), of("e", k, n)
        right = a.astype("d") @ b.astype("d")
        close(product_by(a, b, (REAL_16F, REAL_16F, COMPUTE_32F), "e"), right, 2e-3)
        close(product_by(a, b, (REAL_16F, REAL_32F, COMPUTE_32F), "f"), right, 1e-5)


@case
def half_products_of_cupy() -> None:
    for a, b in pairs("e"):
        close(cupy.asarray(a) @ cupy.asarray(b), a.astype("d") @ b.astype("d"), 2e-3)


@case
def half_sums() -> None:
    """Sums that are kept in half precision."""
    for a, b in pairs("e"):
        close(product_by(a, b, (REAL_16F, REAL_16F, COMPUTE_16F), "e"), a.astype("d") @ b.astype("d"), 2e-2)


@case
def bfloat16() -> None:
    for m, n, k in SMALL + SHAPES:
        a, b = of("f", m, k).astype(ml_dtypes.bfloat16), of("f", k, n).astype(ml_dtypes.bfloat16)
        right = a.astype("d") @ b.astype("d")
        close(product_by(a, b, (REAL_16BF, REAL_32F, COMPUTE_32F), "f"), right, 1e-5)
        narrow = product_by(a.view("u2"), b.view("u2"), (REAL_16BF, REAL_16BF, COMPUTE_32F), "u2")
        close(numpy.ascontiguousarray(narrow).view(ml_dtypes.bfloat16).astype("d"), right, 1e-2)


@case
def tf32() -> None:
    for compute in (COMPUTE_32F_TF32, COMPUTE_32F_16F, COMPUTE_32F_16BF):
        for a, b in pairs("f"):
            close(product_by(a, b, (REAL_32F, REAL_32F, compute), "f"), a.astype("d") @ b.astype("d"), 1e-2)


def bytes_of(m: int, n: int, k: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    numbers = numpy.random.default_rng(k)
    return numbers.integers(-128, 128, (m, k), "i1"), numbers.integers(-128, 128, (k, n), "i1")


@case
def bytes_to_integers() -> None:
    """Multiples of 4, one of rows and columns at most 16, or sums of at least 128."""
    for m, n, k in ((4, 4, 4), (8, 8, 8), (16, 16, 20), (16, 16, 256), (64, 32, 128), (100, 100, 128), (128, 64, 256)):
        a, b = bytes_of(m, n, k)
        found = product_by(a, b, (REAL_8I, REAL_32I, COMPUTE_32I), "i4")
        assert numpy.array_equal(found, a.astype("i4") @ b.astype("i4")), (m, n, k)


@case
def bytes_that_are_refused() -> None:
    """No multiple of 4, which no device takes; and what cuBLAS has machine code alone for."""
    for m, n, k in ((7, 7, 7), (64, 32, 48), (64, 64, 64)):
        status = "right"
        try:
            product_by(*bytes_of(m, n, k), (REAL_8I, REAL_32I, COMPUTE_32I), "i4")
        except library.CUBLASError as error:
            status = str(error)
        assert status == "CUBLAS_STATUS_NOT_SUPPORTED", "docs/reference/libraries.md says that it does not run"


@case
def batched_half_sums_in_single() -> None:
    """cublasGemmStridedBatchedEx."""
    count, m, n, k = 3, 40, 24, 56
    a, b = of("e", count, m, k), of("e", count, k, n)
    first, second = cupy.asarray(a.swapaxes(1, 2).copy()), cupy.asarray(b.swapaxes(1, 2).copy())
    result, one, zero = cupy.zeros((count, n, m), "f"), numpy.ones(1, "f"), numpy.zeros(1, "f")
    library.gemmStridedBatchedEx(
        device.get_cublas_handle(), 0, 0, m, n, k, one.ctypes.data, first.data.ptr, REAL_16F, m, m * k,
        second.data.ptr, REAL_16F, k, k * n, zero.ctypes.data, result.data.ptr, REAL_32F, m, m * n, count,
        COMPUTE_32F, -1,
    )  # fmt: skip
    close(result.get().swapaxes(1, 2), a.astype("d") @ b.astype("d"), 1e-5)


@case
def batched() -> None:
    for kind in "efdFD":
        a, b = of(kind, 5, 20, 30), of(kind, 5, 30, 10)
        right = numpy.matmul(a.astype(numpy.result_type(kind, "f")), b)
        close(cupy.matmul(cupy.asarray(a), cupy.asarray(b)), right, TOLERANCE[kind] * 30)


@case
def batched_by_pointers() -> None:
    for kind in "fd":
        a, b = of(kind, 4, 12, 12), of(kind, 4, 12, 12)
        first, second, result = cupy.asarray(a), cupy.asarray(b), cupy.zeros((4, 12, 12), kind)
        places = [
            cupy.asarray([x.data.ptr + i * x.strides[0] for i in range(4)], "u8") for x in (first, second, result)
        ]
        one, zero = numpy.ones(1, kind), numpy.zeros(1, kind)
        call = library.sgemmBatched if kind == "f" else library.dgemmBatched
        # The rows' order: the second operand comes first.
        call(
            device.get_cublas_handle(), 0, 0, 12, 12, 12, one.ctypes.data, places[1].data.ptr, 12, places[0].data.ptr,
            12, zero.ctypes.data, places[2].data.ptr, 12, 4,
        )  # fmt: skip
        close(result, a @ b, TOLERANCE[kind] * 12)


@case
def level_1() -> None:
    for kind in "fdFD":
        x, y = of(kind, 1000), of(kind, 1000)
        there, other = cupy.asarray(x), cupy.asarray(y)
        tolerance = TOLERANCE[kind] * 100
        parts = abs(x.real) + abs(x.imag)
        assert int(level.iamax(there)) == int(parts.argmax()) + 1
        assert int(level.iamin(there)) == int(parts.argmin()) + 1
        close(level.asum(there), parts.sum(), tolerance)
        close(level.nrm2(there), numpy.linalg.norm(x), tolerance)
        if kind in "fd":
            close(level.dot(there, other), x @ y, tolerance)
        else:
            close(level.dotu(there, other), x @ y, tolerance)
            close(level.dotc(there, other), numpy.vdot(x, y), tolerance)
        level.axpy(2, there, other)
        close(other, 2 * x + y, tolerance)
        level.scal(3, there)
        close(there, 3 * x, tolerance)


@case
def level_2() -> None:
    for kind in "fdFD":
        a, x, y = of(kind, 65, 33), of(kind, 33), of(kind, 65)
        tolerance = TOLERANCE[kind] * 65
        there, first, second = cupy.asarray(a, order="F"), cupy.asarray(x), cupy.asarray(y)
        level.gemv("N", 2, there, first, 1, second)
        close(second, 2 * a @ x + y, tolerance)
        level.gemv("T", 1, there, cupy.asarray(y), 0, first)
        close(first, a.T @ y, tolerance)
        update = level.ger if kind in "fd" else level.geru
        update(1, cupy.asarray(y), cupy.asarray(x), there)
        close(there, a + numpy.outer(y, x), tolerance)


@case
def level_3() -> None:
    for kind in "fdFD":
        a, b, x = of(kind, 40, 24), of(kind, 40, 24), of(kind, 24)
        tolerance = TOLERANCE[kind] * 40
        there, other = cupy.asarray(a, order="F"), cupy.asarray(b, order="F")
        close(level.geam("N", "N", 2, there, 3, other), 2 * a + 3 * b, tolerance)
        close(level.dgmm("R", there, cupy.asarray(x)), a * x, tolerance)
        close(cupy.tril(level.syrk("N", there, lower=True)), numpy.tril(a @ a.T), tolerance)
        triangle = cupy.asarray(numpy.tril(of(kind, 24, 24)) + 24 * numpy.eye(24, dtype=kind), order="F")
        right = cupy.asarray(b.T, order="F")
        one = numpy.ones(1, kind)
        solve = {"f": library.strsm, "d": library.dtrsm, "F": library.ctrsm, "D": library.ztrsm}[kind]
        solve(
            device.get_cublas_handle(), 0, 0, 0, 0, 24, 40, one.ctypes.data, triangle.data.ptr, 24, right.data.ptr, 24
        )
        close(triangle @ right, b.T, tolerance)


@case
def batched_factors() -> None:
    """getrfBatched, getriBatched and trsmBatched, by which CuPy inverts stacks of matrices."""
    for kind in "fd":
        a = of(kind, 6, 10, 10) + 20 * numpy.eye(10, dtype=kind)
        close(cupy.linalg.inv(cupy.asarray(a)), numpy.linalg.inv(a), TOLERANCE[kind] * 100)

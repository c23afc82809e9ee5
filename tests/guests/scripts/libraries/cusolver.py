"""cuSOLVER: factorizations, eigenvalues and singular values through CuPy, and its own API where CuPy has no way to it."""

from __future__ import annotations

import cupy
import numpy
import scipy.sparse
from comparison import RANDOM, TOLERANCE, Cases, close, of
from cupy.cuda import device
from cupy_backends.cuda.libs import cusolver, cusparse

case = Cases()


def well(kind: str, *shape: int) -> numpy.ndarray:
    """Square matrices far from singular ones."""
    return of(kind, *shape) + (2 * shape[-1] * numpy.eye(shape[-1])).astype(kind)


def definite(kind: str, *shape: int) -> numpy.ndarray:
    """Hermitian matrices whose eigenvalues are positive."""
    a = of(kind, *shape)
    return a @ a.conj().swapaxes(-1, -2) + shape[-1] * numpy.eye(shape[-1], dtype=kind)


@case
def getrf() -> None:
    for kind in "fdFD":
        a, b = well(kind, 37, 37), of(kind, 37, 3)
        close(cupy.linalg.solve(cupy.asarray(a), cupy.asarray(b)), numpy.linalg.solve(a, b), TOLERANCE[kind] * 37)
        close(cupy.linalg.inv(cupy.asarray(a)), numpy.linalg.inv(a), TOLERANCE[kind] * 37)
        sign, logarithm = cupy.linalg.slogdet(cupy.asarray(a))
        right = numpy.linalg.slogdet(a)
        close(sign, right[0], TOLERANCE[kind] * 37)
        close(logarithm, right[1], TOLERANCE[kind] * 37)


@case
def getrf_batched() -> None:
    for kind in "fdFD":
        a, b = well(kind, 4, 9, 9), of(kind, 4, 9, 2)
        close(cupy.linalg.solve(cupy.asarray(a), cupy.asarray(b)), numpy.linalg.solve(a, b), TOLERANCE[kind] * 9)
        close(cupy.linalg.inv(cupy.asarray(a)), numpy.linalg.inv(a), TOLERANCE[kind] * 9)


@case
def potrf() -> None:
    for kind in "fdFD":
        a = definite(kind, 37, 37)
        close(cupy.linalg.cholesky(cupy.asarray(a)), numpy.linalg.cholesky(a), TOLERANCE[kind] * 37)


@case
def potrf_batched() -> None:
    for kind in "fdFD":
        a = definite(kind, 5, 8, 8)
        close(cupy.linalg.cholesky(cupy.asarray(a)), numpy.linalg.cholesky(a), TOLERANCE[kind] * 8)


@case
def geqrf() -> None:
    for kind in "fdFD":
        for shape in ((40, 17), (17, 40)):
            a = of(kind, *shape)
            q, r = cupy.linalg.qr(cupy.asarray(a))
            close(q @ r, a, TOLERANCE[kind] * 40)
            close(q.conj().T @ q, numpy.eye(17), TOLERANCE[kind] * 40)
            close(cupy.abs(r), abs(numpy.linalg.qr(a)[1]), TOLERANCE[kind] * 40)


@case
def least_squares() -> None:
    for kind in "fd":
        a, b = of(kind, 30, 7), of(kind, 30)
        found = cupy.linalg.lstsq(cupy.asarray(a), cupy.asarray(b), rcond=None)[0]
        close(found, numpy.linalg.lstsq(a, b, rcond=None)[0], TOLERANCE[kind] * 30)


@case
def syevd() -> None:
    for kind in "fdFD":
        a = definite(kind, 24, 24)
        values, vectors = cupy.linalg.eigh(cupy.asarray(a))
        close(values, numpy.linalg.eigvalsh(a), TOLERANCE[kind] * 24)
        close(vectors * values @ vectors.conj().T, a, TOLERANCE[kind] * 24)


@case
def syevj_batched() -> None:
    for kind in "fdFD":
        a = definite(kind, 3, 6, 6)
        values, vectors = cupy.linalg.eigh(cupy.asarray(a))
        close(values, numpy.linalg.eigvalsh(a), TOLERANCE[kind] * 100)
        close(vectors * values[:, None] @ vectors.conj().swapaxes(-1, -2), a, TOLERANCE[kind] * 100)


@case
def gesvd() -> None:
    for kind in "fdFD":
        for shape in ((23, 12), (12, 23)):
            a = of(kind, *shape)
            u, s, v = cupy.linalg.svd(cupy.asarray(a), full_matrices=False)
            close(s, numpy.linalg.svd(a, compute_uv=False), TOLERANCE[kind] * 23)
            close(u * s @ v, a, TOLERANCE[kind] * 23)


@case
def gesvdj_batched() -> None:
    for kind in "fdFD":
        a = of(kind, 3, 8, 5)
        u, s, v = cupy.linalg.svd(cupy.asarray(a), full_matrices=False)
        close(s, numpy.linalg.svd(a, compute_uv=False), TOLERANCE[kind] * 100)
        close(u * s[:, None] @ v, a, TOLERANCE[kind] * 100)


@case
def geev() -> None:
    for kind in "fdFD":
        a = of(kind, 12, 12)
        found = numpy.sort_complex(cupy.asnumpy(cupy.linalg.eigvals(cupy.asarray(a))))
        close(found, numpy.sort_complex(numpy.linalg.eigvals(a)), TOLERANCE[kind] * 100)


@case
def own_interface() -> None:
    """dgetrf and dgetrs as a C program calls them, and the code that reports a singular matrix."""
    handle = device.get_cusolver_handle()
    a, b = well("d", 20, 20), of("d", 20)
    factors, x = cupy.asarray(a, order="F"), cupy.asarray(b)
    pivots, info = cupy.empty(20, "i"), cupy.empty(1, "i")
    work = cupy.empty(cusolver.dgetrf_bufferSize(handle, 20, 20, factors.data.ptr, 20), "d")
    cusolver.dgetrf(handle, 20, 20, factors.data.ptr, 20, work.data.ptr, pivots.data.ptr, info.data.ptr)
    assert int(info[0]) == 0
    cusolver.dgetrs(handle, 0, 20, 1, factors.data.ptr, 20, pivots.data.ptr, x.data.ptr, 20, info.data.ptr)
    close(x, numpy.linalg.solve(a, b), 1e-11)
    singular = cupy.zeros((20, 20), "d", order="F")
    cusolver.dgetrf(handle, 20, 20, singular.data.ptr, 20, work.data.ptr, pivots.data.ptr, info.data.ptr)
    assert int(info[0]) == 1


@case
def sparse_solves() -> None:
    """csrlsvqr and csrlsvchol, for each type."""
    letters = {"f": "s", "d": "d", "F": "c", "D": "z"}
    description = cusparse.createMatDescr()
    for kind, letter in letters.items():
        a, b = definite(kind, 24, 24), of(kind, 24)
        a[(RANDOM.random((24, 24)) < 0.7) & ~numpy.eye(24, dtype=bool)] = 0
        a = numpy.tril(a) + numpy.tril(a, -1).conj().T + (48 * numpy.eye(24)).astype(kind)
        matrix = scipy.sparse.csr_matrix(a)
        data, starts, columns = cupy.asarray(matrix.data), cupy.asarray(matrix.indptr), cupy.asarray(matrix.indices)
        side = cupy.asarray(b)
        for way in ("qr", "chol"):
            x, singular = cupy.zeros(24, kind), numpy.zeros(1, "i")
            getattr(cusolver, f"{letter}csrlsv{way}")(
                device.get_cusolver_sp_handle(), 24, matrix.nnz, description, data.data.ptr, starts.data.ptr,
                columns.data.ptr, side.data.ptr, 1e-6, 0, x.data.ptr, singular.ctypes.data,
            )  # fmt: skip
            assert singular[0] == -1, way
            close(x, numpy.linalg.solve(a, b), TOLERANCE[kind] * 100)

"""cuSPARSE: products, sums, solves and conversions of sparse matrices, compared with SciPy.

What CuPy has no way to (SDDMM, SpSV, blocks) is called by cuSPARSE's own interface.
"""

from __future__ import annotations

import ctypes

import cupy
import numpy
import scipy.sparse
import scipy.sparse.linalg
from comparison import RANDOM, TOLERANCE, Cases, close, of
from cupyx import cusparse
from cupyx.scipy import sparse
from cupyx.scipy.sparse import linalg

case = Cases()


def thin(kind: str, rows: int, columns: int, density: float = 0.2) -> scipy.sparse.csr_matrix:
    """A random sparse matrix."""
    dense = of(kind, rows, columns)
    dense[RANDOM.random((rows, columns)) >= density] = 0
    return scipy.sparse.csr_matrix(dense)


@case
def spmv() -> None:
    for kind in "fdFD":
        a, x, y = thin(kind, 60, 45), of(kind, 45), of(kind, 60)
        there = sparse.csr_matrix(a)
        close(there @ cupy.asarray(x), a @ x, TOLERANCE[kind] * 45)
        close(cusparse.spmv(there, cupy.asarray(x), cupy.asarray(y), 2, 3), 2 * (a @ x) + 3 * y, TOLERANCE[kind] * 45)
        close(cusparse.spmv(there, cupy.asarray(y), transa=True), a.T @ y, TOLERANCE[kind] * 60)
        close(sparse.coo_matrix(a) @ cupy.asarray(x), a @ x, TOLERANCE[kind] * 45)
        close(sparse.csc_matrix(a) @ cupy.asarray(x), a @ x, TOLERANCE[kind] * 45)


@case
def spmm() -> None:
    for kind in "fdFD":
        a, b = thin(kind, 60, 45), of(kind, 45, 12)
        there = sparse.csr_matrix(a)
        close(there @ cupy.asarray(b), a @ b, TOLERANCE[kind] * 45)
        close(cusparse.spmm(there, cupy.asarray(b, order="F"), alpha=2), 2 * (a @ b), TOLERANCE[kind] * 45)


@case
def spgemm() -> None:
    for kind in "fdFD":
        a, b = thin(kind, 40, 30), thin(kind, 30, 50)
        product = cusparse.spgemm(sparse.csr_matrix(a), sparse.csr_matrix(b), 2)
        close(product.toarray(), 2 * (a @ b).toarray(), TOLERANCE[kind] * 30)


@case
def spgeam() -> None:
    for kind in "fdFD":
        a, b = thin(kind, 40, 30), thin(kind, 40, 30)
        total = sparse.csr_matrix(a) + sparse.csr_matrix(b)
        close(total.toarray(), (a + b).toarray(), TOLERANCE[kind] * 10)


@case
def spsm() -> None:
    """Triangular solves with several right sides."""
    for kind in "fdFD":
        for lower in (True, False):
            a = (scipy.sparse.tril if lower else scipy.sparse.triu)(thin(kind, 40, 40) + 8 * scipy.sparse.eye(40))
            a, b = scipy.sparse.csr_matrix(a).astype(kind), of(kind, 40, 5)
            found = cusparse.spsm(sparse.csr_matrix(a), cupy.asarray(b, order="F"), lower=lower)
            close(a @ found.get(), b, TOLERANCE[kind] * 400)
            close(
                linalg.spsolve_triangular(sparse.csr_matrix(a), cupy.asarray(b[:, 0]), lower=lower),
                scipy.sparse.linalg.spsolve_triangular(a.tocsr(), b[:, 0], lower=lower),
                TOLERANCE[kind] * 400,
            )


@case
def conversions() -> None:
    for kind in "fdFD":
        a = thin(kind, 33, 27)
        there = sparse.csr_matrix(a)
        for form in ("csc", "coo", "csr"):
            assert numpy.array_equal(there.asformat(form).toarray().get(), a.toarray()), form
        assert numpy.array_equal(sparse.csc_matrix(a).tocsr().toarray().get(), a.toarray())
        assert numpy.array_equal(sparse.coo_matrix(a).tocsr().toarray().get(), a.toarray())
        dense = cupy.asarray(a.toarray())
        for form in ("csr", "csc", "coo"):
            assert numpy.array_equal(cusparse.denseToSparse(dense, form).toarray().get(), a.toarray()), form
        assert numpy.array_equal(cusparse.sparseToDense(there).get(), a.toarray())


@case
def sorting() -> None:
    a = thin("d", 50, 50).tocoo()
    order = RANDOM.permutation(a.nnz)
    there = sparse.coo_matrix((cupy.asarray(a.data[order]), (cupy.asarray(a.row[order]), cupy.asarray(a.col[order]))))
    cusparse.coosort(there)
    right = a.tocsr().tocoo()
    for found, expected in ((there.row, right.row), (there.col, right.col), (there.data, right.data)):
        assert numpy.array_equal(found.get(), expected)


@case
def conjugate_gradients() -> None:
    a = thin("d", 60, 60)
    a = scipy.sparse.csr_matrix(a @ a.T + 30 * scipy.sparse.eye(60))
    b = of("d", 60)
    found, info = linalg.cg(sparse.csr_matrix(a), cupy.asarray(b), rtol=1e-10)
    assert info == 0
    close(a @ found.get(), b, 1e-8)


@case
def incomplete_factors() -> None:
    """csrilu02: where nothing is filled in, what it gives is the factorization."""
    for kind in "fdFD":
        for with_levels in (False, True):
            a = scipy.sparse.csr_matrix(thin(kind, 30, 30) + 20 * scipy.sparse.eye(30)).astype(kind)
            right = a.toarray().astype(numpy.result_type(kind, "d"))
            for row in range(1, 30):
                for column in range(row):
                    if a[row, column] == 0:
                        continue
                    right[row, column] /= right[column, column]
                    there = numpy.flatnonzero(a.toarray()[row])
                    behind = there[there > column]
                    right[row, behind] -= right[row, column] * right[column, behind]
            found = sparse.csr_matrix(a)
            cusparse.csrilu02(found, with_levels)
            close(found.toarray(), right, TOLERANCE[kind] * 30)


class Own:
    """cuSPARSE by its own interface: descriptions of operands and what is done with them, in double precision."""

    REAL_64F, INDEX_32I, BASE_ZERO, COLUMNS, ROWS = 1, 2, 0, 1, 2

    def __init__(self) -> None:
        folder = numpy.__path__[0].rsplit("/", 1)[0] + "/nvidia/cu13/lib/"
        self.library = ctypes.CDLL(folder + "libcusparse.so.12")
        cupy.cuda.Device().synchronize()
        self.handle = self.made("cusparseCreate")
        self.one, self.zero = ctypes.c_double(1), ctypes.c_double(0)

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name}: {status}"

    def made(self, name: str, *arguments: object) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    @staticmethod
    def sizes(*values: int) -> list[ctypes.c_int64]:
        return [ctypes.c_int64(value) for value in values]

    @staticmethod
    def places(*arrays: cupy.ndarray) -> list[ctypes.c_void_p]:
        return [ctypes.c_void_p(array.data.ptr) for array in arrays]

    def csr(self, matrix: sparse.csr_matrix) -> ctypes.c_void_p:
        return self.made(
            "cusparseCreateCsr", *self.sizes(*matrix.shape, matrix.nnz),
            *self.places(matrix.indptr, matrix.indices, matrix.data), self.INDEX_32I, self.INDEX_32I, self.BASE_ZERO,
            self.REAL_64F,
        )  # fmt: skip

    def dense(self, matrix: cupy.ndarray) -> ctypes.c_void_p:
        """In Fortran's order."""
        m, n = matrix.shape
        return self.made("cusparseCreateDnMat", *self.sizes(m, n, m), *self.places(matrix), self.REAL_64F, self.COLUMNS)

    def vector(self, values: cupy.ndarray) -> ctypes.c_void_p:
        return self.made("cusparseCreateDnVec", *self.sizes(values.size), *self.places(values), self.REAL_64F)

    def room(self, name: str, *arguments: object) -> cupy.ndarray:
        size = ctypes.c_size_t()
        self.call(name, self.handle, *arguments, ctypes.byref(size))
        return cupy.zeros(max(1, size.value), "u1")


@case
def sddmm() -> None:
    """A product of dense matrices at the places that a sparse one has."""
    own = Own()
    a, b, pattern = of("d", 30, 12), of("d", 12, 25), thin("d", 30, 25)
    first, second, result = cupy.asarray(a, order="F"), cupy.asarray(b, order="F"), sparse.csr_matrix(pattern)
    one, zero = ctypes.byref(own.one), ctypes.byref(own.zero)
    asked = (0, 0, one, own.dense(first), own.dense(second), zero, own.csr(result), own.REAL_64F, 0)
    work = own.room("cusparseSDDMM_bufferSize", *asked)
    own.call("cusparseSDDMM_preprocess", own.handle, *asked, *own.places(work))
    own.call("cusparseSDDMM", own.handle, *asked, *own.places(work))
    close(result.toarray(), (a @ b) * (pattern.toarray() != 0), 1e-12)


@case
def spsv() -> None:
    """A triangular solve with one right side."""
    own = Own()
    a = scipy.sparse.csr_matrix(scipy.sparse.tril(thin("d", 40, 40) + 8 * scipy.sparse.eye(40)))
    b, there, x = of("d", 40), sparse.csr_matrix(a), cupy.zeros(40)
    matrix, side, description = own.csr(there), cupy.asarray(b), own.made("cusparseSpSV_createDescr")
    asked = (0, ctypes.byref(own.one), matrix, own.vector(side), own.vector(x), own.REAL_64F, 0, description)
    work = own.room("cusparseSpSV_bufferSize", *asked)
    own.call("cusparseSpSV_analysis", own.handle, *asked, *own.places(work))
    own.call("cusparseSpSV_solve", own.handle, *asked)
    close(x, scipy.sparse.linalg.spsolve_triangular(a, b), 1e-10)


@case
def blocks() -> None:
    """A matrix of blocks (BSR) by dense ones."""
    own = Own()
    a = scipy.sparse.bsr_matrix(thin("d", 32, 24, 0.1).toarray(), blocksize=(4, 4))
    b, result = of("d", 24, 6), cupy.zeros((32, 6), order="F")
    data, starts, columns = cupy.asarray(a.data), cupy.asarray(a.indptr, "i"), cupy.asarray(a.indices, "i")
    matrix = own.made(
        "cusparseCreateBsr", *own.sizes(8, 6, len(a.indices), 4, 4), *own.places(starts, columns, data), own.INDEX_32I,
        own.INDEX_32I, own.BASE_ZERO, own.REAL_64F, own.ROWS,
    )  # fmt: skip
    second = cupy.asarray(b, order="F")
    one, zero = ctypes.byref(own.one), ctypes.byref(own.zero)
    asked = (0, 0, one, matrix, own.dense(second), zero, own.dense(result), own.REAL_64F, 0)
    work = own.room("cusparseSpMM_bufferSize", *asked)
    own.call("cusparseSpMM", own.handle, *asked, *own.places(work))
    close(result, a @ b, 1e-12)

"""cuSPARSE: products, sums, solves and conversions of sparse matrices, compared with SciPy."""

from __future__ import annotations

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

"""CuPy, unchanged, beside NumPy and SciPy: what stands on NVIDIA's libraries, and what compiles or captures. Prints as cupy_arrays.py does."""

# ruff: noqa: B023

from __future__ import annotations

import cupy
import cupyx
import cupyx.scipy.ndimage
import cupyx.scipy.signal
import cupyx.scipy.sparse
import cupyx.scipy.special
import numpy as np
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.special
from cupy_arrays import array, check, failures, group
from cupyx import jit

for dtype, tolerance in (("float32", 1e-4), ("float64", 1e-10), ("complex64", 1e-4), ("complex128", 1e-10)):
    a, b = array(dtype, (12, 12)) + 6 * np.eye(12, dtype=dtype), array(dtype, (12, 5))
    x, y = cupy.asarray(a), cupy.asarray(b)
    check(f"matmul {dtype}", lambda: x @ y, a @ b, tolerance)
    check(f"solve {dtype}", lambda: cupy.linalg.solve(x, y), np.linalg.solve(a, b), tolerance)
    check(f"inv {dtype}", lambda: cupy.linalg.inv(x), np.linalg.inv(a), tolerance)
    check(f"det {dtype}", lambda: cupy.linalg.det(x) / np.linalg.det(a), 1, tolerance)
    check(f"singular values {dtype}", lambda: cupy.linalg.svd(x)[1], np.linalg.svd(a)[1], tolerance)
    hermitian = a + a.conj().T
    check(
        f"eigvalsh {dtype}",
        lambda: cupy.linalg.eigvalsh(cupy.asarray(hermitian)),
        np.linalg.eigvalsh(hermitian),
        tolerance,
    )
    check(f"norm {dtype}", lambda: cupy.linalg.norm(y), np.linalg.norm(b), tolerance)
    check(f"einsum {dtype}", lambda: cupy.einsum("ij,kj->ik", x, x), np.einsum("ij,kj->ik", a, a), tolerance)
    check(f"tensordot {dtype}", lambda: cupy.tensordot(x, y, 1), np.tensordot(a, b, 1), tolerance)
    check(f"kron {dtype}", lambda: cupy.kron(x[:3], y[:3]), np.kron(a[:3], b[:3]), tolerance)
a = array("float64", (10, 6))
x = cupy.asarray(a)
check("qr", lambda: abs(cupy.linalg.qr(x)[1]), abs(np.linalg.qr(a)[1]), 1e-10)
check("cholesky", lambda: cupy.linalg.cholesky(x.T @ x), np.linalg.cholesky(a.T @ a), 1e-10)
check("lstsq", lambda: cupy.linalg.lstsq(x, x[:, 0], rcond=None)[0], np.linalg.lstsq(a, a[:, 0], rcond=None)[0], 1e-8)
check("pinv", lambda: cupy.linalg.pinv(x), np.linalg.pinv(a), 1e-8)
group("linear algebra")

for dtype, tolerance in (("float32", 1e-4), ("float64", 1e-10), ("complex128", 1e-10)):
    for size in (64, 60, 31):
        a = array(dtype, (4, size))
        x = cupy.asarray(a)
        check(f"fft {dtype} {size}", lambda: cupy.fft.fft(x), np.fft.fft(a), tolerance)
        check(f"ifft {dtype} {size}", lambda: cupy.fft.ifft(x, axis=0), np.fft.ifft(a, axis=0), tolerance)
        check(f"fft2 {dtype} {size}", lambda: cupy.fft.fft2(x), np.fft.fft2(a), tolerance)
        if dtype != "complex128":
            check(f"rfft {dtype} {size}", lambda: cupy.fft.rfft(x), np.fft.rfft(a), tolerance)
            check(f"irfft {dtype} {size}", lambda: cupy.fft.irfft(cupy.fft.rfft(x), size), a, tolerance)
group("Fourier transforms")

for dtype in ("float32", "float64"):
    dense = array(dtype, (30, 20)) * (array(dtype, (30, 20)) > 1.2)
    here, there = scipy.sparse.csr_matrix(dense), cupyx.scipy.sparse.csr_matrix(cupy.asarray(dense))
    vector = array(dtype, (20,))
    check(f"csr @ vector {dtype}", lambda: there @ cupy.asarray(vector), here @ vector, 1e-4)
    check(f"csr @ csr {dtype}", lambda: (there @ there.T).todense(), (here @ here.T).todense(), 1e-4)
    check(f"csr + csr {dtype}", lambda: (there + there).todense(), (here + here).todense(), 1e-4)
    check(f"csc {dtype}", lambda: there.tocsc().toarray(), here.toarray())
    check(f"coo {dtype}", lambda: there.tocoo().data, here.tocoo().data)
    check(f"sum of rows {dtype}", lambda: there.sum(axis=1), here.sum(axis=1), 1e-4)
group("sparse matrices")

for name in ("rand", "random_sample"):
    cupy.random.seed(7)
    first = getattr(cupy.random, name)(10_000) if name == "rand" else cupy.random.random_sample(10_000)
    check(f"{name}: mean", lambda: first.mean(), 0.5, 0.02)
    cupy.random.seed(7)
    again = cupy.random.rand(10_000)
    check(f"{name}: repeated", lambda: again, first.get())
for kind in (cupy.random.XORWOW, cupy.random.MRG32k3a, cupy.random.Philox4x3210):
    drawn = cupy.random.Generator(kind(5))
    check(f"{kind.__name__}: uniform", lambda: drawn.random(10_000).mean(), 0.5, 0.02)
    check(f"{kind.__name__}: normal", lambda: drawn.standard_normal(10_000).std(), 1, 0.04)
    check(f"{kind.__name__}: integers", lambda: drawn.integers(0, 10, 10_000).mean(), 4.5, 0.1)
    check(f"{kind.__name__}: gamma", lambda: drawn.gamma(2.0, 1.0, 10_000).mean(), 2, 0.1)
check("normal", lambda: cupy.random.normal(3, 2, 20_000).mean(), 3, 0.05)
check("randint", lambda: cupy.random.randint(0, 100, 10_000).max() < 100, True)
check("permutation", lambda: cupy.sort(cupy.random.permutation(1_000)), np.arange(1_000))
check("choice", lambda: cupy.isin(cupy.random.choice(10, 100), cupy.arange(10)).all(), True)
check("poisson", lambda: cupy.random.poisson(4, 10_000).mean(), 4, 0.1)
group("random numbers")

for dtype in ("float32", "float64"):
    a = array(dtype, (200,))
    x = cupy.asarray(a)
    for name in ("gamma", "erf", "digamma", "j0", "i1", "ndtr", "expit"):
        check(
            f"special.{name} {dtype}",
            lambda n=name: getattr(cupyx.scipy.special, n)(x),
            getattr(scipy.special, name)(a),
            1e-4 if dtype == "float32" else 1e-9,
        )
    for name in ("cumprod", "cumsum", "diff", "flip", "nancumsum"):
        check(f"{name} {dtype}", lambda n=name: getattr(cupy, n)(x[:40]), getattr(np, name)(a[:40]), 1e-3)
    image = array(dtype, (16, 20))
    place = cupy.asarray(image)
    check(
        f"gaussian {dtype}",
        lambda: cupyx.scipy.ndimage.gaussian_filter(place, 1),
        scipy.ndimage.gaussian_filter(image, 1),
        1e-4,
    )
    check(f"sobel {dtype}", lambda: cupyx.scipy.ndimage.sobel(place), scipy.ndimage.sobel(image), 1e-4)
    check(
        f"convolve {dtype}",
        lambda: cupyx.scipy.signal.convolve(x[:50], x[:9]),
        scipy.signal.convolve(a[:50], a[:9]),
        1e-4,
    )
    check(f"percentile {dtype}", lambda: cupy.percentile(x, [5, 50, 95]), np.percentile(a, [5, 50, 95]), 1e-4)
    check(f"median {dtype}", lambda: cupy.median(x), np.median(a), 1e-5)
    check(f"corrcoef {dtype}", lambda: cupy.corrcoef(place), np.corrcoef(image), 1e-4)
    check(
        f"interp {dtype}",
        lambda: cupy.interp(x, cupy.arange(3), cupy.arange(3) ** 2),
        np.interp(a, np.arange(3), np.arange(3) ** 2),
        1e-5,
    )
    check(f"bincount {dtype}", lambda: cupy.bincount((x * 9).astype("i4")), np.bincount((a * 9).astype("i4")))
group("functions of SciPy, scans and statistics")


@jit.rawkernel()
def add_one(data: cupy.ndarray, count: int) -> None:
    at = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
    if at < count:
        data[at] = data[at] + 1


@jit.rawkernel()
def reverse_in_block(data: cupy.ndarray) -> None:
    shared = jit.shared_memory(cupy.float32, 64)
    shared[jit.threadIdx.x] = data[jit.threadIdx.x]
    jit.syncthreads()
    data[jit.threadIdx.x] = shared[63 - jit.threadIdx.x]


counted = cupy.zeros(100, "f")
add_one((2,), (64,), (counted, 100))
check("cupyx.jit", lambda: counted, np.ones(100))
turned = cupy.arange(64, dtype="f")
reverse_in_block((1,), (64,), (turned,))
check("shared memory of cupyx.jit", lambda: turned, np.arange(64)[::-1])

captured = cupy.cuda.Stream(non_blocking=True)
values = cupy.zeros(1_000, "f")
with captured:
    captured.begin_capture()
    cupy.add(values, 1, out=values)
    cupy.multiply(values, 2, out=values)
    graph = captured.end_capture()
    for _ in range(5):
        graph.launch(captured)
captured.synchronize()
check("graphs", lambda: values, np.full(1_000, 62))
scattered = cupy.zeros(10, "f")
cupyx.scatter_add(scattered, cupy.arange(1_000) % 10, cupy.float32(1))
check("scatter_add", lambda: scattered, np.full(10, 100))
shared = cupy.arange(12.0).reshape(3, 4)
check("DLPack of CuPy's own", lambda: cupy.from_dlpack(shared) * 2, 2 * np.arange(12.0).reshape(3, 4))
check(
    "array interface",
    lambda: cupy.asarray(type("A", (), {"__cuda_array_interface__": shared.__cuda_array_interface__})()),
    np.arange(12.0).reshape(3, 4),
)
check("pinned array", lambda: cupy.asarray(cupyx.zeros_pinned(100)) + 1, np.ones(100))
group("compiled, captured, shared")

print("failed:", ", ".join(failures) or "none")

"""NVIDIA's own libraries through CuPy, compared with what NumPy says: each argument is a library."""

from __future__ import annotations

import sys

import cupy
import numpy

RANDOM = numpy.random.default_rng(7)


def close(found: cupy.ndarray, expected: numpy.ndarray, tolerance: float) -> None:
    """Within the library's own accuracy, relative to the largest element."""
    apart = numpy.max(numpy.abs(found.get() - expected)) / max(1.0, float(numpy.max(numpy.abs(expected))))
    assert apart <= tolerance, apart


def of(kind: str, *shape: int) -> numpy.ndarray:
    if numpy.dtype(kind).kind == "c":
        return (RANDOM.random(shape) + 1j * RANDOM.random(shape)).astype(kind)
    return RANDOM.random(shape).astype(kind)


TOLERANCE = {"f": 1e-5, "d": 1e-12, "F": 1e-5, "D": 1e-12}


def cublas() -> None:
    for kind in "fd":
        for m, n, k in ((64, 32, 48), (33, 65, 17), (130, 70, 257)):
            a, b = of(kind, m, k), of(kind, k, n)
            close(cupy.asarray(a) @ cupy.asarray(b), a @ b, TOLERANCE[kind] * k)
            close(cupy.asarray(a).T @ cupy.asarray(a), a.T @ a, TOLERANCE[kind] * m)
    for kind in "fd":
        a, x = of(kind, 65, 33), of(kind, 33)
        close(cupy.asarray(a) @ cupy.asarray(x), a @ x, TOLERANCE[kind] * 33)
        close(cupy.vdot(cupy.asarray(x), cupy.asarray(x)), numpy.vdot(x, x), TOLERANCE[kind] * 33)
        a, b = of(kind, 5, 20, 30), of(kind, 5, 30, 10)
        close(cupy.matmul(cupy.asarray(a), cupy.asarray(b)), a @ b, TOLERANCE[kind] * 30)


def cufft() -> None:
    for kind in "FD":
        for length in (8, 1000, 1021, 1024):
            x = of(kind, 3, length)
            close(cupy.fft.fft(cupy.asarray(x)), numpy.fft.fft(x), TOLERANCE[kind] * 10)
            close(cupy.fft.ifft(cupy.asarray(x)), numpy.fft.ifft(x), TOLERANCE[kind] * 10)
    for kind in "fd":
        x = of(kind, 24, 36)
        close(cupy.fft.rfft(cupy.asarray(x)), numpy.fft.rfft(x), TOLERANCE[kind] * 10)
        close(cupy.fft.fft2(cupy.asarray(x)), numpy.fft.fft2(x), TOLERANCE[kind] * 10)
        x = of(kind, 8, 12, 10)
        close(cupy.fft.fftn(cupy.asarray(x)), numpy.fft.fftn(x), TOLERANCE[kind] * 10)
        close(cupy.fft.irfftn(cupy.fft.rfftn(cupy.asarray(x)), x.shape), x, TOLERANCE[kind] * 10)


def curand() -> None:
    from cupy.cuda import curand as library

    for method in (library.CURAND_RNG_PSEUDO_XORWOW, library.CURAND_RNG_PSEUDO_PHILOX4_32_10):
        first, again = (cupy.random.RandomState(11, method=method).random_sample(4_000).get() for _ in range(2))
        assert numpy.array_equal(first, again)
        assert abs(first.mean() - 1 / 2) < 0.03
        assert abs(first.var() - 1 / 12) < 0.01
        assert len(numpy.unique(first)) > 3_990


LIBRARIES = {"cublas": cublas, "cufft": cufft, "curand": curand}

for name in sys.argv[1:]:
    LIBRARIES[name]()
    print(f"{name}: right", flush=True)

"""cuFFT: one to three dimensions, complex and real, batched, lengths with large prime factors."""

from __future__ import annotations

import cupy
import numpy
from comparison import TOLERANCE, Cases, close, of
from cupy.cuda import cufft

case = Cases()


@case
def complex_lengths() -> None:
    """Powers of two, other small factors, and primes: 8191 takes Bluestein's way."""
    for kind in "FD":
        for length in (8, 1000, 1021, 1024, 8191):
            x = of(kind, 3, length)
            close(cupy.fft.fft(cupy.asarray(x)), numpy.fft.fft(x), TOLERANCE[kind] * 20)
            close(cupy.fft.ifft(cupy.asarray(x)), numpy.fft.ifft(x), TOLERANCE[kind] * 20)


@case
def along_another_axis() -> None:
    for kind in "FD":
        x = of(kind, 12, 5, 7)
        for axis in range(3):
            close(cupy.fft.fft(cupy.asarray(x), axis=axis), numpy.fft.fft(x, axis=axis), TOLERANCE[kind] * 10)


@case
def real() -> None:
    for kind in "fd":
        for rows, length in ((24, 36), (4, 211)):
            x = of(kind, rows, length)
            found = cupy.fft.rfft(cupy.asarray(x))
            close(found, numpy.fft.rfft(x), TOLERANCE[kind] * 10)
            close(cupy.fft.irfft(found, length), x, TOLERANCE[kind] * 10)


@case
def two_dimensions() -> None:
    for kind in "FD":
        x = of(kind, 3, 24, 36)
        close(cupy.fft.fft2(cupy.asarray(x)), numpy.fft.fft2(x), TOLERANCE[kind] * 10)
        close(cupy.fft.ifft2(cupy.asarray(x)), numpy.fft.ifft2(x), TOLERANCE[kind] * 10)


@case
def three_dimensions() -> None:
    for kind in "fd":
        x = of(kind, 8, 12, 10)
        close(cupy.fft.fftn(cupy.asarray(x)), numpy.fft.fftn(x), TOLERANCE[kind] * 10)
        close(cupy.fft.rfftn(cupy.asarray(x)), numpy.fft.rfftn(x), TOLERANCE[kind] * 10)
        close(cupy.fft.irfftn(cupy.fft.rfftn(cupy.asarray(x)), x.shape), x, TOLERANCE[kind] * 10)


@case
def half() -> None:
    """Complex numbers of two halves, of which CuPy has no type: lengths are powers of two."""
    for length, batch in ((64, 3), (256, 2)):
        x = of("F", batch, length)
        parts = numpy.stack([x.real, x.imag], -1).astype("e")
        there, result = cupy.asarray(parts), cupy.zeros(parts.shape, "e")
        plan = cufft.XtPlanNd((length,), None, 1, length, "E", None, 1, length, "E", batch, "E", order="C", last_axis=-1,
                              last_size=None)  # fmt: skip
        plan.fft(there, result, cufft.CUFFT_FORWARD)
        found = result.get().astype("d")
        exact = parts.astype("d")
        close(found[..., 0] + 1j * found[..., 1], numpy.fft.fft(exact[..., 0] + 1j * exact[..., 1]), 5e-3)

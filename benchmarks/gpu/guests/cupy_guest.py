"""CuPy: sums, cuBLAS, cuFFT, a raw kernel, Thrust's sort. Run it alone and through Farlane: each line ends with True, or what both print.

Usage: FARLANE_INTEROP=1 farlane run --device cupy -- python benchmarks/gpu/guests/cupy_guest.py
"""

import time

import cupy as cp
import numpy as np

started = time.time()
a = cp.arange(1 << 20, dtype=cp.float32).reshape(1024, 1024)
print("sum", float((a * 2).sum()))
x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
print("matmul", bool(np.allclose(cp.asnumpy(cp.asarray(x) @ cp.asarray(x)), x @ x, atol=1e-2)))
print("fft", bool(np.allclose(cp.asnumpy(cp.fft.fft(cp.asarray(x))), np.fft.fft(x), atol=1e-2)))
k = cp.RawKernel(r'extern "C" __global__ void f(float*x){x[threadIdx.x]*=3;}', "f")
y = cp.ones(32, dtype=cp.float32)
k((1,), (32,), (y,))
print("raw", float(y.sum()))
print(
    "sort",
    bool((cp.sort(cp.asarray(x).ravel()).get() == np.sort(x.ravel())).all()),
    "seconds",
    round(time.time() - started, 2),
)

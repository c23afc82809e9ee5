"""CuPy, unchanged, beside NumPy: by data type and shape. Prints how many checks of each group were made, and which failed.

python cupy_arrays.py [EVERY]     makes each EVERY-th check
"""

# ruff: noqa: B023

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable

import cupy
import numpy as np

RANDOM = np.random.default_rng(3)
FLOATS = ("float32", "float64")
NUMBERS = ("int8", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", "complex128")
SHAPES = ((1,), (1_000,), (33, 77), (4, 5, 6))
failures: list[str] = []
count = 0
EVERY = int(sys.argv[1]) if len(sys.argv) > 1 else 1
turn = itertools.count()


def array(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return RANDOM.integers(1, 100, shape).astype(dtype)
    values = RANDOM.random(shape) + 0.5
    return (values + 1j * RANDOM.random(shape)).astype(dtype) if kind == "c" else values.astype(dtype)


def check(name: str, ours: Callable[[], object], expected: object, tolerance: float = 1e-5) -> None:
    global count
    if next(turn) % EVERY:
        return
    count += 1
    try:
        got = ours()
        got = got.get() if isinstance(got, cupy.ndarray) else got
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    except Exception:
        failures.append(name)
        print(name, traceback.format_exc(limit=1), file=sys.stderr)


def group(name: str) -> None:
    global count
    print(f"{name}: {count}")
    count = 0


def loose(dtype: str) -> float:
    return 5e-3 if dtype == "float16" else 1e-5


for dtype in NUMBERS:
    for shape in SHAPES:
        a, b = array(dtype, shape), array(dtype, shape)
        x, y = cupy.asarray(a), cupy.asarray(b)
        check(f"x*y+x {dtype} {shape}", lambda: x * y + x, a * b + a, loose(dtype))
    check(f"cast {dtype}", lambda: x.astype("complex128"), a.astype("complex128"), loose(dtype))
    check(f"compare {dtype}", lambda: x == y, a == b)
group("arithmetic")

for dtype in FLOATS:
    a = array(dtype, (500,))
    x = cupy.asarray(a)
    for name in (
        "sin",
        "cos",
        "tan",
        "arctan",
        "exp",
        "log",
        "sqrt",
        "cbrt",
        "tanh",
        "floor",
        "rint",
        "log1p",
        "square",
    ):
        check(f"{name} {dtype}", lambda n=name: getattr(cupy, n)(x), getattr(np, name)(a))
    for name in ("power", "maximum", "hypot", "arctan2", "fmod", "copysign"):
        check(f"{name} {dtype}", lambda n=name: getattr(cupy, n)(x, x[::-1]), getattr(np, name)(a, a[::-1]))
group("functions")

for dtype in ("int32", "int64", "float32", "float64"):
    for shape in SHAPES[1:]:
        a = array(dtype, shape)
        x = cupy.asarray(a)
        for name in ("sum", "prod" if dtype == "float64" and len(shape) > 1 else "sum", "max", "min", "mean", "argmax"):
            check(f"{name} {dtype} {shape}", lambda n=name: getattr(cupy, n)(x), getattr(np, name)(a), 1e-4)
        check(f"sum of an axis {dtype} {shape}", lambda: x.sum(axis=0), a.sum(axis=0), 1e-4)
        check(f"var {dtype} {shape}", lambda: cupy.var(x), np.var(a), 1e-4)
    a = array(dtype, (1_000,))
    x = cupy.asarray(a)
    check(f"cumsum {dtype}", lambda: cupy.cumsum(x), np.cumsum(a), 1e-4)
    check(f"any {dtype}", lambda: cupy.any(x > 99.5), np.any(a > 99.5))
group("reductions")

for dtype in ("int32", "float32", "float64"):
    a = array(dtype, (1_000,))
    x = cupy.asarray(a)
    check(f"sort {dtype}", lambda: cupy.sort(x), np.sort(a))
    check(f"argsort {dtype}", lambda: x[cupy.argsort(x)], np.sort(a))
    check(f"unique {dtype}", lambda: cupy.unique(x), np.unique(a))
    check(f"searchsorted {dtype}", lambda: cupy.searchsorted(cupy.sort(x), x), np.searchsorted(np.sort(a), a))
    check(f"nonzero {dtype}", lambda: cupy.nonzero(x > 1)[0], np.nonzero(a > 1)[0])
    check(f"where {dtype}", lambda: cupy.where(x > 1, x, -x), np.where(a > 1, a, -a))
    check(f"partition {dtype}", lambda: cupy.sort(cupy.partition(x, 10)[:10]), np.sort(a)[:10])
    check(f"histogram {dtype}", lambda: cupy.histogram(x, bins=10)[0], np.histogram(a, bins=10)[0])
group("sorting and searching")

for dtype in FLOATS:
    a = array(dtype, (20, 30))
    x = cupy.asarray(a)
    picked, mask = np.array([3, 1, 19]), a > 1
    check(f"slices {dtype}", lambda: x[2:15:3, ::-2], a[2:15:3, ::-2])
    check(f"rows {dtype}", lambda: x[cupy.asarray(picked)], a[picked])
    check(f"mask {dtype}", lambda: x[cupy.asarray(mask)], a[mask])
    check(f"take {dtype}", lambda: cupy.take(x, cupy.asarray(picked), axis=1), a[:, picked])
    check(f"transpose {dtype}", lambda: x.T.copy(), a.T)
    check(f"reshape {dtype}", lambda: x.reshape(30, 20) + 1, a.reshape(30, 20) + 1)
    check(f"concatenate {dtype}", lambda: cupy.concatenate([x, x], axis=1), np.concatenate([a, a], axis=1))
    check(f"roll {dtype}", lambda: cupy.roll(x, 7), np.roll(a, 7))
    check(f"broadcast {dtype}", lambda: x + cupy.arange(30, dtype=dtype), a + np.arange(30, dtype=dtype))
    written = a.copy()
    written[1::2, 3] = 7
    x[1::2, 3] = 7
    check(f"write {dtype}", lambda: x, written)
group("indexing and shapes")

check("arange", lambda: cupy.arange(3, 50, 7), np.arange(3, 50, 7))
check("linspace", lambda: cupy.linspace(0, 1, 11), np.linspace(0, 1, 11))
check("eye", lambda: cupy.eye(5, k=1), np.eye(5, k=1))
check("tri", lambda: cupy.tril(cupy.ones((4, 4))), np.tril(np.ones((4, 4))))
check("meshgrid", lambda: cupy.meshgrid(cupy.arange(3), cupy.arange(4))[1], np.meshgrid(np.arange(3), np.arange(4))[1])
group("creation")

axpy = cupy.ElementwiseKernel("float32 a, float32 x, float32 y", "float32 z", "z = a * x + y", "axpy")
squares = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "squares")
raw = cupy.RawKernel(
    'extern "C" __global__ void twice(float *x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] *= 2; }',
    "twice",
)
module = cupy.RawModule(
    code="""
    __constant__ float factor[1];
    extern "C" __global__ void scale(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] *= factor[0]; }
    """
)
a = array("float32", (300,))
x = cupy.asarray(a)
check("ElementwiseKernel", lambda: axpy(np.float32(3), x, x), 4 * a)
check("ReductionKernel", lambda: squares(x), (a * a).sum(), 1e-4)
doubled = x.copy()
raw((5,), (64,), (doubled, np.int32(300)))
check("RawKernel", lambda: doubled, 2 * a)
factor = cupy.ndarray(1, dtype="float32", memptr=module.get_global("factor"))
factor.set(np.array([5], dtype="float32"))
scaled = x[:100].copy()
module.get_function("scale")((1,), (128,), (scaled, np.int32(100)))
check("RawModule and its constant", lambda: scaled, 5 * a[:100])


@cupy.fuse()
def root(p: cupy.ndarray, q: cupy.ndarray) -> cupy.ndarray:
    return cupy.sqrt(p * q) + 1


check("fuse", lambda: root(x, x), a + 1)
group("kernels")

stream, start, end = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(), cupy.cuda.Event()
with stream:
    start.record()
    sums = [x * number for number in range(10)]
    end.record()
stream.synchronize()
check("streams and events", lambda: cupy.cuda.get_elapsed_time(start, end) >= 0, True)
check("what a stream did", lambda: sums[9], 9 * a)
with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
    check("asynchronous pool", lambda: cupy.arange(1_000).sum(), 499_500)
with cupy.cuda.using_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc):
    check("managed pool", lambda: cupy.arange(1_000).sum(), 499_500)
pool = cupy.get_default_memory_pool()
held = pool.used_bytes()
big = cupy.zeros(1 << 20)
check("default pool", lambda: pool.used_bytes() - held, 8 << 20)
pinned = cupy.cuda.alloc_pinned_memory(4_000)
check("pinned memory", lambda: pinned.mem.size >= 4_000, True)
check("DLPack", lambda: np.from_dlpack(cupy.asnumpy(x)), a)
check("memory of the device", lambda: 0 < cupy.cuda.Device().mem_info[0] < cupy.cuda.Device().mem_info[1], True)
group("streams and memory")

if __name__ == "__main__":
    print("failed:", ", ".join(failures) or "none")

"""The cases: what each kernel works on, how it is launched, and what computes the same without a device.

Sizes are such that a case takes 1 to 200 ms on one core; `scale` divides the number of elements, for trying things out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Argument = str | int | float  # the name of an array, an int (32 bits), a float (32 bits)
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Step:
    """One launch: kernel, blocks, threads of a block, arguments."""

    kernel: str
    grid: Shape
    block: Shape
    arguments: tuple[Argument, ...]


@dataclass
class Case:
    """One computation.

    Attributes:
        arrays: what is there before; each runner works on copies.
        steps: its launches on a device.
        loop: function of loops.c, and its arguments.
        outputs: the arrays that are compared.
        changed: arrays that must be as at first before each run, since a run changes what it reads.
        numpy: the same as an expression; returns the outputs by name. None: numpy has no such expression.
        work: units of work, to compare runs of different size (matmul: multiply-adds; else elements).
        tolerance: relative, of the largest value.
        differing: the share of elements that may be farther apart.
    """

    name: str
    arrays: dict[str, Array]
    steps: list[Step]
    loop: tuple[str, tuple[Argument, ...]]
    outputs: tuple[str, ...]
    changed: tuple[str, ...] = ()
    numpy: Callable[[dict[str, Array]], dict[str, Array]] | None = None
    work: int = 0
    tolerance: float = 1e-4
    differing: float = 0.0
    notes: str = field(default="")


def _floats(count: int, seed: int, low: float = 0.0, high: float = 1.0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, count).astype(np.float32)


def _line(count: int, threads: int = 256) -> tuple[Shape, Shape]:
    return (-(-count // threads), 1, 1), (threads, 1, 1)


def saxpy(scale: int) -> Case:
    n = (16 << 20) // scale
    arrays = {"y": _floats(n, 1), "x": _floats(n, 2)}
    grid, block = _line(n)
    return Case(
        "saxpy",
        arrays,
        [Step("saxpy", grid, block, ("y", "x", 2.0, n))],
        ("saxpy", ("y", "x", 2.0, n)),
        ("y",),
        ("y",),
        lambda a: {"y": np.float32(2) * a["x"] + a["y"]},  # type: ignore[operator]
        n,
    )


def matmul_of(kernel: str, n: int, name: str = "") -> Case:
    """A product of two matrices of n rows and columns, by a kernel with a thread for each element."""
    arrays = {"c": np.zeros(n * n, np.float32), "a": _floats(n * n, 3), "b": _floats(n * n, 4)}
    side = -(-n // 16)
    return Case(
        name or kernel,
        arrays,
        [Step(kernel, (side, side, 1), (16, 16, 1), ("c", "a", "b", n))],
        ("matmul", ("c", "a", "b", n)),
        ("c",),
        (),
        lambda a: {"c": (a["a"].reshape(n, n) @ a["b"].reshape(n, n)).reshape(-1)},  # type: ignore[operator]
        n**3,
    )


def matmul_1000(scale: int) -> Case:
    return matmul_of("matmul_naive", 1000 // scale, "matmul naive 1000")


def matmul_1024(scale: int) -> Case:
    return matmul_of("matmul_naive", 1024 // scale, "matmul naive 1024")


def matmul_tiled(scale: int) -> Case:
    return matmul_of("matmul_tiled", 1024 // scale, "matmul tiled 1024")


def reduction(scale: int) -> Case:
    n, blocks = (16 << 20) // scale, 512
    arrays = {"total": np.zeros(1, np.float32), "sums": np.zeros(blocks, np.float32), "values": _floats(n, 5)}
    first = Step("reduction", (blocks, 1, 1), (256, 1, 1), ("sums", "values", n))
    second = Step("reduction", (1, 1, 1), (256, 1, 1), ("total", "sums", blocks))
    return Case(
        "reduction",
        arrays,
        [first, second],
        ("reduction", ("total", "values", n)),
        ("total",),
        (),
        lambda a: {"total": np.sum(a["values"], keepdims=True)},
        n,
        # One running sum in f32, as the plain C loop has it, is off by this much.
        0.2,
    )


def scan(scale: int) -> Case:
    segments = 8192 // scale
    values = np.random.default_rng(6).integers(-1000, 1000, segments * 1024).astype(np.int32)
    return Case(
        "warp-shuffle scan",
        {"sums": np.zeros_like(values), "values": values},
        [Step("scan", (segments, 1, 1), (1024, 1, 1), ("sums", "values"))],
        ("scan", ("sums", "values", segments)),
        ("sums",),
        (),
        lambda a: {"sums": np.cumsum(a["values"].reshape(-1, 1024), axis=1, dtype=np.int32).reshape(-1)},
        segments * 1024,
        0.0,
    )


def mandelbrot(scale: int) -> Case:
    side = 1024 // scale
    blocks = -(-side // 16)
    return Case(
        "Mandelbrot",
        {"count": np.zeros(side * side, np.int32)},
        [Step("mandelbrot", (blocks, blocks, 1), (16, 16, 1), ("count", side, side, 256))],
        ("mandelbrot", ("count", side, side, 256)),
        ("count",),
        (),
        None,
        side * side,
        # Compilers contract to fused multiply-adds elsewhere: points on the border differ.
        0.0,
        0.01,
    )


def stencil(scale: int) -> Case:
    side = 4096 // scale
    cells = _floats(side * side, 7)

    def expression(arrays: dict[str, Array]) -> dict[str, Array]:
        f = arrays["from"].reshape(side, side)
        to = arrays["to"].reshape(side, side).copy()
        around = f[1:-1, :-2] + f[1:-1, 2:] + f[:-2, 1:-1] + f[2:, 1:-1]  # type: ignore[operator]
        to[1:-1, 1:-1] = np.float32(0.5) * f[1:-1, 1:-1] + np.float32(0.125) * around  # type: ignore[operator]
        return {"to": to.reshape(-1)}

    return Case(
        "5-point stencil",
        {"to": np.zeros_like(cells), "from": cells},
        [Step("stencil", (side // 32, side // 8, 1), (32, 8, 1), ("to", "from", side, side))],
        ("stencil", ("to", "from", side, side)),
        ("to",),
        (),
        expression,
        side * side,
    )


def nbody(scale: int) -> Case:
    n = 8192 // scale
    body = _floats(4 * n, 8, -1.0, 1.0)
    grid, block = _line(n)
    return Case(
        "n-body",
        {"force": np.zeros_like(body), "body": body},
        [Step("nbody", grid, block, ("force", "body", n))],
        ("nbody", ("force", "body", n)),
        ("force",),
        (),
        None,
        n * n,
        1e-3,
    )


def gather(scale: int) -> Case:
    n, size = (4 << 20) // scale, (32 << 20) // scale
    index = np.random.default_rng(9).integers(0, size, n).astype(np.int32)
    grid, block = _line(n)
    return Case(
        "random gather",
        {"out": np.zeros(n, np.float32), "table": _floats(size, 10), "index": index},
        [Step("gather", grid, block, ("out", "table", "index", n))],
        ("gather", ("out", "table", "index", n)),
        ("out",),
        (),
        lambda a: {"out": np.take(a["table"], a["index"])},  # type: ignore[arg-type]
        n,
        0.0,
    )


def spmv(scale: int) -> Case:
    rows = (256 << 10) // scale
    random = np.random.default_rng(11)
    lengths = random.integers(4, 40, rows)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = random.integers(0, rows, int(start[-1])).astype(np.int32)
    arrays: dict[str, Array] = {
        "y": np.zeros(rows, np.float32),
        "value": _floats(len(column), 12),
        "column": column,
        "start": start,
        "x": _floats(rows, 13),
    }
    grid, block = _line(rows)
    arguments = ("y", "value", "column", "start", "x", rows)
    return Case(
        "CSR spmv",
        arrays,
        [Step("spmv", grid, block, arguments)],
        ("spmv", arguments),
        ("y",),
        (),
        lambda a: {"y": np.add.reduceat(a["value"] * a["x"][a["column"]], a["start"][:-1])},  # type: ignore
        len(column),
    )


def bitonic(scale: int) -> Case:
    n = (1 << 20) // scale
    key = np.random.default_rng(14).integers(-(2**31), 2**31, n).astype(np.int32)
    grid, block = _line(n)
    steps = []
    size = 2
    while size <= n:
        stride = size // 2
        while stride:
            steps.append(Step("bitonic", grid, block, ("key", stride, size)))
            stride //= 2
        size *= 2
    return Case(
        "bitonic sort",
        {"key": key},
        steps,
        ("bitonic", ("key", n)),
        ("key",),
        ("key",),
        lambda a: {"key": np.sort(a["key"])},
        n * len(steps),
        0.0,
    )


def histogram(scale: int) -> Case:
    n = (16 << 20) // scale
    data = np.minimum(np.random.default_rng(15).gamma(4.0, 16.0, n), 255).astype(np.uint8)
    return Case(
        "histogram",
        {"bins": np.zeros(256, np.int32), "data": data},
        [Step("histogram", (128, 1, 1), (256, 1, 1), ("bins", "data", n // 4))],
        ("histogram", ("bins", "data", n)),
        ("bins",),
        ("bins",),
        lambda a: {"bins": np.bincount(a["data"], minlength=256).astype(np.int32)},  # type: ignore[arg-type]
        n,
        0.0,
    )


def fft(scale: int) -> Case:
    count = 2048 // scale
    turn = 2 * np.pi * np.arange(512) / 1024
    arrays: dict[str, Array] = {
        "real": _floats(count * 1024, 16, -1.0),
        "imaginary": _floats(count * 1024, 17, -1.0),
        "cosine": np.cos(turn).astype(np.float32),
        "sine": np.sin(turn).astype(np.float32),
    }

    def expression(a: dict[str, Array]) -> dict[str, Array]:
        joined = (a["real"] + 1j * a["imaginary"]).astype(np.complex64)  # type: ignore[operator]
        done = np.fft.fft(joined.reshape(-1, 1024), axis=1).reshape(-1)
        return {"real": done.real, "imaginary": done.imag}

    arguments = ("real", "imaginary", "cosine", "sine")
    return Case(
        "FFT",
        arrays,
        [Step("fft", (count, 1, 1), (512, 1, 1), arguments)],
        ("fft", (*arguments, count)),
        ("real", "imaginary"),
        ("real", "imaginary"),
        expression,
        count * 1024,
    )


def black_scholes(scale: int) -> Case:
    n = (4 << 20) // scale
    arrays = {
        "call": np.zeros(n, np.float32),
        "put": np.zeros(n, np.float32),
        "price": _floats(n, 18, 5.0, 30.0),
        "strike": _floats(n, 19, 1.0, 100.0),
        "years": _floats(n, 20, 0.25, 10.0),
    }

    def below(d: Array) -> Array:
        one = np.float32(1)
        k = one / (one + np.float32(0.2316419) * np.abs(d))  # type: ignore[arg-type]
        total = np.zeros_like(d)
        for factor in (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153):
            total = k * (np.float32(factor) + total)
        tail = np.float32(0.39894228) * np.exp(np.float32(-0.5) * d * d) * total  # type: ignore[operator]
        return np.where(d > 0, one - tail, tail)  # type: ignore[operator]

    def expression(a: dict[str, Array]) -> dict[str, Array]:
        s, x, t = a["price"], a["strike"], a["years"]
        root = np.sqrt(t)  # type: ignore[type-var]
        d1 = (np.log(s / x) + np.float32(0.065) * t) / (np.float32(0.3) * root)  # type: ignore[operator]
        n1, n2 = below(d1), below(d1 - np.float32(0.3) * root)
        discounted = x * np.exp(np.float32(-0.02) * t)  # type: ignore[operator]
        return {"call": s * n1 - discounted * n2, "put": discounted * (1 - n2) - s * (1 - n1)}  # type: ignore

    grid, block = _line(n)
    arguments = ("call", "put", "price", "strike", "years", n)
    return Case(
        "Black-Scholes",
        arrays,
        [Step("black_scholes", grid, block, arguments)],
        ("black_scholes", arguments),
        ("call", "put"),
        (),
        expression,
        n,
        1e-3,
    )


CASES: list[Callable[[int], Case]] = [
    saxpy,
    matmul_1000,
    matmul_1024,
    matmul_tiled,
    reduction,
    scan,
    mandelbrot,
    stencil,
    nbody,
    gather,
    spmv,
    bitonic,
    histogram,
    fft,
    black_scholes,
]

"""Fragments of matrices: where the PTX manual puts their elements, their values, and kernels that multiply them."""

from __future__ import annotations

import numpy as np

from jit_tools.instructions import HEADER

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f64": 64}
BITS |= {"s4": 4, "u4": 4, "b1": 1}


def number(name: str, code: int) -> float:
    """The value of an element's bits."""
    if name == "f16":
        return float(np.array([code], "u2").view("f2")[0])
    if name in ("bf16", "tf32", "f32"):
        return float(np.array([code << 16 if name == "bf16" else code], "u4").view("f4")[0])
    if name == "f64":
        return float(np.array([code], "u8").view("f8")[0])
    if name in ("e4m3", "e5m2"):
        fraction, bias = (3, 7) if name == "e4m3" else (2, 15)
        exponent, low = code >> fraction & (1 << 7 - fraction) - 1, code & (1 << fraction) - 1
        size = (low + ((1 << fraction) if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - fraction)
        return -size if code >> 7 else size
    bits = BITS[name]
    return code - (1 << bits) if name[0] == "s" and code >> bits - 1 else code


def elements(generator: np.random.Generator, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Random bits of small values."""
    if name in ("s8", "u8", "s4", "u4", "b1", "s32"):
        return generator.integers(0, 1 << min(BITS[name], 16), shape).astype("u8")
    if name in ("e4m3", "e5m2"):
        return (generator.integers(48, 64, shape) | generator.integers(0, 2, shape) << 7).astype("u8")
    values = generator.integers(-64, 64, shape) / 16
    if name == "f16":
        return values.astype("f2").view("u2").astype("u8")
    if name == "f64":
        return values.astype("f8").view("u8")
    return values.astype("f4").view("u4").astype("u8") >> (16 if name == "bf16" else 0)


def positions(matrix: str, name: str, shape: tuple[int, int, int]) -> list[list[tuple[int, int]]]:
    """(row, column) of element i of each lane, from the figures of the manual's mma sections."""
    rows, columns, depth = shape
    found = []
    for lane in range(32):
        group, thread = lane >> 2, lane & 3
        mine = []
        if matrix in "cd":
            for i in range(rows * columns // 32):
                mine.append((group + 8 * (i >> 1), thread * 2 + (i & 1)))
        else:
            packed = {"tf32": 1, "f64": 1}.get(name, 32 // BITS[name])
            cells = (rows if matrix == "a" else columns) * depth // 32
            for i in range(cells):
                register, part = divmod(i, packed)
                if matrix == "a":
                    down = register % (rows // 8)
                    k = thread * packed + part + 4 * packed * (register // (rows // 8))
                    mine.append((group + 8 * down, k))
                else:
                    mine.append((thread * packed + part + 4 * packed * register, group))
        found.append(mine)
    return found


def words(values: np.ndarray, where: list[list[tuple[int, int]]], name: str) -> np.ndarray:
    """Each lane's registers as bytes, one row a lane."""
    if BITS[name] < 8:
        bits = [[int(values[cell]) >> bit & 1 for cell in mine for bit in range(BITS[name])] for mine in where]
        return np.packbits(np.array(bits, dtype="u1"), axis=1, bitorder="little")
    kind = f"u{BITS[name] // 8}"
    picked = np.array([[values[cell] for cell in mine] for mine in where], dtype="u8").astype(kind)
    return picked.view("u1").reshape(32, -1)


def registers(name: str, cells: int) -> tuple[str, int]:
    """Register type and count of a fragment with that many elements in a lane."""
    if name in ("f64", "f32"):
        return name, cells
    return "b32", cells * BITS[name] // 32


def listed(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"%{prefix}{index}" for index in range(count)) + "}"


def product_kernel(mnemonic: str, types: dict[str, tuple[str, int]]) -> str:
    lines = [HEADER, ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c) {"]
    lines += [".reg .b32 %lane; .reg .b64 %at, %x; mov.u32 %lane, %laneid;"]
    for matrix in "abc":
        kind, count = types[matrix]
        size = 8 if kind == "f64" else 4
        lines += [f".reg .{kind} %{matrix}<{count}>; ld.param.u64 %at, [{matrix}];"]
        lines += [f"mul.wide.u32 %x, %lane, {size * count}; add.s64 %at, %at, %x;"]
        lines += [f"ld.global.{kind} %{matrix}{index}, [%at+{size * index}];" for index in range(count)]
    kind, count = types["d"]
    size = 8 if kind == "f64" else 4
    operands = ", ".join(listed(matrix, types[matrix][1]) for matrix in "dabc")
    lines += [f".reg .{kind} %d<{count}>; {mnemonic} {operands};"]
    lines += [f"ld.param.u64 %at, [out]; mul.wide.u32 %x, %lane, {size * count}; add.s64 %at, %at, %x;"]
    lines += [f"st.global.{kind} [%at+{size * index}], %d{index};" for index in range(count)]
    return "\n".join([*lines, "ret; }"])

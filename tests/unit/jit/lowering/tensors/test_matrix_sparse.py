"""Sparse matrix products against the product of the whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.matrices import BITS, elements, number, positions, product_kernel, registers, words

# Shape, types (d, a, b, c), selectors.
SHAPES = [
    *(("16 8 16", f"{d} {a} {a} {d}", range(4)) for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"))),
    *(("16 8 32", f"{d} {a} {a} {d}", range(2)) for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"))),
    ("16 8 8", "f32 tf32 tf32 f32", range(4)), ("16 8 32", "s32 s8 u8 s32", range(2)), ("16 8 64", "s32 u8 s8 s32", range(1)),
    ("16 8 64", "s32 s4 u4 s32", range(2)), ("16 8 128", "s32 u4 s4 s32", range(1)), ("16 8 64", "f32 e4m3 e5m2 f32", range(1)),
]  # fmt: skip
CASES = [
    (shape, types, selector)
    for shape, types, selectors in SHAPES
    for selector in (range(2) if (shape, "tf32" in types) == ("16 8 16", True) else selectors)
]


def thinned(generator: np.random.Generator, bits: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Half of a matrix's elements become zero: (the whole matrix, what is stored, each row's metadata, its first bit last)."""
    whole, stored, metadata = np.zeros_like(bits), np.zeros((bits.shape[0], bits.shape[1] // 2), bits.dtype), []
    unit = 2 if BITS[name] == 4 else 1  # elements that are kept together
    chunk, kept = (2, 1) if name == "tf32" else (4, 2)
    for row in range(bits.shape[0]):
        text = ""
        for start in range(0, bits.shape[1], chunk * unit):
            chosen = sorted(generator.choice(chunk, kept, replace=False))
            for count, place in enumerate(chosen):
                here = slice(start + place * unit, start + (place + 1) * unit)
                there = start // 2 + count * unit
                whole[row, here] = stored[row, there : there + unit] = bits[row, here]
                text = (("0100", "1110")[place] if name == "tf32" else f"{place:02b}") + text
        metadata.append(text)
    return whole, stored, metadata


def spread(metadata: list[str], generator: np.random.Generator, name: str, selector: int) -> np.ndarray:
    """Each lane's word: 16 bits of two rows where elements have 16 bits or more, else 32 bits of one row. Others' words mean nothing."""
    found = generator.integers(0, 1 << 32, 32, "u4")
    width = 16 if BITS[name] >= 16 else 32
    for row, text in enumerate(metadata):
        steps = len(text) // width
        for step in range(steps):
            bits = int(text[len(text) - (step + 1) * width : len(text) - step * width], 2)
            if width == 32:
                found[row % 8 * 4 + selector * 2 * steps + 2 * step + row // 8] = bits
            else:
                lane, shift = row % 8 * 4 + selector * steps + step, row // 8 * 16
                found[lane] = int(found[lane]) & ~(0xFFFF << shift) & 0xFFFFFFFF | bits << shift
    return found


def sparse_kernel(mnemonic: str, kinds: dict[str, tuple[str, int]], selector: int) -> str:
    """The dense kernel with one more argument, the lanes' metadata."""
    text = product_kernel(mnemonic, kinds).replace(".param .u64 c)", ".param .u64 c, .param .u64 metadata)")
    fetch = "ld.param.u64 %at, [metadata]; mul.wide.u32 %x, %lane, 4; add.s64 %at, %at, %x; .reg .b32 %e; ld.global.b32 %e, [%at]; "
    start = text.index(mnemonic)
    end = text.index(";", start)
    return text[:start].rstrip() + "\n" + fetch + text[start:end] + f", %e, {selector}" + text[end:]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("shape", "types", "selector"), CASES)
@pytest.mark.parametrize("form", ["sp", "sp::ordered_metadata"])
def test_sparse_products(device: TinyDevice, shape: str, types: str, selector: int, form: str) -> None:
    rows, columns, depth = size = tuple(map(int, shape.split()))
    names = dict(zip("dabc", types.split(), strict=True))
    generator = np.random.default_rng(21 + selector)
    bits = {"a": elements(generator, names["a"], (rows, depth)), "b": elements(generator, names["b"], (depth, columns))}
    bits["c"] = elements(generator, names["c"], (rows, columns))
    bits["a"], stored, metadata = thinned(generator, bits["a"], names["a"])
    where = {matrix: positions(matrix, names[matrix], size) for matrix in "bcd"}
    where["a"] = positions("a", names["a"], (rows, columns, depth // 2))
    kinds = {matrix: registers(names[matrix], len(where[matrix][0])) for matrix in "abcd"}
    kind = ".kind::f8f6f4" if "e4m3" in types and form != "sp" else ""
    mnemonic = f"mma.{form}.sync.aligned.m{rows}n{columns}k{depth}.row.col{kind}.{'.'.join(types.split())}"
    module = device.load(sparse_kernel(mnemonic, kinds, selector))
    out = device.allocate(4096)
    given = [device.upload(words(stored if m == "a" else bits[m], where[m], names[m])) for m in "abc"]
    told = device.upload(spread(metadata, generator, names["a"], selector))
    assert device.launch(module, "k", 1, 32, [out, *given, told]) == 0, device.fault.kind
    value = {m: np.vectorize(lambda code, m=m: number(names[m], int(code)))(bits[m]) for m in "abc"}
    expected = value["a"] @ value["b"] + value["c"]
    want = {"f16": "f2", "f32": "f4", "s32": "i4"}[names["d"]]
    got = device.download(out, want, rows * columns).reshape(32, -1)
    for lane in range(32):
        for index, cell in enumerate(where["d"][lane]):
            assert got[lane, index] == np.asarray(expected[cell]).astype(want), (lane, index)


@pytest.mark.parametrize(
    ("shape", "types", "selector"),
    [("16 8 32", "f32 f16 f16 f32", 2), ("16 8 64", "s32 s8 s8 s32", 1), ("16 8 16", "f32 f16 f16 f32", 4)],
)
def test_bad_selectors(device: TinyDevice, shape: str, types: str, selector: int) -> None:
    rows, columns, depth = map(int, shape.split())
    names = types.split()
    where = {
        m: positions(m, n, (rows, columns, depth // 2 if m == "a" else depth))
        for m, n in zip("dabc", names, strict=True)
    }
    kinds = {m: registers(n, len(where[m][0])) for m, n in zip("dabc", names, strict=True)}
    mnemonic = f"mma.sp.sync.aligned.m{rows}n{columns}k{depth}.row.col.{'.'.join(names)}"
    with pytest.raises(jit.PtxError, match="sparsity selector"):
        jit.compile_kernel(
            device.load(sparse_kernel(mnemonic, kinds, selector)), "k", (32, 1, 1), jit.Options(cache=False)
        )

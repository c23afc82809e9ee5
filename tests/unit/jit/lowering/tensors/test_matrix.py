"""mma, wmma, ldmatrix, stmatrix, movmatrix: fragments laid out as the PTX manual has it, products from numpy."""

from __future__ import annotations

import numpy as np
import pytest
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER
from jit_tools.matrices import BITS, elements, listed, number, positions, product_kernel, registers, words

# Element -> (numpy type of its bits, bits)
SHAPES = [
    *(("16 8 8", f"{d} {a} {a} {d}") for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"))),
    *(("16 8 16", f"{d} {a} {a} {d}") for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("s32", "s8"), ("f64", "f64"))),
    ("16 8 4", "f32 tf32 tf32 f32"), ("8 8 16", "s32 u8 s8 s32"), ("16 8 32", "s32 s8 u8 s32"), ("16 8 32", "s32 u8 u8 s32"),
    ("8 8 32", "s32 s4 s4 s32"), ("16 8 32", "s32 u4 s4 s32"), ("16 8 64", "s32 s4 u4 s32"), ("16 8 64", "s32 u4 u4 s32"),
    *((shape, f"s32 b1 b1 s32 {how}") for shape in ("8 8 128", "16 8 128", "16 8 256") for how in ("xor", "and")),
    ("16 8 32", "f32 e4m3 e5m2 f32"), ("8 8 4", "f64 f64 f64 f64"), ("16 8 4", "f64 f64 f64 f64"), ("16 8 8", "f64 f64 f64 f64"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "types"), SHAPES)
def test_products(device: TinyDevice, shape: str, types: str) -> None:
    rows, columns, depth = size = tuple(map(int, shape.split()))
    of, how = types.split()[:4], types.split()[4:]
    names = dict(zip("dabc", of, strict=True))
    generator = np.random.default_rng(7)
    extents = {"a": (rows, depth), "b": (depth, columns), "c": (rows, columns), "d": (rows, columns)}
    bits = {matrix: elements(generator, names[matrix], extents[matrix]) for matrix in "abc"}
    where = {matrix: positions(matrix, names[matrix], size) for matrix in "abcd"}
    kinds = {matrix: registers(names[matrix], len(where[matrix][0])) for matrix in "abcd"}
    suffix = ".".join([*of, *how, *(["popc"] if how else [])])
    mnemonic = f"mma.sync.aligned.m{rows}n{columns}k{depth}.row.col.{suffix}"
    module = device.load(product_kernel(mnemonic, kinds))
    out = device.allocate(4096)
    inputs = [device.upload(words(bits[matrix], where[matrix], names[matrix])) for matrix in "abc"]
    assert device.launch(module, "k", 1, 32, [out, *inputs]) == 0, device.fault.kind
    value = {matrix: np.vectorize(lambda code, m=matrix: number(names[m], int(code)))(bits[matrix]) for matrix in "abc"}
    # Sums of these values are exact in f32, so one rounding at the end is all that can happen.
    expected = value["a"] @ value["b"] + value["c"]
    if how == ["xor"]:
        expected = value["a"] @ (1 - value["b"]) + (1 - value["a"]) @ value["b"] + value["c"]
    want = {"f16": "f2", "f32": "f4", "f64": "f8", "s32": "i4"}[names["d"]]
    got = device.download(out, want, rows * columns).reshape(32, -1)
    for lane in range(32):
        for index, cell in enumerate(where["d"][lane]):
            assert got[lane, index] == np.asarray(expected[cell]).astype(want), (lane, index)


def test_saturating_integers(device: TinyDevice) -> None:
    """.satfinite clamps the sum; without it the sum wraps."""
    for modifier, expected in ((".satfinite", 0x7FFF_FFFF), ("", (0x7FFF_FFF0 + 16 * 255 * 255) - (1 << 32))):
        mnemonic = f"mma.sync.aligned.m8n8k16.row.col{modifier}.s32.u8.u8.s32"
        kinds = {"a": ("b32", 1), "b": ("b32", 1), "c": ("b32", 2), "d": ("b32", 2)}
        module = device.load(product_kernel(mnemonic, kinds))
        out, ones = device.allocate(256), device.upload(np.full(32, -1, "i4"))
        start = device.upload(np.full(64, 0x7FFF_FFF0, "i4"))
        assert device.launch(module, "k", 1, 32, [out, ones, ones, start]) == 0
        assert np.all(device.download(out, "i4", 64) == expected)


LAYOUTS = ["row col row col", "col row col row"]
WMMA = [
    *((shape, "f32 f16 f16 f32") for shape in ("16 16 16", "8 32 16", "32 8 16")), ("8 32 16", "f32 bf16 bf16 f32"),
    ("32 8 16", "s32 s8 s8 s32"), ("16 16 16", "s32 u8 u8 s32"), ("16 16 16", "f16 f16 f16 f16"), ("16 16 16", "f32 f16 f16 f16"),
    ("16 16 8", "f32 tf32 tf32 f32"), ("8 8 4", "f64 f64 f64 f64"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "types", "layouts"), [(*case, LAYOUTS[n % 2]) for n, case in enumerate(WMMA)])
def test_wmma(device: TinyDevice, shape: str, types: str, layouts: str) -> None:
    """Loads, product and store of matrices in memory; a and c in global memory, b through shared memory."""
    rows, columns, depth = map(int, shape.split())
    names = dict(zip("dabc", types.split(), strict=True))
    order = dict(zip("abcd", layouts.split(), strict=True))
    extents = {"a": (rows, depth), "b": (depth, columns), "c": (rows, columns), "d": (rows, columns)}
    generator = np.random.default_rng(9)
    bits = {matrix: elements(generator, names[matrix], extents[matrix]) for matrix in "abc"}
    large = f"m{rows}n{columns}k{depth}"
    leading = {m: extents[m][1 if order[m] == "row" else 0] + 32 // (BITS[names[m]] // 8) for m in "abcd"}

    def stored(matrix: str) -> np.ndarray:
        array = bits[matrix] if order[matrix] == "row" else bits[matrix].T
        padded = np.zeros((array.shape[0], leading[matrix]), f"u{BITS[names[matrix]] // 8}")
        padded[:, : array.shape[1]] = array
        return padded

    def fragment(matrix: str) -> tuple[str, int]:
        cells = extents[matrix][0] * extents[matrix][1] // 32
        if names[matrix] == "f16":
            return "b32", 8 if matrix in "ab" else 4
        return registers(names[matrix], cells)

    lines = [HEADER, ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c) {"]
    lines += [".reg .b64 %at<4>, %o; .reg .b32 %t, %v, %s; .reg .pred %p; .shared .align 32 .b8 area[8192];"]
    lines += ["ld.param.u64 %at0, [a]; ld.param.u64 %at1, [b]; ld.param.u64 %at2, [c]; ld.param.u64 %o, [out];"]
    total = stored("b").nbytes
    lines += ["mov.u32 %t, %tid.x; shl.b32 %t, %t, 2; mov.u32 %s, area;"]
    lines += [f"COPY: setp.ge.u32 %p, %t, {total}; @%p bra READY; cvt.u64.u32 %at3, %t; add.s64 %at3, %at1, %at3;"]
    lines += ["ld.global.u32 %v, [%at3]; add.u32 %v, %v, 0; .reg .b32 %w; add.u32 %w, %s, %t; st.shared.u32 [%w], %v;"]
    lines += ["add.u32 %t, %t, 128; bra COPY; READY: bar.sync 0;"]
    for matrix, address in (("a", "%at0"), ("b", "%s"), ("c", "%at2")):
        kind, count = fragment(matrix)
        space = ".shared" if matrix == "b" else ".global"
        lines += [f".reg .{kind} %{matrix}<{count}>;"]
        lines += [
            f"wmma.load.{matrix}.sync.aligned.{order[matrix]}.{large}{space}.{names[matrix]} "
            f"{listed(matrix, count)}, [{address}], {leading[matrix]};"
        ]
    kind, count = fragment("d")
    shown = ".".join([names["d"], names["c"]] if names["a"] == "f16" else types.split())
    lines += [f".reg .{kind} %d<{count}>;"]
    operands = ", ".join(listed(matrix, fragment(matrix)[1]) for matrix in "dabc")
    lines += [f"wmma.mma.sync.aligned.{order['a']}.{order['b']}.{large}.{shown} {operands};"]
    lines += [
        f"wmma.store.d.sync.aligned.{order['d']}.{large}.global.{names['d']} [%o], {listed('d', count)}, {leading['d']};"
    ]
    module = device.load("\n".join([*lines, "ret; }"]))
    want = {"f16": "f2", "f32": "f4", "f64": "f8", "s32": "i4"}[names["d"]]
    outer = extents["d"][0 if order["d"] == "row" else 1]
    out = device.upload(np.zeros((outer, leading["d"]), want))
    assert device.launch(module, "k", 1, 32, [out, *(device.upload(stored(m)) for m in "abc")]) == 0, device.fault.line
    got = device.download(out, want, outer * leading["d"]).reshape(outer, -1)
    assert not got[:, extents["d"][1 if order["d"] == "row" else 0] :].any()
    got = got[:, : extents["d"][1 if order["d"] == "row" else 0]]
    value = {m: np.vectorize(lambda code, m=m: number(names[m], int(code)))(bits[m]) for m in "abc"}
    expected = (value["a"] @ value["b"] + value["c"]).astype(want)
    assert np.array_equal(got if order["d"] == "row" else got.T, expected)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_moving_matrices(device: TinyDevice, count: int, transposed: bool) -> None:
    """ldmatrix from rows in any order, movmatrix of the first one, stmatrix back."""
    suffix = f"x{count}{'.trans' if transposed else ''}.shared.b16"
    text = f"""{HEADER}
    .visible .entry k(.param .u64 in, .param .u64 rows, .param .u64 out) {{
    .reg .b32 %r<16>; .reg .b64 %a<8>; .shared .align 16 .b8 area[1024];
    mov.u32 %r0, %laneid; mov.u32 %r1, area;
    ld.param.u64 %a0, [in]; ld.param.u64 %a1, [rows]; ld.param.u64 %a2, [out];
    mul.wide.u32 %a3, %r0, 4; add.s64 %a4, %a1, %a3; ld.global.u32 %r2, [%a4];
    mul.wide.u32 %a3, %r0, 16; add.s64 %a4, %a0, %a3; .reg .b32 %v<4>; ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%a4];
    mad.lo.u32 %r3, %r0, 16, %r1; st.shared.v4.u32 [%r3], {{%v0, %v1, %v2, %v3}}; bar.sync 0;
    mad.lo.u32 %r2, %r2, 16, %r1;
    .reg .b32 %m<4>; ldmatrix.sync.aligned.m8n8.{suffix} {listed("m", count)}, [%r2];
    movmatrix.sync.aligned.m8n8.trans.b16 %r4, %m0;
    mul.wide.u32 %a3, %r0, 4; add.s64 %a2, %a2, %a3; st.global.u32 [%a2], %r4;
    {" ".join(f"st.global.u32 [%a2+{128 * (index + 1)}], %m{index};" for index in range(count))}
    add.u32 %r5, %r3, 512; stmatrix.sync.aligned.m8n8.{suffix} [%r5], {listed("m", count)}; bar.sync 0;
    ld.shared.v4.u32 {{%v0, %v1, %v2, %v3}}, [%r5]; mul.wide.u32 %a3, %r0, 12; add.s64 %a2, %a2, %a3;
    st.global.v4.u32 [%a2+1024], {{%v0, %v1, %v2, %v3}};
    ret; }}"""
    data = np.random.default_rng(3).integers(0, 1 << 16, (32, 8)).astype("u2")
    rows = np.random.default_rng(4).permutation(32).astype("u4")
    out = device.allocate(2048)
    assert device.launch(device.load(text), "k", 1, 32, [device.upload(data), device.upload(rows), out]) == 0
    moved = device.download(out, "u2", 64).reshape(8, 8)
    for index in range(count):
        matrix = data[rows[8 * index : 8 * index + 8]]
        fragment = device.download(out + 128 * (index + 1), "u2", 64).reshape(8, 8)
        assert np.array_equal(fragment, matrix.T if transposed else matrix)
        if index == 0:
            assert np.array_equal(moved, fragment.T)
        back = device.download(out + 1024 + 128 * index, "u2", 64).reshape(8, 8)
        assert np.array_equal(back, matrix)

"""Atomic operations on global, shared and generic addresses, one and two threads."""

from __future__ import annotations

import numpy as np
import pytest
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

MASKS = {4: (1 << 32) - 1, 8: (1 << 64) - 1}


def signed(value: int, size: int) -> int:
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def reference(operation: str, sign: str, size: int, old: int, x: int, y: int = 0) -> int:
    mask = MASKS[size]
    if operation == "add":
        return old + x & mask
    if operation in ("min", "max"):
        pick = min if operation == "min" else max
        return pick(old, x, key=lambda value: signed(value, size) if sign == "s" else value)
    if operation == "inc":
        return 0 if old >= x else old + 1
    if operation == "dec":
        return x if old == 0 or old > x else old - 1
    if operation == "exch":
        return x
    if operation == "cas":
        return y if old == x else old
    return {"and": old & x, "or": old | x, "xor": old ^ x}[operation]


OPERATIONS = [
    ("add", "u"), ("min", "s"), ("max", "s"), ("min", "u"), ("max", "u"), ("inc", "u"), ("dec", "u"), ("exch", "b"), ("cas", "b"),
    ("and", "b"), ("or", "b"), ("xor", "b"),
]  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize("size", [4, 8])
def test_returned_values(device: TinyDevice, space: str, size: int) -> None:
    """Eight cells, each hit by four lanes in lane order: the old values are those of the sequential order."""
    bits = 8 * size
    register = "r" if size == 4 else "rd"
    chosen = [item for item in OPERATIONS if size == 4 or item[0] not in ("inc", "dec")]
    lines = []
    for number, (operation, sign) in enumerate(chosen):
        target = f"[%rd7+{number * 64}]" if space != "shared" else f"[%r5+{number * 64}]"
        extra = f", %{register}15" if operation == "cas" else ""
        dot = f".{space}" if space else ""
        lines.append(f"atom{dot}.{operation}.{sign}{bits} %{register}9, {target}, %{register}14{extra};")
        lines.append(f"st.global.u{bits} [%rd3+{number * 1024}], %{register}9;")
    copy_in = f"""
    setp.ge.u32 %p0, %r0, 8; @%p0 bra SKIP; mov.u32 %r10, 0;
    COPY: mad.lo.u32 %r11, %r10, 64, 0; mad.lo.u32 %r11, %r0, {size}, %r11; cvt.u64.u32 %rd10, %r11; add.s64 %rd11, %rd1, %rd10;
    ld.global.u{bits} %{register}12, [%rd11]; mov.u32 %r13, cells; add.u32 %r13, %r13, %r11; st.shared.u{bits} [%r13], %{register}12;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p0, %r10, 12; @%p0 bra COPY; SKIP: bar.sync 0;
    """
    copy_out = copy_in.replace("COPY", "COPY2").replace("SKIP", "SKIP2")
    copy_out = copy_out.replace(f"ld.global.u{bits} %{register}12, [%rd11];", "").replace(
        f"st.shared.u{bits} [%r13], %{register}12;",
        f"ld.shared.u{bits} %{register}12, [%r13]; st.global.u{bits} [%rd11], %{register}12;",
    )
    text = f"""{HEADER}
    .shared .align 8 .b8 cells[768];
    .visible .entry k(.param .u64 cellsg, .param .u64 out, .param .u64 values)
    {{
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
    mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [cellsg]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd4, [values];
    {copy_in if space == "shared" else ""}
    and.b32 %r4, %r0, 7; mul.wide.u32 %rd5, %r4, {size}; add.s64 %rd7, %rd1, %rd5; mov.u32 %r5, cells; mad.lo.u32 %r5, %r4, {size}, %r5;
    mul.wide.u32 %rd5, %r0, {size}; add.s64 %rd3, %rd2, %rd5; add.s64 %rd4, %rd4, %rd5; ld.global.u{bits} %{register}14, [%rd4];
    ld.global.u{bits} %{register}15, [%rd4+{32 * size}];
    {" ".join(lines)}
    {copy_out if space == "shared" else ""}
    ret;
    }}
    """
    generator = np.random.default_rng(size)
    cells = generator.integers(0, 10, (12, 64 // size)).astype(f"u{size}")
    cells[:, 3] = MASKS[size] - 2
    values = generator.integers(0, 10, 64).astype(f"u{size}")
    values[::5] = MASKS[size] - values[::5]
    module = device.load(text)
    address, out = device.upload(cells), device.allocate(12 * 1024)
    assert device.launch(module, "k", 1, 32, [address, out, device.upload(values)]) == 0, device.fault.line
    result = device.download(address, f"u{size}", cells.size).reshape(cells.shape)
    old = device.download(out, f"u{size}", 12 * 1024 // size).reshape(12, 1024 // size)
    for number, (operation, sign) in enumerate(chosen):
        current = [int(value) for value in cells[number]]
        for lane in range(32):
            cell = lane % 8
            assert int(old[number, lane]) == current[cell], (operation, lane)
            current[cell] = reference(operation, sign, size, current[cell], int(values[lane]), int(values[32 + lane]))
        assert [int(value) for value in result[number]] == current, operation


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_from_many_blocks(device: TinyDevice, threads: int) -> None:
    """Uniform and varying addresses, unused results, partial warps."""
    text = f"""{HEADER}
    .visible .entry k(.param .u64 out)
    {{
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<4>; .reg .f64 %fd<4>;
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; ld.param.u64 %rd0, [out];
    atom.global.add.u32 %r2, [%rd0], 1; atom.global.add.u32 %r2, [%rd0+4], %r0; red.global.add.u32 [%rd0+8], %r0;
    red.global.max.s32 [%rd0+12], %r0; red.global.min.u32 [%rd0+16], %r0; red.global.xor.b32 [%rd0+20], 7; red.global.or.b32 [%rd0+24], %r0;
    and.b32 %r3, %r0, 1; mul.wide.u32 %rd1, %r3, 4; add.s64 %rd1, %rd0, %rd1; red.global.add.u32 [%rd1+28], 1;
    cvt.u64.u32 %rd2, %r0; red.global.add.u64 [%rd0+40], %rd2; mov.f32 %f0, 0f3F800000; red.global.add.f32 [%rd0+48], %f0;
    mov.f64 %fd0, 0d3FF0000000000000; red.global.add.f64 [%rd0+56], %fd0;
    setp.gt.u32 %p0, %r0, 39; @%p0 red.global.add.u32 [%rd0+64], 1;
    RETRY: ld.global.u32 %r5, [%rd0+68]; add.u32 %r6, %r5, 1; atom.global.cas.b32 %r7, [%rd0+68], %r5, %r6; setp.ne.u32 %p1, %r7, %r5; @%p1 bra RETRY;
    ret;
    }}
    """
    module = device.load(text)
    initial = np.zeros(20, "u4")
    initial[4] = 1000
    out = device.upload(initial)
    blocks, block = 50, 45
    assert device.launch(module, "k", blocks, block, [out], threads=threads) == 0
    words = device.download(out, "u4", 20)
    total = blocks * sum(range(block))
    assert list(words[:9]) == [
        blocks * block,
        total,
        total,
        block - 1,
        0,
        0 if blocks * block % 2 == 0 else 7,
        63,
        blocks * 23,
        blocks * 22,
    ]
    assert words[10:12].view("u8")[0] == total
    assert words[12:13].view("f4")[0] == blocks * block
    assert words[14:16].view("f8")[0] == blocks * block
    assert words[16] == blocks * 5
    assert words[17] == blocks * block
    assert device.kernel.info.order_sensitive


def test_half_additions(device: TinyDevice) -> None:
    text = f"""{HEADER}
    .visible .entry k(.param .u64 out)
    {{
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .b16 %h<4>;
    ld.param.u64 %rd0, [out]; mov.u32 %r1, 0x40003c00; atom.global.add.noftz.f16x2 %r2, [%rd0], %r1;
    mov.b16 %h1, 0x3c00; atom.global.add.noftz.f16 %h2, [%rd0+4], %h1;
    ret;
    }}
    """
    module = device.load(text)
    out = device.upload(np.zeros(2, "u4"))
    assert device.launch(module, "k", 1, 20, [out]) == 0
    assert list(device.download(out, "f2", 3)) == [20, 40, 20]


def test_order_flags(device: TinyDevice) -> None:
    def info(line: str) -> object:
        text = f"{HEADER}.visible .entry k(.param .u64 out) {{ .reg .b64 %rd<4>; .reg .b32 %r<4>; ld.param.u64 %rd0, [out]; {line} ret; }}"
        device.launch(device.load(text), "k", 1, 1, [device.upload(np.zeros(4, "u4"))])
        return (device.kernel.info.order_sensitive, device.kernel.info.order_visible)

    assert info("red.global.add.u32 [%rd0], 1;") == (False, False)
    assert info("atom.global.add.u32 %r0, [%rd0], 1; st.global.u32 [%rd0+4], %r0;") == (False, True)
    assert info("red.global.add.f32 [%rd0], 0f3F800000;") == (True, False)


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("form", ["f16", "bf16", "f16x2", "bf16x2"])
def test_small_floats(device: TinyDevice, space: str, form: str) -> None:
    """Sums of f16 and bf16: every partial sum is exact, so the order does not matter; old values are some partial sums."""
    pair, wide = form.endswith("x2"), "bf16" in form
    register, load, size = ("r", "u32", 4) if pair else ("h", "u16", 2)
    target = "[%rd1]" if space == "global" else "[%r1]"
    text = f"""{HEADER}
    .visible .entry k(.param .u64 cell, .param .u64 in, .param .u64 out) {{
    .reg .pred %p; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .shared .align 4 .b8 area[16];
    mov.u32 %r0, %tid.x; mov.u32 %r1, area; ld.param.u64 %rd1, [cell]; ld.param.u64 %rd2, [in]; ld.param.u64 %rd3, [out];
    mul.wide.u32 %rd4, %r0, {size}; add.s64 %rd2, %rd2, %rd4; add.s64 %rd3, %rd3, %rd4;
    mov.u32 %r2, 0; st.shared.u32 [%r1], %r2; bar.sync 0;
    ld.global.{load} %{register}4, [%rd2]; atom.{space}.add.noftz.{form} %{register}5, {target}, %{register}4; bar.sync 0;
    st.global.{load} [%rd3], %{register}5;
    setp.ne.u32 %p, %r0, 0; @%p bra END; ld.{space}.{load} %{register}6, {target}; st.global.{load} [%rd1], %{register}6; END: ret; }}"""
    generator = np.random.default_rng(1)
    values = generator.integers(-3, 4, (64, 2 if pair else 1)).astype("f4")

    def encode(numbers: np.ndarray) -> np.ndarray:
        return (numbers.view("u4") >> 16).astype("u2") if wide else numbers.astype("f2").view("u2")

    def decode(bits: np.ndarray) -> np.ndarray:
        return (bits.astype("u4") << 16).view("f4") if wide else bits.view("f2").astype("f4")

    cell, out = device.upload(np.zeros(2, "u2")), device.allocate(512)
    assert device.launch(device.load(text), "k", 1, 64, [cell, device.upload(encode(values)), out]) == 0
    total = decode(device.download(cell, "u2", values.shape[1]))
    assert np.array_equal(total, values.sum(axis=0))
    before = decode(device.download(out, "u2", values.size)).reshape(values.shape)
    # Lanes act in order and, here, so do warps: the old values are the running sums.
    assert np.array_equal(before, np.cumsum(values, axis=0) - values)


def test_vectors(device: TinyDevice) -> None:
    """v4.f32 sums, v2 minima and maxima of f16 and bf16: each element on its own; a NaN loses."""
    text = f"""{HEADER}
    .visible .entry k(.param .u64 sums, .param .u64 in, .param .u64 least, .param .u64 most) {{
    .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>;
    mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [sums]; ld.param.u64 %rd2, [in]; ld.param.u64 %rd3, [least]; ld.param.u64 %rd4, [most];
    mul.wide.u32 %rd5, %r0, 16; add.s64 %rd2, %rd2, %rd5; ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%rd2];
    red.global.add.v4.f32 [%rd1], {{%f0, %f1, %f2, %f3}}; atom.global.add.v2.f32 {{%f4, _}}, [%rd1+16], {{%f0, %f1}};
    cvt.rn.f16.f32 %h0, %f0; cvt.rn.f16.f32 %h1, %f1; red.global.min.noftz.v2.f16 [%rd3], {{%h0, %h1}};
    cvt.rn.bf16.f32 %h2, %f0; cvt.rn.bf16.f32 %h3, %f1; red.global.max.noftz.v2.bf16 [%rd4], {{%h2, %h3}}; ret; }}"""
    values = np.random.default_rng(2).integers(-100, 100, (96, 4)).astype("f4")
    sums = device.upload(np.zeros(6, "f4"))
    least, most = device.upload(np.array([0x7E00, 0x7BFF], "u2")), device.upload(np.array([0xFF80, 0x7FC0], "u2"))
    assert device.launch(device.load(text), "k", 1, 96, [sums, device.upload(values), least, most]) == 0
    total = values.sum(axis=0)
    assert np.array_equal(device.download(sums, "f4", 6), [*total, *total[:2]])
    assert np.array_equal(device.download(least, "f2", 2), values[:, :2].min(axis=0))
    bits = device.download(most, "u2", 2).astype("u4") << 16
    assert np.array_equal(bits.view("f4"), values[:, :2].max(axis=0))

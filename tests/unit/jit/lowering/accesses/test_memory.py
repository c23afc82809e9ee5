"""Loads and stores in every state space, vectors, sub-word types, parameters, variables, generic addresses."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.runtime import structures
from jit_tools.device import PAGE_SHIFT, TinyDevice
from jit_tools.instructions import HEADER

START = """
.reg .pred %p<4>; .reg .b16 %h<12>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<8>; .reg .f64 %fd<8>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0;
"""


def kernel(parameters: str, body: str, before: str = "") -> str:
    return f"{HEADER}{before}\n.visible .entry k({parameters})\n{{{START}{body}\nret;\n}}\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("block", [(32, 1), (8, 8), (16, 4), (10, 7), (33, 1)])
@pytest.mark.parametrize(("load", "store", "kind", "lanes"), [
    ("u8", "u8", "u1", 1), ("u16", "u16", "u2", 1), ("u32", "u32", "u4", 1), ("u64", "u64", "u8", 1),
    ("v2.u32", "v2.u32", "u4", 2), ("v4.u32", "v4.u32", "u4", 4), ("v2.u64", "v2.u64", "u8", 2), ("v4.u8", "v4.u8", "u1", 4),
    ("v2.u16", "v2.u16", "u2", 2),
])  # fmt: skip
def test_copy_rows_and_gather(
    device: TinyDevice, block: tuple[int, int], load: str, store: str, kind: str, lanes: int
) -> None:
    """out[t] = in[index[t]]: contiguous, equal and scattered addresses take different code paths."""
    threads = block[0] * block[1]
    size = np.dtype(kind).itemsize * lanes
    register = {1: "h", 2: "h", 4: "r", 8: "rd"}[np.dtype(kind).itemsize]
    names = [f"%{register}{5 + index}" for index in range(lanes)]
    operand = "{" + ", ".join(names) + "}" if lanes > 1 else names[0]
    body = f"""
    mov.u32 %r4, %tid.y; mad.lo.s32 %r3, %r4, %r2, %r0;
    ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [index];
    mul.wide.s32 %rd3, %r3, 4; add.s64 %rd2, %rd2, %rd3; ld.global.u32 %r15, [%rd2];
    mul.wide.s32 %rd3, %r15, {size}; add.s64 %rd1, %rd1, %rd3; ld.global.{load} {operand}, [%rd1];
    mul.wide.s32 %rd3, %r3, {size}; add.s64 %rd0, %rd0, %rd3; st.global.{store} [%rd0], {operand};
    """
    text = kernel(".param .u64 out, .param .u64 in, .param .u64 index", body)
    module = device.load(text)
    generator = np.random.default_rng(1)
    source = generator.integers(0, 256, 2048 * size, dtype="u1").reshape(2048, size)
    patterns = [
        np.arange(threads), np.full(threads, 17), np.arange(threads) // block[0], generator.integers(0, 2048, threads),
        np.arange(threads)[::-1], np.arange(threads) * 2, np.repeat(generator.integers(0, 2000, block[1]), block[0]) + np.tile(np.arange(block[0]), block[1]),
    ]  # fmt: skip
    address = device.upload(source)
    for pattern in patterns:
        out = device.allocate(threads * size)
        index = device.upload(pattern.astype("i4"))
        assert device.launch(module, "k", 1, block, [out, address, index]) == jit.STATUS_DONE
        got = device.download(out, "u1", threads * size).reshape(threads, size)
        assert np.array_equal(got, source[pattern])


def test_scatter_last_lane_wins(device: TinyDevice) -> None:
    body = """
    ld.param.u64 %rd0, [out]; and.b32 %r4, %r0, 3; mul.wide.u32 %rd1, %r4, 4; add.s64 %rd0, %rd0, %rd1;
    st.global.u32 [%rd0], %r0;
    """
    module = device.load(kernel(".param .u64 out", body))
    out = device.allocate(16)
    assert device.launch(module, "k", 1, 32, [out]) == 0
    assert sorted(device.download(out, "u4", 4) % 4) == [0, 1, 2, 3]


def test_sign_extension_and_truncation(device: TinyDevice) -> None:
    body = """
    ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [in]; mul.wide.u32 %rd2, %r0, 1; add.s64 %rd1, %rd1, %rd2;
    ld.global.s8 %r4, [%rd1]; ld.global.u8 %r5, [%rd1]; ld.global.s8 %h1, [%rd1]; ld.global.s8 %rd5, [%rd1]; cvt.s32.s16 %r6, %h1;
    mul.wide.u32 %rd2, %r0, 24; add.s64 %rd0, %rd0, %rd2;
    st.global.u32 [%rd0], %r4; st.global.u32 [%rd0+4], %r5; st.global.u32 [%rd0+8], %r6; st.global.u64 [%rd0+16], %rd5;
    mov.u32 %r7, 0x12345678; st.global.u8 [%rd0+12], %r7; st.global.u16 [%rd0+14], %r7;
    """
    module = device.load(kernel(".param .u64 out, .param .u64 in", body))
    values = np.arange(-16, 16).astype("i1")
    out = device.upload(np.zeros(32 * 24, "u1"))
    assert device.launch(module, "k", 1, 32, [out, device.upload(values)]) == 0
    rows = device.download(out, "u1", 32 * 24).reshape(32, 24)
    assert np.array_equal(rows[:, 0:4].copy().view("i4")[:, 0], values)
    assert np.array_equal(rows[:, 4:8].copy().view("i4")[:, 0], values.view("u1"))
    assert np.array_equal(rows[:, 8:12].copy().view("i4")[:, 0], values)
    assert np.array_equal(rows[:, 16:24].copy().view("i8")[:, 0], values)
    assert np.all(rows[:, 12] == 0x78)
    assert np.all(rows[:, 14:16].copy().view("u2") == 0x5678)


def test_parameters_of_every_size(device: TinyDevice) -> None:
    body = """
    ld.param.u64 %rd0, [out]; ld.param.s8 %r4, [a]; ld.param.u16 %h0, [b]; ld.param.f64 %fd0, [c]; ld.param.u32 %r5, [s+8];
    ld.param.v2.u32 {%r6, %r7}, [s]; mov.u64 %rd1, s; ld.param.u8 %r8, [%rd1+12];
    cvt.u32.u16 %r9, %h0;
    st.global.u32 [%rd0], %r4; st.global.u32 [%rd0+4], %r9; st.global.f64 [%rd0+8], %fd0; st.global.u32 [%rd0+16], %r5;
    st.global.u32 [%rd0+20], %r6; st.global.u32 [%rd0+24], %r7; st.global.u32 [%rd0+28], %r8;
    """
    parameters = ".param .u64 out, .param .u8 a, .param .u16 b, .param .f64 c, .param .align 8 .b8 s[13]"
    module = device.load(kernel(parameters, body))
    entry = module.entries["k"]
    assert [item.offset for item in entry.parameters] == [0, 8, 10, 16, 24]
    assert entry.parameter_bytes == 37
    out = device.allocate(32)
    data = bytes(range(1, 14))
    assert device.launch(module, "k", 1, 32, [out, -5, 0xBEEF, 2.5, data]) == 0
    raw = device.download(out, "u1", 32).tobytes()
    assert np.frombuffer(raw, "i4")[0] == -5
    assert np.frombuffer(raw, "u4")[1] == 0xBEEF
    assert np.frombuffer(raw, "f8")[1] == 2.5
    words = np.frombuffer(data[:12], "u4")
    assert list(np.frombuffer(raw, "u4")[4:]) == [words[2], words[0], words[1], 13]


def test_parameters_at_a_computed_offset(device: TinyDevice) -> None:
    body = """
    ld.param.u64 %rd0, [out]; mov.b64 %rd1, s; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd1, %rd2; ld.param.u32 %r4, [%rd1];
    cvta.param.u64 %rd3, %rd1; ld.u32 %r5, [%rd3]; add.u32 %r4, %r4, %r5;
    add.s64 %rd0, %rd0, %rd2; st.global.u32 [%rd0], %r4;
    """
    module = device.load(kernel(".param .u64 out, .param .align 4 .b8 s[64]", body))
    values = np.arange(100, 116, dtype="u4")
    out = device.allocate(64)
    assert device.launch(module, "k", 1, 16, [out, values.tobytes()]) == 0
    assert np.array_equal(device.download(out, "u4", 16), 2 * values)
    assert device.launch(module, "k", 1, 17, [out, values.tobytes()]) == jit.STATUS_FAULT


def test_variables_and_initialisers(device: TinyDevice) -> None:
    before = """
    .const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    .visible .global .align 8 .f64 real = 0d4004000000000000;
    .global .align 8 .u64 pointer = generic(words)+4;
    .global .align 4 .u32 words[4] = {10, 20, 30, 40};
    .global .align 4 .f32 floats[2] = {0f3F800000, 2.5};
    .global .align 4 .s32 negative = -3;
    """
    body = """
    ld.param.u64 %rd0, [out]; ld.const.u32 %r4, [table+4]; mov.u64 %rd1, table; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2;
    ld.const.s32 %r5, [%rd3]; ld.global.f64 %fd0, [real]; ld.global.u64 %rd4, [pointer]; ld.u32 %r6, [%rd4];
    ld.global.f32 %f0, [floats+4]; ld.global.s32 %r7, [negative]; st.global.u32 [words], 99;
    mul.wide.u32 %rd2, %r0, 32; add.s64 %rd0, %rd0, %rd2;
    st.global.u32 [%rd0], %r4; st.global.u32 [%rd0+4], %r5; st.global.f64 [%rd0+8], %fd0; st.global.u32 [%rd0+16], %r6;
    st.global.f32 [%rd0+20], %f0; st.global.u32 [%rd0+24], %r7;
    """
    module = device.load(kernel(".param .u64 out", body, before))
    out = device.allocate(32 * 3)
    assert device.launch(module, "k", 1, 3, [out]) == 0
    raw = device.download(out, "u1", 96).reshape(3, 32)
    assert list(raw[:, 0:4].copy().view("i4")[:, 0]) == [2, 2, 2]
    assert list(raw[:, 4:8].copy().view("i4")[:, 0]) == [1, 2, -1]
    assert raw[0, 8:16].copy().view("f8")[0] == 2.5
    assert raw[0, 16:20].copy().view("i4")[0] == 20
    assert raw[0, 20:24].copy().view("f4")[0] == 2.5
    assert raw[0, 24:28].copy().view("i4")[0] == -3
    assert device.download(device.address(module, "words"), "u4", 1)[0] == 99


def test_shared_local_and_generic(device: TinyDevice) -> None:
    """Each thread writes shared, local and global memory through generic pointers that differ between lanes."""
    body = """
    .shared .align 4 .b8 tile[128]; .local .align 8 .b8 frame[32];
    ld.param.u64 %rd0, [out]; mul.wide.u32 %rd9, %r0, 4;
    mov.u64 %rd1, tile; cvta.shared.u64 %rd2, %rd1; add.s64 %rd2, %rd2, %rd9;
    mov.u64 %rd3, frame; cvta.local.u64 %rd4, %rd3; add.s64 %rd4, %rd4, 8;
    add.s64 %rd5, %rd0, %rd9;
    rem.u32 %r4, %r0, 3; setp.eq.u32 %p0, %r4, 0; setp.eq.u32 %p1, %r4, 1; selp.b64 %rd6, %rd2, %rd4, %p0; selp.b64 %rd6, %rd6, %rd5, %p0;
    @%p0 mov.u64 %rd6, %rd2;  @%p1 mov.u64 %rd6, %rd4;
    add.u32 %r5, %r0, 100; st.u32 [%rd6], %r5; ld.u32 %r6, [%rd6];
    isspacep.shared %p2, %rd6; selp.u32 %r7, 1000, 0, %p2; isspacep.local %p2, %rd6; selp.u32 %r8, 2000, %r7, %p2;
    isspacep.global %p2, %rd6; selp.u32 %r8, 4000, %r8, %p2;
    @%p0 ld.shared.u32 %r9, [%rd1]; @%p1 ld.local.u32 %r9, [%rd3+8];
    add.u32 %r6, %r6, %r8; st.global.u32 [%rd5], %r6;
    """
    module = device.load(kernel(".param .u64 out", body))
    out = device.upload(np.zeros(32, "u4"))
    assert device.launch(module, "k", 1, 32, [out]) == 0
    expected = [100 + lane + [1000, 2000, 4000][lane % 3] for lane in range(32)]
    assert list(device.download(out, "u4", 32)) == expected


def test_dynamic_shared_memory(device: TinyDevice) -> None:
    before = ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[20];"
    body = """
    ld.param.u64 %rd0, [out]; mov.u32 %r4, dynamic; shl.b32 %r5, %r0, 2; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r0;
    st.shared.u32 [fixed+16], %r0; mov.u32 %r8, %dynamic_smem_size;
    ld.shared.u32 %r6, [dynamic+8]; mul.wide.u32 %rd1, %r0, 8; add.s64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r6; st.global.u32 [%rd0+4], %r8;
    """
    module = device.load(kernel(".param .u64 out", body, before))
    out = device.allocate(256)
    assert device.launch(module, "k", 1, 32, [out], shared=128) == 0
    assert list(device.download(out, "u4", 2)) == [2, 128]
    assert device.kernel.info.static_shared == 20
    assert device.launch(module, "k", 1, 32, [out], shared=124) == jit.STATUS_FAULT
    assert device.fault.address == structures.SHARED_WINDOW + 32 + 124


def test_wide_registers_and_unpacking(device: TinyDevice) -> None:
    body = """
    ld.param.u64 %rd0, [out]; mov.u64 %rd1, 0x1122334455667788; mov.b64 {%r4, %r5}, %rd1; mov.b32 {%h0, %h1}, %r4;
    mov.b64 {%h2, %h3, %h4, %h5}, %rd1; mov.b64 %rd2, {%r5, %r4}; mov.b32 %r6, {%h1, %h0}; mov.b32 %f0, %r5; mov.b32 %r7, %f0;
    mov.b64 {_, %r8}, %rd1;
    st.global.v2.u32 [%rd0], {%r4, %r5}; st.global.u64 [%rd0+8], %rd2; st.global.u32 [%rd0+16], %r6; st.global.u16 [%rd0+20], %h5;
    st.global.u32 [%rd0+24], %r7; st.global.u32 [%rd0+28], %r8;
    """
    module = device.load(kernel(".param .u64 out", body))
    out = device.upload(np.zeros(8, "u4"))
    assert device.launch(module, "k", 1, 1, [out]) == 0
    assert [hex(value) for value in device.download(out, "u4", 8)] == [
        "0x55667788", "0x11223344", "0x11223344", "0x55667788", "0x77885566", "0x1122", "0x11223344", "0x11223344",
    ]  # fmt: skip


def test_special_registers(device: TinyDevice) -> None:
    names = ["%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%ntid.x", "%ntid.y", "%nctaid.x", "%nctaid.z",
             "%laneid", "%warpid", "%nwarpid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"]  # fmt: skip
    lines = [f"mov.u32 %r8, {name}; st.global.u32 [%rd0+{4 * index}], %r8;" for index, name in enumerate(names)]
    body = f"""
    mov.u32 %r4, %tid.y; mov.u32 %r5, %tid.z; mov.u32 %r6, %ntid.y; mad.lo.u32 %r5, %r5, %r6, %r4; mad.lo.u32 %r5, %r5, %r2, %r0;
    mov.u32 %r6, %ctaid.y; mov.u32 %r7, %nctaid.x; mad.lo.u32 %r6, %r6, %r7, %r1; mov.u32 %r7, %ctaid.z; mad.lo.u32 %r6, %r7, 6, %r6;
    mad.lo.u32 %r5, %r6, 70, %r5; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r5, {4 * len(names)}; add.s64 %rd0, %rd0, %rd1;
    {" ".join(lines)}
    """
    module = device.load(kernel(".param .u64 out", body))
    grid, block = (2, 3, 2), (5, 7, 2)
    out = device.allocate(12 * 70 * 4 * len(names))
    assert device.launch(module, "k", grid, block, [out], threads=2) == 0
    rows = device.download(out, "u4", 12 * 70 * len(names)).reshape(2, 3, 2, 2, 7, 5, len(names))
    for z, y, x, c, b, a in np.ndindex(2, 3, 2, 2, 7, 5):
        linear = a + 5 * (b + 7 * c)
        lane = linear % 32
        eq = 1 << lane
        expected = [a, b, c, x, y, z, 5, 7, 2, 2, lane, linear // 32, 3, eq, 2 * eq - 1, eq - 1, -eq, -2 * eq]
        assert list(rows[z, y, x, c, b, a]) == [value & 0xFFFFFFFF for value in expected]


def test_ordered_and_hinted_accesses(device: TinyDevice) -> None:
    body = """
    ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [in]; mul.wide.u32 %rd2, %r0, 16; add.s64 %rd3, %rd1, %rd2; add.s64 %rd4, %rd0, %rd2;
    ld.volatile.global.u32 %r4, [%rd3]; ld.acquire.gpu.u32 %r5, [%rd3+4]; ld.relaxed.sys.global.v2.u32 {%r6, %r7}, [%rd3+8];
    st.volatile.global.u32 [%rd4], %r4; st.release.gpu.global.u32 [%rd4+4], %r5; st.relaxed.gpu.global.v2.u32 [%rd4+8], {%r6, %r7};
    ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r8, %r9, %r10, %r11}, [%rd3]; prefetch.global.L2 [%rd3];
    st.global.cs.v4.u32 [%rd4+512], {%r8, %r9, %r10, %r11}; ld.volatile.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd1];
    st.volatile.global.v4.u32 [%rd0+1024], {%r8, %r9, %r10, %r11};
    """
    module = device.load(kernel(".param .u64 out, .param .u64 in", body))
    values = np.arange(128, dtype="u4")
    out = device.allocate(1040)
    assert device.launch(module, "k", 1, 32, [out, device.upload(values)]) == 0
    assert np.array_equal(device.download(out, "u4", 260), np.concatenate([values, values, values[:4]]))


def test_local_arrays_are_private(device: TinyDevice) -> None:
    body = """
    .local .align 4 .b8 a[64]; ld.param.u64 %rd0, [out]; mov.u64 %rd1, a; mov.u32 %r4, 0;
    L: shl.b32 %r5, %r4, 2; cvt.u64.u32 %rd2, %r5; add.s64 %rd2, %rd1, %rd2; mad.lo.u32 %r6, %r0, 100, %r4; st.local.u32 [%rd2], %r6;
    add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 16; @%p0 bra L;
    and.b32 %r7, %r0, 15; mul.wide.u32 %rd3, %r7, 4; add.s64 %rd3, %rd1, %rd3; ld.local.u32 %r8, [%rd3];
    mul.wide.u32 %rd3, %r3, 4; add.s64 %rd0, %rd0, %rd3; st.global.u32 [%rd0], %r8;
    """
    module = device.load(kernel(".param .u64 out", body))
    out = device.allocate(4 * 200)
    assert device.launch(module, "k", 2, 100, [out], threads=2) == 0
    expected = [thread * 100 + thread % 16 for thread in range(100)] * 2
    assert list(device.download(out, "u4", 200)) == expected


def test_what_a_site_remembers_ends_where_pages_end(device: TinyDevice) -> None:
    """A site that has passed one check remembers the run of pages around it: exactly that run, however long it is."""
    body = """
    ld.param.u64 %rd0, [list]; mov.u32 %r4, 0;
    L: ld.global.u64 %rd1, [%rd0]; ld.global.u32 %r5, [%rd1]; add.s64 %rd0, %rd0, 8; add.u32 %r4, %r4, 1;
    setp.lt.u32 %p0, %r4, 2; @%p0 bra L;
    """
    module = device.load(kernel(".param .u64 list", body))
    page, first, pages = 1 << PAGE_SHIFT, 16, len(device.flags)
    places = device.allocate(16)
    random = np.random.default_rng(5)

    def touch(*touched: int) -> int:
        addresses = np.array([device.base + number * page for number in touched], "u8")
        ctypes.memmove(places, addresses.ctypes.data, 16)
        return device.launch(module, "k", 1, 1, [places])

    lengths = [1, 2, 63, 64, 65, 127, 128, 129, *random.integers(1, 600, 12).tolist()]
    for low, length in [(low, n) for n in lengths for low in (first, first + 1, pages - n - 1, pages - n)]:
        device.flags[first:] = 0
        device.flags[low : low + length] = jit.PAGE_READABLE
        inside = low + int(random.integers(length))
        assert touch(inside, low) == touch(inside, low + length - 1) == 0
        for outside in [low - 1, *([low + length] if low + length < pages else [])]:
            assert touch(inside, outside) != 0
            assert device.fault.address == device.base + outside * page


def test_both_threads_run_all_blocks(device: TinyDevice) -> None:
    body = "ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r3, 4; add.s64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r3;"
    module = device.load(kernel(".param .u64 out", body))
    out = device.upload(np.zeros(64 * 500, "u4"))
    assert device.launch(module, "k", 500, 64, [out], threads=2) == 0
    assert np.array_equal(device.download(out, "u4", 64 * 500), np.arange(64 * 500))


def test_abort_stops_an_endless_loop(device: TinyDevice) -> None:
    import threading
    import time

    module = device.load(kernel(".param .u64 out", "L: add.u32 %r4, %r4, 1; bra L;"))
    compiled = jit.compile_kernel(module, "k", (64, 1, 1), jit.Options(cache=False))
    parameters = (ctypes.c_char * 64)()
    fault = jit.Fault()
    launch = jit.Launch(
        parameters=ctypes.addressof(parameters), fault=ctypes.pointer(fault), end_block=4, chunk=1, grid=(4, 1, 1),
        block=(64, 1, 1), window_base=device.base, window_size=4096, page_flags=device.flags.ctypes.data, page_shift=12,
    )  # fmt: skip
    device.workers[0].reserve(compiled, launch)
    status: list[int] = []
    thread = threading.Thread(target=lambda: status.append(compiled.run(launch, device.workers[0])))
    thread.start()
    time.sleep(0.1)
    assert thread.is_alive()
    launch.abort = 1
    thread.join(60)
    assert status == [jit.STATUS_ABORTED]
    assert fault.claimed == 0


def test_lanes_in_two_allocations(device: TinyDevice) -> None:
    """Addresses known per lane: in one run of pages, in two of them, and one lane between them."""
    text = kernel(
        ".param .u64 from, .param .u64 to, .param .u64 offsets, .param .u32 count",
        """
    ld.param.u64 %rd0, [from]; ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [offsets]; ld.param.u32 %r4, [count];
    setp.ge.u32 %p0, %r3, %r4; @%p0 bra END;
    mul.wide.u32 %rd3, %r3, 8; add.s64 %rd3, %rd2, %rd3; ld.global.u64 %rd4, [%rd3];
    add.s64 %rd5, %rd0, %rd4; ld.global.u32 %r5, [%rd5]; add.u32 %r5, %r5, 1;
    add.s64 %rd6, %rd1, %rd4; st.global.u32 [%rd6], %r5;
END:""",
    )
    module = device.load(text)
    random = np.random.default_rng(7)
    parts = [random.integers(0, 1 << 30, 2048).astype(np.uint32) for _ in range(2)]
    sources = [device.upload(part) for part in parts]
    targets = [device.allocate(8192) for _ in range(2)]
    apart = sources[1] - sources[0]
    assert targets[1] - targets[0] == apart == 8192 + 4096
    words = random.permutation(4096)[:1000]
    words[:64] = np.sort(words[:64])  # the first warps stay within one
    offsets = (words % 2048 * 4 + words // 2048 * apart).astype(np.uint64)
    places = device.upload(offsets)
    assert device.launch(module, "k", 8, 128, [sources[0], targets[0], places, 1000]) == jit.STATUS_DONE
    found = np.concatenate([device.download(target, np.uint32, 2048) for target in targets])
    expected = np.zeros(4096, np.uint32)
    expected[words] = np.concatenate(parts)[words] + 1
    assert (found == expected).all()
    offsets[333] = 8192 + 8
    places = device.upload(offsets)
    assert device.launch(module, "k", 8, 128, [sources[0], targets[0], places, 1000]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_ADDRESS
    assert device.fault.address == sources[0] + 8200
    assert (list(device.fault.block), list(device.fault.thread)) == ([2, 0, 0], [77, 0, 0])

"""Warp-level operations against the pseudocode of the PTX manual, in full, partial and parted warps."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER


def run(
    device: TinyDevice,
    body: str,
    words: int,
    block: int = 32,
    inputs: np.ndarray | None = None,
    options: jit.Options | None = None,
) -> np.ndarray:
    """The body sets %o0.. and finds its input word in %r1; returns the outputs by thread."""
    stores = "\n".join(f"st.global.u32 [%rd0+{4 * index}], %o{index};" for index in range(words))
    text = f"""{HEADER}
    .visible .entry k(.param .u64 out, .param .u64 in)
    {{
    .reg .pred %p<8>; .reg .b32 %r<16>, %o<8>; .reg .b64 %rd<8>;
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [in]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd1, %rd2;
    ld.global.u32 %r1, [%rd1]; mul.wide.u32 %rd2, %r0, {4 * words}; add.s64 %rd0, %rd0, %rd2;
    {body}
    {stores}
    ret;
    }}
    """
    module = device.load(text)
    out = device.upload(np.zeros(block * words, "u4"))
    values = np.arange(block, dtype="u4") if inputs is None else inputs.astype("u4")
    assert device.launch(module, "k", 1, block, [out, device.upload(values)], options=options) == 0, device.fault.kind
    return device.download(out, "u4", block * words).reshape(block, words)


def shuffle(mode: str, lane: int, b: int, c: int) -> tuple[int, int]:
    """Source lane and predicate, from the manual."""
    b, segment, clamp = b & 31, c >> 8 & 31, c & 31
    highest, lowest = lane & segment | clamp & ~segment & 31, lane & segment
    if mode == "up":
        source = lane - b
        inside = source >= highest
    elif mode == "down":
        source = lane + b
        inside = source <= highest
    elif mode == "bfly":
        source = lane ^ b
        inside = source <= highest
    else:
        source = lowest | b & ~segment & 31
        inside = source <= highest
    return (source if inside else lane), int(inside)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(device: TinyDevice, mode: str) -> None:
    controls = [0 if mode == "up" else 31, 0x1000 if mode == "up" else 0x101F, 0x1800 if mode == "up" else 0x181F]
    values = np.random.default_rng(1).integers(0, 1 << 32, 32, dtype="u4")
    for c in controls:
        for b in (0, 1, 3, 16, 31):
            body = f"""
            shfl.sync.{mode}.b32 %o0|%p0, %r1, {b}, {c}, -1; selp.u32 %o1, 1, 0, %p0;
            mov.u32 %r2, {b}; mov.u32 %r3, {c}; shfl.sync.{mode}.b32 %o2, %r1, %r2, %r3, 0xffffffff;
            xor.b32 %r4, %r0, {b}; shfl.sync.{mode}.b32 %o3|%p1, %r1, %r4, {c}, -1; selp.u32 %o4, 1, 0, %p1;
            """
            rows = run(device, body, 5, inputs=values)
            for lane in range(32):
                source, inside = shuffle(mode, lane, b, c)
                assert list(rows[lane, :3]) == [values[source], inside, values[source]], (lane, b, c)
                source, inside = shuffle(mode, lane, lane ^ b, c)
                assert list(rows[lane, 3:]) == [values[source], inside], (lane, b, c)


def test_votes(device: TinyDevice) -> None:
    body = """
    setp.ge.u32 %p0, %r1, 5; vote.sync.ballot.b32 %o0, %p0, -1; vote.sync.any.pred %p1, %p0, -1; selp.u32 %o1, 1, 0, %p1;
    vote.sync.all.pred %p2, %p0, -1; selp.u32 %o2, 1, 0, %p2; vote.sync.ballot.b32 %o3, !%p0, 0xff;
    vote.sync.uni.pred %p3, %p0, 0xffffffe0; selp.u32 %o4, 1, 0, %p3; activemask.b32 %o5;
    """
    rows = run(device, body, 6)
    assert np.all(rows == [0xFFFFFFE0, 1, 0, 0x1F, 1, 0xFFFFFFFF])
    partial = run(device, body, 6, block=12)
    assert np.all(partial == [0xFE0, 1, 0, 0x1F, 1, 0xFFF])


def test_match_redux_elect(device: TinyDevice) -> None:
    values = np.array([lane % 5 for lane in range(32)])
    body = """
    match.any.sync.b32 %o0, %r1, -1; mov.u32 %r2, 7; match.all.sync.b32 %o1|%p0, %r2, -1; selp.u32 %o2, 1, 0, %p0;
    match.all.sync.b32 %o3|%p1, %r1, -1; selp.u32 %o4, 1, 0, %p1; cvt.u64.u32 %rd3, %r1; match.any.sync.b64 %o5, %rd3, 0xffff;
    """
    rows = run(device, body, 6, inputs=values)
    for lane in range(32):
        same = sum(1 << other for other in range(32) if values[other] == values[lane])
        assert list(rows[lane]) == [same, 0xFFFFFFFF, 1, 0, 0, same & 0xFFFF]
    body = """
    redux.sync.add.s32 %o0, %r1, -1; redux.sync.min.s32 %o1, %r1, -1; redux.sync.max.u32 %o2, %r1, -1; redux.sync.xor.b32 %o3, %r1, 0xff;
    elect.sync %r2|%p0, 0xfffffff0; selp.u32 %o4, 1, 0, %p0; mov.u32 %o5, %r2;
    """
    values = np.random.default_rng(2).integers(0, 1 << 32, 32, dtype="u4")
    rows = run(device, body, 6, inputs=values)
    xor = int(np.bitwise_xor.reduce(values[:8]))
    expected = [int(values.sum(dtype="u4")), int(values.view("i4").min()) & 0xFFFFFFFF, int(values.max()), xor]
    assert np.all(rows[:, :4] == expected)
    assert list(rows[:, 4]) == [int(lane == 4) for lane in range(32)]
    assert np.all(rows[:, 5] == 4)


def test_parted_lanes(device: TinyDevice) -> None:
    """Inside a branch only its lanes vote and shuffle; afterwards all are together again."""
    body = """
    mov.u32 %o0, 0; mov.u32 %o1, 0; and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra EVEN;
    activemask.b32 %o0; shfl.sync.idx.b32 %o1, %r1, 3, 31, 0xaaaaaaaa; bra JOIN;
    EVEN: activemask.b32 %o0; shfl.sync.idx.b32 %o1, %r1, 6, 31, 0x55555555;
    JOIN: activemask.b32 %o2; setp.lt.u32 %p1, %r0, 9; vote.sync.ballot.b32 %o3, %p1, -1;
    """
    rows = run(device, body, 4)
    for lane in range(32):
        assert list(rows[lane]) == [
            0x55555555 if lane % 2 == 0 else 0xAAAAAAAA,
            6 if lane % 2 == 0 else 3,
            0xFFFFFFFF,
            0x1FF,
        ]


def test_inclusive_scan(device: TinyDevice) -> None:
    steps = "".join(
        f"shfl.sync.up.b32 %r2|%p0, %o0, {1 << step}, 0, -1; @%p0 add.u32 %o0, %o0, %r2;" for step in range(5)
    )
    values = np.random.default_rng(3).integers(0, 1000, 96)
    rows = run(device, "mov.u32 %o0, %r1;" + steps, 1, block=96, inputs=values)
    assert np.array_equal(rows[:, 0], np.cumsum(values.reshape(3, 32), axis=1).ravel())


def test_redux_of_groups_and_floats(device: TinyDevice) -> None:
    """Each lane names its own group; f32 minima and maxima with and without NaN."""
    values = np.random.default_rng(5).integers(0, 1 << 32, 32, dtype="u4")
    body = """
    and.b32 %r2, %r0, 3; mov.u32 %r3, 0x11111111; shl.b32 %r3, %r3, %r2; redux.sync.add.u32 %o0, %r1, %r3; redux.sync.min.s32 %o1, %r1, %r3;
    """
    rows = run(device, body, 2, inputs=values)
    for lane in range(32):
        group = values[lane % 4 :: 4]
        assert list(rows[lane]) == [int(group.sum(dtype="u4")), int(group.view("i4").min()) & 0xFFFFFFFF]
    floats = np.random.default_rng(6).standard_normal(32).astype("f4")
    body = """
    redux.sync.min.f32 %o0, %r1, -1; redux.sync.max.f32 %o1, %r1, -1; redux.sync.max.abs.f32 %o2, %r1, 0xffff;
    redux.sync.min.NaN.f32 %o3, %r1, -1; redux.sync.max.NaN.f32 %o4, %r1, 0xff;
    """
    for nan in (False, True):
        inputs = floats.copy()
        if nan:
            inputs[20] = np.nan
        rows = run(device, body, 5, inputs=inputs.view("u4"))
        assert np.all(rows == rows[0])
        got = rows[0].view("f4")
        assert list(got[:3]) == [np.nanmin(inputs), np.nanmax(inputs), np.abs(inputs[:16]).max()]
        assert np.isnan(got[3]) if nan else got[3] == inputs.min()
        assert got[4] == inputs[:8].max()


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("wanted", [0, 16])
def test_where_the_larger_of_two_lanes_is(device: TinyDevice, wanted: int, tier: int) -> None:
    """One step of an argmax, broadcast from one lane: LLVM then computes that lane of the comparison alone."""
    values = np.random.default_rng(5).permutation(32).astype("f4")
    for found in (values, 31 - values):
        for distance in (1, 2, 4, 8):
            body = f"""
            add.f32 %r1, %r1, 0f00000000;
            shfl.sync.down.b32 %r2, %r1, {distance}, 31, -1; shfl.sync.down.b32 %r3, %r0, {distance}, 31, -1;
            setp.lt.f32 %p0, %r1, %r2; selp.b32 %r4, %r3, %r0, %p0; shfl.sync.idx.b32 %o0, %r4, {wanted}, 31, -1;
            """
            outputs = run(device, body, 1, inputs=found.view("u4"), options=jit.Options(tier=tier))
            right = wanted + distance if found[wanted] < found[wanted + distance] else wanted
            assert (outputs == right).all(), distance

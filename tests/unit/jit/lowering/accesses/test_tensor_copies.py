"""Tensor copies: every rank, type and swizzle against a NumPy reference (jit_tools/tensors.py), and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools import tensors
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER
from jit_tools.tensors import Tensor

SHARED = 8192
LOAD = "cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [%box], [{map}, {{{at}}}], [%bar]{more};"
STORE = "cp.async.bulk.tensor.{rank}d.global.shared::cta{mode}.bulk_group [{map}, {{{at}}}], [%box];"


def kernel(code: str, expected: int = 0) -> str:
    """`k(map, shared, out, at0..at4)`: shared memory as the program gave it, an instruction of the first thread, shared memory back. The box begins
    `offset` bytes into an array that is aligned to 1024; its mbarrier waits for the expected bytes."""
    wait = "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0; @!%p1 bra WAIT;" if expected else ""
    return f"""{HEADER}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 shared, .param .u64 out, .param .u32 offset,
      .param .u32 at0, .param .u32 at1, .param .u32 at2, .param .u32 at3, .param .u32 at4) {{
    .reg .pred %p<4>; .reg .b32 %t, %box, %bar, %x, %area, %c<5>, %n; .reg .b64 %map, %a<6>; .reg .b16 %h<4>;
    .shared .align 1024 .b8 area[{SHARED}]; .shared .align 8 .b8 signal[8];
    mov.b64 %a0, map; cvta.param.u64 %map, %a0; ld.param.u64 %a1, [shared]; ld.param.u64 %a2, [out]; mov.u32 %t, %tid.x;
    mov.u32 %area, area; mov.u32 %bar, signal; ld.param.u32 %x, [offset]; add.u32 %box, %area, %x;
    {" ".join(f"ld.param.u32 %c{axis}, [at{axis}];" for axis in range(5))}
    shl.b32 %n, %t, 2;
    FILL: setp.ge.u32 %p0, %n, {SHARED}; @%p0 bra FILLED; cvt.u64.u32 %a3, %n; add.u64 %a3, %a1, %a3; ld.global.u32 %x, [%a3];
    add.u32 %c0, %c0, 0; .reg .b32 %w; add.u32 %w, %area, %n; st.shared.u32 [%w], %x; add.u32 %n, %n, 128; bra FILL;
    FILLED: setp.ne.u32 %p2, %t, 0; @%p2 bra MADE; mbarrier.init.shared.b64 [%bar], 1;
    {f"mbarrier.arrive.expect_tx.shared.b64 %a4, [%bar], {expected};" if expected else ""} fence.proxy.async;
    MADE: bar.sync 0; @%p2 bra ASKED; {code}
    ASKED: {wait} bar.sync 0; shl.b32 %n, %t, 2;
    BACK: setp.ge.u32 %p0, %n, {SHARED}; @%p0 bra DONE; add.u32 %w, %area, %n; ld.shared.u32 %x, [%w];
    cvt.u64.u32 %a3, %n; add.u64 %a3, %a2, %a3; st.global.u32 [%a3], %x; add.u32 %n, %n, 128; bra BACK;
    DONE: ret; }}"""


def coordinates(count: int) -> str:
    return ", ".join(f"%c{axis}" for axis in range(count))


def load(tensor: Tensor, more: str = "", mode: str = "") -> str:
    rank = len(tensor.sizes)
    return kernel(LOAD.format(rank=rank, at=coordinates(rank), map="%map", mode=mode, more=more), tensor.moved)


def store(tensor: Tensor, mode: str = "", text: str = STORE) -> str:
    rank = len(tensor.sizes)
    return kernel(text.format(rank=rank, at=coordinates(rank), map="%map", mode=mode))


def run(device: TinyDevice, text: str, tensor: Tensor, start: Sequence[int], shared: bytes, offset: int = 0) -> bytes:
    out = device.allocate(SHARED)
    given = device.upload(np.frombuffer(shared, "u1"))
    at = [*start, *[0] * (5 - len(start))]
    status = device.launch(device.load(text), "k", 1, 32, [tensor.encode(), given, out, offset, *at])
    assert status == jit.STATUS_DONE, (
        status,
        jit.FaultKind(device.fault.kind),
        device.fault.line,
        hex(device.fault.address),
    )
    return device.download(out, "u1", SHARED).tobytes()


def content(seed: int, count: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, count, "u1").tobytes()


def tensor_of(
    device: TinyDevice, kind: int, sizes: Sequence[int], box: Sequence[int], **more: object
) -> tuple[Tensor, bytes]:
    """A tensor whose rows are padded to 16 bytes and a little more, and its bytes."""
    item = np.dtype(tensors.DTYPES[kind]).itemsize
    strides, row = [], sizes[0] * item
    for size in sizes[1:]:
        strides.append(row := -(-row // 16) * 16 + 16)
        row *= size
    data = content(sum(sizes), row + 64)
    return Tensor(device.upload(np.frombuffer(data, "u1")), kind, sizes, box, strides, **more), data  # type: ignore[arg-type]


TILES = [
    # type, sizes, box, steps, where
    (tensors.U8, (100,), (32,), (), [(0,), (16,), (3,), (90,), (-20,), (200,), (-300,)]),
    (tensors.F32, (30,), (8,), (), [(0,), (4,), (2,), (26,), (-3,), (28,)]),
    (tensors.F16, (40, 20), (16, 8), (), [(0, 0), (8, 5), (3, 2), (30, 15), (-5, -3), (40, 0), (0, 20)]),
    (tensors.F64, (9, 7), (4, 3), (), [(0, 0), (6, 5), (-1, -1)]),
    (tensors.S64, (9, 7), (2, 1), (), [(1, 2), (8, 6)]),
    (tensors.U16, (20, 9, 6), (8, 4, 3), (), [(0, 0, 0), (16, 7, 4), (-1, -2, -1)]),
    (tensors.U32, (12, 5, 4, 3), (4, 2, 3, 2), (), [(0, 0, 0, 0), (9, 4, 2, 2), (-2, -1, -1, -1)]),
    (tensors.S32, (12, 5, 4, 3, 3), (4, 2, 2, 2, 2), (), [(0, 0, 0, 0, 0), (10, 4, 3, 2, 2), (-3, -1, 0, 1, -1)]),
    (tensors.U8, (64, 30), (16, 12), (1, 3), [(0, 0), (16, 5), (50, 25), (-4, -7)]),
    (tensors.F32, (20, 17, 9), (8, 7, 8), (5, 2, 8), [(0, 0, 0), (14, 12, 3), (0, -3, 0)]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TILES)))
def test_tiles(device: TinyDevice, number: int) -> None:
    """Loads and stores of boxes inside of the tensor, on its edges and outside of it."""
    kind, sizes, box, steps, starts = TILES[number]
    tensor, data = tensor_of(device, kind, sizes, box, steps=steps)
    shared = content(5, SHARED)
    for start in starts:
        assert run(device, load(tensor), tensor, start, shared) == tensor.loaded(data, start, before=shared), start
    for start in starts:
        before = device.download(tensor.address, "u1", len(data)).tobytes()
        assert run(device, store(tensor), tensor, start, shared) == shared
        after = device.download(tensor.address, "u1", len(data)).tobytes()
        assert after == tensor.stored(before, start, shared), start


@pytest.mark.parametrize("offset", [0, 128, 896])
@pytest.mark.parametrize("swizzle", range(1, 7))
def test_swizzles(device: TinyDevice, swizzle: int, offset: int) -> None:
    """The pattern follows the address, whatever the box begins at; a row that is shorter than the span takes all of it."""
    span = tensors.SWIZZLES[swizzle][0]
    for columns, start in ((span // 2, (0, 0)), (span // 2, (5, -3)), (8, (8, 1))):
        tensor, data = tensor_of(device, tensors.F16, (70, 20), (columns, 18), swizzle=swizzle)
        shared = content(6, SHARED)
        want = tensor.loaded(data, start, before=shared[offset:], base=offset)
        assert run(device, load(tensor), tensor, start, shared, offset)[offset:] == want, columns
        assert run(device, store(tensor), tensor, start, shared, offset) == shared
        after = device.download(tensor.address, "u1", len(data)).tobytes()
        assert after == tensor.stored(data, start, shared[offset:], offset)


@pytest.mark.parametrize("kind", [tensors.F16, tensors.BF16, tensors.F32, tensors.F64])
def test_nan_outside(device: TinyDevice, kind: int) -> None:
    tensor, data = tensor_of(device, kind, (13, 5), (16, 3), fill=1)
    shared, outside = content(7, SHARED), bytes.fromhex("f77f") * (tensor.item // 2)
    for start in ((0, 0), (-3, 3), (20, 20)):
        want = tensor.loaded(data, start, before=shared, outside=outside)
        assert run(device, load(tensor), tensor, start, shared) == want


@pytest.mark.parametrize("kind", [tensors.F32_FTZ, tensors.TF32, tensors.TF32_FTZ])
def test_floats_that_change(device: TinyDevice, kind: int) -> None:
    """f32 that is read as tf32 is rounded; what is outside keeps its bits, and stores change nothing."""
    values = np.array([1.0, 1e-40, -1e-40, 1.0 + 2**-11, 1.0 + 2**-12, -3.1, np.inf, np.nan], "f4")
    address = device.upload(np.concatenate([values, np.zeros(8, "f4")]))
    shared = content(8, SHARED)
    rounded = (values.view("u4") + 0x1000) & 0xFFFFE000
    rounded[7] = 0x7FFFE000
    tensor = Tensor(address, kind, [8], [12], fill=1)
    got = np.frombuffer(run(device, load(tensor), tensor, [0], shared)[:48], "u4")
    assert np.array_equal(got[:8], values.view("u4") if kind == tensors.F32_FTZ else rounded)
    assert np.all(got[8:] == 0x7FF77FF7)
    tensor = Tensor(address, kind, [8], [4])
    run(device, store(tensor), tensor, [4], values.tobytes().ljust(SHARED, b"\0"))
    assert np.array_equal(device.download(address, "u4", 8)[4:], values.view("u4")[:4])


def test_rows_from_anywhere(device: TinyDevice) -> None:
    """tile::gather4: a column and four rows, which may be outside."""
    tensor, data = tensor_of(device, tensors.F16, (70, 20), (32, 1), swizzle=2)
    code = LOAD.format(rank=2, at=coordinates(5), map="%map", mode=".tile::gather4", more="")
    shared = content(17, SHARED)
    for start in ((0, 3, 19, 0, 3), (50, 20, -1, 7, 6), (-9, 1, 2, 3, 4)):
        want = bytearray(shared)
        for row, place in enumerate(start[1:]):
            for column, there in enumerate(tensor.rows((start[0], place))[0]):
                here = tensor.turned(row * tensor.pitch + column * 2)
                want[here : here + 2] = bytes(2) if there is None else data[there : there + 2]
        assert run(device, kernel(code, 4 * 64), tensor, start, shared) == bytes(want)
    tensor.box = (32, 2)
    out, given = device.allocate(SHARED), device.allocate(SHARED)
    arguments = [tensor.encode(), given, out, 0, 0, 0, 0, 0, 0]
    assert device.launch(device.load(kernel(code, 256)), "k", 1, 32, arguments) == jit.STATUS_FAULT


IMAGES = [
    # sizes C, W, ..., N; channels, pixels, lower, upper, steps, filter's place, offsets
    ((16, 9, 14, 3), 8, 64, (-1, -1), (-1, -1), (), (0, 4, 7, 0), (0, 0)),
    ((16, 9, 14, 3), 8, 64, (0, 0), (-2, -2), (), (8, 4, 7, 1), (2, 2)),
    ((16, 8, 14, 4), 16, 32, (-1, -1), (-1, -1), (1, 2, 2, 1), (0, 5, 7, 0), (1, 1)),
    ((24, 11, 2), 8, 40, (-2,), (1,), (), (16, -2, 0), (3,)),
    ((8, 4, 5, 3, 2), 8, 50, (-1, 0, -1), (0, -1, 0), (1, 1, 2, 1, 1), (0, -1, 0, -1, 0), (1, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(IMAGES)))
def test_images(device: TinyDevice, number: int) -> None:
    """im2col: pixels in the order of the filter's places, beyond the last image zeros."""
    sizes, channels, pixels, lower, upper, steps, start, offsets = IMAGES[number]
    tensor, data = tensor_of(
        device, tensors.F16, sizes, (channels,), steps=steps, lower=lower, upper=upper, pixels=pixels, mode=1
    )
    shared = content(9, SHARED)
    more = ", {" + ", ".join(f"%h{axis}" for axis in range(len(offsets))) + "}"
    text = load(tensor, more, ".im2col")
    assigned = " ".join(f"mov.u16 %h{axis}, {offset};" for axis, offset in enumerate(offsets))
    text = text.replace("cp.async.bulk.tensor", assigned + " cp.async.bulk.tensor")
    assert run(device, text, tensor, start, shared) == tensor.loaded(data, start, offsets, before=shared)
    assert run(device, store(tensor, ".im2col_no_offs"), tensor, start, shared) == shared
    after = device.download(tensor.address, "u1", len(data)).tobytes()
    assert after == tensor.stored(data, start, shared)


REDUCE = "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.OP{mode}.bulk_group [{map}, {{{at}}}], [%box];"
REDUCTIONS = [
    *((operation, kind) for operation in ("add", "min", "max") for kind in (tensors.U32, tensors.S32, tensors.U64, tensors.S64, tensors.F16)),
    ("add", tensors.F32), ("add", tensors.F64), ("inc", tensors.U32), ("dec", tensors.U32),
    *((operation, kind) for operation in ("and", "or", "xor") for kind in (tensors.S32, tensors.U64)),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("operation", "kind"), REDUCTIONS)
def test_reductions(device: TinyDevice, operation: str, kind: int) -> None:
    dtype = tensors.DTYPES[kind]
    generator = np.random.default_rng(11)
    sizes, box, start = (24, 6), (16, 4), (13, -1)
    tensor, _ = tensor_of(device, kind, sizes, box)
    count = tensor.strides[0] // tensor.item * sizes[1]
    low = -50 if dtype[0] in "if" else 0
    old = generator.integers(low, 50, count).astype(dtype)
    given = generator.integers(low, 50, SHARED // tensor.item).astype(dtype)
    device_address = device.upload(old)
    tensor.address = device_address
    run(device, store(tensor, "", REDUCE.replace("OP", operation)), tensor, start, given.tobytes())
    want = old.copy()
    for here, there in tensor.places(start):
        if there is None:
            continue
        at, value = there // tensor.item, given[here // tensor.item]
        with np.errstate(over="ignore"):
            want[at] = {
                "add": lambda a, b: a + b, "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
                "xor": lambda a, b: a ^ b, "inc": lambda a, b: 0 if a >= b else a + 1, "dec": lambda a, b: b if a == 0 or a > b else a - 1,
            }[operation](want[at], value)  # fmt: skip
    assert np.array_equal(device.download(device_address, dtype, count), want)


def test_where_maps_may_be(device: TinyDevice) -> None:
    """In global and constant memory, in shared memory, where tensormap.replace has changed it."""
    tensor, data = tensor_of(device, tensors.F32, (20, 9), (8, 4))
    shared, start = content(12, SHARED), (3, 2)
    text = load(tensor)
    for space in ("global", "const"):
        named = text.replace(".visible", f".{space} .align 128 .b8 described[128]; .visible")
        named = named.replace("cvta.param.u64 %map, %a0;", f"mov.u64 %a0, described; cvta.{space}.u64 %map, %a0;")
        module = device.load(named)
        raw = np.frombuffer(tensor.encode(), "u1")
        np.ctypeslib.as_array((np.ctypeslib.ctypes.c_ubyte * 128).from_address(device.address(module, "described")))[
            :
        ] = raw
        out, given = device.allocate(SHARED), device.upload(np.frombuffer(shared, "u1"))
        assert device.launch(module, "k", 1, 32, [bytes(128), given, out, 0, *start, 0, 0, 0]) == 0
        assert device.download(out, "u1", SHARED).tobytes() == tensor.loaded(data, start, before=shared)


FIELDS = [
    ("global_address", "b64", "", lambda t, v: setattr(t, "address", t.address + 16)),
    ("rank", "b32", "", lambda t, v: None),
    ("box_dim", "b32", "1, ", lambda t, v: setattr(t, "box", (t.box[0], 3))),
    ("global_dim", "b32", "0, ", lambda t, v: setattr(t, "sizes", (10, t.sizes[1]))),
    ("global_stride", "b64", "0, ", lambda t, v: setattr(t, "strides", (t.strides[0] + 16,))),
    ("element_stride", "b32", "1, ", lambda t, v: setattr(t, "steps", (1, 2))),
    ("elemtype", "b32", "", lambda t, v: setattr(t, "kind", tensors.F64)),
    ("swizzle_mode", "b32", "", lambda t, v: setattr(t, "swizzle", 2)),
    ("fill_mode", "b32", "", lambda t, v: setattr(t, "fill", 1)),
]


@pytest.mark.parametrize("number", range(len(FIELDS)))
def test_replacing_fields(device: TinyDevice, number: int) -> None:
    """tensormap.replace in shared memory, tensormap.cp_fenceproxy to global memory: what a program would have encoded."""
    name, kind, ordinal, change = FIELDS[number]
    tensor, _ = tensor_of(device, tensors.F32, (20, 9), (8, 4))
    old = tensor.encode()
    change(tensor, None)
    value = {
        "global_address": tensor.address, "rank": 1, "box_dim": 3, "global_dim": 10, "element_stride": 2, "elemtype": 9, "swizzle_mode": 2,
        "fill_mode": 1, "global_stride": tensor.strides[0],
    }[name]  # fmt: skip
    code = f"""
    mov.b64 %a5, {value}; tensormap.replace.tile.{name}.shared::cta.b1024.{kind} [%box], {ordinal}{value if kind == "b32" else "%a5"};
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a2+4096], [%box], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%a2+4096], 128;"""
    text = kernel(code).replace("setp.ge.u32 %p0, %n, 8192; @%p0 bra DONE", "setp.ge.u32 %p0, %n, 4096; @%p0 bra DONE")
    module = device.load(text)
    out, given = device.allocate(SHARED), device.upload(np.frombuffer(old.ljust(SHARED, b"\0"), "u1"))
    assert device.launch(module, "k", 1, 32, [bytes(128), given, out, 0, 0, 0, 0, 0, 0]) == 0, device.fault.line
    assert device.download(out + 4096, "u1", 128).tobytes() == tensor.encode()


def test_lanes_with_boxes_of_their_own(device: TinyDevice) -> None:
    """Every lane of a warp asks for another row."""
    tensor, data = tensor_of(device, tensors.U32, (4, 40), (4, 1))
    text = load(tensor).replace(f"%a4, [%bar], {tensor.moved}", f"%a4, [%bar], {32 * tensor.moved}")
    text = text.replace("@%p2 bra ASKED;", "add.u32 %c1, %c1, %t; shl.b32 %x, %t, 7; add.u32 %box, %box, %x;")
    shared = content(13, SHARED)
    got = run(device, text, tensor, (0, 5), shared)
    for lane in range(32):
        assert got[128 * lane :][:16] == data[tensor.strides[0] * (5 + lane) :][:16]


def test_copies_to_several_blocks(device: TinyDevice) -> None:
    """.multicast::cluster: the same place in each block that the mask names, and its mbarrier."""
    tensor, data = tensor_of(device, tensors.F16, (40, 9), (32, 4), swizzle=2)
    code = LOAD.format(rank=2, at="%c0, %c1", map="%map", mode="", more=", %h0").replace(
        "bytes [", "bytes.multicast::cluster ["
    )
    text = kernel(
        f"mov.u32 %x, %cluster_ctarank; setp.ne.u32 %p3, %x, 1; @%p3 bra ASKED; mov.u16 %h0, 13; {code}", tensor.moved
    )
    sync = "barrier.cluster.arrive; barrier.cluster.wait;"
    text = text.replace("MADE: bar.sync 0;", f"MADE: {sync}").replace("DONE: ret;", f"DONE: {sync} ret;")
    text = text.replace(
        "ASKED: WAIT:", "ASKED: mov.u32 %x, %cluster_ctarank; setp.eq.u32 %p3, %x, 1; @%p3 bra OVER; WAIT:"
    )
    text = text.replace("bra WAIT; bar.sync", "bra WAIT; OVER: bar.sync")
    text = text.replace(
        "mov.u32 %area, area;", f"mov.u32 %area, area; mov.u32 %x, %ctaid.x; mad.wide.u32 %a2, %x, {SHARED}, %a2;"
    )
    shared, start = content(14, SHARED), (7, 2)
    out, given = device.allocate(4 * SHARED), device.upload(np.frombuffer(shared, "u1"))
    arguments = [tensor.encode(), given, out, 0, *start, 0, 0, 0]
    assert device.launch(device.load(text), "k", 4, 32, arguments, cluster=(4, 1, 1)) == 0, (
        device.fault.kind,
        device.fault.line,
    )
    want = tensor.loaded(data, start, before=shared)
    for block in range(4):
        got = device.download(out + SHARED * block, "u1", SHARED).tobytes()
        assert got == (shared if block == 1 else want), block


# What is refused -----------------------------------------------------------------------------------------------------
ILLEGAL, MISALIGNED, INSTRUCTION = (
    jit.FaultKind.ILLEGAL_ADDRESS, jit.FaultKind.MISALIGNED_ADDRESS, jit.FaultKind.ILLEGAL_INSTRUCTION,
)  # fmt: skip
BAD = [
    ({"magic": 7}, 0, INSTRUCTION),
    ({"sizes": (20, 9, 2), "strides": (96, 960), "box": (8, 4, 1)}, 0, INSTRUCTION),  # of another rank
    ({"mode": 1}, 0, INSTRUCTION),
    ({"swizzle": 7}, 0, INSTRUCTION),
    ({"fill": 2}, 0, INSTRUCTION),
    ({"kind": 13}, 0, INSTRUCTION),
    ({"box": (0, 4)}, 0, INSTRUCTION),
    ({"box": (8, 0)}, 0, INSTRUCTION),
    ({"box": (7, 4)}, 0, INSTRUCTION),  # rows of whole 16 bytes
    ({"box": (8, 65535)}, 0, ILLEGAL),  # more than shared memory has
    ({"box": (256, 9)}, 0, ILLEGAL),
    ({}, 64, MISALIGNED),
    ({}, SHARED - 128 + 128, ILLEGAL),
    ({"strides": (88,)}, 0, MISALIGNED),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_maps(device: TinyDevice, number: int) -> None:
    changes, offset, kind = BAD[number]
    tensor, _ = tensor_of(device, tensors.F32, (20, 9), (8, 4))
    text = load(tensor)
    for name, value in changes.items():
        if name == "kind":
            tensor.extra["kind"] = value
        else:
            setattr(tensor, name, value)
    raw = bytearray(tensor.encode())
    if "kind" in tensor.extra:
        raw[13] = tensor.extra["kind"]
    out, given = device.allocate(SHARED), device.allocate(SHARED)
    arguments = [bytes(raw), given, out, offset, 0, 0, 0, 0, 0]
    assert device.launch(device.load(text), "k", 1, 32, arguments) == jit.STATUS_FAULT
    assert device.fault.kind == kind
    assert device.fault.thread[0] == 0


def test_tensors_that_are_not_there(device: TinyDevice) -> None:
    """The tensor's memory is checked as other memory is; what is outside of the tensor is not accessed."""
    page = device.allocate(4096)
    shared = content(15, SHARED)
    for size, start, good in ((16, 8, True), (17, 8, False), (16, -8, True)):
        tensor = Tensor(page + 4096 - 64, tensors.F32, [size], [16])
        out, given = device.allocate(SHARED), device.upload(np.frombuffer(shared, "u1"))
        for text in (load(tensor), store(tensor)):
            status = device.launch(device.load(text), "k", 1, 32, [tensor.encode(), given, out, 0, start, 0, 0, 0, 0])
            assert status == (jit.STATUS_DONE if good else jit.STATUS_FAULT)
            assert good or device.fault.kind == ILLEGAL
            assert good or device.fault.address == page + 4096


def test_a_map_at_a_bad_address(device: TinyDevice) -> None:
    tensor, _ = tensor_of(device, tensors.F32, (20, 9), (8, 4))
    out, given = device.allocate(SHARED), device.allocate(SHARED)
    for change, kind in (
        ("add.u64 %map, %map, 8;", MISALIGNED),
        ("add.u64 %map, %map, 65536;", ILLEGAL),
        ("mov.u64 %map, 64;", ILLEGAL),
    ):
        text = load(tensor).replace("cp.async.bulk.tensor", change + " cp.async.bulk.tensor")
        assert (
            device.launch(device.load(text), "k", 1, 32, [tensor.encode(), given, out, 0, 0, 0, 0, 0, 0])
            == jit.STATUS_FAULT
        )
        assert device.fault.kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%box], [%map, {%c0}], [%bar];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.bulk_group [%box], [%map, {%c0, %c1}], [%bar];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%box], [%map, {%c0, %c1, %c2}], [%bar];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%box], [%map, {%c0, %c1}], [%bar], {%h0};",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%box], [%map, {%c0, %c1, %c2}], [%bar], {%h0, %h1};",
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.sub.bulk_group [%map, {%c0}], [%box];",
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%box], 14;",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%box], 5, 14;",
    ],
)
def test_unsupported_forms(device: TinyDevice, text: str) -> None:
    with pytest.raises(jit.PtxError, match=text.split()[0].replace(".", r"\.")):
        jit.compile_kernel(device.load(kernel(text)), "k", (32, 1, 1), jit.Options(cache=False))


def test_prefetches_do_nothing(device: TinyDevice) -> None:
    tensor, _ = tensor_of(device, tensors.F32, (20, 9), (8, 4))
    code = """prefetch.param.tensormap [%map]; prefetch.tensormap [%map];
    cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map, {%c0, %c1}];"""
    shared = content(16, SHARED)
    assert run(device, kernel(code), tensor, (0, 0), shared) == shared

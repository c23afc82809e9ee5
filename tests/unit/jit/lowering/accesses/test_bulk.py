"""Bulk operations that are no plain copies: reductions, masks, fills; requests for other blocks; arrivals that drop and expect bytes."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

WORDS = 64


def kernel(code: str, back: str = "") -> str:
    """`k(in, out)`: 256 bytes of shared memory at %r1 filled from `in`, an mbarrier at %r2, code of thread 0, 256 bytes at %r1+512 to `out`."""
    return f"""{HEADER}.visible .entry k(.param .u64 in, .param .u64 out) {{
    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %a<8>; .reg .b16 %h<4>; .reg .b128 %q<2>; .shared .align 128 .b8 area[1024]; .shared .align 8 .b8 signal[8];
    mov.u32 %r0, %tid.x; mov.u32 %r1, area; mov.u32 %r2, signal; ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out];
    shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3; cvt.u64.u32 %a2, %r3; add.u64 %a3, %a0, %a2; ld.global.u32 %r5, [%a3]; st.shared.u32 [%r4], %r5;
    add.u64 %a3, %a1, %a2; ld.global.u32 %r5, [%a3]; st.shared.u32 [%r4+512], %r5; setp.ne.u32 %p0, %r0, 0; @%p0 bra MADE;
    mbarrier.init.shared.b64 [%r2], 1;
    MADE: bar.sync 0; @%p0 bra DONE; {code}
    DONE: bar.sync 0; {back} ret; }}"""


BACK = "ld.shared.u32 %r5, [%r4+512]; st.global.u32 [%a3], %r5;"
WAIT = "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra WAIT;"


def run(device: TinyDevice, text: str, given: np.ndarray, before: np.ndarray) -> np.ndarray:
    out = device.upload(before)
    assert device.launch(device.load(text), "k", 1, WORDS, [device.upload(given), out]) == 0, (
        device.fault.kind,
        device.fault.line,
    )
    return device.download(out, before.dtype, before.size)


OPERATIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
REDUCTIONS = [
    *(("add", kind, dtype) for kind, dtype in (("u32", "u4"), ("s32", "i4"), ("u64", "u8"), ("f32", "f4"), ("f64", "f8"), ("noftz.f16", "f2"))),
    *((name, kind, dtype) for name in ("min", "max") for kind, dtype in (("u32", "u4"), ("s32", "i4"), ("s64", "i8"), ("u64", "u8"), ("f16", "f2"))),
    *((name, kind, dtype) for name in ("and", "or", "xor") for kind, dtype in (("b32", "u4"), ("b64", "u8"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "dtype"), REDUCTIONS)
def test_reductions_into_global_memory(device: TinyDevice, name: str, kind: str, dtype: str) -> None:
    generator = np.random.default_rng(5)
    count = 256 // np.dtype(dtype).itemsize
    low = 0 if dtype[0] == "u" else -100
    given, before = (generator.integers(low, 100, count).astype(dtype) for _ in range(2))
    code = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{name}.{kind} [%a1+16], [%r1], 224; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    got = run(device, kernel(code), given, before)
    want, skip, moved = before.copy(), 16 // before.itemsize, 224 // before.itemsize
    want[skip : skip + moved] = OPERATIONS[name](before[skip : skip + moved], given[:moved])
    assert np.array_equal(got, want)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", np.add),
        ("inc", lambda a, b: np.where(a >= b, 0, a + 1)),
        ("dec", lambda a, b: np.where((a == 0) | (a > b), b, a - 1)),
    ],
)
def test_reductions_into_shared_memory(device: TinyDevice, name: str, function: object) -> None:
    generator = np.random.default_rng(6)
    given, before = (generator.integers(0, 9, WORDS).astype("u4") for _ in range(2))
    code = f"""mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256; add.u32 %r6, %r1, 512; mov.u32 %r7, 256;
    cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{name}.u32 [%r6], [%r1], %r7, [%r2]; {WAIT}"""
    assert np.array_equal(run(device, kernel(code, BACK), given, before), function(before, given).astype("u4"))  # type: ignore[operator]


def test_some_bytes_of_each_sixteen(device: TinyDevice) -> None:
    generator = np.random.default_rng(7)
    given, before = (generator.integers(0, 256, 256).astype("u1") for _ in range(2))
    for mask in (0xFFFF, 0, 0x8001, 0x0FF0, 0x5A3C):
        code = f"mov.u16 %h0, {mask}; cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%a1+32], [%r1], 64, %h0;"
        want = before.copy()
        chosen = np.array([mask >> index & 1 for index in range(16)] * 4, bool)
        want[32:96][chosen] = given[:64][chosen]
        assert np.array_equal(run(device, kernel(code), given, before), want), mask


def test_fills(device: TinyDevice) -> None:
    given = np.arange(WORDS, dtype="u4")
    code = "add.u32 %r6, %r1, 520; mov.b64 %a5, 48; st.bulk.weak.shared::cta [%r6], %a5, 0;"
    got = run(device, kernel(code, BACK), given, given + 1)
    want = given + 1
    want[2:14] = 0
    assert np.array_equal(got, want)


def test_no_block_is_given_away(device: TinyDevice) -> None:
    """A kernel that asks for more work hears that there is none, and that the answer has come."""
    code = f"""mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16; add.u32 %r6, %r1, 512;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r6], [%r2]; {WAIT}
    ld.shared.b128 %q0, [%r6]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q0; selp.u32 %r7, 77, 33, %p2; st.shared.u32 [%r6+16], %r7;"""
    given = np.full(WORDS, 9, "u4")
    assert run(device, kernel(code, BACK), given, given)[:6].tolist() == [0, 0, 0, 0, 33, 9]


def test_an_arrival_that_drops_and_expects(device: TinyDevice) -> None:
    """Of two that are expected one drops out and announces 64 bytes; the next phase waits for one."""
    code = """mbarrier.inval.shared.b64 [%r2]; mbarrier.init.shared.b64 [%r2], 2; mbarrier.arrive_drop.expect_tx.release.cta.shared::cta.b64 _, [%r2], 64;
    mbarrier.arrive.shared.b64 %a5, [%r2]; mbarrier.test_wait.shared.b64 %p1, [%r2], %a5; selp.u32 %r7, 1, 0, %p1;
    mbarrier.complete_tx.relaxed.cta.shared.b64 [%r2], 64; mbarrier.test_wait.shared.b64 %p1, [%r2], %a5; selp.u32 %r8, 1, 0, %p1;
    mbarrier.arrive.shared.b64 %a5, [%r2]; mbarrier.test_wait.shared.b64 %p1, [%r2], %a5; selp.u32 %r9, 1, 0, %p1;
    st.shared.v2.u32 [%r1+512], {%r7, %r8}; st.shared.u32 [%r1+520], %r9;"""
    given = np.full(WORDS, 9, "u4")
    assert run(device, kernel(code, BACK), given, given)[:3].tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a1], [%r1], 24;",
            jit.FaultKind.ILLEGAL_INSTRUCTION,
        ),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a1], [%r1+1008], 32;",
            jit.FaultKind.ILLEGAL_ADDRESS,
        ),
        ("st.bulk.weak.shared::cta [%r1], 12, 0;", jit.FaultKind.ILLEGAL_INSTRUCTION),
        ("st.bulk.weak.shared::cta [%r1+4], 16, 0;", jit.FaultKind.MISALIGNED_ADDRESS),
    ],
)
def test_faults(device: TinyDevice, code: str, kind: jit.FaultKind) -> None:
    space = device.allocate(256)
    assert device.launch(device.load(kernel(code)), "k", 1, WORDS, [space, space]) == jit.STATUS_FAULT
    assert device.fault.kind == kind


def test_unsupported_forms(device: TinyDevice) -> None:
    for code in (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%a1], [%r1], 32;",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.bulk_group.add.u32 [%r1], [%r1], 32;",
        "st.bulk.weak.shared::cta [%r1], 16, 5;",
        "st.bulk.weak.global [%a1], 16, 0;",
    ):
        with pytest.raises(jit.PtxError):
            jit.compile_kernel(device.load(kernel(code)), "k", (WORDS, 1, 1), jit.Options(cache=False))

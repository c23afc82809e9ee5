"""cp.async and mbarrier: copies with fewer source bytes, phases by state and by parity, bytes that a phase waits for."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER


@pytest.mark.parametrize(("form", "size"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_copies(device: TinyDevice, form: str, size: int) -> None:
    """Whole copies, and copies of tid bytes whose rest is zero; nothing beyond the source's bytes is read."""
    text = f"""{HEADER}
    .visible .entry k(.param .u64 in, .param .u64 out) {{
    .reg .b32 %r<8>, %v; .reg .b64 %a<8>; .reg .pred %p; .shared .align 16 .b8 area[2048];
    mov.u32 %r0, %tid.x; mov.u32 %r1, area; mad.lo.u32 %r2, %r0, {size}, %r1; mad.lo.u32 %r6, %r0, {size}, %r1;
    ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out]; mul.wide.u32 %a2, %r0, {size}; add.s64 %a0, %a0, %a2; add.s64 %a1, %a1, %a2;
    cp.async.{form}.shared.global [%r2], [%a0], {size}; cp.async.commit_group;
    rem.u32 %r3, %r0, {size + 1}; cp.async.{form}.shared.global [%r2+1024], [%a0], {size}, %r3; cp.async.wait_all; cp.async.wait_group 0;
    bar.sync 0; mov.u32 %r4, 0;
    L: add.u32 %r5, %r2, %r4; ld.shared.u32 %v, [%r5]; st.global.u32 [%a1], %v; ld.shared.u32 %v, [%r5+1024];
    st.global.u32 [%a1+1024], %v; add.s64 %a1, %a1, 4; add.u32 %r4, %r4, 4; setp.lt.u32 %p, %r4, {size}; @%p bra L;
    ret; }}"""
    data = np.random.default_rng(size).integers(1, 256, (64, size)).astype("u1")
    out = device.allocate(2048)
    assert device.launch(device.load(text), "k", 1, 64, [device.upload(data), out]) == 0, device.fault.line
    whole = device.download(out, "u1", 64 * size).reshape(64, size)
    partial = device.download(out + 1024, "u1", 64 * size).reshape(64, size)
    assert np.array_equal(whole, data)
    kept = np.arange(size)[None, :] < (np.arange(64) % (size + 1))[:, None]
    assert np.array_equal(partial, data * kept)


def test_a_source_without_bytes_is_not_read(device: TinyDevice) -> None:
    text = f"""{HEADER}
    .visible .entry k(.param .u64 in, .param .u32 bytes) {{
    .reg .b32 %r<4>; .reg .b64 %a; .shared .align 16 .b8 area[64];
    mov.u32 %r0, area; ld.param.u64 %a, [in]; ld.param.u32 %r1, [bytes]; cp.async.cg.shared.global [%r0], [%a], 16, %r1; ret; }}"""
    module = device.load(text)
    assert device.launch(module, "k", 1, 32, [4096, 0]) == 0
    assert device.launch(module, "k", 1, 32, [4096, 4]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_ADDRESS


@pytest.mark.parametrize("wait", ["state", "parity"])
def test_phases(device: TinyDevice, wait: str) -> None:
    """Warps meet three times at an mbarrier; between two phases each thread reads what another one wrote."""
    if wait == "state":
        meet = "mbarrier.arrive.shared.b64 %s, [%r1]; W{0}: mbarrier.test_wait.shared.b64 %p, [%r1], %s; @!%p bra W{0};"
    else:
        meet = "mbarrier.arrive.shared.b64 _, [%r1]; W{0}: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p, [%r1], {1}; @!%p bra W{0};"
    steps = ""
    for step in range(3):
        steps += (
            f"st.shared.u32 [%r3], %r0; {meet.format(step, step & 1)} ld.shared.u32 %r5, [%r4]; add.u32 %r0, %r5, 1;"
        )
        # A second barrier keeps the next store from overtaking a read.
        steps += "bar.sync 0;"
    text = f"""{HEADER}
    .visible .entry k(.param .u64 out) {{
    .reg .pred %p, %q; .reg .b32 %r<12>; .reg .b64 %a<4>, %s; .shared .align 8 .b64 phase; .shared .align 4 .b8 area[1024];
    mov.u32 %r0, %tid.x; mov.u32 %r1, phase; mov.u32 %r2, area; setp.ne.u32 %q, %r0, 0;
    @!%q mbarrier.init.shared.b64 [%r1], 160; fence.mbarrier_init.release.cluster; bar.sync 0;
    mad.lo.u32 %r3, %r0, 4, %r2; mov.u32 %r6, %tid.x; add.u32 %r6, %r6, 33; rem.u32 %r6, %r6, 160; mad.lo.u32 %r4, %r6, 4, %r2;
    {steps}
    ld.param.u64 %a0, [out]; mov.u32 %r6, %tid.x; mul.wide.u32 %a1, %r6, 4; add.s64 %a0, %a0, %a1; st.global.u32 [%a0], %r0; ret; }}"""
    out = device.upload(np.zeros(160, "u4"))
    assert device.launch(device.load(text), "k", 1, 160, [out]) == 0, device.fault.kind
    values = np.arange(160)
    for _ in range(3):
        values = values[(np.arange(160) + 33) % 160] + 1
    assert np.array_equal(device.download(out, "u4", 160), values)


def test_counts_and_bytes(device: TinyDevice) -> None:
    """One thread: a phase ends when neither arrivals nor bytes are pending; a dropped arrival is not expected again."""
    tests = "mbarrier.test_wait.parity.shared.b64 %p, [%r1], 0; selp.u32 %o, 1, 0, %p; st.global.u32 [%a], %o; add.s64 %a, %a, 4;"
    odd = tests.replace("], 0;", "], 1;")
    text = f"""{HEADER}
    .visible .entry k(.param .u64 out) {{
    .reg .pred %p; .reg .b32 %r<8>, %o; .reg .b64 %a, %s; .shared .align 8 .b64 phase;
    mov.u32 %r1, phase; ld.param.u64 %a, [out];
    mbarrier.init.shared.b64 [%r1], 3; {tests}
    mbarrier.arrive.expect_tx.shared.b64 %s, [%r1], 64; mbarrier.pending_count.b64 %o, %s; st.global.u32 [%a], %o; add.s64 %a, %a, 4;
    mbarrier.arrive.noComplete.shared.b64 %s, [%r1], 1; mbarrier.pending_count.b64 %o, %s; st.global.u32 [%a], %o; add.s64 %a, %a, 4;
    mbarrier.arrive_drop.shared.b64 %s, [%r1]; {tests}
    mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 60; {tests} mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 4; {tests}
    mbarrier.arrive.shared.b64 _, [%r1]; {odd} cp.async.mbarrier.arrive.noinc.shared.b64 [%r1]; {odd}
    mbarrier.inval.shared.b64 [%r1]; ret; }}"""
    out = device.upload(np.zeros(16, "u4"))
    assert device.launch(device.load(text), "k", 1, 1, [out]) == 0
    # Two arrivals are expected in the second phase, after one of three was dropped.
    assert list(device.download(out, "u4", 9)) == [0, 3, 2, 0, 0, 1, 0, 1, 0]


def test_bulk_copies(device: TinyDevice) -> None:
    """One thread copies a block in, all wait for its bytes; another copies it out from shared memory."""
    text = f"""{HEADER}
    .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 size) {{
    .reg .pred %p, %q; .reg .b32 %r<8>; .reg .b64 %a<4>; .shared .align 8 .b64 phase; .shared .align 16 .b8 area[1024];
    mov.u32 %r0, %tid.x; mov.u32 %r1, phase; mov.u32 %r2, area; setp.ne.u32 %q, %r0, 0; ld.param.u32 %r5, [size];
    ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out];
    @!%q mbarrier.init.shared.b64 [%r1], 1; bar.sync 0; @%q bra WAIT;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a0], %r5, [%r1];
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r5;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%r1], 0; @!%p bra WAIT;
    mad.lo.u32 %r3, %r0, 4, %r2; ld.shared.u32 %r4, [%r3]; add.u32 %r4, %r4, 1; st.shared.u32 [%r3], %r4;
    fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %q, %r0, 40; @%q bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%a1], [%r2], %r5; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END: ret; }}"""
    module = device.load(text)
    data = np.random.default_rng(1).integers(0, 1000, 256).astype("u4")
    out = device.upload(np.zeros(256, "u4"))
    assert device.launch(module, "k", 1, 64, [device.upload(data), out, 208]) == 0, device.fault.kind
    expected = np.where(np.arange(256) < 52, data + 1, 0)
    assert np.array_equal(device.download(out, "u4", 256), expected)
    assert device.launch(module, "k", 1, 64, [device.upload(data), out, 20]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_INSTRUCTION

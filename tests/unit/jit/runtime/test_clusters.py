"""Clusters: coordinates, addresses of other blocks' shared memory, the cluster's barrier."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %a<16>; .reg .f32 %f<4>;"


def kernel(code: str, shared: int = 512) -> str:
    """`k(out)`: %a0 is out, %r0 the thread, %r1 the linear block, %r2 the block's rank, %r3 the cluster's blocks."""
    return f"""{HEADER}.visible .entry k(.param .u64 out) {{ {REGISTERS} .shared .align 16 .b8 area[{shared}];
    ld.param.u64 %a0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank;
    mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.z; mov.u32 %r7, %nctaid.x; mov.u32 %r8, %nctaid.y;
    mad.lo.u32 %r1, %r6, %r8, %r5; mad.lo.u32 %r1, %r1, %r7, %r4;
    {code} ret; }}"""


SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"


def store(register: str, block: int) -> str:
    return f"""mad.lo.u32 %r30, %r1, {block}, %r0; mul.wide.u32 %a9, %r30, 4; add.u64 %a9, %a0, %a9; st.global.u32 [%a9], {register};"""


@pytest.mark.parametrize("wait", ["", SYNC])
def test_coordinates(device: TinyDevice, wait: str) -> None:
    """Blocks know their cluster and their place in it, whether or not they wait for each other."""
    names = ["clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"]
    specials = [f"%{name}.{axis}" for name in names for axis in "xyz"] + ["%cluster_ctarank", "%cluster_nctarank"]
    code = f"mul.wide.u32 %a1, %r1, {4 * len(specials)}; add.u64 %a1, %a0, %a1;" + "".join(
        f"mov.u32 %r20, {name}; st.global.u32 [%a1+{4 * at}], %r20;" for at, name in enumerate(specials)
    )
    grid, cluster = (4, 6, 2), (2, 3, 1)
    out = device.upload(np.zeros(48 * 14, "u4"))
    assert device.launch(device.load(kernel(wait + code)), "k", grid, 1, [out], cluster=cluster) == 0
    found = device.download(out, "u4", 48 * 14).reshape(48, 14)
    for z in range(2):
        for y in range(6):
            for x in range(4):
                rank = x % 2 + 2 * (y % 3)
                want = [x // 2, y // 3, z, 2, 2, 2, x % 2, y % 3, 0, 2, 3, 1, rank, 6]
                assert list(found[x + 4 * (y + 6 * z)]) == want


def test_explicit(device: TinyDevice) -> None:
    text = kernel("mov.pred %p0, %is_explicit_cluster; selp.u32 %r9, 1, 0, %p0;" + store("%r9", 1))
    for cluster, want in ((None, 0), ((1, 1, 1), 1), ((2, 1, 1), 1)):
        out = device.upload(np.full(2, 7, "u4"))
        assert device.launch(device.load(text), "k", 2, 1, [out], cluster=cluster) == 0
        assert list(device.download(out, "u4", 2)) == [want] * 2


NEIGHBOUR = """
    mov.u32 %r9, area; shl.b32 %r10, %r0, 2; add.u32 %r10, %r9, %r10; mad.lo.u32 %r11, %r2, 100, %r0; st.shared.u32 [%r10], %r11;
    add.u32 %r12, %r2, 1; rem.u32 %r12, %r12, %r3;
"""
WAYS = {
    "shared": "mapa.shared::cluster.u32 %r13, %r10, %r12; {sync} ld.shared::cluster.u32 %r14, [%r13];",
    "generic": "cvt.u64.u32 %a1, %r10; cvta.shared.u64 %a1, %a1; mapa.u64 %a2, %a1, %r12; {sync} ld.u32 %r14, [%a2];",
    "converted": """cvt.u64.u32 %a1, %r10; cvta.shared.u64 %a1, %a1; mapa.u64 %a2, %a1, %r12; {sync}
        cvta.to.shared::cluster.u64 %a2, %a2; cvt.u32.u64 %r13, %a2; ld.shared::cluster.u32 %r14, [%r13];""",
    "symbol": "mapa.shared::cluster.u32 %r13, area, %r12; {sync} shl.b32 %r15, %r0, 2; add.u32 %r13, %r13, %r15; ld.shared::cluster.u32 %r14, [%r13];",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_of_another_block(device: TinyDevice, way: str, threads: int) -> None:
    text = kernel(NEIGHBOUR + WAYS[way].format(sync=SYNC) + store("%r14", 64) + SYNC)
    for cluster in ((1, 1, 1), (2, 1, 1), (5, 1, 1), (16, 1, 1)):
        blocks = 80
        out = device.upload(np.zeros(blocks * 64, "u4"))
        assert device.launch(device.load(text), "k", blocks, 64, [out], cluster=cluster, threads=threads) == 0
        found = device.download(out, "u4", blocks * 64).reshape(blocks, 64)
        ranks = (np.arange(blocks) % cluster[0] + 1) % cluster[0]
        assert np.array_equal(found, ranks[:, None] * 100 + np.arange(64))


def test_every_rank_from_one_warp(device: TinyDevice) -> None:
    """Lanes name different blocks; what a block was told about its own memory is its own memory."""
    code = f"""
    mov.u32 %r9, area; shl.b32 %r10, %r0, 2; add.u32 %r10, %r9, %r10; mad.lo.u32 %r11, %r2, 100, %r0; st.shared.u32 [%r10], %r11;
    rem.u32 %r12, %r0, %r3; mapa.shared::cluster.u32 %r13, %r10, %r12; {SYNC}
    ld.shared::cluster.u32 %r14, [%r13]; getctarank.shared::cluster.u32 %r15, %r13; getctarank.shared::cluster.u32 %r16, %r10;
    mad.lo.u32 %r14, %r15, 10000, %r14; mad.lo.u32 %r14, %r16, 1000000, %r14; {store("%r14", 32)} {SYNC}"""
    out = device.upload(np.zeros(8 * 32, "u4"))
    assert device.launch(device.load(kernel(code)), "k", 8, 32, [out], cluster=(4, 1, 1)) == 0
    found = device.download(out, "u4", 8 * 32).reshape(8, 32)
    lane = np.arange(32)
    for block in range(8):
        assert np.array_equal(found[block], lane % 4 * 10100 + lane + block % 4 * 1000000)


def test_which_space(device: TinyDevice) -> None:
    """isspacep tells the block's own memory from the cluster's, and an own address that names the rank can be used as one."""
    code = f"""
    mov.u32 %r9, area; cvt.u64.u32 %a1, %r9; cvta.shared.u64 %a1, %a1; st.shared.u32 [%r9], %r2; {SYNC}
    mapa.u64 %a2, %a1, %r2; add.u32 %r12, %r2, 1; rem.u32 %r12, %r12, %r3; mapa.u64 %a3, %a1, %r12;
    isspacep.shared::cta %p0, %a2; isspacep.shared %p1, %a3; isspacep.shared::cluster %p2, %a2; isspacep.shared::cluster %p3, %a3;
    isspacep.global %p4, %a3;
    selp.u32 %r20, 1, 0, %p0; selp.u32 %r21, 2, 0, %p1; selp.u32 %r22, 4, 0, %p2; selp.u32 %r23, 8, 0, %p3; selp.u32 %r24, 16, 0, %p4;
    add.u32 %r20, %r20, %r21; add.u32 %r20, %r20, %r22; add.u32 %r20, %r20, %r23; add.u32 %r20, %r20, %r24;
    cvta.to.shared.u64 %a4, %a2; cvt.u32.u64 %r25, %a4; ld.shared.u32 %r26, [%r25]; mad.lo.u32 %r20, %r26, 100, %r20;
    {store("%r20", 1)} {SYNC}"""
    out = device.upload(np.zeros(4, "u4"))
    assert device.launch(device.load(kernel(code)), "k", 4, 1, [out], cluster=(2, 1, 1)) == 0
    assert list(device.download(out, "u4", 4)) == [13, 113, 13, 113]


def test_atomics_on_another_block(device: TinyDevice) -> None:
    """All blocks count in block 0's memory; the sums of floats are the same on every run."""
    code = f"""
    mov.u32 %r9, area; mov.u32 %r10, 0; setp.gt.u32 %p0, %r0, 3; @%p0 bra READY; shl.b32 %r11, %r0, 2; add.u32 %r11, %r9, %r11; st.shared.u32 [%r11], %r10;
    READY: {SYNC} mapa.shared::cluster.u32 %r13, %r9, 0;
    atom.shared::cluster.add.u32 %r14, [%r13], 1; red.relaxed.cluster.shared::cluster.add.u32 [%r13+4], %r0;
    cvt.rn.f32.u32 %f0, %r0; atom.relaxed.cluster.shared::cluster.add.f32 %f1, [%r13+8], %f0;
    cvt.u64.u32 %a1, %r9; cvta.shared.u64 %a1, %a1; mapa.u64 %a2, %a1, 0; atom.max.u32 %r15, [%a2+12], %r1;
    {SYNC} setp.gt.u32 %p1, %r0, 3; @%p1 bra END; ld.shared.u32 %r16, [%r11]; {store("%r16", 4)} END: {SYNC}"""
    out = device.upload(np.zeros(32, "u4"))
    assert device.launch(device.load(kernel(code)), "k", 8, 96, [out], cluster=(4, 1, 1), threads=2) == 0
    found = device.download(out, "u4", 32).reshape(8, 4)
    total = 4 * 96 * 95 // 2
    for cluster in range(2):
        want = [4 * 96, total, int(np.float32(total).view("u4")), 4 * cluster + 3]
        assert list(found[4 * cluster]) == want
        assert not found[4 * cluster + 1 : 4 * cluster + 4].any()


def test_the_barrier_waits_for_all_threads(device: TinyDevice) -> None:
    """Threads of a warp arrive and wait apart from each other, and some end instead; each phase sees the one before."""
    code = f"""
    mov.u32 %r9, area; shl.b32 %r10, %r0, 2; add.u32 %r10, %r9, %r10; mov.u32 %r11, 0; mov.u32 %r20, 0;
    mul.lo.u32 %r12, %r2, 5; add.u32 %r12, %r12, 3; setp.eq.u32 %p0, %r0, %r12; @%p0 bra END;
    st.shared.u32 [%r10], %r0; {SYNC}
    LOOP: and.b32 %r13, %r0, 1; setp.eq.u32 %p1, %r13, 0; @%p1 bra EVEN;
    barrier.cluster.arrive.release; add.u32 %r20, %r20, 1; barrier.cluster.wait.acquire; bra MEET;
    EVEN: barrier.cluster.arrive.relaxed; barrier.cluster.wait;
    MEET: add.u32 %r14, %r2, %r11; add.u32 %r14, %r14, 1; rem.u32 %r14, %r14, %r3; mapa.shared::cluster.u32 %r15, %r9, %r14;
    ld.shared::cluster.u32 %r16, [%r15]; add.u32 %r20, %r20, %r16; {SYNC}
    setp.ne.u32 %p2, %r0, 0; @%p2 bra NEXT; add.u32 %r17, %r16, 1; st.shared.u32 [%r9], %r17;
    NEXT: add.u32 %r11, %r11, 1; setp.lt.u32 %p3, %r11, 6; @%p3 bra LOOP; {store("%r20", 40)} END:"""
    found = []
    for dual in (True, False):
        out = device.upload(np.full(3 * 40, 9999, "u4"))
        options = jit.Options(cache=False, dual=dual)
        assert device.launch(device.load(kernel(code)), "k", 3, 40, [out], cluster=(3, 1, 1), options=options) == 0
        found.append(device.download(out, "u4", 3 * 40).reshape(3, 40))
    assert np.array_equal(*found)
    values, rounds = [0, 0, 0], [0, 0, 0]
    for phase in range(6):
        read = [values[(rank + phase + 1) % 3] for rank in range(3)]
        rounds = [done + value for done, value in zip(rounds, read, strict=True)]
        values = [value + 1 for value in read]
    for rank in range(3):
        want = [rounds[rank] + (6 if thread % 2 else 0) for thread in range(40)]
        want[5 * rank + 3] = 9999
        assert found[0][rank].tolist() == want


def test_what_never_completes_is_a_fault(device: TinyDevice) -> None:
    """A thread that waits without the others having arrived, in one block or in the others."""
    code = f"setp.eq.u32 %p0, %r2, 0; @%p0 bra OTHER; {SYNC} bra END; OTHER: bar.sync 1, 64; END:"
    out = device.upload(np.zeros(1, "u4"))
    for cluster in ((1, 1, 1), (2, 1, 1)):
        assert device.launch(device.load(kernel(code)), "k", 2, 32, [out], cluster=cluster) == 1
        assert device.fault.kind == jit.FaultKind.BARRIER_DEADLOCK


@pytest.mark.parametrize(
    "access",
    [
        "mapa.shared::cluster.u32 %r13, %r9, 4;",  # no such rank
        "mapa.shared::cluster.u32 %r13, %r9, 1; ld.shared::cluster.u32 %r14, [%r13+512];",  # behind the block's memory
        "mov.u32 %r13, 0x06000000; ld.shared::cluster.u32 %r14, [%r13];",
        "cvt.u64.u32 %a1, %r9; cvta.shared.u64 %a1, %a1; mapa.u64 %a2, %a1, 1; st.u32 [%a2+1024], %r0;",
        "mapa.shared::cluster.u32 %r13, %r9, 1; ld.shared.u32 %r14, [%r13];",  # as if it were its own
    ],
)
def test_bad_addresses(device: TinyDevice, access: str) -> None:
    code = f"mov.u32 %r9, area; {access} {SYNC}"
    assert device.launch(device.load(kernel(code)), "k", 4, 1, [device.allocate(4)], cluster=(4, 1, 1)) == 1
    assert device.fault.kind == jit.FaultKind.ILLEGAL_ADDRESS


def test_a_block_signals_another(device: TinyDevice) -> None:
    """mbarriers of other blocks: an arrival there, and bytes copied with it; a flag that is waited for in a loop."""
    code = f"""
    mov.u32 %r9, area; mov.u32 %r10, 1; setp.ne.u32 %p0, %r0, 0; @%p0 bra MADE; mbarrier.init.shared.b64 [%r9], %r10; mbarrier.init.shared.b64 [%r9+8], %r10;
    mbarrier.arrive.expect_tx.shared.b64 %a3, [%r9+8], 128; st.shared.u32 [%r9+16], 0;
    MADE: add.u32 %r11, %r1, 1000; shl.b32 %r12, %r0, 2; add.u32 %r12, %r12, %r9; st.shared.u32 [%r12+128], %r11;
    {SYNC} add.u32 %r13, %r2, 1; rem.u32 %r13, %r13, %r3; mapa.shared::cluster.u32 %r14, %r9, %r13; @%p0 bra WAIT;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r14+256], [%r9+128], 128, [%r14+8];
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14]; st.release.cluster.shared::cluster.u32 [%r14+16], 5;
    WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r9], 0; @!%p1 bra WAIT;
    MORE: mbarrier.try_wait.parity.shared.b64 %p1, [%r9+8], 0; @!%p1 bra MORE;
    FLAG: ld.acquire.cluster.shared.u32 %r15, [%r9+16]; setp.ne.u32 %p2, %r15, 5; @%p2 bra FLAG;
    ld.shared.u32 %r16, [%r12+256]; {store("%r16", 32)} {SYNC}"""
    out = device.upload(np.zeros(6 * 32, "u4"))
    assert device.launch(device.load(kernel(code)), "k", 6, 32, [out], cluster=(3, 1, 1)) == 0
    found = device.download(out, "u4", 6 * 32).reshape(6, 32)
    assert np.array_equal(found, np.repeat([1002, 1000, 1001, 1005, 1003, 1004], 32).reshape(6, 32))


def test_asynchronous_stores_and_reductions(device: TinyDevice) -> None:
    """Each thread stores to the next block, and counts there; the mbarrier there knows how many bytes come."""
    code = f"""
    mov.u32 %r9, area; mov.u32 %r10, 1; setp.ne.u32 %p0, %r0, 0; @%p0 bra MADE; mbarrier.init.shared.b64 [%r9], %r10;
    mbarrier.arrive.expect_tx.shared.b64 %a3, [%r9], {32 * (4 + 8 + 4)}; st.shared.u32 [%r9+8], 0;
    MADE: {SYNC} add.u32 %r13, %r2, 1; rem.u32 %r13, %r13, %r3; mapa.shared::cluster.u32 %r14, %r9, %r13; shl.b32 %r12, %r0, 2; add.u32 %r15, %r14, %r12;
    add.u32 %r11, %r1, 1000; st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r15+32], %r11, [%r14];
    add.u32 %r15, %r15, %r12; st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r15+192], {{%r0, %r1}}, [%r14];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r14+8], %r0, [%r14];
    WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r9], 0; @!%p1 bra WAIT;
    add.u32 %r12, %r9, %r12; ld.shared.u32 %r16, [%r12+32]; shl.b32 %r17, %r0, 3; add.u32 %r17, %r17, %r9; ld.shared.v2.u32 {{%r18, %r19}}, [%r17+192];
    ld.shared.u32 %r20, [%r9+8]; sub.u32 %r18, %r18, %r0; add.u32 %r16, %r16, %r18; mad.lo.u32 %r16, %r19, 10000, %r16; mad.lo.u32 %r16, %r20, 100000, %r16;
    {store("%r16", 32)} {SYNC}"""
    for cluster in (1, 3):
        out = device.upload(np.zeros(6 * 32, "u4"))
        assert device.launch(device.load(kernel(code)), "k", 6, 32, [out], cluster=(cluster, 1, 1)) == 0
        block = np.arange(6)
        sender = block // cluster * cluster + (block % cluster - 1) % cluster
        want = np.repeat(1000 + sender + sender * 10000 + 496 * 100000, 32).reshape(6, 32)
        assert np.array_equal(device.download(out, "u4", 6 * 32).reshape(6, 32), want)


def test_a_copy_to_several_blocks(device: TinyDevice) -> None:
    """Block 0 of each cluster copies to the blocks that a mask names, at the same place in each, and tells their mbarriers."""
    code = f"""
    mov.u32 %r9, area; mov.u32 %r10, 1; setp.ne.u32 %p0, %r0, 0; @%p0 bra MADE; mbarrier.init.shared.b64 [%r9], %r10;
    mbarrier.arrive.expect_tx.shared.b64 %a3, [%r9], 128;
    MADE: shl.b32 %r12, %r0, 2; add.u32 %r12, %r9, %r12; st.shared.u32 [%r12+128], 7; {SYNC}
    setp.ne.u32 %p2, %r2, 0; or.pred %p0, %p0, %p2; @%p0 bra COPIED; add.u64 %a4, %a0, 16384; mov.u32 %r11, 128; mov.u16 %h0, MASK;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r9+128], [%a4], %r11, [%r9], %h0;
    COPIED: mov.u32 %r13, MASK; shr.u32 %r13, %r13, %r2; and.b32 %r13, %r13, 1; setp.eq.u32 %p3, %r13, 0; @%p3 bra READ;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r9], 0; @!%p1 bra WAIT;
    READ: ld.shared.u32 %r16, [%r12+128]; {store("%r16", 32)} {SYNC}"""
    for cluster, mask in ((4, 0b1011), (1, 1), (4, 0b0100)):
        content = np.zeros(8192, "u4")
        content[4096 : 4096 + 32] = np.arange(32) + 50
        out = device.upload(content)
        text = kernel(code.replace("MASK", str(mask))).replace(".reg .f32", ".reg .b16 %h<2>; .reg .f32")
        assert device.launch(device.load(text), "k", 8, 32, [out], cluster=(cluster, 1, 1)) == 0
        found = device.download(out, "u4", 8 * 32).reshape(8, 32)
        for block in range(8):
            named = mask >> block % cluster & 1
            assert found[block].tolist() == (list(range(50, 82)) if named else [7] * 32)

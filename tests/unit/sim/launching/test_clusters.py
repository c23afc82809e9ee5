"""Launches with clusters: who has them, which are refused, and that a result does not depend on the threads."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.sim import SimDevice
from sim_program import Program, pack

# Each block adds up what its cluster's blocks have stored, thread by thread; block 0 of the cluster has the sum of all threads as well.
BODY = """
{
.reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<10>; .shared .align 4 .b8 own[512]; .shared .align 4 .b8 sum[4];
ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
mov.u32 %r4, own; shl.b32 %r5, %r0, 2; add.u32 %r5, %r4, %r5; st.shared.u32 [%r5], %r3; st.shared.u32 [sum], 0;
barrier.cluster.arrive; barrier.cluster.wait;
mov.u32 %r6, %cluster_nctarank; mov.u32 %r7, 0; mov.u32 %r8, 0;
NEXT: mapa.shared::cluster.u32 %r9, %r5, %r7; ld.shared::cluster.u32 %r10, [%r9]; add.u32 %r8, %r8, %r10;
add.u32 %r7, %r7, 1; setp.lt.u32 %p0, %r7, %r6; @%p0 bra NEXT;
mov.u32 %r11, sum; mapa.shared::cluster.u32 %r12, %r11, 0; red.shared::cluster.add.u32 [%r12], %r3;
barrier.cluster.arrive; barrier.cluster.wait;
setp.ne.u32 %p1, %r0, 0; @%p1 bra STORE; mov.u32 %r13, %cluster_ctarank; setp.ne.u32 %p2, %r13, 0; @%p2 bra STORE; ld.shared.u32 %r8, [sum];
STORE: mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r8; ret;
}
"""
MODULE = f""".version 8.5
.target sm_90
.address_size 64
.visible .entry free(.param .u64 out) {BODY}
.visible .entry fixed(.param .u64 out) .explicitcluster .reqnctapercluster 4, 1, 1 {BODY}
.visible .entry needs(.param .u64 out) .explicitcluster {BODY}
.visible .entry most(.param .u64 out) .maxclusterrank 3 {BODY}
.visible .entry beyond(.param .u64 out)
{{
.reg .b32 %r<4>;
mov.u32 %r0, 0; mapa.shared::cluster.u32 %r1, %r0, 1; ld.shared::cluster.u32 %r2, [%r1+64]; ret;
}}
"""


def launch(
    program: Program, kernel: str, blocks: int, cluster: int | None, threads: int = 96, cooperative: bool = False
) -> np.ndarray:
    at = program.allocate(4 * blocks * threads)
    asked = None if cluster is None else (cluster, 1, 1)
    shape = LaunchShape((blocks, 1, 1), (threads, 1, 1), 0, cooperative, asked)
    function = program.context.function(program.module, kernel)
    program.context.launch(function, shape, memoryview(pack("Q", at)), program.stream)
    return np.frombuffer(program.read(at, 4 * blocks * threads), np.uint32).reshape(blocks, threads)


def expected(blocks: int, cluster: int, threads: int = 96) -> np.ndarray:
    values = np.arange(blocks * threads, dtype=np.uint32).reshape(-1, cluster, threads)
    result = np.repeat(values.sum(axis=1, dtype=np.uint32)[:, None], cluster, axis=1)
    result[:, 0, 0] = values.sum(axis=(1, 2), dtype=np.uint32)
    return result.reshape(blocks, threads)


@pytest.mark.parametrize("cooperative", [False, True])
def test_clusters_of_a_launch(program: Program, cooperative: bool) -> None:
    for cluster in (1, 2, 8, None):
        size = cluster or 1
        assert np.array_equal(launch(program, "free", 16, cluster, cooperative=cooperative), expected(16, size))
    assert np.array_equal(launch(program, "fixed", 64, None), expected(64, 4))
    assert np.array_equal(launch(program, "fixed", 64, 4), expected(64, 4))
    assert np.array_equal(launch(program, "needs", 64, 2), expected(64, 2))
    assert np.array_equal(launch(program, "most", 6, 3), expected(6, 3))


def test_on_several_threads() -> None:
    found = []
    for threads in (1, 2, 3):
        device = SimDevice(threads=threads)
        program = Program(device)
        program.module = program.context.load_module(MODULE.encode())
        found.append(launch(program, "free", 3000, 6, 128))
        program.context.close()
        device.close()
    assert all(np.array_equal(each, expected(3000, 6, 128)) for each in found)


@pytest.mark.parametrize(
    ("kernel", "blocks", "cluster"),
    [("free", 6, 4), ("free", 36, 9), ("fixed", 6, None), ("fixed", 8, 2), ("needs", 8, None), ("most", 8, 4)],
)
def test_what_is_refused(program: Program, kernel: str, blocks: int, cluster: int | None) -> None:
    with pytest.raises(CudaError) as caught:
        launch(program, kernel, blocks, cluster)
    assert caught.value.code == 912
    assert not caught.value.sticky


def test_more_blocks_than_every_device_has(program: Program) -> None:
    """With cudaFuncAttributeNonPortableClusterSizeAllowed a cluster may have 16."""
    function = program.context.function(program.module, "free")
    program.context.set_function_attribute(function, 14, 1)
    assert np.array_equal(launch(program, "free", 32, 16), expected(32, 16))
    with pytest.raises(CudaError, match="a cluster of 17 blocks; it may have 16"):
        launch(program, "free", 34, 17)
    program.context.set_function_attribute(function, 14, 0)
    with pytest.raises(CudaError, match="a cluster of 16 blocks; it may have 8"):
        launch(program, "free", 32, 16)


def test_a_fault_names_the_block_whose_memory_it_was(program: Program) -> None:
    with pytest.raises(
        CudaError, match="byte 64 of the shared memory of the cluster's block 1, of which the block has 0"
    ) as caught:
        launch(program, "beyond", 4, 2, 1)
    assert caught.value.code == 700
    assert caught.value.sticky

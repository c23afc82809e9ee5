"""Launches of kernels with tier 1 code run some blocks at a time: every block once, and tier 2 code takes over in their midst."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.device.base import LEGACY_STREAM, LaunchShape, Rows
from farlane.backend.device.sim import SimDevice
from farlane.backend.jit.compile import kernels

PTX = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .entry count(.param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3]; add.u32 %r2, %r2, 1; st.global.u32 [%rd3], %r2; ret;
}
"""
BLOCKS = 30011


@pytest.mark.parametrize("threads", [1, 2])
def test_every_block_runs_once(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimDevice(threads=threads)
    context = device.open_context(1 << 30)
    try:
        stream, at, size = context.default_stream(LEGACY_STREAM), context.window.base, 4 * BLOCKS
        context.allocate(at, size)
        function = context.function(context.load_module(PTX), "count")
        shape, parameters = LaunchShape((BLOCKS, 1, 1), (32, 1, 1), 0), memoryview(at.to_bytes(8, "little"))
        parts = []
        spent = jit.tiers.Use.spent

        def counting(use: jit.tiers.Use, kernel: jit.CompiledKernel, nanoseconds: int) -> None:
            parts.append(nanoseconds)
            spent(use, kernel, nanoseconds)
            if len(parts) == 3:  # as if its tier 2 code were there now
                kernel.replace(jit.translate(use.module, use.name, use.block, jit.Options())[1])

        monkeypatch.setattr(jit.tiers.Use, "spent", counting)
        monkeypatch.setattr(kernels, "_compiled", type(kernels._compiled)())
        monkeypatch.setattr("farlane.backend.jit.compile.cache.load", lambda key: None)
        for launches in (1, 2):
            context.launch(function, shape, parameters, stream)
            data = b"".join(bytes(piece) for piece in context.read(Rows(at, size, size, 1), stream))
            assert (np.frombuffer(data, "u4") == launches).all()
        assert len(parts) == 3  # the rest of the first launch, and the second, ran tier 2 code
    finally:
        context.close()
        device.close()

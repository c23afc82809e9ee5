"""How threads share a launch's blocks: in chunks that become smaller, each block once."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

OPTIONS = jit.Options(cache=False, optimization=0)
CHUNK = 32
KERNEL = f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [p]; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd0, %rd0, %rd1;
BARRIER
red.global.add.u32 [%rd0], 1;
ret;
}}
"""


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
@pytest.mark.parametrize("blocks", [1, 7, 32, 1000])
@pytest.mark.parametrize(("sharers", "grain"), [(0, 1), (4, 1), (4, 8), (64, 3), (1, 32)])
def test_each_block_once(device: TinyDevice, barrier: str, blocks: int, sharers: int, grain: int) -> None:
    module = device.load(KERNEL.replace("BARRIER", barrier))
    to = device.upload(np.zeros(blocks, np.uint32))
    for threads in (1, 2):
        status = device.launch(
            module, "k", blocks, 1, [to], options=OPTIONS, threads=threads, chunk=CHUNK, sharers=sharers, grain=grain
        )
        assert status == jit.STATUS_DONE
        # No thread took a whole chunk behind the end, as all do that have nothing to share.
        assert blocks <= device.last.next_block < blocks + (grain if sharers else 3 * CHUNK)
    assert (device.download(to, np.uint32, blocks) == 2).all()


def test_a_worker_is_laid_out_once_for_a_launch(device: TinyDevice) -> None:
    """But anew for another one."""
    module = device.load(KERNEL.replace("BARRIER", ""))
    kernels = [jit.compile_kernel(module, "k", (block, 1, 1), OPTIONS) for block in (1, 64)]
    launches = [jit.Launch(grid=(64, 1, 1), block=kernel.info.block, dynamic_shared=1000) for kernel in kernels]
    worker = jit.Worker()
    worker.reserve(kernels[0], launches[0])
    assert worker.state.shared_size == 1000
    worker.state.shared_size = 1
    worker.reserve(kernels[0], launches[0])
    assert worker.state.shared_size == 1
    worker.reserve(kernels[1], launches[1])
    assert worker.state.shared_size == 1000

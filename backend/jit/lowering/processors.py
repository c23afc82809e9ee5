"""The processor that code is for: LLVM's name of it, its features, and what is worth knowing beside them.

LLVM takes 36 MB of a process's memory. So the functions that need it import it: a host that waits for its first kernel
has none.
"""

from __future__ import annotations

import functools

from farlane.backend.jit.options import Options


@functools.cache
def host() -> tuple[str, str]:
    """CPU name and feature string of this machine, without what LLVM makes wrong code of.

    AVX512VL: where one lane alone is wanted of a comparison of a vector of floats with the same shifted by 8 bytes
    (`shfl.down` by 2, `setp`, `shfl.idx`: where the largest value is), LLVM 22 compares the lane with itself, at every level.
    tests/unit/jit/lowering/flow/test_warp.py would see it. Our vectors fill AVX-512's registers, or are split, so they lose little by it.
    """
    import llvmlite.binding as llvm

    initialise()
    features = llvm.get_host_cpu_features().flatten().split(",")
    return llvm.get_host_cpu_name(), ",".join("-avx512vl" if one == "+avx512vl" else one for one in features)


@functools.cache
def initialise() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the runtime's module assembly


def zen(options: Options) -> bool:
    """AMD's, on which a gather is as many loads, and a prefetch to the second-level cache does not wait for the first one's few buffers."""
    return (options.cpu or host()[0]).startswith("znver")

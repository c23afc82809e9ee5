"""What is worth knowing of processors beside their features, by LLVM's name of them."""

from __future__ import annotations

from farlane.backend.jit.abi import Options
from farlane.backend.jit.compile import native


def zen(options: Options) -> bool:
    """AMD's, on which a gather is as many loads, and a prefetch to the second-level cache does not wait for the first one's few buffers."""
    return (options.cpu or native.host()[0]).startswith("znver")

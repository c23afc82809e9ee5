"""Triton: a vector addition. Run it alone and through Farlane: each line ends with True, or what both print.

Usage: FARLANE_INTEROP=1 farlane run --device cupy -- python benchmarks/gpu/guests/triton_guest.py
"""

import time

import torch
import triton
import triton.language as tl

started = time.time()


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


x = torch.rand(10000, device="cuda")
y = torch.rand(10000, device="cuda")
o = torch.empty_like(x)
add[(10,)](x, y, o, 10000, B=1024)
print("add", bool((o == x + y).all()), "seconds", round(time.time() - started, 2))

"""PyTorch: products of half and bfloat16 by cuBLAS, and attention. Run it alone and through Farlane: each line ends with True, or what both print.

Usage: FARLANE_INTEROP=1 farlane run --device cupy -- python benchmarks/gpu/guests/half_guest.py
"""

import faulthandler

import torch

faulthandler.enable()
a = torch.randn(512, 512, device="cuda").bfloat16()
print("made", flush=True)
b = a @ a
torch.cuda.synchronize()
print("bf16", float((b.float() - a.float() @ a.float()).abs().max()) < 5, flush=True)
h = a.half()
print("half", float(((h @ h).float() - h.float() @ h.float()).abs().max()) < 1, flush=True)
q = torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.bfloat16)
print("sdpa", torch.nn.functional.scaled_dot_product_attention(q, q, q).float().std().item() > 0, flush=True)

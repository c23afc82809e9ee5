"""PyTorch: a product, training, a convolution, sort, products in bfloat16. Run it alone and through Farlane: each line ends with True, or what both print.

Usage: FARLANE_INTEROP=1 farlane run --device cupy -- python benchmarks/gpu/guests/torch_guest.py
"""

import time

import torch

torch.manual_seed(0)
started = time.time()
d = "cuda"
print(torch.cuda.get_device_name(0), torch.cuda.device_count())
a = torch.randn(512, 512)
ga = a.to(d)
b = (ga @ ga).cpu()
print("matmul", float((b - a @ a).abs().max()) < 1e-1)
m = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(d)
o = torch.optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(256, 64, device=d)
y = torch.randint(0, 10, (256,), device=d)
first = None
for i in range(50):
    o.zero_grad()
    loss = torch.nn.functional.cross_entropy(m(x), y)
    loss.backward()
    o.step()
    if i == 0:
        first = loss.item()
print("train", first, loss.item(), loss.item() < first)
c = torch.nn.Conv2d(3, 8, 3).to(d)
z = c(torch.randn(4, 3, 32, 32, device=d))
print("conv", tuple(z.shape), bool(torch.isfinite(z).all()))
print("sort", bool((torch.sort(ga.flatten())[0].cpu() == torch.sort(a.flatten())[0]).all()))
print("bf16", float((ga.bfloat16() @ ga.bfloat16()).float().sub(ga @ ga).abs().max()) < 5)
torch.cuda.synchronize()
print("seconds", round(time.time() - started, 2))

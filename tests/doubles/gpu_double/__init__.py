"""A double of CUDA's driver at the seam of the GPU device (`farlane.backend.device.gpu.interface.Driver`).

It keeps the driver's rules rather than a script of calls: address ranges are reserved and mapped, streams run late and only in the order that CUDA
promises, kernels really execute (on a context of the simulated device), a fault loses the context, graphs keep what they were told. It records every
call, can be told to fail, and knows what was never given back.

Not modelled: time, machine code, priorities, what a driver does with hostile input.
"""

from __future__ import annotations

from gpu_double.driver import DoubleDriver

__all__ = ["DoubleDriver"]

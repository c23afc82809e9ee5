"""Numba: COUNT launches of one kernel on a device array, then one copy to the host."""

from __future__ import annotations

import sys

import numpy as np
from numba import cuda


@cuda.jit
def increment(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] += 1


values = cuda.to_device(np.zeros(1_024))
for _ in range(int(sys.argv[1])):
    increment[8, 128](values)
print(values.copy_to_host()[-1])

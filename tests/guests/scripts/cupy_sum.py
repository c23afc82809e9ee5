"""CuPy: each argument is a step. sum: a sum that stays on the device; value: one that Python looks at; product: cuBLAS's sgemm of arrays on
the device; look: a look at its result; a number: so many ufuncs on resident arrays, and a look at the result."""

from __future__ import annotations

import sys

import cupy

first = second = product = cupy.ones((64, 64), dtype=cupy.float32)
for step in sys.argv[1:]:
    if step == "sum":
        cupy.arange(10).sum()
    elif step == "value":
        assert int(cupy.arange(10).sum()) == 45
    elif step == "product":
        product = first @ second
    elif step == "look":
        assert float(product[1, 2]) == 64
    else:
        values = cupy.arange(1_000, dtype=cupy.float32)
        for _ in range(int(step)):
            values = values + 1
        assert float(values[0]) == int(step)

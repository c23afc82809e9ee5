"""JAX: a compiled function and its gradient. Run it alone and through Farlane: each line ends with True, or what both print.

Usage: FARLANE_INTEROP=1 farlane run --device cupy -- python benchmarks/gpu/guests/jax_guest.py
"""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # it is read when the first device is asked for
started = time.time()
print(jax.devices())
x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
f = jax.jit(lambda a: jnp.tanh(a @ a).sum())
print(
    "jit",
    abs(float(f(x)) - float(np.tanh(x @ x).sum())) < 1,
    "grad",
    bool(jnp.isfinite(jax.grad(f)(x)).all()),
    "seconds",
    round(time.time() - started, 2),
)

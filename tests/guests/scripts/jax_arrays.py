"""JAX on the device: prints the name of each operation that agrees with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

random = np.random.default_rng(1)
x, a = random.random(1000, np.float32), random.random((64, 64), np.float32)


def check_sum():
    return np.isclose(jnp.sum(jnp.asarray(x)), x.sum())


def check_functions():
    return np.allclose(jnp.sin(jnp.asarray(x)) * jnp.exp(x), np.sin(x) * np.exp(x), rtol=1e-5)


def check_cumsum():
    return np.allclose(jnp.cumsum(jnp.asarray(x)), np.cumsum(x), rtol=1e-4)


def check_sort():
    return np.array_equal(jnp.sort(jnp.asarray(x)), np.sort(x))


def check_gradient():
    return np.allclose(jax.grad(lambda values: jnp.sum(values**3))(jnp.asarray(x)), 3 * x * x, rtol=1e-5)


def check_loop():
    return jax.lax.fori_loop(0, 100, lambda i, total: total + i, jnp.float32(0)) == 4950


def check_random():
    values = np.asarray(jax.random.normal(jax.random.key(0), (4096,)))
    with jax.default_device(jax.devices("cpu")[0]):
        return np.allclose(values, jax.random.normal(jax.random.key(0), (4096,)), rtol=1e-4, atol=1e-5)


def check_product():
    return np.allclose(jnp.asarray(a) @ jnp.asarray(a), a @ a, rtol=2e-3)  # in TF32


def check_softmax():
    expected = np.exp(a) / np.exp(a).sum(1, keepdims=True)
    return np.allclose(jax.nn.softmax(jnp.asarray(a)), expected, rtol=1e-5)


def check_training():
    """A network of two layers learns to add."""
    layers = [jnp.asarray(random.normal(size=shape, scale=0.1), jnp.float32) for shape in ((16, 32), (32, 1))]
    inputs = jnp.asarray(random.normal(size=(128, 16)), jnp.float32)
    sums = jnp.sum(inputs, 1, keepdims=True)

    def loss(layers):
        return jnp.mean((jnp.tanh(inputs @ layers[0]) @ layers[1] - sums) ** 2)

    @jax.jit
    def step(layers):
        return [layer - 0.05 * slope for layer, slope in zip(layers, jax.grad(loss)(layers), strict=True)]

    before = loss(layers)
    for _ in range(50):
        layers = step(layers)
    return before > 10 and loss(layers) < 1


def check_transform():
    return np.allclose(jnp.fft.fft(jnp.asarray(x)), np.fft.fft(x), atol=1e-2)


def main():
    print([device.platform for device in jax.devices()])
    for name, check in globals().items():
        if name.startswith("check_"):
            assert check(), check
            print(name.removeprefix("check_"), flush=True)


main()

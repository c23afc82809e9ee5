"""cuRAND: every generator of the host interface and of the device interface, by what is known of their sequences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cupy
import numpy
import scipy.stats
import scipy.stats.qmc
from comparison import Cases
from cupy_backends.cuda.libs import curand as library

case = Cases()

PSEUDO = {
    "XORWOW": library.CURAND_RNG_PSEUDO_XORWOW,
    "MRG32K3A": library.CURAND_RNG_PSEUDO_MRG32K3A,
    "MTGP32": library.CURAND_RNG_PSEUDO_MTGP32,
    "PHILOX": library.CURAND_RNG_PSEUDO_PHILOX4_32_10,
}
QUASI = {
    "SOBOL32": library.CURAND_RNG_QUASI_SOBOL32,
    "SCRAMBLED_SOBOL32": library.CURAND_RNG_QUASI_SCRAMBLED_SOBOL32,
    "SOBOL64": library.CURAND_RNG_QUASI_SOBOL64,
    "SCRAMBLED_SOBOL64": library.CURAND_RNG_QUASI_SCRAMBLED_SOBOL64,
}
COUNT = 4096


@contextmanager
def generator(kind: int) -> Iterator[int]:
    made = library.createGenerator(kind)
    try:
        yield made
    finally:
        library.destroyGenerator(made)


def drawn(kind: int, draw: str, element: str, *parameters: float, seed: int | None = 11) -> numpy.ndarray:
    values = cupy.zeros(COUNT, element)
    with generator(kind) as made:
        if seed is not None:
            library.setPseudoRandomGeneratorSeed(made, seed)
        getattr(library, draw)(made, values.data.ptr, COUNT, *parameters)
        return values.get()


def is_uniform(values: numpy.ndarray) -> None:
    assert values.min() > 0
    assert values.max() <= 1
    assert abs(values.mean() - 1 / 2) < 0.03
    assert abs(values.var() - 1 / 12) < 0.01
    assert len(numpy.unique(values)) > COUNT - 10
    assert scipy.stats.kstest(values, "uniform").statistic < 0.03


@case
def pseudo() -> None:
    """The same again for a seed, another sequence for another one, and the shape of each distribution."""
    for name, kind in PSEUDO.items():
        first = drawn(kind, "generateUniform", "f")
        is_uniform(first)
        assert numpy.array_equal(first, drawn(kind, "generateUniform", "f")), name
        assert not numpy.array_equal(first, drawn(kind, "generateUniform", "f", seed=12)), name
        is_uniform(drawn(kind, "generateUniformDouble", "d"))
        for draw, element in (("generateNormal", "f"), ("generateNormalDouble", "d")):
            values = drawn(kind, draw, element, 3.0, 2.0)
            assert scipy.stats.kstest(values, "norm", (3, 2)).statistic < 0.03, name
        values = drawn(kind, "generateLogNormal", "f", 0.0, 0.5)
        assert scipy.stats.kstest(numpy.log(values), "norm", (0, 0.5)).statistic < 0.03, name
        values = drawn(kind, "generatePoisson", "u4", 4.0)
        assert abs(values.mean() - 4) < 0.2, name
        assert abs(values.var() - 4) < 0.5, name


@case
def bits() -> None:
    for name, kind in PSEUDO.items():
        words = drawn(kind, "generate", "u4")
        ones = numpy.unpackbits(words.view("u1").reshape(-1, 4), axis=1).mean(axis=0)
        assert abs(ones - 0.5).max() < 0.04, name


@case
def mersenne_twister() -> None:
    """MT19937, once: its kernel jumps ahead in 20 seconds."""
    values, normal, words = cupy.zeros(COUNT, "f"), cupy.zeros(COUNT, "d"), cupy.zeros(COUNT, "u4")
    with generator(library.CURAND_RNG_PSEUDO_MT19937) as made:
        library.setPseudoRandomGeneratorSeed(made, 11)
        library.generateUniform(made, values.data.ptr, COUNT)
        library.generateNormalDouble(made, normal.data.ptr, COUNT, 3, 2)
        library.generate(made, words.data.ptr, COUNT)
    is_uniform(values.get())
    assert scipy.stats.kstest(normal.get(), "norm", (3, 2)).statistic < 0.03
    assert len(numpy.unique(words.get())) > COUNT - 10


@case
def quasi() -> None:
    """Points of Sobol's sequence: its first dimension is van der Corput's, and each power of two fills its strata."""
    for name, kind in QUASI.items():
        values = drawn(kind, "generateUniformDouble", "d", seed=None)
        strata = numpy.bincount(numpy.minimum((values * 64).astype(int), 63), minlength=64)
        assert abs(strata - COUNT // 64).max() <= 2, name
        assert scipy.stats.kstest(values, "uniform").statistic < 0.002, name
    plain = numpy.sort(drawn(QUASI["SOBOL32"], "generateUniformDouble", "d", seed=None))
    close = numpy.sort(scipy.stats.qmc.Sobol(1, scramble=False).random(COUNT)[:, 0])
    assert abs(plain - close).max() < 2 / COUNT


DEVICE = r"""
#include <curand_kernel.h>
template <class State> __device__ void start(State* s, int i) { curand_init(5, i, 0, s); }
template <class State> __device__ void draw(float* out, unsigned* words, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    State state;
    start(&state, i);
    for (int n = 0; n < count; ++n) {
        out[i * count + n] = curand_uniform(&state);
        words[i * count + n] = curand(&state);
    }
}
extern "C" __global__ void xorwow(float* out, unsigned* words, int count) { draw<curandStateXORWOW_t>(out, words, count); }
extern "C" __global__ void mrg32k3a(float* out, unsigned* words, int count) { draw<curandStateMRG32k3a_t>(out, words, count); }
extern "C" __global__ void philox(float* out, unsigned* words, int count) {
    draw<curandStatePhilox4_32_10_t>(out, words, count);
}
extern "C" __global__ void normal(double* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    start(&state, i);
    for (int n = 0; n < count; n += 2) {
        double2 two = curand_normal2_double(&state);
        out[i * count + n] = two.x, out[i * count + n + 1] = two.y;
    }
}
"""


@case
def device_interface() -> None:
    """curand_kernel.h: states of threads give sequences of their own."""
    include = numpy.__path__[0].rsplit("/", 1)[0] + "/nvidia/cu13/include"
    module = cupy.RawModule(code=DEVICE, options=(f"-I{include}",))
    for name in ("xorwow", "mrg32k3a", "philox"):
        values, words = cupy.zeros(COUNT, "f"), cupy.zeros(COUNT, "u4")
        module.get_function(name)((4,), (32,), (values, words, numpy.int32(32)))
        is_uniform(values.get())
        assert len(numpy.unique(words.get())) > COUNT - 10, name
    values = cupy.zeros(COUNT, "d")
    module.get_function("normal")((4,), (32,), (values, numpy.int32(32)))
    assert scipy.stats.kstest(values.get(), "norm").statistic < 0.03

"""The approximate instructions stay within the error bounds that the PTX manual gives."""

from __future__ import annotations

import numpy as np
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, calculate


def run(device: TinyDevice, text: str, values: np.ndarray, out: str = "f4") -> np.ndarray:
    return calculate(device, [Case(text, out)], {"a": values.astype("f4")}, uniform_samples=2)[0][0]


def relative(result: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(result.astype("f8") / exact - 1)))


def test_ex2(device: TinyDevice) -> None:
    values = np.concatenate([np.linspace(-125.9, 127.9, 900), [0.0, 1.0, -1.0, 0.5]])
    result = run(device, "ex2.approx.f32 {d}, {a};", values)
    assert relative(result, np.exp2(values.astype("f4").astype("f8"))) < 2**-22
    special = run(device, "ex2.approx.f32 {d}, {a};", np.array([np.inf, -np.inf, np.nan, 200, -200, 0, -130, -149]))
    assert np.array_equal(special[:2], [np.inf, 0])
    assert np.isnan(special[2])
    assert np.array_equal(special[3:6], [np.inf, 0, 1])
    assert np.allclose(special[6:], [2.0**-130, 2.0**-149], rtol=2**-20)
    flushed = run(device, "ex2.approx.ftz.f32 {d}, {a};", np.array([-130.0, 3.0]))
    assert np.array_equal(flushed, [0, 8])


def test_lg2(device: TinyDevice) -> None:
    values = np.concatenate([np.geomspace(2.0**-126, 2.0**127, 500), np.linspace(0.5, 2, 500), [1.0]])
    exact = np.log2(values.astype("f4").astype("f8"))
    result = run(device, "lg2.approx.f32 {d}, {a};", values).astype("f8")
    near = np.abs(exact) < 1
    assert np.max(np.abs(result - exact)[near]) < 2**-22
    assert relative(result[~near], exact[~near]) < 2**-22
    special = run(device, "lg2.approx.f32 {d}, {a};", np.array([0.0, -0.0, np.inf, -1.0, np.nan, 2.0**-140, 1.0]))
    assert np.array_equal(special[:3], [-np.inf, -np.inf, np.inf])
    assert np.all(np.isnan(special[3:5]))
    assert np.array_equal(special[5:], [-140, 0])


def test_sin_cos(device: TinyDevice) -> None:
    values = np.concatenate([np.linspace(-np.pi, np.pi, 800), [0.0, -0.0, 1e-30]])
    exact = values.astype("f4").astype("f8")
    assert np.max(np.abs(run(device, "sin.approx.f32 {d}, {a};", values) - np.sin(exact))) < 2**-20.9
    assert np.max(np.abs(run(device, "cos.approx.f32 {d}, {a};", values) - np.cos(exact))) < 2**-20.9
    large = np.array([1e3, -1e4, 12345.678, 1e5])
    assert np.allclose(
        run(device, "sin.approx.f32 {d}, {a};", large), np.sin(large.astype("f4").astype("f8")), atol=1e-5
    )
    assert np.all(np.isnan(run(device, "cos.approx.f32 {d}, {a};", np.array([np.inf, -np.inf, np.nan]))))
    signs = run(device, "sin.approx.f32 {d}, {a};", np.array([0.0, -0.0]))
    assert np.array_equal(np.signbit(signs), [False, True])


def test_tanh(device: TinyDevice) -> None:
    values = np.concatenate([np.linspace(-10, 10, 600), np.geomspace(1e-6, 1, 300)])
    assert (
        relative(run(device, "tanh.approx.f32 {d}, {a};", values), np.tanh(values.astype("f4").astype("f8"))) < 2**-11
    )
    special = run(device, "tanh.approx.f32 {d}, {a};", np.array([np.inf, -np.inf, 0.0, np.nan]))
    assert np.array_equal(special[:3], [1, -1, 0])
    assert np.isnan(special[3])


def test_roots_and_reciprocals(device: TinyDevice) -> None:
    values = np.geomspace(2.0**-126, 2.0**126, 900)
    exact = values.astype("f4").astype("f8")
    assert relative(run(device, "rsqrt.approx.f32 {d}, {a};", values), exact**-0.5) < 2**-22.4
    assert relative(run(device, "rcp.approx.f32 {d}, {a};", values), 1 / exact) < 2**-23
    assert relative(run(device, "sqrt.approx.f32 {d}, {a};", values), exact**0.5) < 2**-23
    assert relative(run(device, "div.approx.f32 {d}, 3.0, {a};", values), 3 / exact) < 2**-22
    wide = "cvt.f64.f32 {d}, {a}; rcp.approx.ftz.f64 {d}, {d};"
    assert relative(run(device, wide, values, "f8"), 1 / exact) < 2**-20
    wide = "cvt.f64.f32 {d}, {a}; rsqrt.approx.ftz.f64 {d}, {d};"
    assert relative(run(device, wide, values, "f8"), exact**-0.5) < 2**-20

"""Orders of modifiers that ptxas takes beside the manual's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from farlane.backend.jit.ptx.spelling import canonical
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, calculate
from jit_tools.mnemonics import expand

GRAMMAR = Path(__file__).with_name("ptx_grammar.txt")
# Each was given to ptxas; the first is CURAND's.
OTHER = [
    ("lg2.approx.f32.ftz {d}, {a};", "lg2.approx.ftz.f32 {d}, {a};"),
    ("sqrt.f32.approx.ftz {d}, {a};", "sqrt.approx.ftz.f32 {d}, {a};"),
    ("add.f32.rz {d}, {a}, {b};", "add.rz.f32 {d}, {a}, {b};"),
    ("add.ftz.rz.f32 {d}, {a}, {b};", "add.rz.ftz.f32 {d}, {a}, {b};"),
    ("mul.f32.sat {d}, {a}, {b};", "mul.sat.f32 {d}, {a}, {b};"),
    ("fma.f32.rm {d}, {a}, {b}, {a};", "fma.rm.f32 {d}, {a}, {b}, {a};"),
    ("min.f32.ftz {d}, {a}, {b};", "min.ftz.f32 {d}, {a}, {b};"),
    ("set.f32.lt.f32 {d}, {a}, {b};", "set.lt.f32.f32 {d}, {a}, {b};"),
    ("cvt.f32.rpi.f32 {d}, {a};", "cvt.rpi.f32.f32 {d}, {a};"),
]


def test_other_spellings_mean_the_same(device: TinyDevice) -> None:
    values = np.array([0.3, 1.7, 0.0, 2.5, 1e-39, 7.0, 0.999, 1e20], "f4")
    cases = [Case(text, "f4") for pair in OTHER for text in pair]
    results, _ = calculate(device, cases, {"a": values, "b": values[::-1].copy()})
    for (other, _), one, two in zip(OTHER, results[::2], results[1::2], strict=True):
        assert one.view("u4").tolist() == two.view("u4").tolist(), other


@pytest.mark.parametrize(
    ("other", "manual"),
    [
        ("ld.f32.global", "ld.global.f32"),
        ("ld.global.f32.nc", "ld.global.nc.f32"),
        ("atom.global.u32.add", "atom.global.add.u32"),
        ("add.u32.cc", "add.cc.u32"),
        ("cvt.f32.s32.rn", "cvt.rn.f32.s32"),
        ("cvt.f32.f16.sat", "cvt.sat.f32.f16"),
        ("setp.f32.lt.ftz", "setp.lt.ftz.f32"),
        ("min.s32.relu", "min.relu.s32"),
    ],
)
def test_types_go_last(other: str, manual: str) -> None:
    base, *modifiers = other.split(".")
    assert ".".join((base, *canonical(base, tuple(modifiers)))) == manual


def test_the_manual_s_spellings_stay() -> None:
    lines = (line.split("#")[0].strip() for line in GRAMMAR.read_text().splitlines())
    mnemonics = [mnemonic for line in lines if line for mnemonic in expand(line.split()[0])]
    assert len(mnemonics) > 3000
    for mnemonic in mnemonics:
        base, *modifiers = mnemonic.split(".")
        if base in ("min", "max") and modifiers[-1] == "relu":
            continue  # the manual has both
        assert canonical(base, tuple(modifiers)) == tuple(modifiers), mnemonic

"""Which instructions are accepted: those of surveyed programs, and the forms that the PTX manual allows.

Accepting is no proof of a right result: the other tests of this folder compare values. Here every form reaches LLVM's verifier, so a
form that is accepted is at least well-formed code. ptxas takes modifiers in other orders than the manual's, too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.lowering.kernel import KernelContext
from farlane.backend.jit.ptx.spelling import canonical
from jit_tools import mnemonics
from jit_tools.device import TinyDevice
from jit_tools.instructions import Case, calculate
from llvmlite import binding as llvm

GRAMMAR = Path(__file__).parent / "ptx_grammar.txt"
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


def patterns() -> list[str]:
    lines = GRAMMAR.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_surveyed_programs() -> None:
    rows = mnemonics.survey()
    assert len(rows) == 609
    refused = {name: reason for name, _, _ in rows if (reason := mnemonics.refusal(name))}
    assert refused == {}


def test_refusals_name_the_instruction() -> None:
    reason = mnemonics.refusal("tld4.r.cube.v4.f32.f32")
    assert reason is not None
    assert "tld4.r.cube.v4.f32.f32" in reason
    assert "k: line 20" in reason


@pytest.mark.parametrize("part", range(4))
def test_forms_of_the_manual(part: int) -> None:
    for pattern in patterns()[part::4]:
        text = mnemonics.kernel(mnemonics.expand(pattern))
        code = KernelContext(jit.parse_module(text), "k", (64, 1, 1), jit.Options(cache=False)).emit()
        llvm.parse_assembly(code).verify()


def test_patterns_expand() -> None:
    assert list(mnemonics.expand("add{,.rn}.{f32,f64}")) == ["add.f32", "add.f64", "add.rn.f32", "add.rn.f64"]
    forms = [form for pattern in patterns() for form in mnemonics.expand(pattern)]
    assert len(set(forms)) == len(forms) > 3900


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
    for mnemonic in (form for pattern in patterns() for form in mnemonics.expand(pattern.split()[0])):
        base, *modifiers = mnemonic.split(".")
        if base in ("min", "max") and modifiers[-1] == "relu":
            continue  # the manual has both
        assert canonical(base, tuple(modifiers)) == tuple(modifiers), mnemonic

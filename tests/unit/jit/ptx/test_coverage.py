"""Which instructions are accepted: those of surveyed programs, and the forms that the PTX manual allows.

Accepting is no proof of a right result: the other tests of this folder compare values. Here every form reaches LLVM's verifier, so a
form that is accepted is at least well-formed code.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from farlane.backend import jit
from farlane.backend.jit.lowering.kernel import KernelContext
from jit_tools import mnemonics
from llvmlite import binding as llvm

GRAMMAR = Path(__file__).parent / "ptx_grammar.txt"


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

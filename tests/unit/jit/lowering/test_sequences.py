"""Random sequences of integer instructions against an interpreter written from the manual, bit for bit.

What tests of single instructions do not see: what the translator and LLVM make of several of them, with operands that are uniform, affine
in the thread's index or known. More of them with --full-matrix.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.operations import FAMILIES
from jit_tools.sequences import REGISTERS, SOURCES, UNIFORM, number_of, sequence

THREADS = 40
LENGTH = 120


def compare(seed: int, length: int = LENGTH, tier: int = 2) -> None:
    """One kernel; `tier` 1: compiled as first launches are."""
    random = Random(seed)
    made = sequence(random, length)
    sources = np.array([[number_of(random, 64) for _ in range(SOURCES)] for _ in range(THREADS)], np.uint64)
    uniform = tuple(number_of(random, 64) for _ in range(UNIFORM))
    device = TinyDevice()
    text = made.text()
    module = device.load(text)
    out, words = device.allocate(8 * THREADS * len(REGISTERS)), THREADS * len(REGISTERS)
    status = device.launch(
        module, "k", 1, THREADS, [out, device.upload(sources), *uniform], options=jit.Options(cache=False, tier=tier)
    )
    assert status == jit.STATUS_DONE, (device.fault.kind, device.fault.line)
    got = device.download(out, np.uint64, words).reshape(THREADS, -1)
    for thread in range(THREADS):
        wanted = made.run(thread, sources, uniform)
        for register, have, need in zip(REGISTERS, got[thread], wanted, strict=True):
            assert int(have) == need, (
                f"seed {seed}, thread {thread}, {register}: {int(have):#x}, expected {need:#x}\n{text}"
            )


@dataclass(frozen=True)
class Case:
    seed: int

    @property
    def id(self) -> str:
        return str(self.seed)


def cases(full: bool) -> list[Case]:
    return [Case(seed) for seed in range(400 if full else 5)]


def test_random_sequences(build_case: Case) -> None:
    compare(build_case.seed, tier=1 + build_case.seed % 2)


def test_a_wrong_operation_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The carry of subtractions once was a borrow."""
    kind, listed = FAMILIES["carried"]
    wrong = [
        dataclasses.replace(item, value=lambda a, b, carry, right=item.value: right(a, b, 1 - carry))
        if item.text.startswith("subc")
        else item
        for item in listed
    ]
    monkeypatch.setitem(FAMILIES, "carried", (kind, wrong))
    with pytest.raises(AssertionError, match="expected"):
        compare(0)

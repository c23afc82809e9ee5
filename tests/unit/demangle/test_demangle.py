"""Names of C++ functions as people read them."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
from farlane.demangle import demangled, readable
from farlane.limits.generated import MANGLED_REFERENCES


@pytest.mark.parametrize(
    ("symbol", "declaration", "name"),
    [
        ("main", "main", "main"),
        ("", "", ""),
        ("_Z", "_Z", "_Z"),
        ("_Z99999short", "_Z99999short", "_Z99999short"),
        ("_Z5storePii", "store(int*, int)", "store"),
        ("_ZL20__device_stub__touchPfii", "__device_stub__touch(float*, int, int)", "__device_stub__touch"),
        ("_Z5scaleIfEvPT_S0_i", "void scale<float>(float*, float, int)", "scale<float>"),
        ("_ZN4grid6Solver4stepEif", "grid::Solver::step(int, float)", "grid::Solver::step"),
        ("_ZN4grid6SolverD2Ev", "grid::Solver::~Solver()", "grid::Solver::~Solver"),
        (
            "_ZN12_GLOBAL__N_14workEv",
            "(anonymous namespace)::work()",
            "(anonymous namespace)::work",
        ),
        ("_ZNK1AcvbEv", "A::operator bool() const", "A::operator bool"),
        ("_ZlsRSo1A", "operator<<(std::ostream&, A)", "operator<<"),
        ("_ZN1AclEi", "A::operator()(int)", "A::operator()"),
        ("_Z3runPFviE", "run(void (*)(int))", "run"),
        (
            "_ZZ4mainENKUliE_clEi",
            "main::{lambda(int)#1}::operator()(int) const",
            "main::{lambda(int)#1}::operator()",
        ),
    ],
)
def test_a_name_with_types_and_without(symbol: str, declaration: str, name: str) -> None:
    assert demangled(symbol) == declaration
    assert readable(symbol) == name


def test_a_suffix_of_the_compiler_stays() -> None:
    assert readable("_ZNK4grid6Solver4stepEv.part.0") == "grid::Solver::step.part.0"


def test_the_same_as_binutils() -> None:
    """Of all functions of the C++ library that has them."""
    if shutil.which("c++filt") is None:
        pytest.skip("c++filt is not installed")
    symbols = ["_Z3addIJiiEEvDpT_", "_ZSt3minIiERKT_S2_S2_", "_ZNSt6vectorIfSaIfEE9push_backERKf"]
    text = subprocess.run(["c++filt", *symbols], check=True, capture_output=True, text=True).stdout
    assert [demangled(symbol) for symbol in symbols] == text.splitlines()


def test_a_name_that_stands_for_gigabytes_stays_as_it_is() -> None:
    """Each type names the one before it twice."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    symbol = "_Z1fv1a"
    references = ["S_", *(f"S{digit}_" for digit in digits)]
    types = "1a" + "".join(f"PF{one}{one}E" for one in references[:34:2])
    symbol = f"_Z1f{types}"
    started = time.monotonic()
    assert len(references[:34]) > MANGLED_REFERENCES
    assert demangled(symbol) == symbol
    assert readable(symbol) == symbol
    assert demangled("_Z1f" + "P" * 5000 + "i").startswith("_Z1fPPP")
    assert time.monotonic() - started < 1

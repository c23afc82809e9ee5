"""The translator against the reference interpreter: random kernels, memory compared bit for bit.

What is under test is what the translator derives: which values are uniform, affine or varying, where lanes part and meet, what crosses barriers. Compiled
without optimization, which sees the same derivations and takes a fraction of the time.

Some of the kernels are compiled with checks: they are right, so nothing may be found, and nothing else may change.
"""

from __future__ import annotations

from farlane.backend import jit
from farlane.backend.jit.runtime import checks
from hypothesis import given, settings
from hypothesis import strategies as st
from jit_tools.comparing import compare
from jit_tools.random_kernels import SLOTS, Kernel, kernels

ALL = checks.MEMORY | checks.RACE | checks.INIT


@settings(max_examples=6)
@given(kernels(), st.sampled_from((0, 0, ALL)))
def test_the_translator_agrees_with_the_interpreter(kernel: Kernel, looked_for: int) -> None:
    compare(kernel, jit.Options(cache=False, optimization=0, checks=looked_for))


@settings(max_examples=4)
@given(kernels(20, local=True), st.sampled_from((0, 0, 0, ALL)))
def test_local_variables(kernel: Kernel, looked_for: int) -> None:
    """In registers, or in memory where they have to be."""
    compare(kernel, jit.Options(cache=False, optimization=0, checks=looked_for))


def test_an_affine_value_times_zero_is_affine() -> None:
    """Found by random kernels."""
    kernel = Kernel((32, 1, 1), scratch=2)
    kernel("ld.param.u64 %source, [source];\nld.param.u64 %result, [result];\nmov.u32 %thread, %tid.x;")
    kernel("mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %global, %r1, 32, %thread;")
    kernel(
        "mad.lo.u32 %t1, %thread, 0, 3;\nmul.wide.u32 %a1, %t1, 4;\nadd.u64 %a1, %a1, %source;\nld.global.u32 %r0, [%a1];"
    )
    kernel(
        f"mul.lo.u32 %t2, %global, {4 * SLOTS};\ncvt.u64.u32 %a2, %t2;\nadd.u64 %a2, %a2, %result;\nst.global.u32 [%a2], %r0;"
    )
    compare(kernel, jit.Options(cache=False, optimization=0))

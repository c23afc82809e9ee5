"""A loop that makes very many calls in called functions: they are listed, but what they are passed is not judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.describing import MOST_CALLED
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import Class, Kind, Reason

RUNTIME = 'extern "C" int cudaFree(void *) { return 0; }'
PART = MOST_CALLED // 10
SOURCE = f"""
extern "C" int cudaFree(void *);
extern "C" __attribute__((noipa)) void some(char *where) {{ {"cudaFree(where);" * PART} asm volatile(""); }}
extern "C" __attribute__((noipa)) void many(char *where, int n) {{
    for (int i = 0; i < n; ++i) {{ cudaFree(where + i); {"some(where);" * 10} MORE }}
}}
int main() {{ many(nullptr, 3); }}
"""


@pytest.mark.parametrize("more", ["", "some(where);"], ids=["as many as are judged", "more"])
def test_calls_in_called_functions(build: Callable[..., Path], more: str) -> None:
    report = analyze(build(SOURCE.replace("MORE", more), "-O2", runtime=RUNTIME))
    (loop,) = [loop for loop in report.loops if loop.function == "many"]
    called = [call for call in loop.calls if call.chain]
    own = [call for call in loop.calls if not call.chain]
    assert len(called) == MOST_CALLED + (PART if more else 0)
    assert [call.arguments[0].kind for call in own] == [Kind.AFFINE]
    assert loop.trip_count is not None
    assert {call.arguments[0].kind for call in called} == {Kind.UNKNOWN if more else Kind.INVARIANT}
    assert (Reason.TOO_MANY in loop.reasons, loop.described) == (bool(more), not more)
    assert loop.class_ == (Class.NONE if more else Class.TWO)

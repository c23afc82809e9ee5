"""Launch configurations: each is for one launch, also where a kernel's argument is computed by a function that launches
another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import Kind

DECLARED = """
struct Dim { unsigned x, y, z; };
extern "C" {
unsigned __cudaPushCallConfiguration(Dim, Dim, unsigned long, void *);
unsigned __cudaPopCallConfiguration(Dim *, Dim *, unsigned long *, void **);
int cudaLaunchKernel(const void *, Dim, Dim, void **, unsigned long, void *);
}
"""
RUNTIME = f"""{DECLARED}
unsigned __cudaPushCallConfiguration(Dim, Dim, unsigned long, void *) {{ return 0; }}
unsigned __cudaPopCallConfiguration(Dim *, Dim *, unsigned long *, void **) {{ return 0; }}
int cudaLaunchKernel(const void *, Dim, Dim, void **, unsigned long, void *) {{ return 0; }}
"""
SOURCE = f"""{DECLARED}
#define APART __attribute__((noipa))
APART void kernel(int value) {{
    Dim grid, block;
    unsigned long shared;
    void *stream, *parameters[] = {{&value}};
    __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
    cudaLaunchKernel((const void *)kernel, grid, block, parameters, shared, stream);
}}
APART int inner(int n) {{
    if (!__cudaPushCallConfiguration({{7, 1, 1}}, {{32, 1, 1}}, 0, nullptr)) kernel(n);
    return n;
}}
APART void plain(int n) {{
    for (int i = 0; i < n; ++i)
        if (!__cudaPushCallConfiguration({{5, 1, 1}}, {{64, 1, 1}}, 0, nullptr)) kernel(i);
}}
APART void nested(int n) {{
    for (int i = 0; i < n; ++i)
        if (!__cudaPushCallConfiguration({{5, 1, 1}}, {{64, 1, 1}}, 0, nullptr)) kernel(inner(i));
}}
int main(int argc, char **) {{ plain(argc), nested(argc); }}
"""


@pytest.mark.parametrize("level", ["-O0", "-O1"])
def test_a_configuration_is_for_one_launch(build: Callable[..., Path], level: str) -> None:
    program = build(SOURCE, level, runtime=RUNTIME)
    grids = {}
    for loop in analyze(program).loops:
        arguments = [{a.name: a for a in call.arguments}["grid.xy"] for call in loop.calls if call.name == "launch"]
        grids[loop.function] = [(argument.kind, argument.text) for argument in arguments]
    one = 1 << 32
    assert grids["_Z5plaini"] == [(Kind.INVARIANT, hex(one + 5))]
    first, second = grids["_Z6nestedi"]
    assert first == (Kind.INVARIANT, hex(one + 7))
    assert second[0] == Kind.UNKNOWN or second[1] == hex(one + 5), "not the inner launch's"

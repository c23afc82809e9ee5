"""For which loops the first launch tells what the later ones are passed, where no CUDA compiler is needed to make them.

That what is told is right, tests/golden/analyzer/test_dynamic.py compares with what programs do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest import reader, writer
from farlane.analyzer.manifest.build import build as build_manifest
from farlane.analyzer.manifest.model import ArgumentKind, Site

DECLARED = """
struct Dim { unsigned x, y, z; };
extern "C" {
unsigned __cudaPushCallConfiguration(Dim, Dim, unsigned long, void *);
unsigned __cudaPopCallConfiguration(Dim *, Dim *, unsigned long *, void **);
int cudaLaunchKernel(const void *, Dim, Dim, void **, unsigned long, void *);
int cudaGetLastError();
int cudaFree(void *);
}
"""
RUNTIME = f"""{DECLARED}
unsigned __cudaPushCallConfiguration(Dim, Dim, unsigned long, void *) {{ return 0; }}
unsigned __cudaPopCallConfiguration(Dim *, Dim *, unsigned long *, void **) {{ return 0; }}
int cudaLaunchKernel(const void *, Dim, Dim, void **, unsigned long, void *) {{ return 0; }}
int cudaGetLastError() {{ return 0; }}
int cudaFree(void *) {{ return 0; }}
"""
SOURCE = f"""{DECLARED}
#define KEEP extern "C" __attribute__((noipa)) void
KEEP kernel(const void *where, int value) {{
    Dim grid, block;
    unsigned long shared;
    void *stream, *parameters[] = {{&where, &value}};
    __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
    cudaLaunchKernel((const void *)kernel, grid, block, parameters, shared, stream);
}}
#define LAUNCH(where, value) if (!__cudaPushCallConfiguration({{7, 1, 1}}, {{32, 1, 1}}, 0, nullptr)) kernel(where, value)
#define LAUNCH_FOUR(where, value) LAUNCH(where, value); LAUNCH(where, value + 1); LAUNCH(where, value + 2); LAUNCH(where, value + 3)
static char table[4096];
KEEP told(char *where, int n) {{ for (int i = 0; i < n; ++i) {{ LAUNCH(where, i); LAUNCH(where + 8 * i, n - i); }} }}
KEEP number(char *where, int n) {{ for (int i = 0; i < n; ++i) {{ LAUNCH(where, i); LAUNCH((void *)0x1010, i); }} }}
KEEP null(char *where, int n) {{ for (int i = 0; i < n; ++i) {{ LAUNCH(where, i); LAUNCH(nullptr, i); }} }}
KEEP sixteen(char *where, int n) {{
    for (int i = 0; i < n; ++i) {{ LAUNCH_FOUR(where, 0); LAUNCH_FOUR(where, 4); LAUNCH_FOUR(where, 8); LAUNCH_FOUR(where, n); }}
}}
KEEP address(char *where, int n) {{ for (int i = 0; i < n; ++i) {{ LAUNCH(where, i); LAUNCH(table, i); }} }}
KEEP seventeen(char *where, int n) {{
    for (int i = 0; i < n; ++i) {{
        LAUNCH_FOUR(where, 0); LAUNCH_FOUR(where, 4); LAUNCH_FOUR(where, 8); LAUNCH_FOUR(where, n); LAUNCH(where, n);
    }}
}}
KEEP alone(char *where, int n) {{ for (int i = 0; i < n; ++i) {{ LAUNCH(where, i); }} }}
KEEP checked(char *where, int n) {{ for (int i = 0; i < n; ++i) {{ LAUNCH(where, i); cudaGetLastError(); LAUNCH(where, i + 1); }} }}
KEEP another(char *where, int n) {{ for (int i = 0; i < n; ++i) {{ LAUNCH(where, i); cudaFree(where); LAUNCH(where, i + 1); }} }}
KEEP checked_first(char *where, int n) {{ for (int i = 0; i < n; ++i) {{ cudaGetLastError(); LAUNCH(where, i); LAUNCH(where, i + 1); }} }}
KEEP two_ends(char *where, int n, int m) {{ for (int i = 0; i < n; ++i) {{ LAUNCH(where, i); if (where[i] == m) break; LAUNCH(where, i); }} }}
KEEP changed(char **where, int n) {{
    for (int i = 0; i < n; ++i) {{ LAUNCH(*where, i); *where = *where + n; LAUNCH(*where, i); }}
}}
int main(int n, char **where) {{
    told(*where, n), number(*where, n), null(*where, n), sixteen(*where, n), address(*where, n), seventeen(*where, n), alone(*where, n);
    checked(*where, n), another(*where, n), checked_first(*where, n), two_ends(*where, n, n), changed(where, n);
}}
"""
TOLD = {"told", "number", "null", "sixteen", "checked"}
AT_A_FIXED_PLACE = ("-no-pie", "-fno-pie")


@pytest.mark.parametrize("options", [(), AT_A_FIXED_PLACE], ids=["anywhere", "fixed"])
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_all_is_told_or_nothing(build: Callable[..., Path], level: str, options: tuple[str, ...]) -> None:
    program = build(SOURCE, level, *options, runtime=RUNTIME)
    report = analyze(program, in_callees=False)
    manifest = reader.read(writer.write(build_manifest(elf.load(program), report)))
    told = set()
    for number, loop in enumerate(manifest.loops):
        sites = sorted((site for site in manifest.sites if site.loop == number), key=lambda site: site.position)
        if any(given(site) for site in sites):
            told.add(loop.name)
            assert not given(sites[0])
            assert sites[0].remaining is not None
            assert loop.described
            for site in sites[1:]:
                if not site.launch:
                    assert not given(site)
                    continue
                assert [argument.index for argument in site.arguments] == [*range(10)]
                constant = {argument.index for argument in site.arguments if argument.kind == ArgumentKind.CONSTANT}
                assert constant | given(site) == {*range(10)}
                assert constant.isdisjoint(given(site))
    # Where the file is loaded is not told, so an address in it is not.
    assert told == TOLD | ({"address"} if options else set())


def given(site: Site) -> set[int]:
    return {argument.index for argument in site.arguments if argument.first is not None}

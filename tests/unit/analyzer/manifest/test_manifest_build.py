"""Manifests of compiled programs: sites, loops, predictions, permissions; the same bytes every time."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer import postfix as code
from farlane.analyzer.analysis import program as analysis
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.machine.instruction import Flow
from farlane.analyzer.manifest import reader, writer
from farlane.analyzer.manifest.build import build as build_manifest
from farlane.analyzer.manifest.model import Argument, ArgumentKind, Flag, IdentityKind, Manifest, Permission, Site
from farlane.analyzer.permissions.model import Permission as Proven

# The runtime's functions are imported by name; nothing here is run.
SOURCE = r"""
#include <pthread.h>
extern "C" {
int cudaMalloc(void **, unsigned long); int cudaMemset(void *, int, unsigned long); int cudaFree(void *);
int cudaMemcpy(void *, const void *, unsigned long, int); int cudaDeviceSynchronize(); int cudaEventRecord(void *, void *);
}
__attribute__((noinline)) void wrapped(void *memory) { cudaMemset(memory, 3, 8); asm volatile(""); }
__attribute__((noinline)) int shared_by_two(void *memory) { int code = cudaEventRecord(memory, 0); asm volatile(""); return code + 1; }
int counted(char *memory, int n) {
    for (int i = 0; i < n; i++) { cudaMemset(memory + 512 * i, 1, 64); cudaDeviceSynchronize(); }
    return 0;
}
int nested(char *memory, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) { for (int j = 0; j < 7; j++) { cudaMemset(memory, j, 64); } sum += cudaFree(memory); }
    return sum;
}
int conditional(char *memory, int n, int *what) {
    for (int i = 0; i < n; i++) { if (what[i]) cudaMemset(memory, 0, 64); cudaDeviceSynchronize(); }
    return 0;
}
int through(char *memory, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) { wrapped(memory); sum += shared_by_two(memory); }
    for (int i = 0; i < n; i++) sum += shared_by_two(memory);
    return sum;
}
__attribute__((noinline)) int ends_by(void *memory, int which) {
    switch (which % 3) { case 0: return cudaMemset(memory, 3, 8); case 1: return cudaFree(memory); default: return cudaEventRecord(memory, 0); }
}
int chosen(char *memory, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) { sum += ends_by(memory, i); cudaDeviceSynchronize(); }
    return sum;
}
int main(int argc, char **argv) {
    void *memory; cudaMalloc(&memory, 4096);
    pthread_t thread; pthread_create(&thread, 0, 0, 0);
    return counted((char *)memory, argc) + nested((char *)memory, argc) + conditional((char *)memory, argc, (int *)argv) + through((char *)memory, argc) + chosen((char *)memory, argc);
}
"""
FUNCTIONS = ("cudaMalloc", "cudaMemset", "cudaFree", "cudaMemcpy", "cudaDeviceSynchronize", "cudaEventRecord")
RUNTIME = "".join(f'extern "C" int {name}() {{ return 0; }}\n' for name in FUNCTIONS)


@pytest.fixture(scope="module")
def linked(build: Callable[..., Path]) -> Callable[..., Path]:
    """Compiles the program with further options."""
    options = ("-fno-inline", "-fno-optimize-sibling-calls")
    return lambda *more: build(SOURCE, *more, *options, runtime=RUNTIME)


@pytest.fixture(scope="module", params=["-O0", "-O2", "-O3"])
def program(request: pytest.FixtureRequest, linked: Callable[..., Path]) -> Path:
    return linked(request.param)


@pytest.fixture(scope="module")
def manifest(program: Path) -> Manifest:
    made = manifest_of(program)
    assert reader.read(writer.write(made)) == made
    return made


def manifest_of(path: Path, *proven: Proven) -> Manifest:
    return build_manifest(elf.load(path), analysis.analyze(path), proven)


def sites(manifest: Manifest, function: str) -> list[Site]:
    found = [site for site in manifest.sites if function in manifest.loops[site.loop].name]
    return sorted(found, key=lambda site: (site.loop, site.position))


def test_identity_and_flags(manifest: Manifest, program: Path) -> None:
    assert manifest.identity_kind == IdentityKind.BUILD_ID
    assert manifest.identity.hex() == elf.load(program).identity
    assert manifest.flags == Flag.THREADS


def test_return_addresses_are_behind_calls(manifest: Manifest, program: Path) -> None:
    lines = subprocess.run(["objdump", "-d", program], capture_output=True, text=True, check=True).stdout.splitlines()
    code_lines = [line for line in lines if re.match(r"\s+[0-9a-f]+:\t", line)]
    behind = {
        int(after.split(":")[0], 16): line.split("<")[-1]
        for line, after in itertools.pairwise(code_lines)
        if "call" in line
    }
    assert manifest.sites
    for site in manifest.sites:
        assert behind[site.return_address].startswith(f"{site.name}@plt")


def test_each_call_is_decoded_once(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many loops and chains of calls it is in."""
    image, report = elf.load(program), analysis.analyze(program)
    calls = [call.site for loop in report.loops for call in loop.calls]
    decoded: list[int] = []
    sweep = Decoder.sweep

    def counted(self: Decoder, content: bytes, address: int) -> list[Flow]:
        decoded.append(address)
        return sweep(self, content, address)

    monkeypatch.setattr(Decoder, "sweep", counted)
    build_manifest(image, report)
    assert len(set(calls)) < len(calls)
    assert sorted(decoded) == sorted(set(decoded)), "no call instruction twice"
    assert set(decoded) <= set(calls)


def test_a_counted_loop(manifest: Manifest) -> None:
    first, second = sites(manifest, "counted")
    assert (first.name, first.position, second.name, second.position) == ("cudaMemset", 0, "cudaDeviceSynchronize", 1)
    loop = manifest.loops[first.loop]
    assert (loop.described, loop.body, loop.parent) == (True, 2, None)
    assert not first.conditional
    assert not first.in_callee
    assert not first.launch
    assert Argument(0, ArgumentKind.AFFINE, 8, 512) in first.arguments
    assert Argument(1, ArgumentKind.CONSTANT, 4, 1) in first.arguments
    assert Argument(2, ArgumentKind.CONSTANT, 8, 64) in first.arguments
    for site in (first, second):
        assert site.more is not None
        assert site.remaining is not None
        code.check(site.more)


def test_nested_loops(manifest: Manifest) -> None:
    inner, outer = (
        sites(manifest, "nested")[::-1]
        if sites(manifest, "nested")[0].name == "cudaFree"
        else sites(manifest, "nested")
    )
    assert (inner.name, outer.name) == ("cudaMemset", "cudaFree")
    assert manifest.loops[inner.loop].parent == outer.loop
    assert manifest.loops[outer.loop].parent is None
    assert (manifest.loops[inner.loop].body, manifest.loops[outer.loop].body) == (1, 1)


def test_what_does_not_run_in_every_iteration(manifest: Manifest) -> None:
    (site,) = [site for site in sites(manifest, "conditional") if site.name == "cudaMemset"]
    assert site.conditional
    assert site.more is None
    assert site.remaining is None
    assert not manifest.loops[site.loop].described


def test_calls_in_called_functions(manifest: Manifest) -> None:
    """One site stands for one return address; which loop, where there are several, the shim finds out."""
    found = sites(manifest, "through")
    assert sorted(site.name for site in found) == ["cudaEventRecord", "cudaMemset"]
    assert all(site.in_callee and site.more is None and site.remaining is None for site in found)


def test_a_call_instruction_that_is_calls_of_several_functions_is_left_out(manifest: Manifest, program: Path) -> None:
    """`ends_by` jumps to them, so that they return to one place in `chosen`."""
    (report,) = [loop for loop in analysis.analyze(program).loops if "chosen" in loop.function]
    several = {"cudaMemset", "cudaFree", "cudaEventRecord"}
    assert several < {call.name for call in report.calls}
    shared = len({call.site for call in report.calls if call.name in several}) == 1
    told = {site.name for site in sites(manifest, "chosen")}
    assert told == (set() if shared else several) | {"cudaDeviceSynchronize"}


def proven_for(manifest: Manifest, path: Path, name: str, function: str, **given: object) -> Proven:
    (site,) = [site for site in sites(manifest, function) if site.name == name]
    loop = manifest.loops[site.loop]
    (call,) = {
        call.site
        for report in analysis.analyze(path).loops
        for call in report.calls
        if call.name == name and 0 < site.return_address - call.site < 8
    }
    return Proven(call, site.return_address, loop.function, loop.header, proof="because", **given)  # type: ignore[arg-type]


def test_permissions_go_to_their_sites(program: Path) -> None:
    bare = manifest_of(program)
    proven = proven_for(bare, program, "cudaDeviceSynchronize", "counted", local_sync=True)
    manifest = manifest_of(program, proven)
    (given,) = [site for site in manifest.sites if site.permissions]
    assert (given.permissions, given.proof, given.name) == (Permission.LOCAL_SYNC, "because", "cudaDeviceSynchronize")
    assert writer.write(manifest_of(program, proven)) == writer.write(manifest)
    moved = Proven(**{**proven.__dict__, "return_address": proven.return_address + 1})
    assert not any(site.permissions for site in manifest_of(program, moved).sites)


def test_reads_stay_with_the_loop_they_were_proven_in(program: Path) -> None:
    bare = manifest_of(program)
    more = code.instruction(code.CONSTANT, 1) + b"\0"
    proven = proven_for(bare, program, "cudaMemset", "counted", defer_read=True, more=more)
    (given,) = [site for site in manifest_of(program, proven).sites if site.permissions]
    assert (given.permissions, given.more) == (Permission.DEFER_READ, more)
    for change in ({"header": proven.header + 1}, {"function": 1}, {"proof": ""}, {"more": b""}):
        other = Proven(**{**proven.__dict__, **change})
        assert not any(site.permissions for site in manifest_of(program, other).sites), change


def test_shared_sites_are_left_out_of_loops_that_complete_at_calls(program: Path) -> None:
    """A function that is called from elsewhere too must not look as if the loop still ran."""
    bare = manifest_of(program)
    report = analysis.analyze(program)
    (loop,) = [
        loop for loop in report.loops if "through" in loop.function and any(c.name == "cudaMemset" for c in loop.calls)
    ]
    (call,) = [call for call in loop.calls if call.name == "cudaMemset"]
    assert len(sites(bare, "through")) == 2
    own = proven_for(bare, program, "cudaMemset", "counted", complete_at_call=True)
    kept = manifest_of(program, own)
    assert len(kept.sites) == len(bare.sites)
    assert call.chain
    wrong = Proven(call.site, own.return_address, loop.entry, loop.header, complete_at_call=True, proof="because")
    assert not any(site.permissions for site in manifest_of(program, wrong).sites), (
        "sites of called functions complete nothing"
    )


@pytest.mark.parametrize(
    "options", [("-no-pie",), ("-shared", "-fPIC", "-fvisibility=hidden"), ("-Wl,--build-id=none",), ("-s",)]
)
def test_kinds_of_objects(options: tuple[str, ...], linked: Callable[..., Path]) -> None:
    made = manifest_of(linked("-O2", *options))
    if "--build-id" in options[0]:
        assert (made.identity_kind, len(made.identity)) == (IdentityKind.SHA256, 32)
    whole = manifest_of(linked("-O2"))
    assert [site.name for site in made.sites] == [site.name for site in whole.sites]
    if "-s" in options:
        assert [site.return_address for site in made.sites] == [site.return_address for site in whole.sites]


def test_the_same_bytes_in_every_process(program: Path, tmp_path: Path) -> None:
    outputs = []
    for seed in ("1", "77"):
        output = tmp_path / seed
        command = [sys.executable, "-m", "farlane.analyzer.commands.analyze", "--manifest", str(output), str(program)]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1]
    assert reader.read(outputs[0]).sites


LAUNCHES = r"""
struct Dim { unsigned x, y, z; };
extern "C" {
unsigned __cudaPushCallConfiguration(Dim, Dim, unsigned long, void *);
unsigned __cudaPopCallConfiguration(Dim *, Dim *, unsigned long *, void **);
int cudaLaunchKernel(const void *, Dim, Dim, void **, unsigned long, void *);
}
extern "C" __attribute__((noipa)) void kernel(const void *where, int value) {
    Dim grid, block;
    unsigned long shared;
    void *stream, *parameters[] = {&where, &value};
    __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
    cudaLaunchKernel((const void *)kernel, grid, block, parameters, shared, stream);
}
static inline void apart() { asm volatile("nop"); }
extern "C" __attribute__((noipa)) void launching(char *where, int n) {
    for (int i = 0; i < n; ++i)
        if (!__cudaPushCallConfiguration({7, 1, 1}, {32, 1, 1}, 0, nullptr)) { if (i & 1) kernel(where, FIRST); else kernel(where, 32); }
}
int main(int argc, char **) { launching(nullptr, argc); }
"""
LAUNCHED = r"""
struct Dim { unsigned x, y, z; };
extern "C" unsigned __cudaPushCallConfiguration(Dim, Dim, unsigned long, void *) { return 0; }
extern "C" unsigned __cudaPopCallConfiguration(Dim *, Dim *, unsigned long *, void **) { return 0; }
extern "C" int cudaLaunchKernel(const void *, Dim, Dim, void **, unsigned long, void *) { return 0; }
"""


@pytest.mark.parametrize(("first", "told"), [("1", None), ("32", 32)])
def test_launches_that_share_a_configuration_are_told_what_all_are_passed(
    build: Callable[..., Path], first: str, told: int | None
) -> None:
    """The launch is told from the push on, and which of the two follows is not."""
    options = ("-O2", "-fno-crossjumping", "-fno-code-hoisting", "-fno-tree-tail-merge")
    program = build(LAUNCHES.replace("FIRST", first + " + (apart(), 0)"), *options, runtime=LAUNCHED)
    (site,) = sites(manifest_of(program), "launching")
    value = {argument.index: argument.value for argument in site.arguments if argument.kind == ArgumentKind.CONSTANT}
    assert value.get(0) == 7
    assert value.get(9) == told

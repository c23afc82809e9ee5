"""Calls of the driver API: what is seen of launches, copies and codes, and what is permitted at them.

That the same is found as in programs of the runtime API is shown by tests/golden/analyzer.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.externals import driver, interface
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import Kind, LoopReport, Reason
from farlane.analyzer.manifest.arguments import FUNCTION
from farlane.analyzer.manifest.build import build as manifest_of
from farlane.analyzer.manifest.model import ArgumentKind, Manifest

TABLES = Path(__file__).parents[3] / "protos" / "cuda" / "driver"
DECLARED = """
#include <cstdlib>
#include <cstring>
using Size = unsigned long;
using Address = unsigned long long;
struct Config { unsigned gx, gy, gz, bx, by, bz, shared; void *stream, *attributes; unsigned count; };
struct Rectangle {
    Size from_x, from_y; unsigned from_kind; const void *from_host; Address from; void *from_array; Size from_pitch;
    Size to_x, to_y; unsigned to_kind; void *to_host; Address to; void *to_array; Size to_pitch;
    Size width, height;
};
extern "C" {
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuLaunchKernel_ptsz(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuLaunchKernelEx(const Config *, void *, void **, void **);
int cuLaunchHostFunc_ptsz(void *, void (*)(void *), void *);
int cuMemcpyDtoH(void *, unsigned, unsigned);
int cuMemcpyDtoH_v2(void *, Address, Size);
int cuMemcpyDtoH_v2_ptds(void *, Address, Size);
int cuMemcpyDtoHAsync_v2_ptsz(void *, Address, Size, void *);
int cuMemcpy(Address, Address, Size);
int cuMemcpy2D_v2(const Rectangle *);
int cuMemcpy2DAsync_v2(const Rectangle *, void *);
int cuMemAlloc_v2(Address *, Size);
int cuMemFree_v2(Address);
int cuMemAllocHost_v2(void **, Size);
int cuStreamSynchronize_ptsz(void *);
int cuStreamQuery(void *);
int cuCtxSynchronize();
int cuMemsetD32_v2(Address, unsigned, Size);
int cuModuleGetGlobal_v2(Address *, Size *, void *, const char *);
}
volatile double sink;
#define APART __attribute__((noipa))
"""
RUNTIME = "".join(
    f'extern "C" int {name}() {{ return 0; }}\n'
    for name in sorted({line.split("(")[0].split()[-1] for line in DECLARED.splitlines() if line.startswith("int cu")})
)
LEVELS = pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
Loops = Callable[..., tuple[list[LoopReport], Manifest]]


@pytest.fixture
def loops(build: Callable[..., Path]) -> Loops:
    """The loops of a function `work` whose body is given, by depth and address, with the program's manifest."""

    def found(text: str, level: str, *options: str) -> tuple[list[LoopReport], Manifest]:
        main = "int main(int argc, char **argv) { work(argc, argv[0], argc, argv); }"
        program = build(DECLARED + text + main, level, *options, runtime=RUNTIME)
        report = analyze(program)
        assert report.skipped == ()
        manifest = manifest_of(elf.load(program), report, report.permissions)
        held = [loop for loop in report.loops if "work" in loop.function]
        return sorted(held, key=lambda loop: (loop.depth, loop.header)), manifest

    return found


def arguments(loop: LoopReport, index: int = 0) -> dict[str, tuple[Kind, str]]:
    return {each.name: (each.kind, each.text) for each in loop.calls[index].arguments}


WORK = "APART void work(int n, void *kernel, Address data, void *stream) {"


@LEVELS
@pytest.mark.parametrize("name", ["cuLaunchKernel", "cuLaunchKernel_ptsz"])
def test_a_launch_by_its_eleven_arguments(loops: Loops, level: str, name: str) -> None:
    text = f"""{WORK}
    for (int i = 0; i < n; ++i) {{
        int offset = 3 * i;
        void *parameters[] = {{&data, &offset}};
        {name}(kernel, 4 + i, 5, 6, 7, 8, 9, 10, stream, parameters, nullptr);
    }} }}"""
    (loop,), manifest = loops(text, level)
    assert (str(loop.class_), loop.reasons, loop.described) == ("2", (), True)
    seen = arguments(loop)
    assert loop.calls[0].name == "launch"
    expected = {"grid.y": "5", "grid.z": "6", "block.x": "7", "block.y": "8", "block.z": "9", "shared": "10"}
    assert {key: seen[key] for key in expected} == {key: (Kind.INVARIANT, text) for key, text in expected.items()}
    assert seen["grid.x"][0] == seen["parameter 1"][0] == Kind.AFFINE
    assert seen["function"][0] == seen["stream"][0] == seen["parameter 0"][0] == Kind.INVARIANT
    assert "parameter 2" not in seen
    (site,) = manifest.sites
    told = {each.index: each for each in site.arguments}
    assert site.launch
    assert [(told[index].kind, told[index].value) for index in (0, 1, 5, 9)] == [
        (ArgumentKind.AFFINE, 1),
        (ArgumentKind.CONSTANT, 5),
        (ArgumentKind.CONSTANT, 9),
        (ArgumentKind.AFFINE, 3),
    ]
    assert (told[FUNCTION].kind, told[FUNCTION].width) == (ArgumentKind.INVARIANT, 8)


@LEVELS
def test_parameters_that_the_loop_changes_where_they_stand(loops: Loops, level: str) -> None:
    """The array is made once; the kernel is passed what its variables hold."""
    text = f"""{WORK}
    int offset;
    void *parameters[] = {{&offset, &data}};
    for (offset = 5; offset < n; offset += 2) cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    }}"""
    (loop,), _ = loops(text, level)
    assert (str(loop.class_), loop.described) == ("2", True)
    assert arguments(loop)["parameter 0"][0] == Kind.AFFINE


@LEVELS
def test_parameters_in_one_buffer(loops: Loops, level: str) -> None:
    text = f"""{WORK}
    for (int i = 0; i < n; ++i) {{
        struct {{ Address data; int at, pad; }} buffer = {{data, 2 * i, 7}};
        Size size = sizeof buffer;
        void *extra[] = {{(void *)1, &buffer, (void *)2, &size, nullptr}};
        cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra);
    }} }}"""
    (loop,), manifest = loops(text, level)
    assert (str(loop.class_), loop.described) == ("2", True)
    kinds = {name: kind for name, (kind, _) in arguments(loop).items() if name.startswith("parameters + ")}
    assert kinds["parameters + 0"] == Kind.INVARIANT
    assert Kind.UNKNOWN not in kinds.values()
    assert kinds.keys() <= {f"parameters + {offset}" for offset in (0, 4, 8, 12)}
    assert {each.index for each in manifest.sites[0].arguments} <= {*range(8), FUNCTION}


@pytest.mark.parametrize("extra", ["(void **)stream", "other"])
def test_a_buffer_that_is_not_seen_leaves_the_launch_unknown(loops: Loops, extra: str) -> None:
    text = f"""void **other; {WORK}
    for (int i = 0; i < n; ++i) cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, {extra}); }}"""
    (loop,), _ = loops(text, "-O2")
    assert Reason.UNKNOWN_KERNEL in loop.reasons


@LEVELS
def test_a_launch_by_structure(loops: Loops, level: str) -> None:
    text = f"""{WORK}
    Config shape = {{4, 1, 1, 64, 1, 1, 0, stream, nullptr, 0}};
    for (int i = 0; i < n; ++i) {{
        int offset = i;
        void *parameters[] = {{&data, &offset}};
        shape.shared = 16 * i;
        cuLaunchKernelEx(&shape, kernel, parameters, nullptr);
    }} }}"""
    (loop,), _ = loops(text, level)
    assert (str(loop.class_), loop.described) == ("2", True)
    seen = arguments(loop)
    assert (seen["shared"][0], seen["parameter 1"][0]) == (Kind.AFFINE, Kind.AFFINE)
    assert (seen["function"][0], seen["attributes"]) == (Kind.INVARIANT, (Kind.INVARIANT, "0"))


def test_two_kernels_by_one_call_are_told_apart(loops: Loops) -> None:
    text = f"""
    APART void launched(void *kernel, Address data) {{
        void *parameters[] = {{&data}};
        cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
        sink = 1;
    }}
    {WORK}
    for (int i = 0; i < n; ++i) launched(kernel, data), launched(stream, data); }}"""
    (loop,), manifest = loops(text, "-O2")
    assert [call.name for call in loop.calls] == ["launch", "launch"]
    (site,) = manifest.sites
    assert site.conditional
    assert site.arguments == ()
    (loop,), manifest = loops(text.replace("launched(stream", "launched(kernel"), "-O2")
    assert not manifest.sites[0].conditional


COPIES = {
    "cuMemcpyDtoH_v2(host, data, 64)": ["DEFER_READ"],
    "cuMemcpyDtoH_v2_ptds(host, data, 64)": ["DEFER_READ"],
    "cuMemcpyDtoHAsync_v2_ptsz(host, data, 64, stream)": ["DEFER_READ"],
    # Of the first version nothing is known; by address, it may be another copy.
    "cuMemcpyDtoH(host, data, 64)": None,
    "cuMemcpy((Address)host, data, 64)": [],
}


@LEVELS
@pytest.mark.parametrize("copy", COPIES)
def test_copies_to_the_host(loops: Loops, level: str, copy: str) -> None:
    text = f"""{WORK}
    char *host = (char *)malloc(64);
    for (int i = 0; i < n; ++i) {{
        void *parameters[] = {{&data}};
        cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
        {copy};
    }}
    sink = host[3]; free(host); }}"""
    (loop,), _ = loops(text, level)
    permission = loop.calls[1].permission
    expected = COPIES[copy]
    assert (None if permission is None else list(permission.names)) == expected, permission and permission.refused
    wanted = Reason.UNKNOWN_API if expected is None else Reason.COPIES_TO_HOST if expected else Reason.UNKNOWN_COPY
    assert wanted in loop.reasons


RECTANGLES = {
    ("2", "1"): (Reason.COPIES_TO_HOST, ["DEFER_READ"]),
    ("3", "1"): (Reason.COPIES_TO_HOST, ["DEFER_READ"]),
    ("1", "2"): (None, []),
    ("2", "2"): (None, []),
    ("4", "1"): (Reason.UNKNOWN_COPY, []),
    ("2", "4"): (Reason.UNKNOWN_COPY, []),
    ("2", "n & 3"): (Reason.UNKNOWN_COPY, []),
}


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("kinds", RECTANGLES)
@pytest.mark.parametrize("call", ["cuMemcpy2D_v2(&shape)", "cuMemcpy2DAsync_v2(&shape, stream)"])
def test_rectangles(loops: Loops, level: str, kinds: tuple[str, str], call: str) -> None:
    text = f"""{WORK}
    char *host = (char *)malloc(64);
    Rectangle shape = {{}};
    shape.from_kind = {kinds[0]}, shape.to_kind = {kinds[1]};
    shape.from_host = shape.to_host = host, shape.from = shape.to = data, shape.width = 8, shape.height = 8;
    for (int i = 0; i < n; ++i) cuMemsetD32_v2(data, i, 16), {call};
    sink = host[3]; free(host); }}"""
    (loop,), _ = loops(text, level)
    reason, permitted = RECTANGLES[kinds]
    obstacles = {Reason.COPIES_TO_HOST, Reason.UNKNOWN_COPY} & set(loop.reasons)
    assert obstacles == ({reason} if reason else set())
    permission = loop.calls[1].permission
    assert list(permission.names if permission else ()) == permitted
    assert str(loop.class_) == ("2" if kinds[1] != "n & 3" else str(loop.class_))


def test_a_rectangle_that_is_read_at_once_is_not_permitted(loops: Loops) -> None:
    text = f"""{WORK}
    char *host = (char *)malloc(64);
    Rectangle shape = {{}};
    double sum = 0;
    shape.from_kind = 2, shape.to_kind = 1, shape.to_host = host, shape.from = data, shape.width = shape.height = 8;
    for (int i = 0; i < n; ++i) cuMemcpy2D_v2(&shape), sum += host[i & 7];
    sink = sum; free(host); }}"""
    (loop,), _ = loops(text, "-O2")
    permission = loop.calls[0].permission
    assert permission is not None
    assert not permission.any


CODES = {
    "cuCtxSynchronize();": True,
    "if (cuCtxSynchronize()) exit(1);": True,
    "if (cuStreamSynchronize_ptsz(stream)) abort();": True,
    "bad += cuCtxSynchronize() != 0;": False,
    # The kernel is passed the code.
    "code = cuCtxSynchronize();": False,
}


@LEVELS
@pytest.mark.parametrize("call", CODES)
def test_synchronizations(loops: Loops, level: str, call: str) -> None:
    text = f"""{WORK}
    int bad = 0, code = 0;
    for (int i = 0; i < n; ++i) {{
        void *parameters[] = {{&data, &code}};
        {call}
        cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    }}
    sink = bad; }}"""
    (loop,), _ = loops(text, level)
    permission = loop.calls[0].permission
    assert permission is not None
    assert permission.local_sync == CODES[call], permission.refused


def test_pinned_memory_behind_parameters_may_be_one_of_them(loops: Loops) -> None:
    """A device reaches pinned memory, and the code does not tell where a kernel's last parameter ends."""
    text = f"""{WORK}
    struct {{ Address data; char *host; }} both = {{data, nullptr}};
    cuMemAllocHost_v2((void **)&both.host, 64);
    char *host = both.host;
    for (int i = 0; i < n; ++i) {{
        void *parameters[] = {{&both}};
        cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
        cuMemcpyDtoH_v2(host, data, 64);
    }}
    sink = host[3]; }}"""
    (loop,), _ = loops(text, "-O2")
    permission = loop.calls[1].permission
    assert permission is not None
    assert not permission.any
    text = text.replace("cuMemAllocHost_v2((void **)&both.host, 64)", "both.host = (char *)malloc(64)")
    (loop,), _ = loops(text, "-O2")
    permission = loop.calls[1].permission
    assert permission is not None
    assert permission.defer_read, permission.refused


def test_a_program_with_functions_that_are_called_back_is_permitted_nothing(loops: Loops) -> None:
    text = f"""void told(void *) {{}}
    {WORK}
    for (int i = 0; i < n; ++i) cuMemsetD32_v2(data, i, 16), cuCtxSynchronize();
    cuLaunchHostFunc_ptsz(stream, told, nullptr); }}"""
    (loop,), _ = loops(text, "-O2")
    permission = loop.calls[1].permission
    assert permission is not None
    assert permission.refused == "the program uses cuLaunchHostFunc_ptsz"


@LEVELS
def test_an_allocation_is_a_result_and_a_null_place_gets_none(loops: Loops, level: str) -> None:
    text = f"""{WORK}
    for (int i = 0; i < n; ++i) {{
        Address fresh;
        cuMemAlloc_v2(&fresh, 64);
        cuMemsetD32_v2(fresh, 1, 16);
        cuMemFree_v2(fresh);
    }}
    Address place;
    cuModuleGetGlobal_v2(&place, nullptr, stream, "x");
    for (int i = 0; i < n; ++i) cuMemsetD32_v2(place, 1, 16); }}"""
    (first, second), _ = loops(text, level)
    assert (str(first.class_), str(second.class_)) == ("3", "1")


def test_pointers_from_the_loader_are_unknown_functions(loops: Loops) -> None:
    text = f"""{WORK}
    int (*found)() = (int (*)())kernel;
    for (int i = 0; i < n; ++i) cuMemsetD32_v2(data, 1, 16), found(); }}"""
    (loop,), _ = loops(text, "-O2")
    assert Reason.UNKNOWN_FUNCTION in loop.reasons


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("cuMemcpyDtoHAsync_v2_ptsz", "cuMemcpyDtoHAsync"),
        ("cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoH"),
        ("cuMemcpyDtoH", "cuMemcpyDtoH_v1"),
        ("cuStreamSynchronize_ptsz", "cuStreamSynchronize"),
        ("cuMemcpy_ptds", "cuMemcpy"),
        ("cuCtxSynchronize_v2", "cuCtxSynchronize"),
        ("cudaMemcpyAsync_ptsz", "cudaMemcpyAsync"),
        ("cudaGetDeviceProperties_v2", "cudaGetDeviceProperties"),
    ],
)
def test_names_without_what_tells_versions_apart(name: str, plain: str) -> None:
    assert interface.plain(name) == plain


def test_which_names_are_cudas() -> None:
    assert all(map(is_cuda, ("cuInit", "cuLaunchKernel_ptsz", "cudaMalloc", "__cudaPushCallConfiguration")))
    others = ("cublasSgemm_v2", "cudnnCreate", "cufftPlan1d", "cuFileRead", "curandGenerate", "cut", "cu")
    assert not any(map(is_cuda, others))


def test_the_tables_are_those_of_the_header() -> None:
    """Each row is a function of cuda.h, with pointers where something is read or written, the first versions apart."""
    known: dict[str, list[str]] = {}
    for path in TABLES.glob("*.toml"):
        table = tomllib.loads(path.read_text())
        for row in table.get("function", ()):
            known[row["name"]] = [kind for kind, _ in row.get("args", ())]
        for row in table.get("unsupported", ()):
            known.update(dict.fromkeys(row["names"], ()))  # type: ignore[arg-type]
    assert len(known) > 500
    newest = {interface.plain(name): name for name in known}
    for name in (*driver.ROLES, *driver.PREDICTED, *driver.LAUNCHES, *driver.COPIES, *driver.STRUCTURED_COPIES):
        assert name in newest or name in known, name
    assert {name for name in driver.FIRST_VERSIONS if f"{name}_v2" not in known} == set()
    for name, roles in {**driver.ROLES, **driver.PREDICTED}.items():
        kinds = known.get(newest.get(name, name), [])
        for role, kind in zip(roles.split(), kinds, strict=False):
            pointer = kind.endswith("*")
            wide = pointer or kind in ("size_t", "CUdeviceptr", "unsigned long long", "CUstream")
            assert role[0] not in "oOhsd" or pointer, (name, role, kind)
            assert role != "w" or not wide, (name, role, kind)

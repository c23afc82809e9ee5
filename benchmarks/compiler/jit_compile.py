"""How long kernels take to compile: cold, and from the cache on disk; and what a launch of an empty kernel costs.

Every kernel of tests/native (nvcc 13.0, -O3), each for the block shape it requires, else 256 threads: by tier 1, as for its
first launch, and by tier 2, as once it has been used (backend/jit/compile/tiers.py). Goals: cold median 0.15 s and
worst 1 s, from the cache 1 ms, a launch 10 us. The reference is gcc -O3 on loops.c of the kernel benchmark: 15 functions. Thread
processor time is shown beside wall time, since other work on the machine lengthens the latter.

    python benchmarks/compiler/jit_compile.py [--only NAME,...]
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile
from farlane.backend import jit
from farlane.backend.device.base import LEGACY_STREAM, CudaError, LaunchShape
from farlane.backend.device.sim import SimDevice
from farlane.backend.fatbin import choose_all
from farlane.backend.jit.compile import kernels
from farlane.frontend.devtools import registry, toolchain
from farlane.frontend.devtools.programs import Build
from farlane.roundtrips.text import Table
from kernels.runners import FOLDER

REGISTRY = Path(__file__).parents[2] / "tests/native/registry.toml"
MAGIC = bytes.fromhex("50ed55ba")
CAPABILITY = (9, 0)


def images(program: Path) -> Iterator[bytes]:
    """The fat binaries in an executable: one for each translation unit, one joined where device code is relocatable."""
    with program.open("rb") as file:
        for name in (".nv_fatbin", "__nv_relfatbin"):
            section = ELFFile(file).get_section_by_name(name)
            data = section.data() if section else b""
            at = data.find(MAGIC)
            while at >= 0:
                size = 16 + int.from_bytes(data[at + 8 : at + 16], "little")
                yield data[at : at + size]
                at = data.find(MAGIC, at + size)


def modules(only: list[str]) -> Iterator[tuple[str, jit.Module]]:
    """The modules of the test programs that can be read on their own."""
    tools = toolchain.install("13.0")
    seen = set()
    for entry in registry.load(REGISTRY):
        if entry.variant or "nvcc" not in entry.compilers or not any(part in entry.name for part in only):
            continue
        for file in entry.compiled(tools, Build()):
            for image in images(Path(file)):
                try:
                    module = jit.parse_module(jit.link(choose_all(image, CAPABILITY)))
                except (CudaError, jit.PtxError):  # no PTX, or a part of relocatable code
                    continue
                if module.digest not in seen:
                    seen.add(module.digest)
                    yield entry.name, module


def shape(module: jit.Module, name: str) -> tuple[int, int, int]:
    entry = module.entries[name]
    if entry.required_threads:
        return entry.required_threads
    return (min(256, math.prod(entry.max_threads or (256,))), 1, 1)


def compiled(module: jit.Module, name: str, tier: int) -> tuple[float, float, jit.KernelInfo]:
    """Wall and processor seconds, and what was compiled."""
    wall, processor = time.perf_counter(), time.thread_time()
    kernel = jit.compile_kernel(module, name, shape(module, name), jit.Options(tier=tier))
    return time.perf_counter() - wall, time.thread_time() - processor, kernel.info


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def gcc_seconds() -> float:
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            started = time.perf_counter()
            command = ["gcc", "-O3", "-march=native", "-c", str(FOLDER / "loops.c"), "-o", f"{folder}/loops.o"]
            subprocess.run(command, check=True)
            times.append(time.perf_counter() - started)
    return statistics.median(times)


def empty_launch_us() -> float:
    device = SimDevice()
    context = device.open_context(1 << 30)
    text = b".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n"
    function = context.function(context.load_module(text), "nothing")
    stream, one, none = context.default_stream(LEGACY_STREAM), LaunchShape((1, 1, 1), (1, 1, 1), 0), memoryview(b"")
    batches = []
    for _ in range(7):
        started = time.perf_counter()
        for _ in range(1000):
            context.launch(function, one, none, stream)
        batches.append((time.perf_counter() - started) * 1000)
    context.close()
    device.close()
    return statistics.median(batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains one of these, separated by commas")
    options = parser.parse_args()
    first: dict[str, tuple[float, float]] = {}
    full: dict[str, tuple[float, float, int]] = {}
    warm: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FARLANE_CACHE_DIR"] = folder
        for program, module in modules(options.only.split(",")):
            for name in module.entries:
                title = f"{program}: {name[:60]}"
                try:
                    wall, processor, _ = compiled(module, name, 1)
                except jit.PtxError as error:
                    print(f"{title}: {error}")
                    continue
                first[title] = wall, processor
                wall, processor, info = compiled(module, name, 2)
                full[title] = wall, processor, info.sites
                kernels._compiled.clear()  # as in a new process
                wall, processor, again = compiled(module, name, 1)
                warm[title] = wall, processor
                assert again.cached == "disk"
    table = Table("Compiling a kernel, ms", ["", "median", "90 %", "worst"], f"{len(full)} kernels of tests/native.")
    for title, values in (
        ("tier 1, wall", [wall for wall, _ in first.values()]),
        ("tier 1, processor", [processor for _, processor in first.values()]),
        ("tier 2, wall", [wall for wall, _, _ in full.values()]),
        ("tier 2, processor", [processor for _, processor, _ in full.values()]),
        ("from the cache, wall", [wall for wall, _ in warm.values()]),
        ("from the cache, processor", [processor for _, processor in warm.values()]),
    ):
        numbers = (statistics.median(values), percentile(values, 0.9), max(values))
        table.rows.append([title, *(f"{1000 * number:.2f}" for number in numbers)])
    print(table.text())
    slowest = sorted(full.items(), key=lambda item: -item[1][1])[:8]
    for title, (wall, processor, sites) in slowest:
        print(
            f"  {wall:6.2f} s ({processor:.2f} s of processor; tier 1 {first[title][1]:.2f})  {sites:5} access sites  {title}"
        )
    print(f"gcc -O3 on loops.c, 15 functions: {1000 * gcc_seconds():.0f} ms")
    print(f"a launch of an empty kernel: {empty_launch_us():.1f} us")


if __name__ == "__main__":
    main()

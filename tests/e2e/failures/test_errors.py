"""What a user meets when something is wrong before or beside the kernels: the program, its image, the host, the memory.

Every case must end by itself, with a status that is no signal, and say on stderr or through CUDA's own error what is wrong.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from elftools.elf.elffile import ELFFile
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost
from farlane.v1 import session_pb2

pytestmark = pytest.mark.native

NATIVE = Path(__file__).parents[2] / "native"
ENTRIES: dict[str, Entry] = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]
PLAIN = Build(architecture="sm_75")


@pytest.fixture(scope="module")
def nvcc(toolchain: Callable[[str], Toolchain]) -> Toolchain:
    return toolchain("13.0")


@pytest.fixture(scope="module")
def vecadd(nvcc: Toolchain) -> str:
    return ENTRIES["vecadd"].compiled(nvcc, PLAIN)[0]


def farlane(*arguments: str, timeout: float = 60, **extra: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")} | extra
    return subprocess.run([*FARLANE, *arguments], env=environment, capture_output=True, text=True, timeout=timeout)


# The program -----------------------------------------------------------------------------------------------------


def test_a_statically_linked_runtime_runs_and_a_stripped_one_says_what_it_needs(
    nvcc: Toolchain, tmp_path: Path
) -> None:
    """What plain nvcc makes runs; without its symbols it needs the user's word (docs/explanation/interoperability.md)."""
    program = tmp_path / "static"
    command = nvcc.command("sm_75", "static")
    subprocess.run(
        [*command, str(ENTRIES["vecadd"].sources[0]), "-o", str(program)], check=True, env=nvcc.environment()
    )
    done = farlane("run", "--", str(program))
    assert (done.returncode, done.stdout, done.stderr) == (0, ENTRIES["vecadd"].expected, "")
    subprocess.run(["strip", program], check=True)
    done = farlane("run", "--", str(program))
    assert done.returncode not in (0, -11)
    assert done.stdout == ""
    assert "farlane setup --interop" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_without_cuda_runs_with_a_remark() -> None:
    done = farlane("run", "--", "/bin/echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "not a CUDA program" in done.stderr


def test_a_program_that_is_not_there() -> None:
    done = farlane("run", "--", "./there-is-no-such-program")
    assert done.returncode == 127
    assert "no such file" in done.stderr
    assert "Traceback" not in done.stderr


# The host --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["unix:///tmp/farlane-no-such-socket", "grpc://127.0.0.1:9"])
def test_no_host(vecadd: str, url: str) -> None:
    done = farlane("run", "--host", url, "--", vecadd, FARLANE_TIMEOUT="2")
    assert done.returncode == 1
    assert done.stdout.endswith("FAIL\n"), "the program sees a CUDA error"
    messages = [line for line in done.stderr.splitlines() if line.startswith("farlane: ")]
    assert len(messages) == 1
    assert url.split("//")[1] in messages[0]


class OtherHost(grpc.GenericRpcHandler):
    """A host that answers every session's Hello with one fixed message."""

    def __init__(self, answer: session_pb2.HostMessage) -> None:
        self._answer = answer

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        def open_session(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            next(requests)
            yield self._answer.SerializeToString()

        return grpc.stream_stream_rpc_method_handler(open_session)


@pytest.mark.parametrize("kind", ["refusal", "welcome"])
def test_a_host_of_another_version(vecadd: str, kind: str, tmp_path: Path) -> None:
    """A refusal's text reaches the user; a host that chooses a version the guest did not offer is not believed."""
    if kind == "refusal":
        refusal = session_pb2.Refusal(
            reason=session_pb2.Refusal.VERSION,
            message="this host speaks tape version 7; install farlane 7 in the guest",
        )
        answer, words = session_pb2.HostMessage(refusal=refusal), "install farlane 7 in the guest"
    else:
        answer, words = session_pb2.HostMessage(welcome=session_pb2.Welcome(tape_version=99)), "version"
    server = grpc.server(ThreadPoolExecutor(2), handlers=[OtherHost(answer)])
    url = f"unix://{tmp_path}/host.sock"
    server.add_insecure_port(url.replace("unix://", "unix:"))
    server.start()
    try:
        done = farlane("run", "--host", url, "--", vecadd, FARLANE_TIMEOUT="5")
    finally:
        server.stop(None)
    assert done.returncode == 1
    assert done.stdout.endswith("FAIL\n")
    assert words in done.stderr


def test_a_host_that_is_full(vecadd: str, nvcc: Toolchain) -> None:
    """One session more than the host takes is refused with a reason; the one that is there goes on."""
    patient = ENTRIES["patient"].compiled(nvcc, PLAIN)
    with EmbeddedHost("sim", extra=("--sessions", "1", "--queue", "0")) as host:
        first = subprocess.Popen([*FARLANE, "run", "--host", host.url, "--", *patient, "60"], stdout=subprocess.PIPE)
        assert first.stdout is not None
        assert first.stdout.readline() == b"round 1\n"
        second = farlane("run", "--host", host.url, "--", vecadd)
        rest, _ = first.communicate(timeout=60)
    assert second.returncode == 1
    assert "farlane: " in second.stderr
    assert rest.endswith(b"PASS\n")


# The image -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "calls"])
def test_an_image_of_machine_code_only(nvcc: Toolchain, guest: Guest, mode: str) -> None:
    program = ENTRIES["vecadd"].compiled(nvcc, Build(architecture="sm_90,sm_80"))
    outcome = guest.run(program, mode)
    assert outcome.status == 1
    assert "no kernel image is available for execution on the device" in outcome.stdout
    # Once, with the file, its kernel, what it holds, and what would help.
    kernel = r"\(add\(float const\*, float const\*, float\*, int\)\)"
    refusal = rf"the GPU code of \S*vecadd\S* {kernel}: no usable GPU code: .*sm_90.*sm_80.*-gencode arch=compute_75"
    assert len(re.findall(refusal, outcome.stderr)) == 1, outcome.stderr


def test_functions_that_are_not_there_are_named_once(nvcc: Toolchain, guest: Guest) -> None:
    outcome = guest.run(ENTRIES["unsupported"].compiled(nvcc, PLAIN))
    assert (outcome.status, outcome.stdout) == (0, "PASS\n")
    for name in ("cudaIpcGetMemHandle", "cudaGraphicsMapResources"):
        assert outcome.stderr.count(name) == 1
    assert outcome.report.unsupported == ["cudaGraphicsMapResources", "cudaIpcGetMemHandle"]


def fat_binary(program: Path) -> tuple[int, int]:
    """Where in the file the program's fat binaries are: offset and size."""
    with program.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".nv_fatbin")
        assert section is not None
        return section["sh_offset"], section["sh_size"]


# Places in the container (facts: the entry starts at 16), and what is written there.
DAMAGE: dict[str, tuple[int, bytes]] = {
    "container magic": (0, b"\0\0\0\0"),
    "container version": (4, b"\xff\xff"),
    "container header size": (6, b"\xff\xff"),
    "container size": (8, b"\xff" * 8),
    "container size zero": (8, b"\0" * 8),
    "entry kind": (16, b"\x77\x77"),
    "entry header size": (20, b"\xff\xff\xff\xff"),
    "entry header size zero": (20, b"\0\0\0\0"),
    "payload size": (24, b"\xff\xff\xff\xff\xff\xff\xff\x7f"),
    "payload size zero": (24, b"\0" * 8),
    "compressed size": (32, b"\xff\xff\xff\x7f"),
    "uncompressed size": (72, b"\xff\xff\xff\xff\xff\x00\x00\x00"),
    "uncompressed size zero": (72, b"\0" * 8),
    "both compressions": (56, b"\x11\xa0"),
    "no compression": (56, b"\x11\x00"),
    "compressed data": (120, b"\xee" * 64),
}


@pytest.fixture(scope="module")
def ptx_only(nvcc: Toolchain) -> Path:
    """A program whose second container holds one compressed PTX entry; the first is empty."""
    return Path(ENTRIES["vecadd"].compiled(nvcc, Build(architecture="compute_75"))[0])


def patched(program: Path, folder: Path, offset: int, data: bytes) -> str:
    target = folder / "patched"
    shutil.copy(program, target)
    with target.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    return str(target)


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_fat_binary(what: str, ptx_only: Path, guest: Guest, tmp_path: Path) -> None:
    """The guest gets a CUDA error or, where nothing that matters was damaged, the right result; never a signal."""
    start, size = fat_binary(ptx_only)
    content = ptx_only.read_bytes()[start : start + size]
    container = content.find(b"\x50\xed\x55\xba", 4)  # behind the empty one of the device linker
    assert container > 0
    place, data = DAMAGE[what]
    outcome = guest.run([patched(ptx_only, tmp_path, start + container + place, data)])
    assert outcome.status == 1, outcome.stdout + outcome.stderr
    assert outcome.stdout.endswith("FAIL\n")
    assert "panicked" not in outcome.stderr


def test_randomly_damaged_fat_binaries(ptx_only: Path, guest: Guest, tmp_path: Path) -> None:
    """Whatever bytes are wrong, the guest ends by itself, right or with an error, and the host lives."""
    start, size = fat_binary(ptx_only)
    chance = random.Random(1)
    for _ in range(25):
        offset = start + chance.randrange(size)
        outcome = guest.run([patched(ptx_only, tmp_path, offset, chance.randbytes(chance.choice([1, 2, 4, 8])))])
        assert outcome.status in (0, 1), f"at {offset - start}: {outcome.stdout}{outcome.stderr}"
        assert outcome.stdout.endswith("PASS\n" if outcome.status == 0 else "FAIL\n")


# Memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "calls"])
def test_the_quota_is_the_devices_memory(nvcc: Toolchain, mode: str) -> None:
    program = ENTRIES["out_of_memory"].compiled(nvcc, PLAIN)
    done = farlane("run", "--quota", "64M", "--defer", mode, "--", *program)
    assert (done.returncode, done.stdout) == (0, "out_of_memory\nPASS\n"), done.stderr

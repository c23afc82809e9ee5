"""NVML and nvidia-smi for guests: a program that loads the library, one that is linked with it, and `farlane smi` as a user calls it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.frontend import shim_library, smi
from farlane.frontend.embedded import EmbeddedHost
from farlane.v1 import admin_pb2, session_pb2

PROGRAMS = Path(__file__).parent / "programs"
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]


def farlane(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    return subprocess.run([*FARLANE, *arguments], env=kept | extra, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with EmbeddedHost("sim", extra=("--capability", "8.6")) as embedded:
        yield embedded.url


def test_before_and_beside_cuda() -> None:
    """NVML opens no session; what it says of the device is what the driver API says; the stand-in of nvidia-smi sees the same."""
    done = farlane("run", "--capability", "8.0", "--", sys.executable, str(PROGRAMS / "nvml_guest.py"))
    assert done.returncode == 0, done.stderr
    name, process, gpu, last = done.stdout.splitlines()
    assert (name.startswith("process python"), process, gpu, last) == (True, "pid, 64", "64, 8.0", "PASS")


def test_a_program_that_is_linked_with_it(tmp_path: Path) -> None:
    program = tmp_path / "nvml"
    library = shim_library.FOLDER / shim_library.MANAGEMENT
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run([compiler, "-o", str(program), str(PROGRAMS / "nvml.c"), str(library)], check=True)
    done = farlane("run", "--capability", "8.6", "--", str(program))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "Farlane simulated device|00000000:00:00.0|0000:00:00.0|8.6|7|Not Supported\n"


def test_without_a_host(tmp_path: Path) -> None:
    """It is a driver that is not loaded, and the user is told why."""
    ask = f"import ctypes; print(ctypes.CDLL({str(shim_library.FOLDER / shim_library.MANAGEMENT)!r}).nvmlInit_v2())"
    nothing = f"unix://{tmp_path}/nothing.sock"
    for variables, word in (({}, "FARLANE_HOST is not set"), ({"FARLANE_HOST": nothing}, "nothing.sock")):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
        done = subprocess.run(
            [sys.executable, "-c", ask], env=kept | variables, capture_output=True, text=True, timeout=60
        )
        assert done.stdout == "9\n"
        assert word in done.stderr


def test_queries(host: str) -> None:
    query = (
        "--query-gpu=index,name,count,compute_cap,memory.used,utilization.gpu,temperature.gpu,pci.bus_id,driver_version"
    )
    done = farlane("smi", "--host", host, query, "--format=csv")
    assert done.returncode == 0, done.stderr
    head, line = done.stdout.splitlines()
    assert head == (
        "index, name, count, compute_cap, memory.used [MiB], utilization.gpu [%], temperature.gpu, pci.bus_id, driver_version"
    )
    index, name, *rest = line.split(", ", 1)[0], *line.split(", ", 1)[1].rsplit(", ", 7)
    assert (index, rest) == ("0", ["1", "8.6", "0 MiB", "0 %", "[N/A]", "00000000:00:00.0", smi.DRIVER_VERSION])
    assert name.startswith("Farlane simulated device")
    bare = farlane("smi", "--host", host, "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits")
    assert bare.stdout == "0, 0\n"
    apps = farlane("smi", "--host", host, "--query-compute-apps=pid,process_name,used_memory", "--format=csv")
    assert apps.stdout == "pid, process_name, used_gpu_memory [MiB]\n"


def test_list_and_table(host: str) -> None:
    listed = farlane("smi", "-L", FARLANE_HOST=host)
    found = re.fullmatch(r"GPU 0: Farlane simulated device \(.*\) \(UUID: (GPU-[0-9a-f-]{36})\)\n", listed.stdout)
    assert found is not None, listed.stdout + listed.stderr
    table = farlane("smi", "-i", found[1], FARLANE_HOST=host)
    lines = table.stdout.splitlines()[1:]
    assert {len(line) for line in lines if line} == {91}, table.stdout
    assert "CUDA Version: 13.5" in table.stdout
    assert "No running processes found" in table.stdout


def test_a_session_in_the_table() -> None:
    device = session_pb2.DeviceDescription(name="d" * 60, uuid=bytes(range(16)), total_memory=8 << 30)
    session = admin_pb2.OpenSession(name="s1", program="app", pid=4711, memory_used=3 << 20)
    reply = admin_pb2.DescribeReply(devices=[device], open=[session], memory_used=3 << 20, busy_nanoseconds=1)
    snapshot = smi.Snapshot(reply, 100)
    text = smi.table(snapshot, smi.gpus(snapshot))
    assert {len(line) for line in text.splitlines()[1:] if line} == {91}, text
    assert re.search(r"4711 +C +app +3MiB \|", text)
    assert re.search(r"3MiB / 8192MiB \| +100% +Default \|", text)


def test_a_host_that_does_not_know() -> None:
    """Each of its sessions has a process of its own."""
    snapshot = smi.Snapshot(
        admin_pb2.DescribeReply(devices=[session_pb2.DeviceDescription(total_memory=1 << 30)]), None
    )
    (gpu,) = smi.gpus(snapshot)
    assert [smi.GPU_FIELDS[name](gpu) for name in ("memory.used", "memory.free", "utilization.gpu")] == ["[N/A]"] * 3
    assert "N/A / 1024MiB" in smi.table(snapshot, [gpu])


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--query-gpu=nonsense", "--format=csv"], 2, 'Field "nonsense" is not a valid field to query.'),
        (["--query-gpu=name"], 2, '"--format=" switch is missing.'),
        (["--query-gpu=name", "--format=csv,odd"], 2, '"odd" is not a valid format'),
        (["-i", "7"], 6, "No devices were found"),
    ],
)
def test_mistakes(arguments: list[str], status: int, words: str, host: str) -> None:
    done = farlane("smi", "--host", host, *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr


def test_nvidia_smi_by_itself_and_switched_off(tmp_path: Path) -> None:
    done = farlane("run", "--", "nvidia-smi", "-L")
    assert done.stdout.startswith("GPU 0: Farlane simulated device"), done.stderr
    own = tmp_path / "nvidia-smi"
    own.write_text("#!/bin/sh\necho own\n")
    own.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert farlane("run", "--", "sh", "-c", "nvidia-smi", PATH=path, FARLANE_SMI="off").stdout == "own\n"
    assert farlane("run", "--", "sh", "-c", "nvidia-smi -L", PATH=path).stdout.startswith("GPU 0")

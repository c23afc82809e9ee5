"""How long a small program takes whose kernels are compiled already, where sessions are confined and where they are not.

    python benchmarks/confined_start.py [PAIRS]

Two hosts with TLS on loopback run side by side, with processes for sessions that wait ahead. tests/native's vecadd runs at each in turn. The first
pair, which compiles, is printed apart.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import install

PAUSE_SECONDS = 2.5  # for the next process to be ready
NATIVE = Path(__file__).parents[1] / "tests" / "native"
CLI = [sys.executable, "-m", "farlane.frontend.cli"]
SERVE = [
    sys.executable,
    "-m",
    "farlane.backend.commands.serve",
    "--listen",
    "farlane+tls://0.0.0.0:0",
    "--workers",
    "process",
]


def start(folder: Path, environment: dict[str, str], confine: str) -> tuple[subprocess.Popen[bytes], str]:
    """A host, and its URL."""
    read, write = os.pipe()
    command = [*SERVE, "--folder", str(folder), "--confine", confine, "--warm", "2", "--ready-fd", str(write)]
    host = subprocess.Popen(command, pass_fds=[write], env=environment, stdout=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as ready:
        return host, f"farlane+tls://localhost:{ready.readline().strip().rpartition(':')[2]}"


def vecadd() -> str:
    entries = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
    return entries["vecadd"].compiled(install("13.0"), Build(architecture="sm_75"))[0]


def main() -> None:
    program, pairs = vecadd(), int(sys.argv[1]) if len(sys.argv) > 1 else 8
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "host"
        environment = os.environ | {"FARLANE_CACHE_DIR": f"{temporary}/cache"}
        said = subprocess.run(
            [*CLI, "host", "init", "--folder", str(folder)], capture_output=True, text=True, check=True
        )
        found = re.search(r"FARLANE_TOKEN=(\S+)", said.stdout)
        assert found
        access = {"FARLANE_CA": str(folder / "ca.pem"), "FARLANE_TOKEN": found[1]}
        hosts = [start(folder, environment, confine) for confine in ("on", "off")]
        seconds: list[tuple[float, ...]] = []
        try:
            for _ in range(pairs + 1):
                pair = []
                for _, url in hosts:
                    time.sleep(PAUSE_SECONDS)
                    began = time.monotonic()
                    command = [*CLI, "run", "--host", url, "--", program]
                    subprocess.run(command, env=environment | access, check=True, stdout=subprocess.DEVNULL)
                    pair.append(time.monotonic() - began)
                seconds.append(tuple(pair))
        finally:
            for host, _ in hosts:
                host.terminate()
                host.wait(30)
        print("           confined  not confined")
        print("first      {:8.2f}  {:8.2f} s".format(*seconds[0]))
        for name, of in (("median", statistics.median), ("least", min)):
            print("{:10} {:8.2f}  {:8.2f} s".format(name, *(of(column) for column in zip(*seconds[1:], strict=True))))
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

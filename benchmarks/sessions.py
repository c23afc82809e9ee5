"""Sessions at once on the simulated device: what two do in the time of one, and how evenly many share the machine.

Each guest launches a kernel of one block and waits for it, again and again, for a fixed time; all begin together.
Throughput is the sum of what they have done. Then two sessions whose kernels take differently long. Sessions in threads
of the host's process, and in processes of their own.

    python benchmarks/sessions.py [SESSIONS [SECONDS]]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from _guest import PROGRAMS, EmbeddedHost, Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

SESSIONS, SECONDS = 64, 3.0
PAIRS = 5
LONG = 20
SPARE = 8  # sessions of a moment ago whose processes are ending
HOSTS = {"thread": (), "process": ("--workers", "process", "--warm", "2")}


class Crowd:
    """Guests of one host, of the same program."""

    def __init__(self, guest: Guest, program: str) -> None:
        self._guest = guest
        self._program = program
        self._steps = 0
        self.run([(1, 1)], 0.2)

    def run(self, kernels: Sequence[tuple[int, int]], seconds: float) -> list[int]:
        """How often each guest has launched and waited.

        Args:
            kernels: for each guest, how many milliseconds a block takes, and how many blocks there are.
        """
        environment = self._guest.environment(self._program, "calls") | {"FARLANE_TIMEOUT": "120"}
        guests = []
        for length, blocks in kernels:
            command = [self._program, str(seconds)] + [str(self._steps * length), str(blocks)] * bool(self._steps)
            guests.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
        try:
            for each in guests:
                assert each.stdout is not None
                line = each.stdout.readline()
                if not line:
                    raise SystemExit(f"a guest has ended with status {each.wait()} before it began")
                self._steps = self._steps or json.loads(line)["steps"]
            for each in guests:
                assert each.stdin is not None
                each.stdin.write("\n")
                each.stdin.flush()
            outputs = [each.communicate(timeout=seconds + 120)[0] for each in guests]
            for each in guests:
                if each.returncode:
                    raise SystemExit(f"a guest has ended with status {each.returncode}")
            return [json.loads(output)["rounds"] for output in outputs]
        finally:
            for each in guests:
                each.kill()
                each.communicate()


def spread(done: Sequence[int]) -> str:
    least, middle, most = min(done), statistics.median(done), max(done)
    deviation = statistics.pstdev(done) / statistics.mean(done)
    return f"least {least}, median {middle:.0f}, most {most}, deviation {deviation:.0%}"


def main(sessions: int, seconds: float) -> None:
    program = str(compile_program(install("13.0"), [PROGRAMS / "sessions.cu"], "sessions", Build()))
    processors = len(os.sched_getaffinity(0))
    print(f"{processors} processors, load {os.getloadavg()[0]:.1f}")
    for name, extra in HOSTS.items():
        with EmbeddedHost("sim", extra=("--sessions", str(sessions + SPARE), *extra)) as host:
            crowd = Crowd(Guest(host.url), program)
            ones, twos = [], []
            for _ in range(PAIRS):  # in turn, so that what else the machine does hits both
                ones.append(sum(crowd.run([(1, 1)], seconds)))
                twos.append(sum(crowd.run([(1, 1)] * 2, seconds)))
            ratio = statistics.median(two / one for one, two in zip(ones, twos, strict=True))
            one = statistics.median(ones) / seconds
            print(f"{name:8} one session {one:7.0f} kernels/s   two: {ratio:5.2f} times that", flush=True)
            many = crowd.run([(1, 1)] * sessions, seconds)
            print(
                f"{name:8} {sessions} sessions: {sum(many) / seconds / one:5.2f} times that; {spread(many)}", flush=True
            )
            for what, blocks in (("one block", 1), (f"{4 * processors} blocks", 4 * processors)):
                short, long = crowd.run([(1, blocks), (LONG, blocks)], seconds)
                print(
                    f"{name:8} kernels of {what}, of 1 and of {LONG} ms a block: the session with the long ones has"
                    f" {LONG * long / (short + LONG * long):.0%} of the device's time",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS, float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)

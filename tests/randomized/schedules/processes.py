"""The sessions of a random schedule, each in a process of its own: this process is the listening one.

Run as a program, a session: `processes.py SEED STEPS MEMORY TURNS MEMORY FILE SAYS`. It says its priorities, which the listener decides, and then its digest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from farlane.backend.device.sim import Oversubscription, SimDevice
from farlane.backend.device.sim.processes.listener import Member, SharedDevice
from farlane.backend.plane import Process

sys.path.insert(0, str(Path(__file__).parents[1]))
from schedules.sessions import GRANULE, Session

SECONDS = 600


class Running:
    """One session, which runs. `ended`: why the listener has ended it."""

    def __init__(self, device: SharedDevice, memory: int, command: Sequence[str]) -> None:
        self.ended: str | None = None
        self.member: Member = device.new_member()
        self._said, says = os.pipe()
        ends = self.member.ends
        self.process = subprocess.Popen(
            [sys.executable, *command, str(memory), *map(str, ends), str(says)],
            pass_fds=(*ends, says),
            env=os.environ | {"FARLANE_SIM_THREADS": "2"},
        )
        os.close(says)
        self.member.started()
        self.member.begin(Process(self.process.pid), self._end)
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _end(self, why: str) -> None:
        self.ended = self.ended or why
        self.process.kill()

    def _listen(self) -> None:
        with os.fdopen(self._said) as said:
            for line in said:
                word, _, rest = line.strip().partition(" ")
                if word == "priority":
                    self.member.prioritize(int(rest))
                else:
                    self.lines.append(line.strip())

    def wait(self) -> list[str]:
        """What it has said, when it has ended."""
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self._thread.join()
            self.member.close()
        return self.lines


def digests(seeds: Sequence[int], steps: int, granules: int) -> tuple[list[str], dict[str, int]]:
    """Of sessions that share so many granules; and the counts of all."""
    device = SharedDevice(granules * GRANULE)
    processes = [Running(device, granules * GRANULE, [__file__, str(seed), str(steps)]) for seed in seeds]
    said = [each.wait() for each in processes]
    assert [each.ended for each in processes] == [None] * len(processes)
    assert all(len(lines) == 1 for lines in said), said
    [counts] = device.report().values()
    return [lines[0] for lines in said], counts


def open_device(memory: str, turns: str, requests: str, file: str) -> SimDevice:
    """The device of such a process."""
    shared = Oversubscription(shared=int(memory))
    return SimDevice(total_memory=16 << 30, oversubscription=shared, ends=(int(turns), int(requests), int(file)))


def main(seed: str, steps: str, memory: str, turns: str, requests: str, file: str, says: str) -> None:
    with os.fdopen(int(says), "w") as out:

        def prioritize(priority: int) -> None:
            print("priority", priority, file=out, flush=True)

        device = open_device(memory, turns, requests, file)
        print(Session(device, int(seed), int(steps), prioritize).run(), file=out, flush=True)
        device.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Faults, as a campaign: what breaks, whom it harms, what stays behind.

Each trial runs two programs on one host, the victim and another one, and does to the host, the victim or the connection what
`faults.py` has. Then: whatever either has printed is right, up to where it ended; one that did not end well has said why, in a line; the
other one is unharmed; and the host holds nothing of sessions that are over (memory, descriptors, processes, sessions).

    python benchmarks/faults/campaign.py --trials 1000 [--seed 1] [--lanes 2] [--output faults.md] [--only NAME]

A trial that finds something is printed with all that was said, and can be run again by its number (--first N --trials 1).
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install
from faults import FAULTS, Fault, Scene
from served import TRANSPORTS, Served

LINES, PROGRAMS = 40, 4
PATIENCE = 90.0  # seconds for a program to end
TIMEOUT = "5"  # FARLANE_TIMEOUT: for a host that is gone


@dataclass
class Outcome:
    """Of one trial."""

    fault: Fault
    transport: str
    workers: str
    number: int
    ended: str = ""  # "right", "failed", "killed"
    wrong: list[str] = field(default_factory=list)


class Program:
    """A guest that runs: what it prints is known."""

    def __init__(
        self, executable: str, expected: list[str], arguments: list[str], served: Served, transport: str
    ) -> None:
        self.transport = transport
        self._expected = expected
        guest = served.guest(transport)
        environment = guest.environment(executable, "loops") | {"FARLANE_TIMEOUT": TIMEOUT}
        self.process = subprocess.Popen(
            [executable, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def end(self) -> tuple[str, str]:
        """How it ended, and what was wrong with that, if anything."""
        try:
            printed, said = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            printed, said = self.process.communicate()
            return "hung", f"it did not end: {said}"
        self.said = said
        lines, status = printed.splitlines(), self.process.returncode
        whole = lines if printed.endswith("\n") or not lines else lines[:-1]
        if whole != self._expected[: len(whole)]:
            return "wrong", f"it printed {whole[-1]!r} where {self._expected[len(whole) - 1]!r} is right"
        if status == 0:
            return (
                ("right", "") if whole == self._expected else ("short", f"it ended well, and too early: {whole[-1:]}")
            )
        if status < 0:
            return "killed", f"signal {-status}: {said}"
        reasons = [line for line in said.splitlines() if line.startswith(("farlane: ", "victim: "))]
        return ("failed", "") if reasons else ("silent", f"status {status}, and no line says why: {said!r}")


class Lane:
    """Two hosts, of threads and of processes, and trials on them, one after the other."""

    def __init__(self, programs: list[tuple[str, list[str], list[str]]]) -> None:
        self._programs = programs
        self._hosts = {workers: Served(workers) for workers in ("thread", "process")}
        for served in self._hosts.values():
            self._settle(served)

    def _settle(self, served: Served) -> None:
        """One program before anything is compared: what it leaves behind once, it leaves behind."""
        executable, arguments, expected = self._programs[0]
        for transport in TRANSPORTS:
            ended = Program(executable, expected, arguments, served, transport).end()
            if ended[0] != "right":
                raise SystemExit(f"a program does not run before anything breaks: {ended}")
        if leak := served.leak():
            raise SystemExit(f"a host does not come to rest: {leak}")

    def trial(self, number: int, seed: int, faults: list[Fault]) -> Outcome:
        random = Random(f"{seed} {number}")
        fault = random.choice(faults)
        workers, transport = random.choice(fault.workers), random.choice(fault.transports)
        outcome = Outcome(fault, transport, workers, number)
        served = self._hosts[workers]
        (first, first_arguments, first_expected), (second, second_arguments, second_expected) = random.sample(
            self._programs, 2
        )
        other = Program(second, second_expected, second_arguments, served, random.choice(("shm", "unix", transport)))
        if other.transport in ("tcp", "tls") and fault.transports != TRANSPORTS:
            other.process.kill()  # it would come by the way that breaks
            other.process.communicate()
            other = Program(second, second_expected, second_arguments, served, "unix")
        victim = Program(first, first_expected, first_arguments, served, transport)
        scene = Scene(served, transport, first, victim.process, random)
        time.sleep(random.uniform(0.0, 1.0))
        try:
            fault.inject(scene)
        except Exception:
            outcome.wrong.append(traceback.format_exc())
        outcome.ended, wrong = victim.end()
        if fault.killed and outcome.ended == "killed":
            wrong = ""
        elif fault.survived and outcome.ended == "failed":
            wrong = f"it should have gone on: {victim.said}"
        if wrong:
            outcome.wrong.append(f"the victim: {wrong}")
        ended, wrong = other.end()
        if ended == "failed" and not fault.felt:
            wrong = f"it failed: {other.said}"
        if wrong:
            outcome.wrong.append(f"the other one: {wrong}")
        with contextlib.suppress(ProcessLookupError):
            scene.cleanup.close()
        if fault.restart:
            try:
                served.process.wait(40)
            except subprocess.TimeoutExpired:
                outcome.wrong.append("the host did not end")
            served.restart()
            self._settle(served)
        elif leak := served.leak():
            outcome.wrong.append(f"the host: {leak}")
            served.restart()
            self._settle(served)
        return outcome

    def close(self) -> None:
        for served in self._hosts.values():
            served.close()


def programs() -> list[tuple[str, list[str], list[str]]]:
    """Executable, arguments, and what it prints, as it does where nothing breaks."""
    source = Path(__file__).with_name("victim.cu")
    executable = str(compile_program(install("13.0"), [source], "victim", Build(2, "sm_75")))
    served, found = Served("thread"), []
    try:
        for seed in range(1, PROGRAMS + 1):
            arguments = [str(seed), str(LINES)]
            outcome = served.guest("unix").run([executable, *arguments], "none")
            if outcome.status:
                raise SystemExit(f"the victim does not run: {outcome.stderr}")
            found.append((executable, arguments, outcome.stdout.splitlines()))
    finally:
        served.close()
    return found


def table(outcomes: list[Outcome]) -> str:
    """One row for each fault."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        row = rows[outcome.fault.name]
        row["trials"] += 1
        row[outcome.ended] += 1
        row["wrong"] += bool(outcome.wrong)
    text = [
        "| fault | trials | went on, right | said why it failed | ended by the fault | something was wrong |",
        "|---|---|---|---|---|---|",
    ]
    for fault in FAULTS:
        row = rows[fault.name]
        if row["trials"]:
            columns = (row["trials"], row["right"], row["failed"], row["killed"], row["wrong"])
            text.append(f"| {fault.name} | " + " | ".join(str(each) for each in columns) + " |")
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--only", metavar="NAME", help="faults whose name contains this")
    parser.add_argument("--output", type=Path, help="a file for the table")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if not arguments.only or arguments.only in fault.name]
    if not faults:
        parser.error(f"no fault is named {arguments.only}")
    known = programs()
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(arguments.first, arguments.first + arguments.trials):
        numbers.put(number)
    outcomes: list[Outcome] = []

    def work() -> None:
        lane = Lane(known)
        try:
            while True:
                try:
                    number = numbers.get_nowait()
                except queue.Empty:
                    return
                outcome = lane.trial(number, arguments.seed, faults)
                outcomes.append(outcome)
                if outcome.wrong:
                    print(f"trial {number}: {outcome.fault.name}, {outcome.transport}, {outcome.workers}", flush=True)
                    for wrong in outcome.wrong:
                        print("    " + wrong.rstrip().replace("\n", "\n    "), flush=True)
                print(f"\r{len(outcomes)} trials", end="", file=sys.stderr, flush=True)
        finally:
            lane.close()

    threads = [threading.Thread(target=work) for _ in range(arguments.lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = table(outcomes)
    print(f"\n{len(outcomes)} trials, seed {arguments.seed}\n\n{text}")
    if arguments.output:
        arguments.output.write_text(text)
    return int(any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())

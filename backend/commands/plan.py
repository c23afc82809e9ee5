"""`farlane plan`: plans the reuse of device memory for the accesses in a trace file, compares it with rivals, and draws it.

Owns the command line, its text and the reading of the file; the planning is `farlane.backend.memory.planner`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from farlane.backend.commands.sizes import parse_bytes
from farlane.backend.memory.planner.aside import Aside, set_aside
from farlane.backend.memory.planner.cost import Plan
from farlane.backend.memory.planner.drawing import page
from farlane.backend.memory.planner.genetic import Found, GeneticSpec, search
from farlane.backend.memory.planner.greedy import greedily
from farlane.backend.memory.planner.merging import merge_adjacent, merge_small
from farlane.backend.memory.planner.replay import replay
from farlane.backend.memory.planner.segments import choose
from farlane.backend.memory.planner.trace import Trace, TraceError
from farlane.backend.memory.replacement import LeastRecentlyUsed, NeededLast, Policy
from farlane.terminal.examples import add_examples

MOST_FILE_BYTES = 256 << 20


def read_trace(path: Path) -> Trace:
    """Raises TraceError, naming the file, for whatever is wrong with it."""
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            raise TraceError(f"{path}: larger than {MOST_FILE_BYTES >> 20} MiB")
        return Trace.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: {error}") from None


def rivals_of(trace: Trace) -> dict[str, int | None]:
    """Bytes moved on the same trace; None where a rival cannot run it."""
    greedy = greedily(trace, choose(trace))
    return {
        "greedy assignment": greedy.bytes_moved if greedy else None,
        "least recently used, never fragmented": _moved(trace, LeastRecentlyUsed(), contiguous=False),
        "least recently used, contiguous": _moved(trace, LeastRecentlyUsed(), contiguous=True),
        "known future, never fragmented": _moved(trace, NeededLast(by_size=True), contiguous=False),
        "known future, contiguous": _moved(trace, NeededLast(by_size=True), contiguous=True),
    }


def _moved(trace: Trace, policy: Policy, *, contiguous: bool) -> int | None:
    try:
        return replay(trace, policy, contiguous=contiguous).bytes_moved
    except ValueError:
        return None


def as_json(trace: Trace, found: Found, plan: Plan, rivals: dict[str, int | None]) -> dict[str, Any]:
    return {
        "memory": trace.memory,
        "footprint": trace.footprint,
        "segments": [
            {"offset": offset, "bytes": size}
            for offset, size in zip(plan.segments.offsets, plan.segments.sizes, strict=True)
        ],
        "assignment": {trace.name(number): segment for number, segment in sorted(plan.assignment.items())},
        "moves": [
            {
                "step": move.step,
                "object": trace.name(move.object),
                "segment": move.segment,
                "to": "host" if move.out else "device",
            }
            for move in plan.moves
        ],
        "bytes_in": plan.bytes_in,
        "bytes_out": plan.bytes_out,
        "rivals": rivals,
        "ending": found.ending.name.lower(),
        "rounds": found.rounds,
    }


def aside_json(aside: Aside | None) -> dict[str, Any]:
    if aside is None:
        return {}
    names = [aside.trace.name(number) for number in sorted(aside.objects)]
    return {"aside": names, "aside_bytes": aside.bytes_moved}


class PlanCommand:
    """Plans a trace file."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            (
                "farlane plan trace.json",
                "plan, and compare with rivals (`farlane run --memory-trace` writes such files)",
            ),
            (
                "farlane plan trace.json --memory 64M --html plan.html",
                "plan for another size of device memory, and draw it",
            ),
            ("farlane plan trace.json --json", "print the plan for a program to read"),
        )
        parser.add_argument(
            "trace", type=Path, help="JSON: memory, objects of {bytes, name?, kept?}, steps of [object, r|w|rw]"
        )
        parser.add_argument(
            "--memory", type=parse_bytes, metavar="BYTES", help="device memory, instead of the file's: 4096, 512M"
        )
        parser.add_argument("--different", action="store_true", help="use segments of different sizes only")
        parser.add_argument(
            "--merge-below",
            type=parse_bytes,
            default=0,
            metavar="BYTES",
            help="merge smaller objects that are used in one run of steps",
        )
        parser.add_argument(
            "--aside",
            action="store_true",
            help="keep objects that most steps need on the device, and plan for the others",
        )
        parser.add_argument(
            "--seconds",
            type=float,
            default=0.9,
            metavar="N",
            help="how long the search may take (default: %(default)s)",
        )
        parser.add_argument(
            "--seed",
            type=int,
            default=0,
            metavar="N",
            help="the seed of the search's random numbers (default: %(default)s)",
        )
        parser.add_argument("--json", action="store_true", help="print the plan as JSON")
        parser.add_argument("--html", type=Path, metavar="FILE", help="draw the plan")

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            spec = GeneticSpec(seconds=arguments.seconds, seed=arguments.seed)
            trace = read_trace(arguments.trace)
            if arguments.memory is not None:
                trace = Trace(trace.sizes, trace.steps, arguments.memory, trace.kept, trace.names)
            trace = merge_adjacent(trace)
            if arguments.merge_below:
                trace = merge_small(trace, arguments.merge_below).trace
        except ValueError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1
        aside = set_aside(trace) if arguments.aside else None
        planned = trace if aside is None else aside.trace
        segments = choose(planned, "different" if arguments.different else "first")
        found = search(planned, segments, spec, time.monotonic)
        if found.plan is None:
            print(
                f"farlane: no plan: objects that are needed together fit the same segment only ({len(segments.sizes)} segments). "
                "Give more --memory, or try --different or --aside",
                file=sys.stderr,
            )
            return 1
        rivals = rivals_of(trace)
        if arguments.json:
            print(json.dumps(as_json(planned, found, found.plan, rivals) | aside_json(aside), indent=1))
        else:
            if aside is not None:
                names = ", ".join(planned.name(number) for number in sorted(aside.objects))
                print(f"aside, always on the device: {names}; {aside.bytes_moved:,} bytes moved")
            self._table(planned, found, found.plan, rivals)
        if arguments.html:
            try:
                arguments.html.write_text(page(planned, found.plan, rivals), encoding="utf-8")
            except OSError as error:
                print(f"farlane: {arguments.html}: {error.strerror}", file=sys.stderr)
                return 1
        return 0

    def _table(self, trace: Trace, found: Found, plan: Plan, rivals: dict[str, int | None]) -> None:
        print(
            f"{len(plan.assignment)} objects, {trace.footprint:,} bytes, {trace.footprint / trace.memory:.2f} times the memory of {trace.memory:,}"
        )
        for segment, (offset, size) in enumerate(zip(plan.segments.offsets, plan.segments.sizes, strict=True)):
            names = [trace.name(number) for number in plan.segments.order if plan.assignment[number] == segment]
            print(f"  segment {segment:3}  at {offset:>12,}  {size:>12,} bytes: {', '.join(names)}")
        print(f"moved: {plan.bytes_in:,} to the device, {plan.bytes_out:,} to the host, {plan.bytes_moved:,} in all")
        for name, value in rivals.items():
            print(f"  {name}: {'cannot' if value is None else f'{value:,}'}")
        print(f"the search ended after {found.rounds} rounds: {found.ending.value}")


command = PlanCommand()

"""`farlane sim`: programs under the model of the memory system.

Owns the command line and where files go; running is farlane.backend.simulation.running, what is shown is in its neighbours.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import tempfile
from pathlib import Path

from farlane.backend.device.sim.options import Settings
from farlane.backend.memory import config
from farlane.backend.memory.cores.trace import TraceError
from farlane.backend.memory.paging import OutOfFrames
from farlane.backend.simulation import pages, running, sweep, text
from farlane.terminal.examples import add_examples, add_part
from farlane.terminal.progress import Progress


class SimCommand:
    """`run` and `sweep`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        run_page = (
            "farlane sim run --html memory.html -- ./app",
            "run a program, and draw what each kernel did to memory",
        )
        compare = ("farlane sim sweep './app arguments'", "compare hierarchies and thresholds on a program's requests")
        add_examples(parser, run_page, compare)
        parts = parser.add_subparsers(dest="part", metavar="run|sweep", required=True)
        run = add_part(
            parts,
            "run",
            "run a program, and report hit rates, latencies, page walks, network hops and slots of each kernel",
            run_page,
            ("farlane sim run --trace requests.zip -- ./app", "record its requests, for `farlane sim sweep`"),
            (
                "farlane sim run --preset mgpusim-s3 --json memory.json -- ./app",
                "another memory system; counts for a program",
            ),
        )
        _memory(run)
        run.add_argument("--json", type=Path, metavar="FILE", help="write the report")
        run.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots")
        run.add_argument(
            "--trace", type=Path, metavar="FILE", help="write the cores' requests (for `farlane sim sweep`)"
        )
        run.add_argument(
            "--accesses",
            type=Path,
            metavar="FILE",
            help="write the order in which allocations are accessed (for `farlane plan`)",
        )
        run.add_argument("--fast", action="store_true", help="leave out requests that a core made just before")
        run.add_argument("--no-tlb", action="store_true", help="model no TLBs: record requests and place blocks only")
        run.add_argument("--capability", metavar="X.Y", help="compute capability of the device (`farlane serve`)")
        run.add_argument("--quota", metavar="BYTES", help="device memory of the session, for example 512M")
        run.add_argument(
            "--device-memory",
            metavar="BYTES",
            help="the size of device memory; what does not fit moves to the host and back",
        )
        run.add_argument(
            "--memory-policy",
            metavar="POLICY",
            help="which data leave it when it is full (`farlane serve --help` names the policies)",
        )
        run.add_argument("--defer", metavar="MODE", help="deferral mode of `farlane run`")
        run.add_argument(
            "program",
            nargs=argparse.REMAINDER,
            metavar="-- PROGRAM [ARGUMENT ...]",
            help="the program and its arguments",
        )
        grid = add_part(
            parts,
            "sweep",
            "compare TLB hierarchies and thresholds on the requests of programs",
            compare,
            ("farlane sim sweep requests.zip --html sweep.html", "the same for recorded requests, drawn"),
            ("farlane sim sweep --hierarchies s3,oracle --no-grid './app'", "some hierarchies only"),
        )
        _memory(grid)
        grid.add_argument("--json", type=Path, metavar="FILE", help="write all counts")
        grid.add_argument("--html", type=Path, metavar="FILE", help="write a page that draws the comparison")
        grid.add_argument("--hierarchies", metavar="A,B", help=f"some of {', '.join(sweep.NAMES)}")
        grid.add_argument("--no-grid", action="store_true", help="leave out the grid of thresholds")
        grid.add_argument(
            "programs",
            nargs="+",
            metavar="PROGRAM",
            help="a command line in quotes, or a trace of `farlane sim run --trace`",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            return self._run(arguments) if arguments.part == "run" else self._sweep(arguments)
        except (config.ConfigError, running.RunError, TraceError, OutOfFrames, sweep.SweepError) as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            print(f"farlane: {error.filename or ''}: {error.strerror}", file=sys.stderr)
            return 1

    def _run(self, arguments: argparse.Namespace) -> int:
        words = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
        if not words:
            print("farlane: no program given: farlane sim run [options] -- ./program arguments", file=sys.stderr)
            return 2
        memory = _name(arguments)
        with tempfile.TemporaryDirectory(prefix="farlane-report-") as folder:
            wanted = Settings(
                memory,
                f"{folder}/report.json",
                _path(arguments.trace),
                _path(arguments.accesses),
                tlb=not arguments.no_tlb,
                fast=arguments.fast,
            )
            options = ["--defer", arguments.defer] if arguments.defer else []
            serving = []
            for name in ("capability", "quota", "device_memory", "memory_policy"):
                if (value := getattr(arguments, name)) is not None:
                    serving += [f"--{name.replace('_', '-')}", value]
            outcome = running.run(words, wanted, options, serving)
        sys.stdout.flush()
        sys.stderr.write(text.report(outcome.reports))
        if arguments.json:
            content = {"program": words, "status": outcome.status, "sessions": outcome.reports}
            arguments.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
        if arguments.html:
            arguments.html.write_text(
                pages.run(f"farlane sim run {shlex.join(words)}", outcome.reports), encoding="utf-8"
            )
        return outcome.status

    def _sweep(self, arguments: argparse.Namespace) -> int:
        memory = _name(arguments)
        base = config.preset(memory) if memory in config.presets() else config.load(memory)
        chosen = sweep.hierarchies(base.tlb, arguments.hierarchies.split(",") if arguments.hierarchies else None)
        found = []
        with tempfile.TemporaryDirectory(prefix="farlane-sweep-") as folder:
            for number, word in enumerate(arguments.programs):
                trace = Path(word)
                name = trace.stem
                if trace.suffix != ".zip":
                    command = shlex.split(word)
                    name = Path(command[0]).name
                    trace = Path(folder) / f"{number}.zip"
                    wanted = Settings(memory, f"{folder}/{number}.json", str(trace), tlb=False)
                    outcome = running.run(command, wanted)
                    if outcome.status:
                        raise running.RunError(f"{word} ended with status {outcome.status}")
                with sweep.Program(name, trace) as program, Progress(name) as progress:
                    result = sweep.compare(program, base, chosen, not arguments.no_grid, progress)
                print(sweep.text(result), flush=True)
                found.append(result)
        print(sweep.summary(found))
        if arguments.json:
            content = {"config": dataclasses.asdict(base), "programs": [result.to_json() for result in found]}
            arguments.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
        if arguments.html:
            arguments.html.write_text(sweep.page(found), encoding="utf-8")
        return 0


def _memory(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--config", type=Path, metavar="FILE", help="the memory system, as docs/howto/study-memory.md describes it"
    )
    which.add_argument(
        "--preset",
        choices=config.presets(),
        default="mgpusim-peers",
        help="a memory system that comes with Farlane (default: %(default)s)",
    )


def _name(arguments: argparse.Namespace) -> str:
    """What Settings.memory is to be; a wrong file is an error now."""
    if arguments.config is None:
        return str(arguments.preset)
    config.load(arguments.config)
    return str(arguments.config.absolute())


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


command = SimCommand()

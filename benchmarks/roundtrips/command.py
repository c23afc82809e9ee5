"""`farlane bench`: benchmarks for users. Owns the command line and the files that are written."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from farlane.frontend.devtools.toolchain import ToolchainError
from farlane.frontend.errors import UserError
from farlane.roundtrips import page, plot, recorder, text
from farlane.roundtrips.measure import DISTANCES, OutputDiffers, Record, measure
from farlane.roundtrips.programs import PROGRAMS
from farlane.terminal.examples import add_examples
from farlane.terminal.progress import Progress

TURNS = 7


class BenchCommand:
    """Runs a benchmark, prints its tables, and writes files when asked to."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane bench roundtrips", "measure all programs at all distances; minutes"),
            (
                "farlane bench roundtrips --only repeated,cg-host --distances 500 --turns 3",
                "two programs at one distance",
            ),
            ("farlane bench roundtrips --output results", "write the tables, a page and a picture as well"),
        )
        parser.add_argument("benchmark", choices=["roundtrips"], help="what to measure")
        parser.add_argument(
            "--output", metavar="FOLDER", type=Path, help="write roundtrips.json, .md, .html and .png to this folder"
        )
        parser.add_argument(
            "--only", metavar="NAMES", default="", help="measure these programs only, separated by commas"
        )
        parser.add_argument(
            "--distances",
            metavar="US",
            default="",
            help="the injected round-trip times in microseconds, separated by commas",
        )
        parser.add_argument(
            "--turns",
            type=int,
            default=TURNS,
            metavar="N",
            help=f"the runs of each mode at each distance (default: {TURNS})",
        )
        parser.add_argument("--from-json", metavar="FILE", type=Path, help="show or write an earlier measurement again")

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            record = self._record(arguments)
        except (UserError, ToolchainError, OutputDiffers, ValueError) as error:
            print(f"farlane: {error}", file=sys.stderr)
            return error.status if isinstance(error, UserError) else 1
        print(text.text(record))
        if arguments.output:
            write(record, arguments.output)
        return 0

    def _record(self, arguments: argparse.Namespace) -> Record:
        if arguments.from_json:
            return Record.from_json(json.loads(arguments.from_json.read_text()))
        distances = [float(word) for word in arguments.distances.split(",") if word] or list(DISTANCES)
        names = [name for name in arguments.only.split(",") if name]
        if unknown := set(names) - {program.name for program in PROGRAMS}:
            known = ", ".join(program.name for program in PROGRAMS)
            raise UserError(f"no program {', '.join(sorted(unknown))}", f"There are {known}.", status=2)
        if arguments.turns < 1 or min(distances) < 0:
            raise UserError("--turns and --distances must be positive", status=2)
        with Progress("compiling the programs") as progress:
            record = measure(distances, arguments.turns, names, progress)
            progress.begin("what recording costs")
            record.recorder = recorder.cost(arguments.turns)
        return record


def write(record: Record, folder: Path) -> None:
    """The record's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "roundtrips.json").write_text(json.dumps(record.json(), indent=1) + "\n")
    (folder / "roundtrips.md").write_text(text.markdown(record))
    (folder / "roundtrips.html").write_text(page.page(record))
    try:
        plot.write(record, folder / "roundtrips.png")
    except ImportError:
        print("farlane: no roundtrips.png: matplotlib is not installed (pip install 'farlane[bench]')", file=sys.stderr)


command = BenchCommand()

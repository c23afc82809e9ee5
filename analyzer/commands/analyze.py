"""`farlane analyze`: the loops with CUDA calls of an executable, as a report or as a manifest.

Owns the command line and its bounds: time, memory, and what becomes of an exception. Runnable as a module too: the
launcher and the host run it in a process of its own, because they import nothing of the analyzer, and because what it
reads is not theirs. What only one form of output needs is imported for that form: importing takes as long as analyzing
a small program.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import stat
import sys
import traceback
from pathlib import Path

from farlane.analyzer.analysis.program import SECONDS
from farlane.analyzer.api.program import Executable
from farlane.analyzer.commands import HELP
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import ProgramReport
from farlane.terminal import statuses
from farlane.terminal.examples import add_examples
from farlane.terminal.progress import Progress

_CACHE = "\0"  # --manifest without a name
_PRINTED = "\0"  # --dot without a folder
_CPU_GRACE = 5  # seconds of processor time beyond --seconds, before the kernel ends the process


class OutOfTime(AnalysisError):
    """The time was used up before all functions were analyzed."""


class AnalyzeCommand:
    """Analyzes one executable and prints the report, or writes the manifest."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane analyze ./app", "print its loops with CUDA calls: class, trip count, reasons"),
            (
                "farlane analyze --html loops.html ./app",
                "write the same as a page, with graphs, source and disassembly",
            ),
            ("farlane analyze --json ./app", "print it for a program to read"),
            ("farlane analyze --graphml graphs ./app", "write its call graph and control-flow graphs"),
            ("farlane analyze --embed app-marked ./app", "write a copy of the program that carries its manifest"),
        )
        parser.add_argument("program", type=Path, nargs="?", help="an x86-64 executable or shared object")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print JSON")
        form.add_argument(
            "--dot",
            nargs="?",
            const=_PRINTED,
            metavar="DIR",
            help="print the loops and their calls as a graph for Graphviz; with DIR: as --graphml, for Graphviz",
        )
        form.add_argument(
            "--graphml", type=Path, metavar="DIR", help="write the call graph, control-flow graphs and loops to DIR"
        )
        form.add_argument(
            "--html", type=Path, metavar="OUT", help="write a page with the graphs, loops, and calls to OUT"
        )
        form.add_argument(
            "--manifest", nargs="?", const=_CACHE, metavar="OUT", help="write the manifest to OUT, or to the cache"
        )
        form.add_argument(
            "--embed", type=Path, metavar="OUT", help="write a copy of the program with the manifest in it"
        )
        parser.add_argument(
            "--seconds",
            type=float,
            default=SECONDS,
            metavar="N",
            help="give up further functions after this much processor time; a manifest is not written then",
        )
        parser.add_argument("--memory", type=int, metavar="MiB", help="use no more memory than this")

    def run(self, arguments: argparse.Namespace) -> int:
        if arguments.program is None and arguments.manifest not in (None, _CACHE):
            arguments.program, arguments.manifest = Path(arguments.manifest), _CACHE
        if arguments.program is None and arguments.dot not in (None, _PRINTED):
            arguments.program, arguments.dot = Path(arguments.dot), _PRINTED
        if arguments.program is None:
            print("farlane: no program given: farlane analyze [options] ./program", file=sys.stderr)
            return statuses.WRONG_CALL
        if arguments.memory is not None:
            _limit(arguments.memory << 20, arguments.seconds)
        try:
            self._run(arguments)
        except OutOfTime as error:
            print(f"farlane: {error}", file=sys.stderr)
            return statuses.OUT_OF_TIME
        except AnalysisError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return statuses.FAILED
        except (MemoryError, RecursionError) as error:
            print(f"farlane: {arguments.program}: too large to analyze ({type(error).__name__})", file=sys.stderr)
            return statuses.FAILED
        except BrokenPipeError:
            raise
        except Exception as error:
            traceback.print_exc()
            print(f"farlane: {arguments.program}: the analyzer failed: {error!r}", file=sys.stderr)
            return statuses.OUR_FAULT
        return 0

    def _run(self, arguments: argparse.Namespace) -> None:
        program: Path = arguments.program
        gc.disable()
        try:
            with Progress(f"analyzing {program.name}"):
                executable = Executable(program, arguments.seconds, in_callees=arguments.json, beside=True)
                report = executable.report
        finally:
            # The process ends soon: looking for garbage among all that was found would take a quarter of the time.
            gc.freeze()
            gc.enable()
        if arguments.manifest is not None:
            from farlane.analyzer.manifest import files

            content = _manifest(program, report, arguments.seconds)
            wanted = arguments.manifest
            identity = report.identity.partition("-")[2] or report.identity
            path = files.cache_folder() / f"{identity}.manifest" if wanted == _CACHE else Path(wanted)
            files.write(path, content)
            if wanted == _CACHE:
                print(path)
        elif arguments.embed is not None:
            from farlane.analyzer.manifest import embed, files

            if arguments.embed.exists() and os.path.samefile(arguments.embed, program):
                raise AnalysisError(f"{arguments.embed} is the program itself: give another name for the copy")
            content = _manifest(program, report, arguments.seconds)
            try:
                copy = embed.embed(program.read_bytes(), content)
                mode = stat.S_IMODE(program.stat().st_mode)
            except OSError as error:
                raise AnalysisError(f"{program}: {error.strerror}") from error
            except AnalysisError as error:
                raise AnalysisError(f"{program}: {error}") from error
            files.write(arguments.embed, copy, mode)
        elif arguments.html is not None:
            from farlane.analyzer.manifest import files
            from farlane.analyzer.report import html

            files.write(arguments.html, html.page(executable).encode())
        elif arguments.graphml is not None or arguments.dot not in (None, _PRINTED):
            from farlane.analyzer.report import graphs

            form, folder = ("dot", Path(arguments.dot)) if arguments.graphml is None else ("graphml", arguments.graphml)
            written = graphs.write(executable, folder, form)
            print(f"{len(written)} graphs in {folder}")
        elif arguments.json:
            from farlane.analyzer.report import text

            sys.stdout.write(text.to_json(report))
        elif arguments.dot is not None:
            from farlane.analyzer.report import text

            sys.stdout.write(text.to_dot(report))
        else:
            from farlane.analyzer.report import text

            print("\n".join(text.lines(report)))


def _manifest(program: Path, report: ProgramReport, seconds: float) -> bytes:
    from farlane.analyzer.manifest import writer
    from farlane.analyzer.manifest.build import build

    # What one machine has time for and another has not must not show in the bytes.
    if report.out_of_time:
        raise OutOfTime(f"{program}: not analyzed within {seconds:g} s")
    image = elf.load(program)
    if image.identity != report.identity:
        raise AnalysisError(f"{program} changed while it was analyzed")
    return writer.write(build(image, report, report.permissions))


def _limit(memory: int, seconds: float) -> None:
    """Bounds this process, for good."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    cpu = int(seconds) + _CPU_GRACE
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


command = AnalyzeCommand()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="farlane analyze", description=HELP["analyze"])
    command.add_arguments(parser)
    return command.run(parser.parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())

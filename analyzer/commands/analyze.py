"""`farlane analyze`: the loops with CUDA calls of an executable, and what is known of them.

Owns the command line. It reports; nothing is written beside the program, and no permission to defer anything follows.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from farlane.analyzer.errors import AnalysisError
from farlane.analyzer.loops import analysis
from farlane.analyzer.report import export, table


class AnalyzeCommand:
    """Analyzes one executable and prints the report."""

    help = "find the loops with CUDA calls in an executable, their classes and trip counts"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("program", type=Path, help="an x86-64 executable or shared object")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print JSON")
        form.add_argument("--dot", action="store_true", help="print a graph for Graphviz")
        parser.add_argument(
            "--seconds",
            type=float,
            default=analysis.SECONDS,
            metavar="N",
            help="give up further functions after this time",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            report = analysis.analyze(arguments.program, arguments.seconds)
        except AnalysisError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1
        if arguments.json:
            sys.stdout.write(export.to_json(report))
        elif arguments.dot:
            sys.stdout.write(export.to_dot(report))
        else:
            print("\n".join(table.lines(report)))
        return 0


command = AnalyzeCommand()

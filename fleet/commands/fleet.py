"""`farlane fleet`: its parts, and of them `simulate`: placement policies compared on a synthetic trace.

Owns the command line of `simulate`, its table and the choice of policies.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from farlane.fleet.commands import cluster
from farlane.fleet.placement import policies
from farlane.fleet.placement.book import Policy
from farlane.fleet.simulation import plot, summary
from farlane.fleet.simulation.rivals import AnyFit, first_fit
from farlane.fleet.simulation.running import Report, Simulation
from farlane.fleet.simulation.trace import Spec, make
from farlane.terminal.examples import add_examples, add_part

RIVALS = ("first-fit", "random")
POLICIES = (*policies.POLICIES, *RIVALS)


def policy_named(name: str, seed: int) -> Policy:
    """Raises KeyError."""
    rivals: dict[str, Policy] = {"first-fit": first_fit, "random": AnyFit(seed)}
    return rivals[name] if name in RIVALS else policies.POLICIES[name]


def _policies(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in POLICIES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"no policy {', '.join(unknown) or 'is named'}: say some of {','.join(POLICIES)}"
        )
    return names


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 10000000")
    return int(text)


def _part(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 10:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0, up to 10")
    return value


class FleetCommand:
    """`simulate`, and the parts for a Ray cluster."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        compare = ("farlane fleet simulate --hosts 100 --sessions 10000", "compare all policies on a synthetic trace")
        add_examples(
            parser, ("farlane fleet up --hosts 4", "start four hosts on a Ray cluster, and be their gateway"), compare
        )
        parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
        cluster.add_parts(parts)
        simulate = add_part(
            parts,
            "simulate",
            "place a synthetic trace of sessions on many hosts by several policies, and compare them",
            compare,
            ("farlane fleet simulate --policy pack,spread --offered 1.5", "two policies on a fleet that is too small"),
        )
        spec = Spec()
        simulate.add_argument("--hosts", type=_count, default=spec.hosts, metavar="N", help="(default: %(default)s)")
        simulate.add_argument(
            "--sessions", type=_count, default=spec.sessions, metavar="N", help="(default: %(default)s)"
        )
        simulate.add_argument(
            "--policy",
            type=_policies,
            default=list(POLICIES),
            metavar="A,B",
            help=f"some of {','.join(POLICIES)} (default: all)",
        )
        simulate.add_argument(
            "--offered", type=_part, default=spec.offered, metavar="X",
            help="what the sessions ask for, in times of what the fleet has (default: %(default)s)",
        )  # fmt: skip
        simulate.add_argument("--seed", type=int, default=spec.seed, metavar="N", help="(default: %(default)s)")
        simulate.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
        simulate.add_argument("--plot", type=Path, metavar="FILE", help="draw the comparison (needs matplotlib)")

    def run(self, arguments: argparse.Namespace) -> int:
        if arguments.part != "simulate":
            return cluster.run(arguments)
        try:
            return self._simulate(arguments)
        except plot.PlotError as error:
            print(f"farlane: {error}", file=sys.stderr)
        except OSError as error:
            print(f"farlane: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 1

    def _simulate(self, arguments: argparse.Namespace) -> int:
        if arguments.plot:
            plot.require()
        spec = Spec(hosts=arguments.hosts, sessions=arguments.sessions, offered=arguments.offered, seed=arguments.seed)
        trace = make(spec)
        reports: dict[str, Report] = {}
        for name in arguments.policy:
            reports[name] = Simulation(trace, policy_named(name, spec.seed), _progress(name)).run()
        print(summary.table(reports))
        if arguments.json:
            figures = {name: summary.figures(report) for name, report in reports.items()}
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
        if arguments.plot:
            plot.draw(reports, arguments.plot)
        return 0


def _progress(name: str):  # type: ignore[no-untyped-def]
    """Tells how far it is, where a person looks on."""
    shown = -1

    def show(share: float) -> None:
        nonlocal shown
        percent = int(share * 100)
        if percent != shown:
            shown = percent
            print(
                f"\r{name}: {percent} %" + ("\r\x1b[K" if percent == 100 else ""), end="", file=sys.stderr, flush=True
            )

    return show if sys.stderr.isatty() else lambda share: None


command = FleetCommand()

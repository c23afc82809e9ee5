"""`farlane doctor`: what is wrong with the installation, with a program or with a host, and what to do about it.

Owns the command line and the form of the answer; the checks are farlane.frontend.doctor's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from farlane.frontend.hosts import add_access, set_access
from farlane.hosturl.variables import named_host
from farlane.terminal import statuses
from farlane.terminal.examples import add_examples

if TYPE_CHECKING:
    from farlane.frontend.doctor.finding import Finding

    Check = Callable[[], Iterator[Finding]]


class DoctorCommand:
    """Runs the checks, and prints each finding with its advice."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane doctor", "check the installation and this machine"),
            (
                "farlane doctor ./app",
                "check a program and its libraries as well: are they found, intercepted, with PTX?",
            ),
            (
                "farlane doctor --host farlane+tls://gpu-host:7070 --ca ca.pem --token-file token",
                "check a host: network, certificate, token, version",
            ),
            ("farlane doctor --json", "print the findings for a program to read"),
        )
        parser.add_argument("--host", metavar="URL", help="check this host as well (default: FARLANE_HOST)")
        add_access(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("program", nargs="?", metavar="PROGRAM", help="check this program as well")

    def run(self, arguments: argparse.Namespace) -> int:
        from farlane.frontend.doctor.finding import FAILED

        set_access(arguments)
        findings = _findings(checks(arguments.program, named_host(arguments.host)))
        if arguments.json:
            found = list(findings)
            failed = sum(finding.state == FAILED for finding in found)
            print(json.dumps({"failed": failed, "findings": [finding.json() for finding in found]}, indent=2))
        else:
            failed = _print(findings)
        return statuses.FAILED if failed else statuses.DONE


def checks(program: str | None, host: str | None) -> list[Check]:
    """The checks to run, in order."""
    from farlane.frontend.doctor import access, installation, machine
    from farlane.frontend.doctor.program import check_program

    chosen: list[Check] = [
        installation.check_system,
        installation.check_packages,
        installation.check_c_library,
        installation.check_shim,
        installation.check_nvcc,
        machine.check_generated_code,
        machine.check_shared_memory,
        machine.check_limits,
        machine.check_temporary_folder,
        machine.check_cache,
        machine.check_settings,
    ]
    if program is not None:
        chosen.append(lambda: check_program(program))
    if host:
        chosen += [access.check_files, lambda: access.check_host(host)]
    chosen.append(lambda: access.check_embedded("sim"))
    return chosen


def _findings(chosen: Iterable[Check]) -> Iterator[Finding]:
    for check in chosen:
        yield from check()


def _print(findings: Iterable[Finding]) -> int:
    """Prints the findings as they come; how many failed."""
    from farlane.frontend.doctor.finding import FAILED, NOTE, OK
    from farlane.terminal.console import console
    from rich.text import Text

    styles = {OK: "green", NOTE: "yellow", FAILED: "bold red"}
    out, failed = console(), 0
    for finding in findings:
        out.print(Text.assemble((f"{finding.state:>6}", styles[finding.state]), f"  {finding.text}"))
        if finding.advice:
            out.print(Text.assemble("        ", ("-> ", "cyan"), finding.advice))
        failed += finding.state == FAILED
    out.print("everything needed is there" if not failed else f"{failed} check{'s' * (failed > 1)} failed")
    return failed


command = DoctorCommand()

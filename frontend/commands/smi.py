"""`farlane smi`: nvidia-smi for the host whose device a program uses. It is `nvidia-smi` under `farlane run`."""

from __future__ import annotations

import argparse
import sys
import time

from farlane.frontend import smi
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.errors import UserError
from farlane.frontend.hosts import describe, parse_url
from farlane.hosturl import HostUrl
from farlane.hosturl.variables import named_host
from farlane.terminal.examples import add_examples

SAMPLE_SECONDS = 0.1


class SmiCommand:
    """Asks the host, and prints what nvidia-smi would."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane smi", "the table of nvidia-smi, for the simulated device"),
            ("farlane smi --host grpc://127.0.0.1:7070", "the same for a running host"),
            (
                "farlane smi --query-gpu name,memory.used,utilization.gpu --format csv,noheader",
                "some fields, for a program to read",
            ),
        )
        parser.add_argument(
            "--host", metavar="URL", help="the host (default: FARLANE_HOST, or a simulated device that is idle)"
        )
        parser.add_argument("-L", "--list-gpus", action="store_true", help="print one line for each device")
        parser.add_argument(
            "-i",
            "--id",
            metavar="N",
            help="show these devices only: numbers, UUIDs or PCI addresses, separated by commas",
        )
        parser.add_argument(
            "--query-gpu", metavar="FIELDS", help="print these fields of each device, separated by commas"
        )
        parser.add_argument(
            "--query-compute-apps", metavar="FIELDS", help="print these fields of each session, separated by commas"
        )
        parser.add_argument("--format", metavar="csv[,noheader][,nounits]", help="how a query is printed")
        parser.add_argument("--help-query-gpu", action="store_true", help="list the fields of --query-gpu")
        parser.add_argument("--help-query-compute-apps", action="store_true", help="list those of --query-compute-apps")

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            sys.stdout.write(self._text(arguments))
        except UserError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return error.status
        return 0

    def _text(self, arguments: argparse.Namespace) -> str:
        if arguments.help_query_gpu:
            return "".join(f"{name}\n" for name in smi.GPU_FIELDS)
        if arguments.help_query_compute_apps:
            return "".join(f"{name}\n" for name in smi.PROCESS_FIELDS)
        if arguments.query_gpu is not None and arguments.query_compute_apps is not None:
            raise UserError("Only one --query-* switch can be used at a time.", status=smi.INVALID_QUERY)
        query = arguments.query_gpu if arguments.query_gpu is not None else arguments.query_compute_apps
        formats = _formats(arguments.format, query is not None)
        names = []
        if arguments.query_gpu is not None:
            names = smi.names_of(query, smi.GPU_FIELDS, "query-gpu")
        elif query is not None:
            names = smi.names_of(query, smi.PROCESS_FIELDS, "query-compute-apps")
        snapshot = _snapshot(named_host(arguments.host))
        if arguments.list_gpus:
            return smi.listing(snapshot)
        devices = smi.chosen(snapshot, arguments.id)
        if query is None:
            return smi.table(snapshot, devices)
        if arguments.query_gpu is not None:
            rows = [[smi.GPU_FIELDS[name](gpu) for name in names] for gpu in devices]
        else:
            # On which of several devices a session runs, its host does not say.
            rows = [
                [smi.PROCESS_FIELDS[name](gpu, session) for name in names]
                for gpu in devices[:1]
                for session in snapshot.reply.open
            ]
        return smi.csv(names, rows, "noheader" not in formats, "nounits" not in formats)


def _formats(named: str | None, queried: bool) -> list[str]:
    formats = named.split(",") if named else []
    if queried and "csv" not in formats:
        raise UserError(
            '"--format=" switch is missing.', "Write --format=csv, or csv,noheader,nounits.", smi.INVALID_QUERY
        )
    if unknown := [name for name in formats if name not in ("csv", "noheader", "nounits")]:
        raise UserError(
            f'Option "{unknown[0]}" is not a valid format.', "csv, with ,noheader and ,nounits.", smi.INVALID_QUERY
        )
    return formats


def _snapshot(url: str | None) -> smi.Snapshot:
    if url:
        return _measure(parse_url(url))
    with EmbeddedHost("sim") as embedded:
        return _measure(parse_url(embedded.url))


def _measure(url: HostUrl) -> smi.Snapshot:
    """Two questions: utilization is what was done between them."""
    first = describe(url)
    if not first.HasField("busy_nanoseconds"):
        return smi.Snapshot(first, None)
    time.sleep(SAMPLE_SECONDS)
    second = describe(url)
    seconds = second.uptime_seconds - first.uptime_seconds
    worked = max(0, second.busy_nanoseconds - first.busy_nanoseconds)
    return smi.Snapshot(second, min(100, round(worked / seconds / 1e7)) if seconds > 0 else 0)


command = SmiCommand()

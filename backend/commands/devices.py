"""`farlane devices`: the devices of this machine, or of a host.

Owns the command line and its text. Opening a device is the only proof that it is there, so each is opened and closed again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator

from farlane.backend.commands import HELP
from farlane.backend.device import registry
from farlane.backend.device.base import Description
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.device.options import DeviceOptions
from farlane.backend.server.endpoint import EndpointError, parse
from farlane.backend.server.messages import description_of
from farlane.hosturl.description import NoAnswer, describe
from farlane.terminal.examples import add_examples


def lines_of(description: Description) -> Iterator[str]:
    """What a user asks about a device."""
    major, minor = description.compute_capability
    yield f"{description.backend}: {description.name}"
    yield f"    compute capability {major}.{minor}, {_bytes(description.total_memory)} of memory"
    multiprocessors = description.attributes.get(Attribute.MULTIPROCESSOR_COUNT)
    if multiprocessors is not None:
        yield f"    {multiprocessors} multiprocessors"
    images = [
        text
        for takes, text in ((description.takes_ptx, "PTX"), (description.takes_machine_code, "machine code"))
        if takes
    ]
    yield f"    runs images with {' or '.join(images)}" if images else "    runs no images"


def data_of(description: Description) -> dict[str, object]:
    """The same for a program."""
    return {
        "backend": description.backend,
        "name": description.name,
        "compute_capability": ".".join(map(str, description.compute_capability)),
        "memory_bytes": description.total_memory,
        "multiprocessors": description.attributes.get(Attribute.MULTIPROCESSOR_COUNT),
        "takes_ptx": description.takes_ptx,
        "takes_machine_code": description.takes_machine_code,
    }


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


class DevicesCommand:
    """Lists devices."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane devices", "list what this machine can serve"),
            ("farlane devices --json", "list it as JSON"),
            ("farlane devices --host grpc://127.0.0.1:7070", "list what a running host serves"),
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--host", metavar="URL", help="list the devices of a running `farlane serve` instead")

    def run(self, arguments: argparse.Namespace) -> int:
        if arguments.host:
            return self._remote(arguments.host, arguments.json)
        try:
            options = DeviceOptions.read(os.environ)
        except ValueError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1
        found: list[dict[str, object]] = []
        for name in registry.names():
            try:
                device = registry.open_device(name, options)
            except registry.DeviceUnavailable as error:
                found.append({"backend": name, "available": False, "reason": str(error)})
                if not arguments.json:
                    print(f"{name}: not available\n    {error}")
                continue
            try:
                description = device.describe()
            finally:
                device.close()
            found.append(data_of(description) | {"available": True})
            if not arguments.json:
                print("\n".join(lines_of(description)))
                print(f"    {registry.ENTRIES[name].summary}")
        if arguments.json:
            print(json.dumps({"devices": found}, indent=2))
        return 0

    def _remote(self, url: str, as_json: bool) -> int:
        try:
            answer = describe(parse(url))
        except EndpointError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1
        except NoAnswer as error:
            print(f"farlane: {error}. {error.advice}".rstrip(". "), file=sys.stderr)
            return 1
        if as_json:
            devices = [data_of(description_of(device)) | {"available": True} for device in answer.devices]
            host = {"version": answer.host_version, "sessions": answer.sessions, "session_limit": answer.session_limit}
            print(json.dumps({"devices": devices, "host": host}, indent=2))
            return 0
        for device in answer.devices:
            print("\n".join(lines_of(description_of(device))))
        print(f"host: Farlane {answer.host_version}, {answer.sessions} of {answer.session_limit} sessions open")
        return 0


command = DevicesCommand()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="farlane devices", description=HELP["devices"])
    command.add_arguments(parser)
    return command.run(parser.parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())

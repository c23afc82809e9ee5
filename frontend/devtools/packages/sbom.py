"""What is in the packages, as a CycloneDX document: the crates that are compiled into the libraries, and Python's distributions.

Needs cargo; no network once the crates are there.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from farlane.frontend.devtools.packages import ROOT, TIME, version
from packageurl import PackageURL

BUILT = ("farlane_core", "redirect", "nvml", "farlane-run", "plane_binding")
TARGET = "x86_64-unknown-linux-gnu"


def crates(target: str = TARGET) -> Iterator[Component]:
    """Those of others that are compiled into the shim, the launcher and the plane. `target` is Rust's name of what is built for."""
    command = ["cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--target", target, "--prefix", "none"]
    command += ["--no-dedupe", "--format", "{p}|{l}", *(word for name in BUILT for word in ("--package", name))]
    done = subprocess.run(command, cwd=ROOT / "frontend/shim", check=True, capture_output=True, text=True)
    for line in sorted(set(done.stdout.splitlines())):
        if not line:
            continue
        what, _, terms = line.partition("|")
        name, number, *place = what.split()
        if not place:  # ours have a path
            yield _component("cargo", name, number.removeprefix("v"), terms.replace("/", " OR ") or None)


def distributions(folder: Path) -> Iterator[Component]:
    """Of Python, installed in a folder; Farlane itself apart."""
    for found in sorted(importlib.metadata.distributions(path=[str(folder)]), key=lambda each: each.name.lower()):
        if found.name != "farlane":
            terms = next(iter(found.metadata.get_all("License-Expression") or ()), None)
            yield _component("pypi", found.name.lower().replace("_", "-"), found.version, terms)


def document(package: str, components: Iterable[Component]) -> str:
    """JSON. The same components give the same bytes.

    Args:
        package: the file's name of what has them.
    """
    found = Bom(
        components=components,
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"farlane/{version()}/{package}"),
    )
    found.metadata.timestamp = datetime.fromtimestamp(TIME, UTC)
    whole = Component(
        name="farlane", version=version(), type=ComponentType.APPLICATION, description=package, bom_ref=package
    )
    found.metadata.component = whole
    found.register_dependency(whole, found.components)
    return JsonV1Dot6(found).output_as_string(indent=1) + "\n"


def _component(kind: str, name: str, number: str, terms: str | None) -> Component:
    url = PackageURL(type=kind, name=name, version=number)
    return Component(
        name=name,
        version=number,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=str(url),
        licenses=() if terms is None else [LicenseFactory().make_from_string(terms)],
    )

"""What a GPU machine takes from the bundle: what it lacks, and what it has in a version that does not serve."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re

import pytest
from farlane.frontend.devtools import gpu_bundle

PROTOBUF = "protobuf>=6.31,<8"


@pytest.mark.parametrize(
    ("installed", "good"),
    [("6.31.0", True), ("6.31", True), ("7.1.2", True), ("6.30.2", False), ("5.29.3", False), ("8.0", False), ("7.0rc1", True)],
)  # fmt: skip
def test_versions(installed: str, good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"protobuf": installed}[name])
    assert gpu_bundle.serves(PROTOBUF) is good


def test_no_bound_is_always_met() -> None:
    assert gpu_bundle.serves("iniconfig")
    assert gpu_bundle.serves("a-package-that-nobody-installed>=1")  # importable, but not from a distribution


def test_what_is_taken_from_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old protobuf, and a package that is not there; the rest is the machine's own."""
    versions = {"protobuf": "5.29.3"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: versions.get(name, "999.0"))
    monkeypatch.setattr(
        gpu_bundle, "PACKAGES", {"google.protobuf": PROTOBUF, "pytest": "pytest>=8", "no_such": "no-such"}
    )
    assert gpu_bundle.missing() == ["no-such", PROTOBUF]


def test_what_the_project_needs_is_in_the_bundle_or_on_the_machine() -> None:
    needed = {re.split(r"[<>=]", line)[0] for line in gpu_bundle.project()["project"]["dependencies"]}
    bundled = {re.split(r"[<>=]", line)[0] for line in gpu_bundle.PACKAGES.values()}
    assert needed - bundled == set(gpu_bundle.MACHINE)
    assert {"pytest", "pytest-timeout", "pytest-xdist", "hypothesis"} <= bundled

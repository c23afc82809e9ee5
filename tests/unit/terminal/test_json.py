"""`--json` where a program reads: the object alone on standard output, with what people are shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from farlane.frontend import shim_library
from farlane.frontend.embedded import EmbeddedHost


def printed(*words: str, **environment: str) -> Any:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    command = [sys.executable, "-m", "farlane.frontend.cli", *words]
    done = subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_devices_of_this_machine() -> None:
    devices = {device["backend"]: device for device in printed("devices", "--json")["devices"]}
    assert devices["sim"]["compute_capability"] == "12.0"
    assert devices["sim"]["takes_ptx"] is True
    assert devices["sim"]["memory_bytes"] > 0
    for device in devices.values():
        assert device["available"] or device["reason"]


def test_devices_of_a_host() -> None:
    with EmbeddedHost("null") as host:
        document = printed("devices", "--json", "--host", host.url)
    assert [device["backend"] for device in document["devices"]] == ["null"]
    assert document["host"]["sessions"] == 0


def test_an_environment() -> None:
    document = printed("env", "--host", "unix:///run/farlane.sock", "--json", LD_PRELOAD="")
    assert document["set"]["FARLANE_HOST"] == "unix:///run/farlane.sock"
    assert str(shim_library.FOLDER / shim_library.CORE) in document["set"]["LD_PRELOAD"]
    undone = printed("env", "--unset", "--json", **document["set"])
    assert "FARLANE_HOST" in undone["unset"]
    assert "LD_PRELOAD" in undone["unset"]


def test_settings(tmp_path: Path) -> None:
    folder = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert printed("setup", "--json", **folder) == {"interop": False}
    assert printed("setup", "--json", "--interop", **folder) == {"interop": True}
    assert printed("setup", "--json", **folder) == {"interop": True}

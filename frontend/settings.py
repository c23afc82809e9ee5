"""What the user has set once for all runs: `<configuration folder>/farlane/settings.json`.

Owns the file. A setting in the environment comes before the one in the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from farlane.frontend.errors import UserError
from farlane.terminal import statuses

INTEROP = "FARLANE_INTEROP"


def path(environment: Mapping[str, str]) -> Path:
    """Where the settings are: below XDG_CONFIG_HOME, else ~/.config."""
    folder = environment.get("XDG_CONFIG_HOME") or ""
    base = Path(folder) if os.path.isabs(folder) else Path.home() / ".config"
    return base / "farlane" / "settings.json"


def interop(environment: Mapping[str, str]) -> bool:
    """Whether Farlane answers the interoperability handshake of NVIDIA's runtime (docs/explanation/interoperability.md).

    Raises:
        UserError: FARLANE_INTEROP or the settings file is neither on nor off.
    """
    if value := environment.get(INTEROP):
        if value not in ("0", "1"):
            raise UserError(f"{INTEROP}={value} is neither 1 nor 0", status=statuses.WRONG_CALL)
        return value == "1"
    file = path(environment)
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        setting = known.get("interop", False)
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"cannot read the settings in {file}: {error}", "Repair or remove the file.") from error
    if not isinstance(setting, bool):
        raise UserError(
            f'"interop" in {file} is neither true nor false', "Run `farlane setup --interop` or `--no-interop`."
        )
    return setting


def set_interop(environment: Mapping[str, str], on: bool) -> Path:
    """Writes the setting and returns the file.

    Raises:
        UserError: the file cannot be written.
    """
    file = Path(os.path.realpath(path(environment)))  # a symbolic link stays
    partial = file.with_name(f".settings.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps({"interop": on}) + "\n", encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        raise UserError(f"cannot write the settings to {file}: {error.strerror}") from error
    return file

"""The variables of the environment that say which host a guest uses, and what lets it in: their names, once for Python.

The shim reads the same ones (frontend/shim/crates/client/src/config.rs).
"""

from __future__ import annotations

import os

HOST = "FARLANE_HOST"
CA = "FARLANE_CA"
TOKEN = "FARLANE_TOKEN"
TOKEN_FILE = "FARLANE_TOKEN_FILE"
CERTIFICATE = "FARLANE_CERTIFICATE"
KEY = "FARLANE_KEY"
PRIORITY = "FARLANE_PRIORITY"
ACCESS = (CA, TOKEN, TOKEN_FILE, CERTIFICATE, KEY, PRIORITY)


def named_host(option: str | None) -> str | None:
    """The URL that an option names, else the environment."""
    return option or os.environ.get(HOST)

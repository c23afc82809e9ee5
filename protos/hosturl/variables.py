"""The variables of the environment that more than one package reads: their names, once for Python.

Those that say which host a guest uses, and what lets it in, are the shim's too (frontend/shim/crates/client/src/config.rs).
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
CACHE = "FARLANE_CACHE_DIR"  # a folder for compiled code
MODEL = "FARLANE_SIM_MODEL"  # a file that says what of the memory system the host models
ACCESS = (CA, TOKEN, TOKEN_FILE, CERTIFICATE, KEY, PRIORITY)


def named_host(option: str | None) -> str | None:
    """The URL that an option names, else the environment."""
    return option or os.environ.get(HOST)

"""A grpcio channel to a host, and what a guest shows to be let in: for Python's guests and for questions about a host.

The environment says it (variables.py, docs/howto/hosts/secure-a-host.md). A token goes over TLS only.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from farlane.hosturl import CHANNEL_OPTIONS, VSOCK_NAME, HostUrl, HostUrlError, VsockUrl, variables
from farlane.limits.generated import ACCESS_FILE_BYTES


def open_channel(
    url: HostUrl, options: Sequence[tuple[str, Any]] = (), environment: Mapping[str, str] = os.environ
) -> grpc.Channel:
    """Raises HostUrlError: a file that the environment names cannot be used."""
    if not url.tls:
        return grpc.insecure_channel(url.target, options=[*CHANNEL_OPTIONS, *options])
    named = environment.get(variables.CA) or ssl.get_default_verify_paths().cafile
    identity = [environment.get(name) for name in (variables.KEY, variables.CERTIFICATE)]
    credentials = grpc.ssl_channel_credentials(
        _read(named) if named else None, *(_read(name) if name else None for name in identity)
    )
    if shown := token(environment):
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(shown))
    own: list[tuple[str, Any]] = [("grpc.enable_http_proxy", 0)]
    if isinstance(url, VsockUrl):
        own.append(("grpc.ssl_target_name_override", VSOCK_NAME))
    return grpc.secure_channel(url.target, credentials, options=[*own, *options])


def token(environment: Mapping[str, str]) -> str:
    """The guest's token, or nothing. Raises HostUrlError: its file cannot be read."""
    if given := environment.get(variables.TOKEN, "").strip():
        return given
    file = environment.get(variables.TOKEN_FILE)
    return _read(file).decode("ascii", "replace").strip() if file else ""


def _read(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            data = file.read(ACCESS_FILE_BYTES + 1)
    except OSError as error:
        raise HostUrlError(f"cannot read {name}: {error.strerror}") from error
    if len(data) > ACCESS_FILE_BYTES:
        raise HostUrlError(f"{name} is larger than {ACCESS_FILE_BYTES} bytes")
    return data

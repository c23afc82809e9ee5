"""Checks of a host: can it be reached, is its certificate valid, does it let us in, does it speak our protocol?"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.errors import UserError
from farlane.frontend.hosts import connected, describe, parse_url
from farlane.hosturl import VSOCK_NAME, HostUrl, TcpUrl, UnixUrl, VsockUrl

SECONDS = 5.0
SOON = datetime.timedelta(days=14)
EXPIRED, NOT_YET_VALID = 10, 9  # OpenSSL's codes of a certificate's errors
UNKNOWN_AUTHORITY = (18, 19, 20, 21)
OTHER_NAME = (62, 64)
RENEW = "On the host: `farlane host renew`, then start `farlane serve` again."


def check_host(text: str) -> Iterator[Finding]:
    """A host, from the network up to the protocol."""
    try:
        url = parse_url(text)
    except UserError as error:
        yield Finding(FAILED, "host-url", error.message, error.advice)
        return
    problems = [*_connection(url)]
    yield from problems
    if not any(problem.state == FAILED for problem in problems):
        yield _answer(url)


def _connection(url: HostUrl) -> Iterator[Finding]:
    try:
        with connected(url, SECONDS) as connection:
            if not isinstance(url, UnixUrl) and url.tls:
                yield from _certificate(url, connection)
    except socket.gaierror as error:
        text = f"the name {url.host if isinstance(url, TcpUrl) else url} cannot be resolved: {error.strerror}"
        yield Finding(FAILED, "host", text, "Check the spelling, or give the host's address.")
    except TimeoutError:
        advice = "Check the address, and whether a firewall or security group lets the port through."
        yield Finding(FAILED, "host", f"no answer from {url} within {SECONDS:.0f} s", advice)
    except FileNotFoundError:
        advice = f"Start one: `farlane serve --listen {url}`."
        yield Finding(FAILED, "host", f"there is no socket {url}", advice)
    except PermissionError:
        advice = "Run as the user who started `farlane serve`, or as one of the socket's group."
        yield Finding(FAILED, "host", f"this user may not connect to {url}", advice)
    except ConnectionRefusedError:
        advice = "Start `farlane serve` there, and let it listen on that address and port (--listen)."
        yield Finding(FAILED, "host", f"nothing listens at {url}", advice)
    except OSError as error:
        yield Finding(FAILED, "host", f"{url} cannot be reached: {error.strerror or error}", "Check the address.")


def _certificate(url: TcpUrl | VsockUrl, connection: socket.socket) -> Iterator[Finding]:
    """The host's certificate, as this guest checks it."""
    named = os.environ.get("FARLANE_CA")
    try:
        context = ssl.create_default_context(cafile=named)
        context.set_alpn_protocols(["h2"])
        with context.wrap_socket(connection, server_hostname=_name(url)) as secured:
            ends = (secured.getpeercert() or {}).get("notAfter")
    except FileNotFoundError:
        yield Finding(FAILED, "certificate", f"there is no file {named}", "--ca names the host's ca.pem: copy it here.")
        return
    except ssl.SSLCertVerificationError as error:
        yield _refused(url, error)
        return
    except ssl.SSLError as error:
        text = f"{url} does not speak TLS: {error.reason or error}"
        advice = f"Give the URL that `farlane serve` prints: {url} may be {dataclasses.replace(url, tls=False)}."
        yield Finding(FAILED, "certificate", text, advice)
        return
    if isinstance(ends, str):
        until = datetime.datetime.fromtimestamp(ssl.cert_time_to_seconds(ends), datetime.UTC)
        if until - datetime.datetime.now(datetime.UTC) < SOON:
            yield Finding(NOTE, "certificate", f"the certificate of {url} expires on {until:%Y-%m-%d}", RENEW)


def _refused(url: TcpUrl | VsockUrl, error: ssl.SSLCertVerificationError) -> Finding:
    if error.verify_code == EXPIRED:
        return Finding(FAILED, "certificate", f"the certificate of {url} has expired", RENEW)
    if error.verify_code == NOT_YET_VALID:
        text = f"the certificate of {url} is not valid yet"
        return Finding(FAILED, "certificate", text, "Set the clocks of both machines.")
    if error.verify_code in UNKNOWN_AUTHORITY:
        text = f"the certificate of {url} is of an authority that this guest does not know"
        return Finding(FAILED, "certificate", text, "Copy the host's ca.pem here, and name it with --ca or FARLANE_CA.")
    if error.verify_code in OTHER_NAME:
        advice = f"Use a name that is in it, or add this one on the host: `farlane host renew --name {_name(url)}`."
        return Finding(FAILED, "certificate", f"the certificate of {url} is not for the name {_name(url)}", advice)
    return Finding(FAILED, "certificate", f"the certificate of {url} is refused: {error.verify_message}", RENEW)


def _name(url: TcpUrl | VsockUrl) -> str:
    """For which the certificate has to be."""
    return url.host if isinstance(url, TcpUrl) else VSOCK_NAME


def _answer(url: HostUrl) -> Finding:
    try:
        reply = describe(url)
    except UserError as error:
        if "refused the guest" in error.message:
            advice = "Name a file with a valid token (--token-file). On the host: `farlane token list`, `farlane token create NAME`."
            return Finding(FAILED, "token", error.message, advice)
        return Finding(FAILED, "host", error.message, error.advice or "Check the address, and --ca and --token-file.")
    devices = ", ".join(f"{d.name} ({d.backend})" for d in reply.devices) or "no device"
    text = f"host {url}: farlane {reply.host_version}, {devices}, {reply.sessions} of {reply.session_limit} sessions"
    ours = importlib.metadata.version("farlane")
    if reply.host_version != ours:
        advice = f"Install the same version on both machines: pip install farlane=={reply.host_version}, or upgrade the host."
        return Finding(NOTE, "version", f"{text}; this is farlane {ours}", advice)
    if reply.sessions >= reply.session_limit:
        return Finding(NOTE, "host", f"{text}: it is full", "Wait, or start it with more --sessions.")
    return Finding(OK, "host", text)


def check_files() -> Iterator[Finding]:
    """The files of certificates and tokens that the environment names can be read."""
    for name in ("FARLANE_CA", "FARLANE_TOKEN_FILE", "FARLANE_CERTIFICATE", "FARLANE_KEY"):
        named = os.environ.get(name)
        if named and not os.access(named, os.R_OK):
            what = "cannot be read" if Path(named).exists() else "does not exist"
            yield Finding(FAILED, "access-files", f"{name}: {named} {what}", "Give the path of a file that is there.")


def check_embedded(device: str) -> Iterator[Finding]:
    """The embedded host starts and answers."""
    try:
        with EmbeddedHost(device) as host:
            finding = _answer(parse_url(host.url))
    except UserError as error:
        text = f"embedded host with device {device}: {error.message}"
        yield Finding(FAILED, "embedded-host", text, error.advice)
        return
    yield Finding(finding.state, "embedded-host", f"embedded {finding.text}", finding.advice)

"""The Debian package farlane-host: a host as a system's service, with all that it needs but the release's Python.

It holds a Python environment in /usr/lib/farlane-host, made of the wheel and of what the wheel depends on, /usr/bin/farlane, and a
systemd unit. Distributions of Python have parts for one version of Python each: there is a package for each release. The service runs as
a user of its own and keeps its certificates and tokens in /var/lib/farlane/host, made at its first start. Needs dpkg-deb, and
the package index for what the wheel depends on.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend import shim_library
from farlane.frontend.devtools import manual
from farlane.frontend.devtools.packages import debian_package, run, sbom, version
from farlane.frontend.devtools.packages.debian_package import Recipe, write

NAME = "farlane-host"
PLACE = "usr/lib/farlane-host"


@dataclass(frozen=True)
class Release:
    """A Debian release. `glibc`: of its C library, the part behind the 2."""

    name: str
    number: int
    python: tuple[int, int]
    glibc: int


RELEASES = (Release("bookworm", 12, (3, 11), 36), Release("trixie", 13, (3, 13), 41))
DESCRIPTION = """\
host that runs the CUDA programs of guests without a GPU
 Programs written for CUDA run unchanged in guests (virtual machines,
 containers, other machines) that have no GPU. The host runs their kernels
 on a simulated device, or on a real GPU where there is one.
 .
 The service listens with TLS and asks each guest for a token: see
 /usr/share/doc/farlane-host/README.
"""
UNIT = """\
[Unit]
Description=Farlane host: CUDA for guests without a GPU
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
User=farlane
Environment=FARLANE_HOST_FOLDER=%S/farlane/host FARLANE_CACHE_DIR=%C/farlane
EnvironmentFile=/etc/default/farlane-host
ExecStartPre=/usr/lib/farlane-host/setup
ExecStart=/usr/bin/farlane serve $FARLANE_SERVE
Restart=on-failure
# The host ends its sessions' processes itself; what is left behind is killed.
KillMode=mixed
StateDirectory=farlane
StateDirectoryMode=0700
CacheDirectory=farlane
CacheDirectoryMode=0700
LimitNOFILE=65536
TasksMax=8192

NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
UMask=0077
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
# Kernels are compiled to machine code (no MemoryDenyWriteExecute), and sessions' processes confine themselves.
SystemCallFilter=@system-service seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self userfaultfd
SystemCallErrorNumber=EPERM
# The simulated device needs no device; these are a GPU's.
DevicePolicy=closed
DeviceAllow=char-nvidia-frontend rw
DeviceAllow=char-nvidia-uvm rw
DeviceAllow=char-nvidia-caps rw

[Install]
WantedBy=multi-user.target
"""
SETTINGS = """\
# Arguments of `farlane serve` (see `farlane serve --help`). For a real GPU: --device cupy, with CuPy and NVIDIA's driver.
FARLANE_SERVE="--device sim --listen farlane+tls://0.0.0.0:7070"
"""
SETUP = """\
#!/bin/sh
# The first start of the service: certificates, and a first token that only this user can read.
set -e
[ -e "$FARLANE_HOST_FOLDER/ca.pem" ] || /usr/bin/farlane host init --token-file "$STATE_DIRECTORY/first-token"
"""
FARLANE = """\
#!/usr/lib/farlane-host/bin/python3
import sys

from farlane.frontend.cli import main

sys.exit(main())
"""
README = """\
farlane-host
============

The service is installed, and not started. It listens on port 7070 with TLS:

    systemctl enable --now farlane-host

Its first start makes certificates and a token, which are the user farlane's. Other tokens:

    sudo -u farlane FARLANE_HOST_FOLDER=/var/lib/farlane/host farlane token create NAME

A guest needs /var/lib/farlane/host/ca.pem and its token:

    export FARLANE_CA=ca.pem FARLANE_TOKEN=farlane-...
    farlane-run --host farlane+tls://HOST:7070 -- ./program

Arguments of `farlane serve` are in /etc/default/farlane-host. Logs: journalctl -u farlane-host.
"""
SYSUSERS = 'u farlane - "Farlane host" /var/lib/farlane\n'
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    systemd-sysusers farlane-host.conf
    /usr/lib/farlane-host/bin/python3 -m compileall -q -j 0 /usr/lib/farlane-host/lib || true
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        [ -z "$2" ] || systemctl try-restart farlane-host.service
    fi
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now --quiet farlane-host.service
fi
find /usr/lib/farlane-host -name __pycache__ -type d -prune -exec rm -r {} +
"""
POSTRM = """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
if [ "$1" = purge ]; then
    rm -rf /var/lib/farlane /var/cache/farlane
fi
"""
OVERRIDES = """\
# Python's distributions bring their libraries, as they are.
farlane-host: embedded-library
farlane-host: custom-library-search-path
farlane-host: hardening-no-fortify-functions
farlane-host: hardening-no-relro
farlane-host: library-not-linked-against-libc
farlane-host: shared-library-lacks-prerequisites
farlane-host: statically-linked-binary
farlane-host: unstripped-binary-or-object
farlane-host: unstripped-static-library
farlane-host: package-installs-python-pycache-dir
farlane-host: extra-license-file
farlane-host: shared-library-is-executable
# The environment's own interpreter.
farlane-host: wrong-path-for-interpreter
farlane-host: incorrect-path-for-interpreter
farlane-host: unusual-interpreter
# systemd's own tool makes the user.
farlane-host: maintainer-script-calls-systemctl
# There is no bug number: the package is not in Debian.
farlane-host: initial-upload-closes-no-bugs
"""


def build(wheel: Path, release: Release, target: Path) -> Path:
    """Writes the package of a release into a folder, and returns its path."""
    python = ".".join(map(str, release.python))
    following = f"{release.python[0]}.{release.python[1] + 1}"
    recipe = Recipe(
        name=NAME,
        version=f"{version()}+deb{release.number}",
        depends=f"python3 (>= {python}), python3 (<< {following}), libc6, libstdc++6, systemd",
        section="net",
        description=DESCRIPTION,
        news="The host and its service.",
        overrides=OVERRIDES,
        scripts={"postinst": POSTINST, "prerm": PRERM, "postrm": POSTRM},
        settings=("/etc/default/farlane-host",),
        compression=("-Zxz", "-z1"),  # level 6 takes three times as long for 12 % less
    )
    return debian_package.build(recipe, lambda tree: _fill(tree, wheel, release), target)


def _fill(tree: Path, wheel: Path, release: Release) -> None:
    python = ".".join(map(str, release.python))
    place = tree / PLACE
    packages = place / f"lib/python{python}/site-packages"
    _install(wheel, packages, release)
    (place / "bin").mkdir()
    (place / "bin/python3").symlink_to(f"../../../bin/python{python}")
    write(place / "pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n")
    write(place / "bin/farlane", FARLANE, executable=True)
    write(place / "setup", SETUP, executable=True)
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/farlane").symlink_to("../lib/farlane-host/bin/farlane")
    write(tree / "usr/lib/systemd/system/farlane-host.service", UNIT)
    write(tree / "usr/lib/sysusers.d/farlane-host.conf", SYSUSERS)
    write(tree / "etc/default/farlane-host", SETTINGS)
    for name, text in manual.pages().items():
        if name != f"{shim_library.LAUNCHER}.1":  # farlane-guest has one of that name
            debian_package.write_page(tree, name, text)
    documents = tree / "usr/share/doc" / NAME
    write(documents / "README", README)
    components = [*sbom.crates(), *sbom.distributions(packages)]
    write(documents / "sbom.cdx.json", sbom.document(f"{NAME}, Debian {release.number}", components))


def _install(wheel: Path, target: Path, release: Release) -> None:
    """The wheel and what it depends on, for the release's Python, whatever runs here."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), "--no-compile"]
    command += [
        "--only-binary",
        ":all:",
        "--implementation",
        "cp",
        "--python-version",
        ".".join(map(str, release.python)),
    ]
    command += [word for name in _platforms(release) for word in ("--platform", name)]
    run([*command, str(wheel)])
    shutil.rmtree(target / "bin", ignore_errors=True)  # commands, which name the interpreter that runs here
    for name in ("direct_url.json", "RECORD", "REQUESTED"):  # where the wheel lay, and what has been removed here
        for path in target.glob(f"*.dist-info/{name}"):
            path.unlink()
    for path in target.rglob("*"):
        if path.is_file():
            path.chmod(0o755 if _is_program(path) else 0o644)


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(4)
    return head.startswith(b"#!") or (head == b"\x7fELF" and ".so" not in path.suffixes)


def _platforms(release: Release) -> Iterator[str]:
    """What wheels may be for, the newest first (PEP 600)."""
    yield from (f"manylinux_2_{minor}_x86_64" for minor in range(release.glibc, 4, -1))
    yield from ("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64")

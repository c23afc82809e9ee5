"""`make packages`: the sdist, the wheel, the Debian packages and their SBOMs.

Usage: python -m farlane.frontend.devtools.packages FOLDER [sdist] [wheel] [guest] [guest-arm64] [host]    (default: all)

Where nothing is named, guest-arm64 is left out with a line where what builds it is missing.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from farlane.frontend.devtools.packages import cross, guest, host, sbom, version, wheels

WHAT = ("sdist", "wheel", "guest", "guest-arm64", "host")


def build(target: Path, what: tuple[str, ...]) -> Iterator[Path]:
    """The wheel is built from the sdist, and what holds it from the wheel."""
    sdist = wheels.build_sdist(target)
    yield sdist
    if what == ("sdist",):
        return
    wheel = wheels.build_wheel(sdist, target)
    yield wheel
    document = target / f"farlane-{version()}.cdx.json"
    document.write_text(sbom.document(wheel.name, sbom.crates()))
    yield document
    if "guest" in what:
        yield guest.build(wheel, target)
    if "guest-arm64" in what:
        yield guest.build_arm64(sdist, guest.launchers_help(wheel), target)
    if "host" in what:
        for release in host.RELEASES:
            yield host.build(wheel, release, target)


def main() -> int:
    folder, *what = sys.argv[1:] or [""]
    if not folder or set(what) - set(WHAT):
        print(f"usage: python -m farlane.frontend.devtools.packages FOLDER [{'] ['.join(WHAT)}]", file=sys.stderr)
        return 2
    if platform.machine() != "x86_64":
        print("farlane: packages are made on x86-64 only", file=sys.stderr)
        return 2
    wanted = tuple(what) or WHAT
    try:
        if "guest-arm64" in wanted:
            cross.require()
    except cross.Unavailable as reason:
        print(f"farlane: farlane-guest for arm64 is left out: {reason}", file=sys.stderr)
        if what:
            return 1
        wanted = tuple(each for each in WHAT if each != "guest-arm64")
    try:
        for path in build(Path(folder).absolute(), wanted):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{path}  {path.stat().st_size:,} bytes  sha256 {digest}", flush=True)
    except subprocess.CalledProcessError as error:
        print(
            f"farlane: this command failed (its messages are above): {' '.join(map(str, error.cmd))}", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

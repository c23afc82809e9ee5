"""What a program's kernels are passed: of each, by its name on the device, the bytes of every parameter.

Read from the PTX in the program's fat binaries, whose entries declare their parameters; machine code alone says nothing
here. Bytes are untrusted: what does not follow the format, or expands to more than `MAXIMUM_TEXT`, tells nothing.
Kernels of one name that differ tell nothing, either.

Source: PTX ISA, "Kernel and Function Directives: .entry" and "State Spaces: Parameter State Space".
"""

from __future__ import annotations

import re

from farlane.analyzer.loader.image import Image

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
MAXIMUM_TEXT = 256 << 20  # bytes of all PTX together
MAXIMUM_BYTES = 1 << 16  # of one parameter
_ENTRY = re.compile(r"\.entry\s+([A-Za-z0-9_$%]+)\s*(?:\(([^)]*)\))?")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PARAMETER = re.compile(
    r"\s*\.param\s+(?:\.align\s+\d+\s+)?\.[a-z]+(\d+)\s+(?:\.ptr\s*(?:\.\w+\s*)*\d*\s+)?[A-Za-z0-9_$%]+\s*(?:\[\s*(\d+)\s*\])?\s*"
)

Sizes = dict[str, tuple[int, ...]]


def sizes(image: Image) -> Sizes:
    """Kernel -> the bytes of its parameters, in order."""
    # Few programs are asked for them, and these imports take time.
    from farlane.fatbin import FatBinaryError, Kind, parse

    found: Sizes = {}
    doubtful: set[str] = set()
    left = MAXIMUM_TEXT
    for segment in image.segments:
        if segment.name not in SECTIONS:
            continue
        try:
            for entry in parse(segment.data):
                if entry.kind != Kind.PTX:
                    continue
                left -= entry.uncompressed_bytes
                if left < 0:
                    return {}
                for name, each in declared(entry.text()).items():
                    if each is None or found.setdefault(name, each) != each:
                        doubtful.add(name)
        except FatBinaryError:
            return {}
    return {name: each for name, each in found.items() if name not in doubtful}


def declared(text: str) -> dict[str, tuple[int, ...] | None]:
    """The kernels that a PTX text declares; None: parameters of a kind that is not known, or another kernel of the
    name."""
    found: dict[str, tuple[int, ...] | None] = {}
    for name, parameters in _ENTRY.findall(text):
        each = _listed(parameters)
        found[name] = each if found.get(name, each) == each else None
    return found


def _listed(parameters: str) -> tuple[int, ...] | None:
    text = _COMMENT.sub(" ", parameters)
    if not text.strip():
        return ()
    listed: list[int] = []
    for piece in text.split(","):
        matched = _PARAMETER.fullmatch(piece)
        if matched is None:
            return None
        width, length = int(matched[1]), int(matched[2] or 1)
        size = width // 8 * length
        if width % 8 or not 0 < size <= MAXIMUM_BYTES:
            return None
        listed.append(size)
    return tuple(listed)

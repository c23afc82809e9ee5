"""Which code of an image a device runs.

Owns the rule that orders candidates. It follows the CUDA programming guide's chapter on PTX compatibility: PTX for
compute capability X.Y runs on every device of capability X.Y or above; with the suffix `f` only within its family
(the same X, the same or a higher Y); with `a` on exactly X.Y. The highest one wins; between equals the plain one,
because it asks for less.

A device that takes any PTX (the simulated one) runs what a GPU refuses where an image has nothing else: the PTX of the
lowest architecture above its own, plain before `f` and `a`, else that with a suffix of the highest below. The guest chooses
by the same rule (frontend/shim/crates/image/src/select.rs): parameters are laid out by the PTX that runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from farlane.backend.device.base import CudaError
from farlane.backend.fatbin import joined
from farlane.backend.generated_errors import NO_KERNEL_IMAGE_FOR_DEVICE
from farlane.fatbin import ELF_MAGIC, MAGIC, Entry, FatBinaryError, Kind, parse

_TARGET = re.compile(r"^[ \t]*\.target[ \t]+sm_(\d{1,4})([af]?)\b", re.MULTILINE)
_DIRECTIVES = 1 << 16  # .version and .target stand in front of everything but comments
_SUFFIXES = ("", "f", "a")  # from what asks for least
_ELF_HEADER_BYTES = 64
_EM_CUDA = 190


@dataclass(frozen=True)
class Target:
    """What a PTX text's .target names."""

    arch: int
    suffix: str = ""

    def runs_on(self, capability: tuple[int, int]) -> bool:
        device = capability[0] * 10 + capability[1]
        if self.suffix == "a":
            return self.arch == device
        if self.suffix == "f":
            return self.arch // 10 == capability[0] and self.arch <= device
        return self.arch <= device

    def __str__(self) -> str:
        return f"compute_{self.arch}{self.suffix}"


def choose(image: bytes, capability: tuple[int, int], *, any_ptx: bool = False) -> str:
    """The PTX text of an image that a device of this compute capability runs.

    Args:
        any_ptx: where nothing is for this capability, PTX of another architecture runs.

    Raises:
        FatBinaryError: the image is malformed.
        CudaError: 209, nothing in it can run; the message says what there is and what would help.
    """
    head = bytes(image[:4])
    if head == ELF_MAGIC:
        raise _none(capability, [f"machine code for sm_{_elf_arch(image)}"], any_ptx)
    if head == MAGIC.to_bytes(4, "little"):
        return _from_entries(parse(image), capability, any_ptx)
    if looks_like_ptx(image):
        text = image.rstrip(b"\0").decode("utf-8", errors="replace")
        target = target_of(text)
        if not any_ptx and not target.runs_on(capability):
            raise _none(capability, [f"PTX for {target}"], any_ptx)
        return text
    raise FatBinaryError(f"the image is neither a fat binary, nor PTX, nor a cubin: it begins with {head.hex()}")


def choose_all(image: bytes, capability: tuple[int, int], *, any_ptx: bool = False) -> list[str]:
    """The PTX texts of an image that are linked for a device of this capability: several of a joined image, else one.

    Args:
        any_ptx: as for `choose`.

    Raises:
        FatBinaryError: the image, or a part of it, is malformed.
        CudaError: 209, nothing in a part can run.
    """
    if not joined.is_joined(image):
        return [choose(image, capability, any_ptx=any_ptx)]
    return [choose(part, capability, any_ptx=any_ptx) for part in joined.parts(image)]


def looks_like_ptx(image: bytes) -> bool:
    """Whether the bytes, comments apart, begin with the .version directive."""
    head = image[:_DIRECTIVES]
    position = 0
    while position < len(head):
        if head[position : position + 1].isspace():
            position += 1
        elif head.startswith(b"//", position):
            position = head.find(b"\n", position) + 1 or len(head)
        elif head.startswith(b"/*", position):
            position = head.find(b"*/", position + 2) + 2 if head.find(b"*/", position + 2) >= 0 else len(head)
        else:
            return head.startswith(b".version", position)
    return False


def target_of(text: str) -> Target:
    """The .target of a PTX text.

    Raises:
        FatBinaryError: there is none.
    """
    match = _TARGET.search(text, 0, _DIRECTIVES)
    if match is None:
        raise FatBinaryError("the PTX text has no .target directive")
    return Target(int(match[1]), match[2])


def _from_entries(entries: list[Entry], capability: tuple[int, int], any_ptx: bool) -> str:
    device = capability[0] * 10 + capability[1]
    best: tuple[int, str] | None = None
    # The header's number decides whether a text is worth expanding; the suffix stands only in the text.
    for entry in sorted((e for e in entries if e.kind is Kind.PTX), key=lambda e: -e.arch):
        if entry.arch > device or (best is not None and entry.arch < best[0]):
            continue
        text = entry.text()
        target = target_of(text)
        if not target.runs_on(capability):
            continue
        if not target.suffix:
            return text
        if best is None:
            best = (target.arch, text)
    if best is not None:
        return best[1]
    if any_ptx and (nearest := _nearest(entries, device)) is not None:
        return nearest
    raise _none(capability, [_described(entry) for entry in entries], any_ptx)


def _nearest(entries: list[Entry], device: int) -> str | None:
    """The PTX that asks for least, of what is not for the device."""

    def asks(entry: Entry) -> tuple[bool, bool, int, int]:
        above = entry.arch > device
        return (entry.suffix != "", not above, entry.arch if above else -entry.arch, _SUFFIXES.index(entry.suffix))

    ptx = [entry for entry in entries if entry.kind is Kind.PTX]
    return min(ptx, key=asks).text() if ptx else None


def _described(entry: Entry) -> str:
    if entry.kind is Kind.PTX:
        return f"PTX for {target_of(entry.text())}"
    if entry.kind is Kind.ELF:
        return f"machine code for sm_{entry.arch}"
    return f"an entry of unknown kind for sm_{entry.arch}"


def _none(capability: tuple[int, int], holds: list[str], any_ptx: bool) -> CudaError:
    unique = list(dict.fromkeys(holds))
    listed = ", ".join(unique[:16]) + (f" and {len(unique) - 16} more" if len(unique) > 16 else "")
    major, minor = capability
    takes, other = f"PTX for compute capability {major}.{minor} or below", f"compute_XY up to {major}{minor}"
    if any_ptx:
        takes, other = "PTX for any compute capability, but no machine code", "compute_XY"
    return CudaError(
        NO_KERNEL_IMAGE_FOR_DEVICE,
        f"the image holds {listed or 'no device code'}; this device runs {takes}: "
        f"build with -gencode arch=compute_75,code=compute_75 (or another {other})",
    )


def _elf_arch(image: bytes) -> int:
    """The architecture of a bare cubin, from e_flags: bits 8 to 15 since ABI version 8, bits 0 to 7 before it."""
    if len(image) < _ELF_HEADER_BYTES or int.from_bytes(image[18:20], "little") != _EM_CUDA:
        raise FatBinaryError("the image is an ELF file, but not one of device code")
    flags = int.from_bytes(image[48:52], "little")
    return (flags >> 8 if image[8] >= 8 else flags) & 0xFF

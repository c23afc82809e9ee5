"""Checks of the device code in a file: has it kernels that the simulated device runs?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from farlane.fatbin import Entry, FatBinaryError, Kind, parse
from farlane.frontend.doctor.finding import FAILED, OK, Finding

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
MOST_BYTES = 1 << 30
MOST_ENTRIES = 1 << 20  # of a whole file: cuBLASLt has more than any image that a program registers may have


def check_kernels(path: Path, advice: str) -> Iterator[Finding]:
    """Whether the kernels of a program or a library can run. `advice` is for machine code alone."""
    try:
        images = [entry for section in _sections(path) for entry in parse(section, MOST_ENTRIES)]
    except (FatBinaryError, OSError) as error:
        text = f"the device code of {path} cannot be read: {error}"
        yield Finding(FAILED, "kernels", text, "Build it again with nvcc of CUDA 12 or 13.")
        return
    with_text = [image for image in images if image.kind is Kind.PTX]
    if images and not with_text:
        text = f"{path} has machine code alone ({_names(images)}) and no PTX, which the simulated device runs"
        yield Finding(
            FAILED, "kernels", text, f"{advice} A real GPU runs it as it is (docs/howto/hosts/serve-a-gpu.md)."
        )
    elif with_text:
        yield Finding(OK, "kernels", f"{path} has PTX ({_names(with_text)})")


def _names(images: list[Entry]) -> str:
    prefix = {Kind.PTX: "compute_", Kind.ELF: "sm_"}
    return ", ".join(sorted({f"{prefix.get(image.kind, '')}{image.arch}{image.suffix}" for image in images}))


def _sections(path: Path) -> Iterator[bytes]:
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as stream:
        elf = ELFFile(stream)
        for name in SECTIONS:
            section = elf.get_section_by_name(name)
            if section is not None and section["sh_type"] != "SHT_NOBITS" and section["sh_size"] <= MOST_BYTES:
                data = section.data()
                if re.search(rb"[^\0]", data):
                    yield data

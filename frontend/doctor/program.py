"""Checks of a program: can its CUDA calls be intercepted, and has it kernels that the simulated device runs?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from farlane.fatbin import Entry, FatBinaryError, Kind, parse
from farlane.frontend import program as programs
from farlane.frontend import settings, shim_library
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.frontend.errors import UserError

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
MOST_BYTES = 1 << 30


def check_program(name: str) -> Iterator[Finding]:
    """All that is known of a program without running it."""
    try:
        program = programs.inspect(programs.find(name))
    except UserError as error:
        yield Finding(FAILED, "program", error.message, error.advice or "Give the path of the program that you run.")
        return
    findings = [*_interception(program), *_kernels(program)]
    yield from findings or [Finding(OK, "program", f"{name} can run")]


def _interception(program: programs.Program) -> Iterator[Finding]:
    try:
        remark = programs.require_interceptable(program, settings.interop(os.environ))
        if remark:
            yield Finding(NOTE, "interception", remark)
    except UserError as error:
        yield Finding(FAILED, "interception", error.message, error.advice)
    try:
        shim_library.preload_for(program.runtimes)
    except UserError as error:
        yield Finding(FAILED, "runtime", error.message, error.advice)


def _kernels(program: programs.Program) -> Iterator[Finding]:
    if not program.has_kernels:
        return
    try:
        images = [entry for section in _sections(program.path) for entry in parse(section)]
    except (FatBinaryError, OSError) as error:
        text = f"the device code of {program.path} cannot be read: {error}"
        yield Finding(FAILED, "kernels", text, "Rebuild the program with nvcc of CUDA 12 or 13.")
        return
    with_text = [image for image in images if image.kind is Kind.PTX]
    if images and not with_text:
        yield Finding(
            FAILED,
            "kernels",
            f"{program.path} has machine code alone ({_names(images)}) and no PTX, which the simulated device runs",
            "Build it without -arch, or add -gencode arch=compute_75,code=compute_75. A real GPU runs it as it is (docs/howto/hosts/serve-a-gpu.md).",
        )
    elif with_text:
        yield Finding(OK, "kernels", f"{program.path} has PTX ({_names(with_text)})")


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
                if data.strip(b"\0"):
                    yield data

"""Checks of a program and of the libraries that it is linked to: can its CUDA calls be intercepted, and its kernels run?"""

from __future__ import annotations

import os
from collections.abc import Iterator

from farlane.frontend import program as programs
from farlane.frontend import settings, shim_library
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.frontend.doctor.kernels import check_kernels
from farlane.frontend.doctor.libraries import check_libraries
from farlane.frontend.errors import UserError

WITH_PTX = "Build it without -arch, or add -gencode arch=compute_75,code=compute_75."


def check_program(name: str) -> Iterator[Finding]:
    """All that is known of a program without running it."""
    try:
        program = programs.inspect(programs.find(name))
    except UserError as error:
        yield Finding(FAILED, "program", error.message, error.advice or "Give the path of the program that you run.")
        return
    findings = []
    try:
        interop = settings.interop(os.environ)
    except UserError as error:
        interop = False
        findings.append(Finding(FAILED, "interception", error.message, error.advice or "Set it to 1 or 0."))
    findings += _interception(program, interop)
    if program.has_kernels:
        findings += check_kernels(program.path, WITH_PTX)
    if program.is_elf and not program.fully_static:
        findings += check_libraries(program, interop)
    yield from findings or [Finding(OK, "program", f"{name} can run")]


def _interception(program: programs.Program, interop: bool) -> Iterator[Finding]:
    try:
        remark = programs.require_interceptable(program, interop)
        if remark:
            yield Finding(NOTE, "interception", remark)
    except UserError as error:
        yield Finding(FAILED, "interception", error.message, error.advice)
    try:
        shim_library.preload_for(program.runtimes)
    except UserError as error:
        yield Finding(FAILED, "runtime", error.message, error.advice)

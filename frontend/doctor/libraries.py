"""Checks of the libraries that a program is linked to: are they all found, which of them carry CUDA code, and can that run?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from farlane.frontend import libraries, objects, shim_library
from farlane.frontend import program as programs
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.frontend.doctor.kernels import check_kernels
from farlane.frontend.errors import UserError
from farlane.frontend.program import Program

WITH_PTX = "Use one that is built with -gencode arch=compute_75,code=compute_75."
OF_VENDOR = "Use a release that has PTX (docs/reference/libraries.md)."
NOT_FOUND = "Install it, or name its folder: LD_LIBRARY_PATH=FOLDER farlane run -- ..."


def check_libraries(program: Program, interop: bool) -> Iterator[Finding]:
    """The libraries as the dynamic linker finds them when `farlane run` starts the program. `interop` is the user's setting."""
    linker = libraries.linker_of(program.path)
    if linker is None:
        return  # it is no program, and is started by none
    if linker != libraries.linker():
        text = f"{program.path} is started by {linker}, not by this system's dynamic linker: its libraries are not looked at"
        yield Finding(NOTE, "libraries", text, "Farlane's libraries need glibc's: use a program that is built for it.")
        return
    try:
        environment = _environment(program)
    except UserError:
        return  # the check of the runtime says so
    linked = libraries.linked(program.path, environment)
    known = [_inspected(path) for path in linked.found if path.parent != shim_library.FOLDER]
    for message in linked.errors:
        yield Finding(
            FAILED, "libraries", message, "The dynamic linker does not start the program: use libraries that fit it."
        )
    for name in linked.missing:
        yield _missing(name, program, [program, *(each for each in known if isinstance(each, Program))], environment)
    for each in known:
        yield from _library(each, interop) if isinstance(each, Program) else [each]
    if not linked.missing and not linked.errors:
        yield Finding(OK, "libraries", f"the dynamic linker finds all libraries of {program.path}")


def _environment(program: Program) -> dict[str, str]:
    """The one that the program is started in, as far as the dynamic linker reads it."""
    return shim_library.guest_environment(
        os.environ, host="", mode="none", runtimes=program.runtimes, report=None, sanitizer=program.sanitizer
    )


def _inspected(path: Path) -> Program | Finding:
    try:
        return programs.inspect(path)
    except UserError as error:
        return Finding(FAILED, "libraries", error.message, error.advice or "Install it again.")


def _missing(name: str, program: Program, known: list[Program], environment: Mapping[str, str]) -> Finding:
    needing = ", ".join(str(each.path) for each in known if name in each.needed)
    for path in libraries.passed_over(program.path, environment, name):
        try:
            programs.inspect(path)
        except UserError as error:
            return Finding(FAILED, "libraries", f"{error.message}; {needing} needs it", error.advice or NOT_FOUND)
    return Finding(FAILED, "libraries", f"{name} is not found; {needing} needs it", NOT_FOUND)


def _library(library: Program, interop: bool) -> Iterator[Finding]:
    """What matters of one library: how it calls CUDA, and whether its kernels can run."""
    if library.stripped:
        yield _stripped(library, interop)
    elif library.static_runtime:
        yield Finding(OK, "library", f"{library.path} has the CUDA runtime linked into it, which is redirected")
    elif library.runtimes or library.needs_driver:
        yield _calling(library)
    if library.has_kernels:
        yield from check_kernels(library.path, OF_VENDOR if objects.of_vendor(library.path) else WITH_PTX)


def _stripped(library: Program, interop: bool) -> Finding:
    if not interop:
        error = programs.stripped_refusal(library)
        return Finding(FAILED, "library", error.message, error.advice)
    text = f"{library.path} has the CUDA runtime linked into it and is stripped: that runtime runs as it is"
    return Finding(NOTE, "library", text)


def _calling(library: Program) -> Finding:
    names = [f"{programs.RUNTIME_PREFIX}{major}" for major in library.runtimes]
    names += [shim_library.DRIVER] if library.needs_driver else []
    try:
        shim_library.preload_for(library.runtimes, str(library.path))
    except UserError as error:
        return Finding(FAILED, "library", error.message, error.advice)
    return Finding(OK, "library", f"{library.path} calls CUDA through {', '.join(names)}, which Farlane replaces")

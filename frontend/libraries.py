"""The libraries that a program is linked to, and those that they are linked to, as this machine's dynamic linker finds them.

The linker itself is asked (LD_TRACE_LOADED_OBJECTS, as ldd does): it maps the files, prints where they are, and runs nothing of them.
The program's own linker is not started, because a file can name any program as such.

Source: ld.so(8), ldd(1).
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FOUND = re.compile(r"\t(?:.* => )?(.*/.*) \(0x[0-9a-f]+\)")
_MISSING = re.compile(r"\t(.*) => not found")
_TRIED = re.compile(r" trying file=(.*)")
_NOT_ITS_OWN = ("LD_AUDIT", "LD_BIND_NOW", "LD_DEBUG", "LD_DEBUG_OUTPUT", "LD_VERBOSE")


@dataclass(frozen=True)
class Libraries:
    """What the dynamic linker says about a program.

    Attributes:
        found: the files, in the order in which they are loaded, without the linker itself.
        missing: names of libraries that are not found.
        errors: the linker's messages: a file that is no library, a version of a symbol that is missing.
    """

    found: tuple[Path, ...] = ()
    missing: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@functools.cache
def linker() -> Path | None:
    """The dynamic linker that started this Python; None where it is linked statically."""
    return linker_of(Path("/proc/self/exe"))


def linker_of(program: Path) -> Path | None:
    """The dynamic linker that a program names, with symbolic links resolved; None for one that is started without."""
    from elftools.elf.elffile import ELFFile  # program.inspect says why it is here
    from elftools.elf.segments import InterpSegment

    with program.open("rb") as stream:
        for segment in ELFFile(stream).iter_segments():
            if isinstance(segment, InterpSegment):
                return Path(segment.get_interp_name()).resolve()
    return None


def linked(program: Path, environment: Mapping[str, str]) -> Libraries:
    """The libraries of a program that starts with this environment. Those that it opens itself (dlopen) are not known before it runs."""
    lines, messages = _asked(program, environment, {})
    own = linker()
    found = [_plain(Path(match[1])) for line in lines if (match := _FOUND.fullmatch(line))]
    return Libraries(
        found=tuple(path for path in found if path.resolve() != own),
        missing=tuple(dict.fromkeys(match[1] for line in lines if (match := _MISSING.fullmatch(line)))),
        errors=tuple(messages),
    )


def passed_over(program: Path, environment: Mapping[str, str], name: str) -> list[Path]:
    """Files that the dynamic linker met in its search for a library and did not take: they are built for another machine."""
    _, messages = _asked(program, environment, {"LD_DEBUG": "libs"})
    tried = (Path(match[1]) for line in messages if (match := _TRIED.search(line)))
    return [_plain(path) for path in dict.fromkeys(tried) if path.name == Path(name).name and path.is_file()]


def _plain(path: Path) -> Path:
    """The path without "..", by which RUNPATH and $ORIGIN lead. The file keeps its name: it may be a symbolic link."""
    return path.parent.resolve() / path.name


def _asked(program: Path, environment: Mapping[str, str], more: dict[str, str]) -> tuple[list[str], list[str]]:
    """The lines that the dynamic linker prints, and its messages."""
    own = linker()
    if own is None:
        return [], []
    kept = {name: value for name, value in environment.items() if name not in _NOT_ITS_OWN}
    done = subprocess.run(
        [own, os.path.abspath(program)],
        env={**kept, "LD_TRACE_LOADED_OBJECTS": "1", **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding=sys.getfilesystemencoding(),
        errors="surrogateescape",
    )
    return done.stdout.splitlines(), done.stderr.splitlines()

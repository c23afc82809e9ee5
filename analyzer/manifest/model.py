"""A manifest as plain data: what the writer takes and the reader gives.

Addresses are link-time addresses. Code is bytes that `code.check` accepts. Nothing here knows how it was found out.

Source: protos/manifest.md.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from farlane.analyzer.permissions.model import Range


class IdentityKind(enum.IntEnum):
    BUILD_ID = 1
    SHA256 = 2


class Permission(enum.IntFlag):
    """What the shim may do at a site; proven by the code that gives it."""

    NONE = 0
    LOCAL_SYNC = 1
    DEFER_READ = 2
    COMPLETE_AT_CALL = 4


class Flag(enum.IntFlag):
    """What is said of the object as a whole."""

    NONE = 0
    THREADS = 1
    MANAGED = 2
    SKIPPED = 4


class LoopClass(enum.IntEnum):
    NONE = 0
    ONE = 1
    TWO = 2
    THREE = 3
    MIXED = 4


class ArgumentKind(enum.IntEnum):
    CONSTANT = 0
    INVARIANT = 1
    AFFINE = 2
    INDUCTION = 3
    RESULT = 4
    ELEMENT = 5


SLICES_VERSION = 1  # of the table of slices, which has a version of its own
TOLD_AT_FIRST = (ArgumentKind.INVARIANT, ArgumentKind.AFFINE)  # arguments that may have `first`


@dataclass(frozen=True)
class Argument:
    """A prediction of one argument; `value` is a signed 64-bit number, of meaning for CONSTANT and AFFINE only.

    `first`: code that gives the value in the iteration under way at the loop's first site; None when not known.
    """

    index: int
    kind: ArgumentKind
    width: int = 0
    value: int = 0
    first: bytes | None = None


@dataclass(frozen=True)
class Site:
    """A place from which CUDA is called in a loop.

    Attributes:
        loop: index of the innermost loop, in `Manifest.loops`.
        position: among the loop's own sites, in program order.
        more, remaining: code, None when not known.
        proof: how the permissions were proven; None when there are none.
    """

    return_address: int
    loop: int
    position: int
    name: str
    conditional: bool = False
    launch: bool = False
    in_callee: bool = False
    permissions: Permission = Permission.NONE
    more: bytes | None = None
    remaining: bytes | None = None
    proof: str | None = None
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class Loop:
    """A loop. `parent` is an earlier loop's index; `body` is the number of the loop's own sites; `line` 0: not
    known."""

    header: int
    function: int
    name: str
    parent: int | None = None
    class_: LoopClass = LoopClass.NONE
    described: bool = False
    body: int = 0
    line: int = 0


class LoopSlice(NamedTuple):
    """The slice of a loop, by its index; bytes that `slices.encode` reads."""

    loop: int
    data: bytes


@dataclass(frozen=True)
class JoinedCopy:
    """A copy to the host that may wait until the next call that waits; `shared`: others may know its destination."""

    return_address: int
    proof: str
    shared: bool = False
    ranges: tuple[Range, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """Sites and joined copies by rising return address; a loop stands before the loops inside it; slices by rising
    loop."""

    identity_kind: IdentityKind
    identity: bytes
    flags: Flag = Flag.NONE
    sites: tuple[Site, ...] = ()
    loops: tuple[Loop, ...] = ()
    slices: tuple[LoopSlice, ...] = ()
    joined: tuple[JoinedCopy, ...] = ()

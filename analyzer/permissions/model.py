"""What is permitted at a call site, as plain data: for the manifest's writer and for the reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Permission:
    """What the shim may do at one call site, and why.

    Attributes:
        site: address of the call instruction.
        return_address: where the call returns to: what the manifest knows the site by.
        function, header: entry of the function and header of the innermost loop that the site is in.
        loops: the loops, as (function, header), for which `defer_read` was proven of a site in a called function:
            `more` asks which calls led to the site. Empty: it was proven for `header` alone, for every caller of its
            function.
        local_sync: LOCAL_SYNC of protos/manifest.md.
        defer_read: DEFER_READ; then `more` is there.
        complete_at_call: COMPLETE_AT_CALL.
        more: the manifest's postfix code, END included: 1 when the site is surely reached again before the destination
            is touched; b"" when there is none.
        more_text: the same for people.
        proof: how the permissions were proven; "" when there is none.
        refused: why something was not permitted; "" when nothing was refused.
    """

    site: int
    return_address: int
    function: int
    header: int
    local_sync: bool = False
    defer_read: bool = False
    complete_at_call: bool = False
    more: bytes = b""
    more_text: str = ""
    proof: str = ""
    refused: str = ""
    loops: tuple[tuple[int, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The permissions by their names in the manifest."""
        given = (
            ("LOCAL_SYNC", self.local_sync),
            ("DEFER_READ", self.defer_read),
            ("COMPLETE_AT_CALL", self.complete_at_call),
        )
        return tuple(name for name, holds in given if holds)

    def within(self, function: int, header: int) -> bool:
        """Whether what is said of a copy is said of this loop."""
        return (function, header) in (self.loops or ((self.function, self.header),))

    @property
    def any(self) -> bool:
        return self.local_sync or self.defer_read or self.complete_at_call


class Range(NamedTuple):
    """Bytes that the code behind a copy reads: from an address of the object on, or, in the frame, from rsp + start."""

    start: int
    size: int
    frame: bool


@dataclass(frozen=True)
class JoinedCopy:
    """A copy to the host that may wait until the next call that waits (JOIN_NEXT_WAIT), or why it may not.

    Attributes:
        site, return_address, function: as of Permission.
        shared: others may know the destination.
        ranges: what the destination must not meet, when the copy is made.
        proof: how it was proven; "" where it is refused.
        name, line: of the function, and of the call in the source, for people.
    """

    site: int
    return_address: int
    function: int
    shared: bool = False
    ranges: tuple[Range, ...] = ()
    proof: str = ""
    refused: str = ""
    name: str = ""
    line: str = ""

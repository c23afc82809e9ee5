"""Everything that the analysis says of a program, one claim at a time, each with whether it is proven.

Two engines stand behind the claims, and this is their one interface. Predictions (`flow`, `loops`) may be wrong: the
shim compares them with what the program does. Permissions (`permissions`) are proven from the machine code and trusted.
docs/explanation/analyzer/two-engines.md says why there are two, and what one engine would need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from farlane.analyzer.loops.model import LoopReport, ProgramReport
from farlane.analyzer.permissions.model import Permission


class Claim(NamedTuple):
    """One claim.

    Attributes:
        about: "class", "trip count", "argument", or a permission's name in the manifest.
        function, header: the loop: its function's name, and its header; None: of a copy in a row, which needs no loop.
        site: the call instruction that it is about; None: the loop as a whole.
        subject: of an argument, its name.
        says: what is claimed.
        proven: whether it is proven; otherwise it is a prediction.
        basis: the proof; of a prediction, the reasons why no more is known.
        assumes: what a prediction rests on: "success" (no CUDA call fails), "separate" (pointers read from memory point
            to objects of their own).
    """

    about: str
    function: str
    header: int | None
    site: int | None
    subject: str
    says: str
    proven: bool
    basis: str = ""
    assumes: tuple[str, ...] = ()


def claims(report: ProgramReport) -> Iterator[Claim]:
    """All claims, loop by loop, then those of copies in a row."""
    for loop in report.loops:
        yield from _of(loop)
    for copy in report.joined:
        if copy.proof:
            yield Claim("JOIN_NEXT_WAIT", copy.name, None, copy.site, "", "JOIN_NEXT_WAIT", True, copy.proof)


def _of(loop: LoopReport) -> Iterator[Claim]:
    assumes = (*(("success",) if loop.assumes_success else ()), *(("separate",) if loop.assumes_separate else ()))
    reasons = ", ".join(loop.reasons)

    def predicted(about: str, says: str, site: int | None = None, subject: str = "", basis: str = "") -> Claim:
        return Claim(about, loop.function, loop.header, site, subject, says, False, basis, assumes)

    yield predicted("class", str(loop.class_), basis=reasons)
    if loop.trip_count is not None:
        yield predicted("trip count", loop.trip_count.text)
    for call in loop.calls:
        for argument in call.arguments:
            says = f"{argument.kind}: {argument.text}"
            yield predicted("argument", says, call.site, argument.name, ", ".join(argument.reasons))
        if call.permission is not None:
            yield from _permitted(loop, call.permission)


def _permitted(loop: LoopReport, permission: Permission) -> Iterator[Claim]:
    here = permission.local_sync or permission.within(loop.entry, loop.header)
    for name in permission.names if here else ():
        says = permission.more_text if name == "DEFER_READ" and permission.more_text else name
        yield Claim(name, loop.function, loop.header, permission.site, "", says, True, permission.proof)

"""From the reports of the analysis to a manifest.

Owns what a manifest holds of what is known: which loop a site belongs to, where a call returns to, which predictions
are worth sending. Permissions are others' to prove; here they are only attached, and dropped where they do not fit the
site.

One entry of the manifest stands for one return address, but a call in a called function may be reached through several
chains of calls. It belongs to the loop that the shortest chain leads from. The frame says the values at the call, so
they are left out unless there is no chain at all.

Source: protos/manifest.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from farlane.analyzer.externals import names
from farlane.analyzer.externals.interface import LAUNCH
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader.image import Image
from farlane.analyzer.loops.model import Call, Class, Continuation, LoopReport, ProgramReport, Reason
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.manifest import arguments
from farlane.analyzer.manifest.formulas import compiled
from farlane.analyzer.manifest.model import (
    Argument,
    Flag,
    IdentityKind,
    JoinedCopy,
    Loop,
    LoopClass,
    LoopSlice,
    Manifest,
    Permission,
    Site,
)
from farlane.analyzer.permissions.model import Permission as Proven
from farlane.analyzer.slices import encode
from farlane.limits.generated import IDENTITY_BYTES

HASHED = "sha256-"  # the loader's mark of an identity that is no build-id
BODY_LIMIT = MAXIMUM_JOINED = 65535

_CLASSES = {
    Class.NONE: LoopClass.NONE,
    Class.ONE: LoopClass.ONE,
    Class.TWO: LoopClass.TWO,
    Class.THREE: LoopClass.THREE,
    Class.MIXED: LoopClass.MIXED,
}
# A loop with one of these has no sequence of calls that is known when it is entered.
_UNDESCRIBED = frozenset(
    {
        Reason.CONDITIONAL,
        Reason.NESTED,
        Reason.CALLEE_LOOP,
        Reason.UNKNOWN_KERNEL,
        Reason.UNKNOWN_API,
        Reason.IRREDUCIBLE,
        Reason.SEVERAL_EXITS,
        Reason.NO_EXIT,
        Reason.EXIT_ON_DEVICE_DATA,
    }
)
LONGEST = 15  # bytes of an instruction


def build(image: Image, report: ProgramReport, proven: Iterable[Proven] = ()) -> Manifest:
    """The manifest of a program.

    Args:
        image, report: the program and what is known of its loops.
        proven: permissions; those of other sites than the report's are of no use.

    Raises:
        AnalysisError: the object has no identity, or the report does not belong to it.
    """
    kind, identity = _identity(image)
    tables = _Tables(image, report, proven)
    sites, loops = tables.made()
    return Manifest(kind, identity, _flags(image, report), sites, loops, tables.slices(), _joined(report))


def _joined(report: ProgramReport) -> tuple[JoinedCopy, ...]:
    """The copies that may wait until the next call that waits. A function that stands in others' places as well is
    analyzed with each: its sites are there once."""
    proven = {each.return_address: each for each in report.joined if each.proof}
    for each in report.joined:
        if not each.proof:
            proven.pop(each.return_address, None)
    return tuple(
        JoinedCopy(address, each.proof, each.shared, each.ranges)
        for address, each in sorted(proven.items())[:MAXIMUM_JOINED]
    )


def _identity(image: Image) -> tuple[IdentityKind, bytes]:
    hashed = image.identity.startswith(HASHED)
    identity = bytes.fromhex(image.identity.removeprefix(HASHED))
    if not 1 <= len(identity) <= IDENTITY_BYTES:
        raise AnalysisError(f"{image.path}: an identity of {len(identity)} bytes")
    return (IdentityKind.SHA256 if hashed else IdentityKind.BUILD_ID), identity


def _flags(image: Image, report: ProgramReport) -> Flag:
    imported = {*image.stubs.values(), *image.slots.values()}
    flags = Flag.SKIPPED if report.skipped else Flag.NONE
    if any(name.startswith(names.THREADS) for name in imported):
        flags |= Flag.THREADS
    if image.imports("__cudaRegisterManagedVar"):
        flags |= Flag.MANAGED
    return flags


@dataclass
class _Place:
    """Where a call is: in the loop of this number, with its entry in the loop's report.

    Launches share a site where one configuration is pushed for several, of which a branch chooses: `beside` are those
    behind the first, `several` is whether their kernels differ.
    """

    loop: int
    call: Call
    several: bool = False
    beside: list[Call] = field(default_factory=list)


class _Tables:
    def __init__(self, image: Image, report: ProgramReport, proven: Iterable[Proven]) -> None:
        self._image, self._decoder = image, Decoder()
        self._behind: dict[int, int | None] = {}  # call instruction -> where it returns to
        self._reports = sorted(report.loops, key=lambda loop: (loop.entry, loop.depth, loop.header))
        self._numbers = {(loop.entry, loop.header): index for index, loop in enumerate(self._reports)}
        self._continuations: dict[tuple[int, int], Continuation] = {
            (index, each.site): each
            for index, loop in enumerate(self._reports)
            for each in loop.continuations
            if not each.chain
        }
        self._slices = report.slices
        self._proven = {each.site: each for each in proven}
        self._reached = self._innermost()

    def slices(self) -> tuple[LoopSlice, ...]:
        """Those of the loops that have one."""
        found = [
            LoopSlice(self._numbers[each.entry, each.header], encode.write(each.slice))
            for each in self._slices
            if each.slice is not None and (each.entry, each.header) in self._numbers
        ]
        return tuple(sorted(found))

    def made(self) -> tuple[tuple[Site, ...], tuple[Loop, ...]]:
        places = self._places()
        self._leave_out_shared(places)
        order: dict[int, list[int]] = {index: [] for index in range(len(self._reports))}
        for site, place in places.items():
            order[place.loop].append(site)
        sites: list[Site] = []
        loops: list[Loop] = []
        for index, held in order.items():
            ranks = {call.site: rank for rank, call in reversed(list(enumerate(self._reports[index].calls)))}
            held.sort(key=lambda site: (ranks[site], site))
            del held[BODY_LIMIT:]
            own = [self._site(places[site], position) for position, site in enumerate(held)]
            report = self._reports[index]
            loops.append(self._loop(report, len(held)))
            if report.foretold and loops[-1].described and held == [call.site for call in report.calls]:
                own = arguments.foretold(report, own)
            sites += own
        return tuple(sorted(sites, key=lambda site: site.return_address)), tuple(loops)

    def _innermost(self) -> dict[int, list[Call]]:
        """Call instruction in a called function -> the call as each chain of calls makes it, seen from its innermost
        loop."""
        found: dict[int, dict[tuple[int, ...], tuple[int, Call]]] = {}
        for report in self._reports:
            for call in report.calls:
                if call.chain:
                    held = found.setdefault(call.site, {})
                    if call.chain not in held or report.depth > held[call.chain][0]:
                        held[call.chain] = report.depth, call
        return {site: [call for _, call in held.values()] for site, held in found.items()}

    def _places(self) -> dict[int, _Place]:
        """Call instruction -> the innermost loop that it is in.

        A function that ends by jumping to one of several functions of the runtime is one call instruction with several
        names: the manifest says nothing of it.
        """
        places: dict[int, _Place] = {}
        names: dict[int, set[str]] = {}
        for report in self._reports:
            for call in report.calls:
                names.setdefault(call.site, set()).add(call.name)
        for index, report in enumerate(self._reports):
            for call in report.calls:
                if len(names[call.site]) > 1 or self._returns(call.site) is None:
                    continue
                known = places.get(call.site)
                if known is None or self._closer(call, report, known):
                    places[call.site] = _Place(index, call)
                elif known.loop == index:
                    known.several = known.several or _kernel(known.call) != _kernel(call)
                    known.beside.append(call)
        return places

    def _closer(self, call: Call, report: LoopReport, known: _Place) -> bool:
        held = self._reports[known.loop]
        if len(call.chain) != len(known.call.chain):
            return len(call.chain) < len(known.call.chain)
        return report.entry == held.entry and report.depth > held.depth

    def _leave_out_shared(self, places: dict[int, _Place]) -> None:
        """A function may be called from elsewhere too. Then its sites do not say which loop runs.

        COMPLETE_AT_CALL relies on sites of its loop to be in no other place, so there they are left out.
        """
        completed = {
            place.loop for site, place in places.items() if self._permissions(site, place) & Permission.COMPLETE_AT_CALL
        }
        for site, place in list(places.items()):
            if place.call.chain and completed.intersection(self._around(place.loop)):
                del places[site]

    def _around(self, loop: int) -> Iterable[int]:
        """A loop and those around it in its function."""
        at: int | None = loop
        while at is not None:
            yield at
            report = self._reports[at]
            at = None if report.parent is None else self._numbers.get((report.entry, report.parent))

    def _agreed(self, place: _Place) -> list[Argument]:
        """The predictions that hold whichever way the site is reached, and whichever launch its configuration is
        for."""
        segments = self._image.segments
        own = range(segments[0].start if segments else 0, self._image.end)
        found = arguments.predicted(place.call, own)
        reached = self._reached[place.call.site] if place.call.chain else ()
        for other in (*place.beside, *reached) if found else ():
            held = arguments.predicted(other, own)
            found = [each for each in found if each in held]
        return found

    def _permissions(self, site: int, place: _Place) -> Permission:
        """What was proven of a call. Reads are tied to the loop that they were proven in; a synchronization is not."""
        proven = self._proven.get(site)
        permissions = Permission.NONE
        if proven is None or not proven.proof or proven.return_address != self._returns(site):
            return permissions
        if proven.local_sync:
            permissions |= Permission.LOCAL_SYNC
        report = self._reports[place.loop]
        direct = not place.call.chain or proven.loops  # or proven for chains of calls that `more` tells apart
        if direct and proven.within(report.entry, report.header):
            if proven.defer_read and proven.more:
                permissions |= Permission.DEFER_READ
            if proven.complete_at_call:
                permissions |= Permission.COMPLETE_AT_CALL
        return permissions

    def _returns(self, site: int) -> int | None:
        """Where the call at an address returns to; many loops and chains of calls ask for the same one."""
        if site not in self._behind:
            self._behind[site] = self._decoded(site)
        return self._behind[site]

    def _decoded(self, site: int) -> int | None:
        segment = self._image.segment(site)
        if segment is None or not segment.code:
            return None
        offset = site - segment.start
        code = segment.data[offset : offset + LONGEST]
        flows = self._decoder.sweep(code, site)
        return site + flows[0].size if flows and flows[0].address == site and flows[0].kind == "call" else None

    def _loop(self, report: LoopReport, body: int) -> Loop:
        known = report.class_ != Class.NONE and report.trip_count is not None
        known = known and not any(call.conditional for call in report.calls)  # one iteration is like the other
        line = report.line.rpartition(":")[2]
        return Loop(
            header=report.header,
            function=report.entry,
            name=report.function,
            parent=None if report.parent is None else self._numbers.get((report.entry, report.parent)),
            class_=_CLASSES[report.class_],
            described=known and _UNDESCRIBED.isdisjoint(report.reasons),
            body=body,
            line=int(line) if line.isdecimal() and len(line) < 10 else 0,
        )

    def _site(self, place: _Place, position: int) -> Site:
        call = place.call
        returns = self._returns(call.site)
        assert returns is not None
        more = remaining = None
        continuation = self._continuations.get((place.loop, call.site))
        if continuation is not None and _certain(continuation) and not call.conditional and not place.several:
            more, remaining = compiled(continuation.again), compiled(continuation.count)
        proof = None
        permissions = self._permissions(call.site, place)
        if permissions:
            proof = self._proven[call.site].proof
            if permissions & Permission.DEFER_READ:
                more = self._proven[call.site].more
        return Site(
            return_address=returns,
            loop=place.loop,
            position=position,
            name=call.name if place.several else call.kernel or call.name,
            conditional=call.conditional or place.several,
            launch=call.name == LAUNCH,
            in_callee=bool(call.chain),
            permissions=permissions,
            more=more,
            remaining=remaining,
            proof=proof,
            arguments=() if place.several else tuple(self._agreed(place)),
        )


def _kernel(call: Call) -> str | None:
    """What tells which kernel a launch is of."""
    return call.kernel or next((each.text for each in call.arguments if each.name == "function"), None)


def _certain(continuation: Continuation) -> bool:
    """Whether the exit tests see what stands there at the call, and nothing else leaves the loop."""
    return continuation.exact and not continuation.jumps_out

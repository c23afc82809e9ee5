"""What a manifest predicts of a call's arguments, from what is known of them in its loop.

Owns which described arguments are which of the manifest's, how wide they are, and which of an iteration's launches are
told at its first one.

Source: protos/manifest.md, "Argument".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from farlane.analyzer.externals.interface import LAUNCH, NUMBERS, roles
from farlane.analyzer.loops.model import Argument as Described
from farlane.analyzer.loops.model import Call, Foretold, Kind, LoopReport
from farlane.analyzer.machine.arithmetic import signed
from farlane.analyzer.manifest.formulas import compiled
from farlane.analyzer.manifest.model import TOLD_AT_FIRST, Argument, ArgumentKind, Site

_KINDS = {
    Kind.INVARIANT: ArgumentKind.INVARIANT,
    Kind.AFFINE: ArgumentKind.AFFINE,
    Kind.INDUCTION: ArgumentKind.INDUCTION,
    Kind.RESULT: ArgumentKind.RESULT,
    Kind.LOAD: ArgumentKind.ELEMENT,
}
FUNCTION = 255  # the index of the handle by which the driver's launches name their kernel
# The C parameters that a launch's described argument holds, 4 bytes each where it holds two.
_PACKED = {
    "grid.xy": (0, 1),
    "grid.x": (0,),
    "grid.y": (1,),
    "grid.z": (2,),
    "block.xy": (3, 4),
    "block.x": (3,),
    "block.y": (4,),
    "block.z": (5,),
    "shared": (6,),
    "stream": (7,),
    "function": (FUNCTION,),
}
_WORDS = (6, 7, FUNCTION)  # arguments of 8 bytes
_PARAMETERS = 8  # the first index of a launch's parameters; before it stands the configuration


def predicted(call: Call, own: range) -> list[Argument]:
    """The predictions, by rising index; what is unknown is absent. `own` are the object's link-time addresses."""
    if not call.arguments:
        return []
    found: dict[int, Argument] = {}
    letters = (roles(call.name) or "").split()
    for described in call.arguments:
        for index, word in _indices(described.name):
            if call.name == LAUNCH:
                width = 4 if index < 6 else 8 if index in _WORDS else described.size or 0
                pointer = index >= _PARAMETERS and width in (0, 8)
            else:
                width = 8 if index < len(letters) and letters[index] == "v" else 4
                pointer = not letters or (width == 8 and index not in NUMBERS.get(call.name, ()))
            if not width:
                continue  # a structure, which may be longer than what is known of it
            each = _argument(described, index, word, width)
            if pointer and each is not None and each.kind == ArgumentKind.CONSTANT and each.value in own:
                # Perhaps an address in the object, which is loaded elsewhere.
                each = Argument(index, ArgumentKind.INVARIANT, width)
            if each is not None and 0 <= index < 256:
                found.setdefault(index, each)
    return [found[index] for index in sorted(found)]


def _indices(name: str) -> list[tuple[int, int | None]]:
    """The C parameters that a described argument is, each with the 4-byte word of the value that it is; None: all of
    it."""
    if name in _PACKED:
        indices = _PACKED[name]
        return [(index, word if len(indices) > 1 else None) for word, index in enumerate(indices)]
    what, _, number = name.partition(" ")
    return [(int(number) + (8 if what == "parameter" else 0), None)] if number.isdecimal() else []


def _argument(described: Described, index: int, word: int | None, width: int) -> Argument | None:
    kind, number = _KINDS.get(described.kind), described.number
    if kind is None or (word is not None and kind != ArgumentKind.INVARIANT):
        return None  # unknown; or which half of the packed value moves is not told
    if kind == ArgumentKind.INVARIANT and number is not None:
        return Argument(
            index, ArgumentKind.CONSTANT, width, number >> 32 * word & 0xFFFFFFFF if word is not None else number
        )
    if kind == ArgumentKind.AFFINE:
        return None if number is None else Argument(index, kind, width, signed(number))
    return Argument(index, kind, width)


def foretold(report: LoopReport, sites: list[Site]) -> list[Site]:
    """The sites of an iteration of launches, with what the later ones are passed where the program stands at the first:
    all of it, else they are as they were."""
    if sites[0].remaining is None or any(site.conditional for site in sites):
        return sites
    made = sites[:1]
    for site, call, told in zip(sites[1:], report.calls[1:], report.foretold[1:], strict=True):
        if not site.launch:
            made.append(site)
            continue
        arguments = _with_first(site, call, told)
        if arguments is None:
            return sites
        made.append(replace(site, arguments=arguments))
    return made


def _with_first(site: Site, call: Call, told: Iterable[Foretold]) -> tuple[Argument, ...] | None:
    """A launch's arguments, each of them a constant or told at the first launch; None when one is not."""
    formulas = {(each.name, each.word): each.formula for each in told}
    known = {argument.index: argument for argument in site.arguments}
    found: dict[int, Argument] = {}
    for described in call.arguments:
        for index, word in _indices(described.name):
            argument = known.get(index)
            if argument is not None and argument.kind in TOLD_AT_FIRST:
                code = compiled(formulas.get((described.name, word)))
                argument = replace(argument, first=code) if code and argument.width else None
            elif argument is not None and argument.kind != ArgumentKind.CONSTANT:
                argument = None
            if argument is None:
                return None
            found[index] = argument
    whole = len(found) == len(known) and all(index in found for index in range(_PARAMETERS))
    return tuple(found[index] for index in sorted(found)) if whole else None

"""A trace of a program (FARLANE_TRACE) beside its manifest: every prediction and every condition, compared with what happened.

Owns the reading of traces and the meaning of each claim (protos/manifest.md):

- an argument's prediction relates a call at a site to the next one in the same execution of the loop;
- `more` says whether the site is reached again in the same execution, `remaining` how often;
- the sequence says which of the loop's sites comes next;
- a trip count says how often the site is reached;
- `first` says at a loop's first call what the later ones of the same iteration are passed, and all of it.

Where one execution of a loop ends is known from outside only for a loop that is in no other loop, in a function that runs once: such
functions are named by the caller. A site in a callee may be reached from elsewhere too: constants are not compared there. For the others `more` is what says that an execution goes on, and is checked in one
direction only. Conditions over writable global variables cannot be evaluated from a trace: they are counted as not checked.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farlane.analyzer import postfix as code
from farlane.analyzer.externals.interface import LAUNCH
from farlane.analyzer.loader.image import Image
from farlane.analyzer.manifest.model import Argument, ArgumentKind, Manifest, Permission, Site
from farlane.demangle import readable

MASK = 2**64 - 1


@dataclass
class Findings:
    """What was compared, by kind of claim; which claims were wrong, by function, and which of those at a permitted call."""

    checked: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    fatal: list[str] = field(default_factory=list)

    def claim(self, kind: str, right: bool, text: str, permissions: Permission = Permission.NONE) -> None:
        """Counts a claim; a wrong one's text begins with the function. `permissions` hang on it."""
        self.checked[kind] += 1
        if not right:
            self.wrong[text.split()[0].rstrip(":")].append(f"{kind}: {text}")
            if permissions & (Permission.DEFER_READ | Permission.COMPLETE_AT_CALL):
                self.fatal.append(f"{kind}: {text}")


@dataclass(frozen=True)
class Call:
    """A line of the trace at a site of the manifest, with the conditions' values there (None: not evaluated)."""

    index: int
    site: Site
    line: dict[str, Any]
    more: bool | None
    remaining: int | None

    @property
    def frame(self) -> int:
        return int(self.line["registers"]["rsp"])


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def calls_at_sites(lines: list[dict[str, Any]], manifest: Manifest, image: Image) -> dict[int, list[Call | int]]:
    """Thread -> its calls in order; a call from elsewhere is its index alone."""
    sites = {site.return_address: site for site in manifest.sites}
    identity = manifest.identity.hex()
    found: dict[int, list[Call | int]] = defaultdict(list)
    for index, line in enumerate(lines):
        site = sites.get(line["site"]) if line["object"] == identity else None
        if site is None:
            found[line["thread"]].append(index)
            continue
        more, remaining = _value(site.more, line, image), _value(site.remaining, line, image)
        found[line["thread"]].append(Call(index, site, line, None if more is None else more != 0, remaining))
    return found


def _value(condition: bytes | None, line: dict[str, Any], image: Image) -> int | None:
    if condition is None:
        return None

    def read_global(address: int, size: int) -> bytes | None:
        segment = image.segment(address)
        if segment is not None and segment.name == ".init_array" and address in image.pointers:
            return ((image.pointers[address] + int(line["bias"])) & MASK).to_bytes(8, "little")[:size]
        return None if segment is None or segment.writable else image.read(address, size)

    return code.evaluate(condition, line["registers"], bytes.fromhex(line["frame"]), read_global)


def compare(lines: list[dict[str, Any]], manifest: Manifest, image: Image, once: Set[str]) -> Findings:
    """Compares a whole trace.

    Args:
        once: functions that run once in the program.
    """
    findings = Findings()
    for calls in calls_at_sites(lines, manifest, image).values():
        _thread(calls, manifest, once, findings)
        _iterations(calls, manifest, image, findings)
    return findings


def _thread(calls: list[Call | int], manifest: Manifest, once: Set[str], findings: Findings) -> None:
    last: dict[tuple[int, int], Call] = {}
    before: Call | None = None
    for call in calls:
        if isinstance(call, int):
            _left(last, None, manifest, findings)
            before = None
            continue
        site, name = call.site, _name(call, manifest)
        line = call.line
        made = line.get("kernel", line["function"])
        right = "kernel" in line if site.name == LAUNCH else _plain(site.name) == _plain(made)
        findings.claim("name", right, f"{name} is {made}")
        _left(last, call, manifest, findings)
        key = (site.return_address, call.frame)
        previous = last.get(key)
        if previous is not None:
            whole = (
                manifest.loops[site.loop].parent is None
                and manifest.loops[site.loop].name in once
                and not site.in_callee
            )
            # Where a permission hangs on it, a condition may deny more than need be.
            if previous.more is False and whole and not previous.site.permissions & Permission.DEFER_READ:
                findings.claim("more", False, f"{name} is reached again in line {call.index}, which was denied")
            if previous.more or (whole and previous.more is None):
                _pair(previous, call, name, findings)
        if before is not None:
            _sequence(before, call, manifest, findings)
        for argument in site.arguments:
            if argument.kind == ArgumentKind.CONSTANT and not site.in_callee:
                value = _argument(call, argument)
                expected = argument.value & _mask(argument)
                findings.claim(
                    "constant", value is None or value == expected, f"{name} argument {argument.index}: {value}"
                )
        last[key] = before = call
    for call in last.values():
        if call.more is not None:
            findings.claim(
                "more", not call.more, f"{_name(call, manifest)} is not reached again after line {call.index}"
            )


def _name(call: Call, manifest: Manifest) -> str:
    return f"{readable(manifest.loops[call.site.loop].name)} {call.site.return_address:#x} {call.site.name}"


def _plain(name: str) -> str:
    """A kernel's name on the host and on the device differ in what says that it is static, and by clang's stub; a call's, by its version."""
    return readable(name).replace("__device_stub__", "").removesuffix("_v2")


def _left(last: dict[tuple[int, int], Call], call: Call | None, manifest: Manifest, findings: Findings) -> None:
    """A call from outside a loop ends its execution: `more` must not have promised another round.

    A call in a callee, or in a loop inside, is no call from outside; what lies in another function may be called from the loop.
    """
    inside: set[int] = set()
    if call is not None:
        loop: int | None = call.site.loop
        while loop is not None:
            inside.add(loop)
            loop = manifest.loops[loop].parent
    for key, previous in list(last.items()):
        same_function = call is not None and (
            manifest.loops[call.site.loop].function == manifest.loops[previous.site.loop].function
        )
        if same_function and call is not None and call.frame == previous.frame and previous.site.loop not in inside:
            if previous.more is not None and not previous.site.in_callee and not call.site.in_callee:
                text = f"{_name(previous, manifest)}: line {call.index} is outside the loop"
                findings.claim("more", not previous.more, text, previous.site.permissions)
            del last[key]


def _pair(previous: Call, call: Call, name: str, findings: Findings) -> None:
    """Two calls in a row at one site in one execution."""
    if previous.more is not None:
        findings.claim("more", True, name)
    if previous.remaining is not None and call.remaining is not None:
        right = previous.remaining - 1 == call.remaining
        findings.claim("remaining", right, f"{name}: {previous.remaining}, then {call.remaining} in line {call.index}")
    for argument in call.site.arguments:
        first, second = _argument(previous, argument), _argument(call, argument)
        if first is None or second is None:
            continue
        text = f"{name} argument {argument.index}: {first}, then {second} in line {call.index}"
        if argument.kind == ArgumentKind.INVARIANT:
            findings.claim("invariant", first == second, text)
        elif argument.kind == ArgumentKind.AFFINE and not call.site.conditional and not call.site.in_callee:
            findings.claim(
                "affine", (second - first - argument.value) & _mask(argument) == 0, f"{text}, not {argument.value}"
            )


def _sequence(before: Call, call: Call, manifest: Manifest, findings: Findings) -> None:
    """In a loop that is described, the site behind a site comes next, as long as the loop goes on."""
    site, loop = before.site, manifest.loops[before.site.loop]
    if not loop.described or site.in_callee or site.position + 1 >= loop.body:
        return
    if any(other.loop == site.loop and (other.conditional or other.in_callee) for other in manifest.sites):
        return
    if before.more:
        right = call.site.loop == site.loop and call.site.position == site.position + 1
        findings.claim(
            "sequence", right, f"{_name(before, manifest)} is followed by {_name(call, manifest)} in line {call.index}"
        )


def _iterations(calls: list[Call | int], manifest: Manifest, image: Image, findings: Findings) -> None:
    """What is told at the first call of an iteration, beside its later ones, as long as they come in order."""
    told = {site.loop for site in manifest.sites if any(argument.first is not None for argument in site.arguments)}
    first: Call | None = None
    position = 0
    for call in calls:
        if isinstance(call, int) or call.site.loop not in told:
            first = None
        elif not call.site.position:
            first, position = call, 0
        elif first is not None and (call.site.loop, call.site.position) == (first.site.loop, position + 1):
            position += 1
            if call.site.launch:
                _later(first, call, _name(call, manifest), image, findings)
        else:
            first = None


def _later(first: Call, call: Call, name: str, image: Image, findings: Findings) -> None:
    """A later call of an iteration."""
    known = {argument.index: argument for argument in call.site.arguments}
    sizes = dict(enumerate([4] * 6 + [8] * 2 + [len(hexadecimal) // 2 for hexadecimal in call.line["parameters"]]))
    for index, size in sizes.items():
        if index not in known or known[index].width != size:
            findings.checked["first, of another length"] += (
                1  # the shim knows how long it is, and leaves the loop alone
            )
    for argument in call.site.arguments:
        if argument.index not in sizes:
            continue  # a parameter too many, or a handle
        expected = _argument(call, argument)
        if argument.kind == ArgumentKind.CONSTANT:
            value: int | None = argument.value
        else:
            assert argument.first is not None, f"{name} argument {argument.index}: it is not told of all"
            value = _value(argument.first, first.line, image)
        if value is None:
            findings.checked["first, not evaluated"] += 1
            continue
        text = f"{name} argument {argument.index}: {expected} in line {call.index}, not {value & _mask(argument)}"
        kind = "first" if argument.first is not None else "first, constant"
        findings.claim(kind, value & _mask(argument) == expected, text)


def _mask(argument: Argument) -> int:
    return (1 << 8 * argument.width) - 1 if argument.width else MASK


def _argument(call: Call, argument: Argument) -> int | None:
    """An argument's value, as far as its width; None when the trace does not hold it."""
    line, index = call.line, argument.index
    if "kernel" not in line:
        return int(line["arguments"][index]) & _mask(argument) if index < 6 else None
    if index < 8:
        fields = [*line["grid"], *line["block"], line["shared"], line["stream"]]
        return int(fields[index]) & _mask(argument)
    if index - 8 >= len(line["parameters"]):
        return None
    data = bytes.fromhex(line["parameters"][index - 8])
    return int.from_bytes(data[: argument.width or len(data)], "little")


def counts(lines: list[dict[str, Any]], manifest: Manifest) -> Counter[int]:
    """Return address -> how often the site was reached."""
    identity = manifest.identity.hex()
    return Counter(line["site"] for line in lines if line["object"] == identity)

"""Slices beside executions: what the reference evaluator says a loop does, compared with what the program has done.

The program runs with the recorder (slices/recorder.c) in the runtime's place, which writes down every call with registers and frame,
and draws what copies to the host bring. From each call at a slice's entry on, the evaluator is given what stood there and what each
copy has brought; it must say every later call, byte for byte, and when the loop is left.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from farlane.analyzer.externals.interface import LAUNCH
from farlane.analyzer.graph import kernels, structure
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.slices.arithmetic import StuckError
from farlane.analyzer.slices.extract import Extractor
from farlane.analyzer.slices.form import FOLLOWED, Block, Code, Input, Origin, Place, Slice, Sliced
from farlane.demangle import readable
from slice_reference import Evaluation, Left, Made

RECORDER = Path(__file__).parents[1] / "slices" / "recorder.c"
PUSH, LAUNCHED, COPY, COPY_FROM, COPY_TO = 1, 2, 3, 6, 7
HEADER, FRAME = 18, 1024
_REGISTERS = {
    7: 3,
    6: 4,
    2: 5,
    1: 6,
    8: 7,
    9: 8,
    3: 9,
    5: 10,
    4: 11,
    12: 12,
    13: 13,
    14: 14,
    15: 15,
}  # register -> word


@dataclass(frozen=True)
class Record:
    """One call: its return address, which function it is of, the words of its header, what the frame held from rsp on."""

    site: int
    function: int
    words: tuple[int, ...]
    frame: bytes
    globals: dict[tuple[int, int], bytes]
    payload: bytes
    behind: dict[tuple[int, Input], bytes]


@dataclass
class Findings:
    """What was compared; what was wrong, and where an evaluation could not go on, by function."""

    counts: Counter[str] = field(default_factory=Counter)
    entered: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)


@cache
def recorder(folder: Path) -> Path:
    library = folder / "libcudart.so.13"
    command = ["gcc", "-O2", "-shared", "-fPIC", "-fno-stack-protector", "-o", str(library), str(RECORDER)]
    subprocess.run(command, check=True)
    (folder / "libcudart.so.12").symlink_to(library)
    return library


ADD, SUBTRACT, EQUAL, LESS_OR_UNORDERED = Code.ADD, Code.SUBTRACT, Code.F_EQUAL, Code.F_LESS_EQUAL


def changed(slice_: Slice, old: Code, new: Code) -> Slice:
    """A slice with every operation of one code replaced by another."""
    blocks = tuple(
        Block(tuple(each._replace(code=new) if each.code == old else each for each in block.operations), block.end)
        for block in slice_.blocks
    )
    assert blocks != slice_.blocks, f"there is no {old.name}"
    return replace(slice_, blocks=blocks)


def nested(program: Program, found: dict[str, list[Sliced]]) -> set[int]:
    """The entries of slices whose loop lies in another one that has none: what follows may be in the slice as well."""
    entries = set()
    for start in program.cuda:
        name = _name(program, start)
        for each in found.get(name, ()):
            if each.slice is not None:
                loop = structure.build(program, start).loops.get(each.header)
                if loop is not None and loop.depth > 1:
                    entries.add(each.slice.entry)
    return entries


def _name(program: Program, start: int) -> str:
    return readable(program.ranges[start].name).partition("(")[0].split(".")[0]


@cache
def sliced(path: Path) -> tuple[Program, dict[str, list[Sliced]]]:
    """What is found of a program's loops, by the function's name. Kept for the process."""
    program = Program(elf.load(path), Decoder())
    extractor = Extractor(program)
    found: dict[str, list[Sliced]] = {}
    for start in sorted(program.cuda):
        for each in extractor.loops(start):
            found.setdefault(_name(program, start), []).append(each)
    return program, found


def record(path: Path, program: Program, slices: Collection[Slice], seed: int, folder: Path) -> list[Record]:
    """The calls of one execution."""
    wanted = sorted(
        {(each.number, _size(each)) for slice_ in slices for each in slice_.inputs if each.origin == Origin.GLOBAL}
    )
    followed = [(slice_.entry, each) for slice_ in slices for each in slice_.inputs if each.origin in FOLLOWED]
    known = kernels.of(program)
    sizes = {host: known.sizes(host) or () for host in known.hosts()}
    output = folder / f"records-{seed}"
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(recorder(folder).parent),
        "RECORDS": str(output),
        "SEED": str(seed),
        "GLOBALS": ",".join(f"{address}:{size}" for address, size in wanted),
        "BEHIND": ",".join(_behind(*each) for each in followed),
        "PARAMETERS": ",".join(":".join(map(str, (host, *each))) for host, each in sizes.items()),
    }
    outcome = subprocess.run([path], env=environment, capture_output=True, timeout=60)
    assert outcome.returncode == 0, (outcome.returncode, outcome.stderr)
    data, records, at = output.read_bytes(), [], 0
    output.unlink()
    while at < len(data):
        words = struct.unpack_from(f"<{HEADER}Q", data, at)
        start = at + 8 * HEADER
        globals_ = place = start + FRAME
        held: dict[tuple[int, int], bytes] = {}
        for each in wanted:
            held[each] = data[place : place + each[1]]
            place += -(-each[1] // 8) * 8
        behind: dict[tuple[int, Input], bytes] = {}
        for entry in followed:
            behind[entry] = data[place : place + _size(entry[1])]
            place += -(-_size(entry[1]) // 8) * 8
        payload = data[at + words[0] - words[16] : at + words[0]]
        records.append(Record(words[1], words[2], words, data[start:globals_], held, payload, behind))
        at += words[0]
    return records


def _behind(entry: int, each: Input) -> str:
    """For the recorder: memory at an address that stands in a register or in the frame at the entry."""
    where, behind = each.number & 0xFFFFFFFF, each.number >> 32
    word = _REGISTERS[where] if each.origin == Origin.BEHIND_REGISTER else 1000 + where
    return f"{entry}:{word}:{behind}:{_size(each)}"


def _size(each: Input) -> int:
    return each.to.size if isinstance(each.to, Place) else 8


def compare(name: str, slice_: Slice, records: list[Record], findings: Findings, within: Collection[int] = ()) -> None:
    """All executions of a loop in a record; `within`: the entries of loops in other loops (`nested`)."""
    index = 0
    while index < len(records):
        if records[index].site == slice_.entry:
            findings.entered[name] += 1
            index = _execution(name, slice_, records, index, findings, slice_.entry in within)
        else:
            index += 1


def _value(each: Input, first: Record) -> bytes:
    if each.origin == Origin.REGISTER:
        return first.words[_REGISTERS[each.number]].to_bytes(8, "little")[: _size(each)]
    if each.origin == Origin.BIAS:
        return first.words[17].to_bytes(8, "little")
    if each.origin in FOLLOWED:
        return first.behind[first.site, each]
    if each.origin == Origin.GLOBAL:
        return first.globals[each.number, _size(each)]
    held = first.frame[each.number : each.number + _size(each)]
    assert len(held) == _size(each), "the recorder keeps too little of the frame"
    return held


def _execution(name: str, slice_: Slice, records: list[Record], index: int, findings: Findings, within: bool) -> int:
    """Evaluates from a call at the entry on; where the record goes on."""
    first = index
    evaluation = Evaluation(slice_, lambda each: _value(each, records[first]))
    sites = {call.site for call in slice_.calls}
    pushed = 0
    try:
        for event in evaluation.run():
            while index < len(records) and records[index].function == PUSH:
                pushed = records[index].site
                index += 1
            if index == len(records):
                return index  # the process was ended on the way
            actual = records[index]
            site = pushed if actual.function == LAUNCHED and pushed else actual.site
            if isinstance(event, Left):
                findings.counts["left"] += 1
                if site in sites and not within:  # the programs make another call behind each loop
                    findings.wrong.append(f"{name}: left in iteration {evaluation.iterations}, but {site:#x} follows")
                return index
            problem = _different(event, actual, site)
            if problem:
                findings.wrong.append(f"{name}: iteration {evaluation.iterations}: {problem}")
                return index + 1
            findings.counts["calls"] += 1
            findings.counts["arguments"] += len(event.arguments)
            if event.call.fills is not None:
                evaluation.fill(event.call.fills, actual.payload)
            index += 1
    except StuckError as error:
        findings.stuck.append(f"{name}: {error}")
    return index + 1


def _different(event: Made, actual: Record, site: int) -> str:
    """What differs between a call as it is foretold and as it was made; "" when nothing does."""
    if event.call.site != site:
        return f"{event.call.name} at {event.call.site:#x} is foretold, {site:#x} was reached"
    if event.source is not None and event.source != actual.payload:
        return f"{event.call.name} at {site:#x} carries {actual.payload.hex()}, not {event.source.hex()}"
    parameters = 0
    for index, foretold in sorted(event.arguments.items()):
        if event.call.name != LAUNCH:
            held = actual.words[3 + index].to_bytes(8, "little")[: len(foretold)]
        elif index < 6:
            place = (0, 4, 8, 16, 20, 24)[index]
            held = actual.payload[place : place + 4]
        elif index < 8:
            held = actual.payload[32 + 8 * (index - 6) :][:8]
        else:
            held = actual.payload[48 + parameters :][: len(foretold)]
            parameters += len(foretold)
        if held != foretold:
            return f"{event.call.name} at {site:#x}: argument {index} is {held.hex()}, not {foretold.hex()}"
    if event.call.name == LAUNCH and 48 + parameters != len(actual.payload):
        return f"the launch at {site:#x} has {len(actual.payload) - 48} bytes of parameters, not {parameters}"
    return ""

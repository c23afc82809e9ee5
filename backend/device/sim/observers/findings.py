"""What the checks have found, in the words of compute-sanitizer.

Owns the texts alone: each function makes the lines of one report. Addresses are classified here (which space, in or beside which allocation); who
found what is checking.py's business.

Source: compute-sanitizer's documentation (memcheck, racecheck, initcheck, leak checking), whose reports these follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from farlane.backend import jit
from farlane.backend.device.allocations import Allocation
from farlane.backend.jit.runtime.checks import Hazard, Record, source_line
from farlane.backend.jit.runtime.structures import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from farlane.demangle import demangled

MARK = "========="
Triple = tuple[int, int, int]


def report(*lines: str) -> bytes:
    """The lines of one report: the first is its head."""
    head, *rest = lines
    return "".join([f"{MARK} {head}\n", *(f"{MARK}     {line}\n" for line in rest), f"{MARK}\n"]).encode()


def space_of(address: int) -> str:
    if SHARED_WINDOW <= address < LOCAL_WINDOW:
        return "__shared__"
    if LOCAL_WINDOW <= address < PARAMETER_WINDOW:
        return "__local__"
    if PARAMETER_WINDOW <= address < jit.GENERIC_WINDOWS_END:
        return "__parameter__"
    return "__global__"


def place(module: jit.Module, kernel: str, line: int) -> str:
    """A place in a kernel: its source line where it was compiled with -lineinfo, else the line of its PTX."""
    name = demangled(kernel)
    found = source_line(module, line)
    if found is None:
        return f"{name}, line {line} of its PTX"
    return f"{name} in {PurePath(found[0]).name}:{found[1]}"


def triple(values: Iterable[int]) -> str:
    return "(" + ",".join(str(value) for value in values) + ")"


def thread_of(linear: int, block: Triple) -> Triple:
    x, y, _ = block
    return linear % x, linear // x % y, linear // (x * y)


def invalid_access(
    where: str, write: bool, size: int, thread: Triple, block: Triple, address: int, about: Sequence[str]
) -> bytes:
    verb = "write" if write else "read"
    return report(
        f"Invalid {space_of(address)} {verb} of size {size} bytes",
        f"at {where}",
        f"by thread {triple(thread)} in block {triple(block)}",
        *about,
    )


def without_address(where: str, thread: Triple, block: Triple, address: int) -> bytes:
    """An access whose bytes are not known: of a surface, of an object that is none, of a string that the host reads."""
    what = f"Address {address:#x}" if address else "Outside of a surface, or no object of this kind"
    return report("Invalid access", f"at {where}", f"by thread {triple(thread)} in block {triple(block)}", what)


def beside(address: int, size: int, allocations: Sequence[Allocation], freed: Iterable[Allocation]) -> list[str]:
    """What an address in global memory that must not be accessed is, and what lies next to it."""
    if address % size:
        head = f"Address {address:#x} is misaligned"
    else:
        head = f"Address {address:#x} is out of bounds"
    for one in freed:
        if one.start <= address < one.end and not any(
            live.start < one.end and one.start < live.end for live in allocations
        ):
            return [
                head,
                f"and is {address - one.start:,} bytes inside an allocation of size {one.size:,} bytes at {one.start:#x}, which was freed",
            ]
    if not allocations:
        return [head, "and there is no allocation"]
    nearest = min(allocations, key=lambda one: max(one.start - address, address - one.end + 1, 0))
    what = f"{nearest.start:#x} of size {nearest.size:,} bytes{_label(nearest)}"
    if nearest.start <= address < nearest.end:
        return [head, f"and is inside the nearest allocation at {what}"]
    if address >= nearest.end:
        return [head, f"and is {address - nearest.end + 1:,} bytes after the nearest allocation at {what}"]
    return [head, f"and is {nearest.start - address:,} bytes before the nearest allocation at {what}"]


def in_block(address: int, size: int, limit: int) -> list[str]:
    """The same for shared and local memory and for parameters, of which there are `limit` bytes."""
    offset = address & 0xFFFF_FFFF
    wrong = "misaligned" if offset % size else "out of bounds"
    space = {"__shared__": "the block's shared memory", "__local__": "the thread's local memory"}.get(
        space_of(address), "the kernel's parameters"
    )
    return [f"Address {offset:#x} is {wrong}", f"and {space} has {limit:,} bytes"]


def race(module: jit.Module, kernel: str, block: Triple, record: Record) -> bytes:
    later, earlier = ("Read", "Write") if record.kind == Hazard.READ_AFTER_WRITE else ("Write", "Write")
    short = {Hazard.READ_AFTER_WRITE: "RAW", Hazard.WRITE_AFTER_READ: "WAR", Hazard.WRITE_AFTER_WRITE: "WAW"}
    if record.kind == Hazard.WRITE_AFTER_READ:
        earlier = "Read"
    hazards = f"{record.count:,} {'hazards' if record.count > 1 else 'hazard'}"
    threads = [triple(thread_of(number, block)) for number in (record.other_thread, record.thread)]
    return report(
        f"Error: Race reported between {earlier} access at {place(module, kernel, record.other_line)}",
        f"and {later} access at {place(module, kernel, record.line)} [{hazards}, {short[Hazard(record.kind)]}]",
        f"first by threads {threads[0]} and {threads[1]} in block {triple(record.block)}",
        f"at __shared__ {record.address:#x}, {record.size} bytes",
    )


def uninitialised(module: jit.Module, kernel: str, block: Triple, record: Record, about: Sequence[str]) -> bytes:
    more = [f"and {record.count - 1:,} more at this place"] if record.count > 1 else []
    return report(
        f"Uninitialized __global__ memory read of size {record.size} bytes",
        f"at {place(module, kernel, record.line)}",
        f"by thread {triple(thread_of(record.thread, block))} in block {triple(record.block)}",
        *about,
        *more,
    )


def leak(allocation: Allocation, heap: bool) -> bytes:
    where = " on the device heap" if heap else ""
    return report(f"Leaked {allocation.size:,} bytes at {allocation.start:#x}{where}")


def leak_summary(size: int, count: int) -> bytes:
    return f"{MARK} LEAK SUMMARY: {size:,} bytes leaked in {count:,} allocations\n".encode()


def summary(errors: int, shown: int) -> bytes:
    text = f"{MARK} ERROR SUMMARY: {errors:,} error{'' if errors == 1 else 's'}\n"
    if shown < errors:
        text += f"{MARK} {errors - shown:,} of them were not printed, for there were more than {shown:,}\n"
    return text.encode()


def _label(allocation: Allocation) -> str:
    return "" if allocation.label == "allocation" else f" ({allocation.label})"

"""Sixteen bytes of a tensor copy: between a row of the tensor and a place in shared memory.

What lies in the tensor as a whole and is aligned is one access of 16 bytes, else element by element. A row's bytes from `low` to `high` are in the
tensor. Reads of f32 may round to tf32; a reduction is an atomic operation on each element.

Source: PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.checks import Access
from farlane.backend.jit.lowering.families.accesses import addresses, atomics
from farlane.backend.jit.lowering.families.accesses.addresses import Place
from farlane.backend.jit.lowering.families.accesses.memory import read_memory, write_memory
from farlane.backend.jit.lowering.families.arithmetic import tiny
from farlane.backend.jit.lowering.families.tensors import tensor_maps
from farlane.backend.jit.lowering.families.tensors.tensor_maps import TensorMap
from farlane.backend.jit.lowering.ir import BITS, Val, integer
from farlane.backend.jit.runtime.structures import FaultKind

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

CHUNK = 16
OPERATIONS = {"add", "min", "max", "inc", "dec", "and", "or", "xor"}
# Numbers of types (CUtensorMapDataType) that an operation has: rmw of atomics.py, LLVM type.
_INTEGERS = {2: "i32", 3: "i32", 4: "i64", 5: "i64"}
_SIGNED = {3, 5}
_FLOATS = {6: "half", 9: "bfloat"}
_WIDE_FLOATS = {7: "float", 8: "double", 10: "float"}
# What is outside of a tensor that asks for NaN, every two bytes; fma.oob knows it.
OUTSIDE = 0x7FF7
_TF32_NAN = 0x7FFFE000


def reductions(operation: str) -> dict[int, tuple[str, str]]:
    """Number of an element type -> (rmw, LLVM type) where the reduction is one of that type."""
    if operation == "add":
        found = {number: ("add", kind) for number, kind in _INTEGERS.items()}
        return found | {number: ("fadd", kind) for number, kind in (_FLOATS | _WIDE_FLOATS).items()}
    if operation in ("min", "max"):
        found = {number: (("s" if number in _SIGNED else "u") + operation, kind) for number, kind in _INTEGERS.items()}
        return found | {number: ("f" + operation, kind) for number, kind in _FLOATS.items()}
    if operation in ("inc", "dec"):
        return {2: ({"inc": "uinc_wrap", "dec": "udec_wrap"}[operation], "i32")}
    return {number: (operation, kind) for number, kind in _INTEGERS.items()}


class Piece:
    """How 16 bytes move, given where a row's elements lie in the tensor."""

    def __init__(self, e: Emitter, described: TensorMap, log: Val, lane: Val, reading: bool, operation: str) -> None:
        self._e, self._map, self._log, self._lane = e, described, log, lane
        self._reading, self._operation = reading, operation
        self._reductions = reductions(operation) if operation else {}
        if operation == "add":
            e.kernel.order_sensitive = True

    def begin(self, first: Val, inner: Val, size: Val) -> None:
        """`first`: the place of rows' first byte along the tensor's first axis, which has `size` bytes; `inner`: bytes of a row."""
        e, b = self._e, self._e.body
        zero = integer(0, "i64")
        self._low = b.call("smax", "i64", [b.bin("sub", zero, first), zero])
        end = b.bin("sub", size, first)
        self._high = b.call("smax", "i64", [b.call("smin", "i64", [end, inner]), zero])
        # Rows lie multiples of 16 bytes apart.
        self._aligned = b.icmp("eq", b.bin("and", first, integer(CHUNK - 1, "i64")), zero)
        if self._reading:
            number = self._map.field(tensor_maps.TYPE)
            self._aligned = b.bin("and", self._aligned, b.icmp("ult", number, integer(tensor_maps.TF32, "i64")))
            self._fill = self._filling()
        if self._reductions:
            number = self._map.field(tensor_maps.TYPE)
            good = integer(0, "i1")
            for one in self._reductions:
                good = b.bin("or", good, b.icmp("eq", number, integer(one, "i64")))
            support.fault_if(e, b.invert(good), int(FaultKind.ILLEGAL_INSTRUCTION))
            self._aligned = integer(0, "i1")

    def _filling(self) -> Val:
        """Eight bytes of what is outside of the tensor."""
        b = self._e.body
        asked = b.icmp("ne", self._map.field(tensor_maps.FILL), integer(0, "i64"))
        return b.select(asked, integer(OUTSIDE * 0x0001_0001_0001_0001, "i64"), integer(0, "i64"))

    def move(self, address: Val, at: Val, inside: Val, place: tuple[Place, Val]) -> None:
        """The 16 bytes at `at` of a row: `address` in global memory, `place` in shared memory and whether its halves are exchanged."""
        e, b = self._e, self._e.body
        where, exchanged = place
        end = b.bin("add", at, integer(CHUNK, "i64"))
        none = b.bin("or", b.icmp("ule", end, self._low), b.icmp("uge", at, self._high))
        none = b.bin("or", none, b.invert(inside))
        full = b.bin("and", b.icmp("uge", at, self._low), b.icmp("ule", end, self._high))
        whole = b.bin("and", full, self._aligned)
        labels = {name: b.new_label(name) for name in ("outside", "some", "whole", "part", "moved")}
        b.branch_if(none, labels["outside"], labels["some"])
        b.block(labels["outside"])
        if self._reading:
            write_memory(e, where, "i64", [self._fill, self._fill])
        b.branch(labels["moved"])
        b.block(labels["some"])
        b.branch_if(whole, labels["whole"], labels["part"])
        b.block(labels["whole"])
        words = self._both(where, exchanged) if not self._reading else []
        there = addresses.place_at(e, "global", address, CHUNK, not self._reading)
        if self._reading:
            self._give(where, exchanged, read_memory(e, there, "i64", 2))
        else:
            write_memory(e, there, "i64", words)
        b.branch(labels["moved"])
        b.block(labels["part"])
        if self._reductions:
            self._reduce(address, at, where, exchanged)
        else:
            self._by_element(address, at, where, exchanged)
        b.branch(labels["moved"])
        b.block(labels["moved"])

    def _both(self, where: Place, exchanged: Val) -> list[Val]:
        b = self._e.body
        low, high = read_memory(self._e, where, "i64", 2)
        return [b.select(exchanged, high, low), b.select(exchanged, low, high)]

    def _give(self, where: Place, exchanged: Val, words: list[Val]) -> None:
        b = self._e.body
        low, high = words
        given = [b.select(exchanged, high, low), b.select(exchanged, low, high)]
        write_memory(self._e, where, "i64", given)

    # Element by element ----------------------------------------------------------------------------------------------
    def _by_element(self, address: Val, at: Val, where: Place, exchanged: Val) -> None:
        """Elements of 8 bytes are two of 4."""
        e, b = self._e, self._e.body
        staged = self._staged()
        if self._reading:
            for half in range(2):
                b.store(self._fill, b.gep(staged, 8 * half), ", align 16")
        else:
            self._store_words(staged, self._both(where, exchanged))
        done = b.new_label("elements")
        cases = {kind: b.new_label("of") for kind in ("i8", "i16", "i32")}
        log = b.cast("trunc", self._log, "i32")
        b.line(f"switch {log}, label %{cases['i32']} [ i32 0, label %{cases['i8']} i32 1, label %{cases['i16']} ]")
        for kind, label in cases.items():
            b.block(label)
            with self._elements(at, BITS[kind] // 8) as offset:
                beside = b.gep(staged, offset)
                there = addresses.place_at(
                    e, "global", b.bin("add", address, offset), BITS[kind] // 8, not self._reading
                )
                if self._reading:
                    value = read_memory(e, there, kind, 1)[0]
                    b.store(self._changed(value) if kind == "i32" else value, beside)
                else:
                    write_memory(e, there, kind, [b.load(kind, False, beside)])
            b.branch(done)
        b.block(done)
        if self._reading:
            self._give(where, exchanged, [b.load("i64", False, b.gep(staged, 8 * half)) for half in range(2)])

    def _changed(self, value: Val) -> Val:
        """An f32 as its type wants it to be read."""
        e, b = self._e, self._e.body
        single = b.bitcast(value, "float")
        rounded = tiny.to_tf32(e, single, "rna", False)
        rounded = b.select(b.fcmp("uno", single, single), integer(_TF32_NAN, "i32"), rounded)
        number = self._map.field(tensor_maps.TYPE)
        return b.select(b.icmp("uge", number, integer(tensor_maps.TF32, "i64")), rounded, value)

    def _reduce(self, address: Val, at: Val, where: Place, exchanged: Val) -> None:
        e, b = self._e, self._e.body
        staged = self._staged()
        self._store_words(staged, self._both(where, exchanged))
        done, never = b.new_label("reduced"), b.new_label("never")
        cases = {number: b.new_label("of") for number in self._reductions}
        number = b.cast("trunc", self._map.field(tensor_maps.TYPE), "i32")
        shown = " ".join(f"i32 {number}, label %{label}" for number, label in cases.items())
        b.line(f"switch {number}, label %{never} [ {shown} ]")
        b.block(never)
        b.line("unreachable")
        for one, (rmw, kind) in self._reductions.items():
            b.block(cases[one])
            carrier = {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}.get(kind, kind)
            size = BITS[carrier] // 8
            with self._elements(at, size) as offset:
                value = b.load(carrier, False, b.gep(staged, offset))
                access = Access(strong=True, reads=True)
                there = addresses.place_at(e, "global", b.bin("add", address, offset), size, True, access)
                atomics.by_lane(e, there, rmw, kind, carrier, "monotonic", [value], False)
            b.branch(done)
        b.block(done)

    def _staged(self) -> str:
        return self._e.slot("%tensor.staged", "i128", False)

    def _store_words(self, staged: str, words: list[Val]) -> None:
        for half, word in enumerate(words):
            self._e.body.store(word, self._e.body.gep(staged, 8 * half))

    @contextlib.contextmanager
    def _elements(self, at: Val, size: int) -> Iterator[Val]:
        """A loop over those elements of 16 bytes that are in the tensor; gives their distance from the first byte."""
        b = self._e.body
        with support.counted(self._e, "%tensor.element", integer(CHUNK, "i64"), size) as offset:
            place = b.bin("add", at, offset)
            inside = b.bin("and", b.icmp("uge", place, self._low), b.icmp("ult", place, self._high))
            there, following = b.new_label("element"), b.new_label("next")
            b.branch_if(inside, there, following)
            b.block(there)
            yield offset
            b.branch(following)
            b.block(following)

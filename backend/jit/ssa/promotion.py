"""Local variables that need no memory: what a thread keeps in its local memory becomes registers.

Compilers that do not optimise give every variable of a function a place in one array of local memory (`__local_depot0`), and reach it by
generic addresses. There an access costs a translation, a check and a gather over 32 stacks; a register costs nothing.

Owns the rewriting of a body before its graph is made:

- an address is *known* when it is a local array plus a constant: `mov`, `cvta` and `add` of such, in registers that are written once;
- an array whose known addresses are used by plain loads and stores only, and go nowhere else, is divided into slots, one for each range of bytes that is
  accessed as a whole, and each slot becomes a register. Accesses that cover several slots are packed or unpacked;
- everything else stays in memory: PTX does not say where an array's objects end, so one address that goes elsewhere (is stored, passed,
  compared, added to a register) keeps the whole array there. Its accesses at known places are at least made local ones.

A slot that is read before it is written is zero, as any such register (ssa.py). Order: parser -> promotion -> predication -> cfg -> ssa.
Not under checks or the recording of accesses: what is looked for there is in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from farlane.backend.jit.ptx.declarations import SCALAR_BYTES
from farlane.backend.jit.ptx.model import (
    Address,
    Body,
    Immediate,
    Instruction,
    Register,
    Storage,
    Symbol,
    Vector,
    registers_of,
)

MOST_BYTES = 4096  # of an array: an array that is larger is one of the program's
_HINTS = {
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
    "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "L2::evict_first", "L2::evict_last", "L2::evict_normal",
}  # fmt: skip
_PLAIN = {"local", "weak", "volatile", "v2", "v4", "v8"} | _HINTS
_FLOATS = {"f32", "f64"}
_WIDTHS = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}  # bytes of a slot -> the register that holds it
_REGISTER_BYTES = {"b16": 2, "b32": 4, "b64": 8, "f32": 4, "f64": 8}


@dataclass(frozen=True, slots=True)
class Known:
    """An address: `array` plus `offset`, as a generic one or one of local memory."""

    array: str
    offset: int
    generic: bool


@dataclass(slots=True)
class Access:
    """A load or store at a known place."""

    array: str
    offset: int
    element: int  # bytes
    count: int

    def ranges(self) -> list[tuple[int, int]]:
        return [(self.offset + self.element * index, self.element) for index in range(self.count)]


def promoted(body: Body) -> Body:
    """The body without the local arrays that registers can stand for. The given one stays as it is."""
    arrays = {name: item for name, item in body.storage.items() if item.space == "local"}
    if not arrays:
        return body
    known = known_addresses(body, arrays)
    accesses: dict[int, Access] = {}
    kept: set[str] = set()
    for index, item in enumerate(body.instructions):
        found = access_of(item, known, arrays)
        if found is not None:
            accesses[index] = found
        kept |= _escaping(item, known, arrays, found)
    kept |= {access.array for access in accesses.values() if not inside(access, arrays[access.array])}
    kept |= {name for name, item in arrays.items() if item.size > MOST_BYTES}
    slots = {name: divide(body, accesses, name) for name in arrays if name not in kept}
    return _rewritten(body, known, accesses, slots)


# Addresses -----------------------------------------------------------------------------------------------------------
def known_addresses(
    body: Body, arrays: dict[str, Storage], contents: dict[tuple[str, int], Known] | None = None
) -> dict[str, Known]:
    """The registers that hold a known address wherever they are read. `contents`: known addresses that local memory holds, by array and offset."""
    written: dict[str, int] = {}
    for item in body.instructions:
        for register in item.destinations:
            if register is not None:
                written[register.name] = written.get(register.name, 0) + 1
    known: dict[str, Known] = {}
    for item in body.instructions:
        if len(item.destinations) == 1 and item.destinations[0] is not None and item.guard is None:
            name = item.destinations[0].name
            value = _evaluate(item, known, arrays) if written[name] == 1 else None
            if value is None and contents and written[name] == 1 and item.base == "ld":
                place = access_of(item, known, arrays)
                value = contents.get((place.array, place.offset)) if place and place.element == 8 else None
            if value is not None:
                known[name] = value
    return known


def _evaluate(item: Instruction, known: dict[str, Known], arrays: dict[str, Storage]) -> Known | None:
    """What an instruction computes, if that is a known address."""
    if not item.sources or not item.modifiers:
        return None
    first, kind = item.sources[0], item.modifiers[-1]
    if isinstance(first, Symbol) and first.name in arrays:
        value = Known(first.name, first.offset, False)
    elif isinstance(first, Register) and first.name in known:
        value = known[first.name]
    else:
        return None
    if kind not in ("u64", "s64", "b64") or item.destinations[0].type != "b64":
        return None
    if item.base == "mov" and len(item.modifiers) == 1:
        return value
    if item.base == "cvta" and item.modifiers == ("local", "u64") and not value.generic:
        return Known(value.array, value.offset, True)
    if item.base == "cvta" and item.modifiers == ("to", "local", "u64") and value.generic:
        return Known(value.array, value.offset, False)
    second = item.sources[1] if len(item.sources) == 2 else None
    if not isinstance(second, Immediate) or second.kind != "i" or isinstance(first, Symbol) or len(item.modifiers) != 1:
        return None
    step = (second.value + (1 << 63)) % (1 << 64) - (1 << 63)
    if item.base == "add" or (item.base == "or" and _no_carry(value, step, arrays[value.array])):
        return Known(value.array, value.offset + step, value.generic)
    return Known(value.array, value.offset - step, value.generic) if item.base == "sub" else None


def _no_carry(value: Known, bits: int, array: Storage) -> bool:
    """Whether `or` is an addition: the array's alignment leaves these bits clear."""
    return 0 <= bits < min(array.align, 16) and value.offset & bits == 0


# Accesses ------------------------------------------------------------------------------------------------------------
def access_of(item: Instruction, known: dict[str, Known], arrays: dict[str, Storage]) -> Access | None:
    """The load or store, if it is a plain one at a known place."""
    if item.base not in ("ld", "st") or not item.modifiers:
        return None
    if not item.sources or not isinstance(item.sources[0], Address):
        return None
    base, offset = item.sources[0].base, item.sources[0].offset
    kind, modifiers = item.modifiers[-1], set(item.modifiers[:-1])
    element = SCALAR_BYTES.get(kind, 0)
    if element not in _WIDTHS or not modifiers <= _PLAIN:
        return None
    if isinstance(base, Symbol) and base.name in arrays:
        value = Known(base.name, base.offset, False)
    elif isinstance(base, Register) and base.name in known:
        value = known[base.name]
        if value.generic == ("local" in modifiers):
            return None
    else:
        return None
    count = next((int(word[1]) for word in modifiers if word in ("v2", "v4", "v8")), 1)
    items = item.destinations if item.base == "ld" else stored_by(item)
    if len(items) != count or len(item.sources) != (1 if item.base == "ld" else 2):
        return None
    if item.base == "st" and not all(isinstance(one, (Register, Immediate, Symbol)) for one in items):
        return None
    if any(isinstance(one, Register) and _REGISTER_BYTES.get(one.type, 0) < min(element, 8) for one in items):
        return None
    if any(isinstance(one, Symbol) and element != 8 for one in items):
        return None
    return Access(value.array, value.offset + offset, element, count)


def stored_by(item: Instruction) -> list[Any]:
    value = item.sources[1] if len(item.sources) > 1 else None
    return list(value.items) if isinstance(value, Vector) else [value]


def inside(access: Access, array: Storage) -> bool:
    """Whether an access lies in its array and is aligned: others fault, or reach what lies beside it."""
    size = access.element * access.count
    return 0 <= access.offset <= array.size - size and access.offset % size == 0 and array.align % access.element == 0


def _escaping(
    item: Instruction, known: dict[str, Known], arrays: dict[str, Storage], access: Access | None
) -> set[str]:
    """The arrays whose address an instruction takes elsewhere."""
    if len(item.destinations) == 1 and item.destinations[0] is not None and item.destinations[0].name in known:
        return set()
    operands = stored_by(item) if access is not None and item.base == "st" else item.sources if access is None else []
    found: set[str] = set()
    stack = list(operands)
    while stack:
        operand = stack.pop()
        if isinstance(operand, Vector):
            stack += operand.items
        elif isinstance(operand, Address):
            stack.append(operand.base)
        elif isinstance(operand, Symbol):
            found |= {operand.name} & arrays.keys()
        else:
            found |= {known[register.name].array for register in registers_of(operand) if register.name in known}
    return found


# Slots ---------------------------------------------------------------------------------------------------------------
def divide(body: Body, accesses: dict[int, Access], array: str) -> dict[int, Register]:
    """The registers of an array by first byte. Sizes are powers of two and places aligned: ranges lie in each other or apart,
    and one that lies in no other is divided evenly into the smallest size in it."""
    kinds: dict[tuple[int, int], set[str]] = {}
    for index, access in accesses.items():
        if access.array == array:
            for piece in access.ranges():
                kinds.setdefault(piece, set()).add(body.instructions[index].modifiers[-1])
    outer: dict[int, tuple[int, int]] = {}  # byte -> the outermost range round it
    grains: dict[tuple[int, int], int] = {}
    for start, size in sorted(kinds, key=lambda piece: -piece[1]):
        around = outer.get(start, (start, size))
        for byte in range(start, start + size):
            outer[byte] = around
        grains[around] = size  # they come in order of size
    slots: dict[int, Register] = {}
    for (start, size), grain in grains.items():
        named = kinds[start, size]
        kind = next(iter(named)) if grain == size and len(named) == 1 and named <= _FLOATS else _WIDTHS[grain]
        for at in range(start, start + size, grain):
            slots[at] = Register(f"{array}?{at}", kind)
    return slots


def _rewritten(
    body: Body, known: dict[str, Known], accesses: dict[int, Access], slots: dict[str, dict[int, Register]]
) -> Body:
    code: list[Instruction] = []
    places: list[int] = []
    for index, item in enumerate(body.instructions):
        places.append(len(code))
        access = accesses.get(index)
        if access is not None and access.array in slots:
            code += moves(item, access, slots[access.array])
        elif access is not None and inside(access, body.storage[access.array]):
            code.append(_local(item, access))
        elif not (len(item.destinations) == 1 and _dropped(item.destinations[0], known, slots)):
            code.append(item)
    places.append(len(code))
    storage = {name: item for name, item in body.storage.items() if name not in slots}
    labels = {name: places[index] for name, index in body.labels.items()}
    return Body(code, labels, body.tables, body.prototypes, storage, body.registers)


def _dropped(register: Any, known: dict[str, Known], slots: dict[str, dict[int, Register]]) -> bool:
    """Whether a register holds an address of an array that is no more."""
    return isinstance(register, Register) and register.name in known and known[register.name].array in slots


def _local(item: Instruction, access: Access) -> Instruction:
    """The access as one of local memory."""
    modifiers = item.modifiers if "local" in item.modifiers else ("local", *item.modifiers)
    sources = [Address(Symbol(access.array), access.offset), *item.sources[1:]]
    return Instruction(item.base, modifiers, item.destinations, sources, item.line, item.guard)


def moves(item: Instruction, access: Access, slots: dict[int, Register]) -> list[Instruction]:
    """What takes an access's place."""
    signed = item.modifiers[-1][0] == "s"
    operands = item.destinations if item.base == "ld" else stored_by(item)
    code: list[tuple[tuple[str, ...], list[Any], list[Any]]] = []  # the first modifier is the opcode
    for operand, (start, size) in zip(operands, access.ranges(), strict=True):
        covered = [slots[at] for at in range(start, start + size) if at in slots]
        if item.base == "st":
            code.append(_store(operand, covered, size, item.modifiers[-1]))
        elif operand is not None:
            code += _load(operand, covered, size, signed, f"{covered[0].name}?{len(code)}?{item.line}")
    return [
        Instruction(base, tuple(modifiers), destinations, sources, item.line, item.guard)
        for (base, *modifiers), destinations, sources in code
    ]


def _load(
    register: Register, covered: list[Register], size: int, signed: bool, spare: str
) -> list[tuple[tuple[str, ...], list[Any], list[Any]]]:
    bits, wanted = 8 * size, 8 * _REGISTER_BYTES[register.type]
    code: list[tuple[tuple[str, ...], list[Any], list[Any]]] = []
    source = covered[0]
    if len(covered) > 1:
        source = register if wanted == bits else Register(spare, _WIDTHS[size])
        code.append((("mov", f"b{bits}"), [source], [Vector(tuple(covered))]))
    if wanted > bits:
        sign = "s" if signed else "u"
        code.append((("cvt", f"{sign}{wanted}", f"{sign}{bits}"), [register], [source]))
    elif source is not register:
        # As the destination's type: bits of an integer that become a float are no longer affine.
        code.append((("mov", register.type), [register], [source]))
    return code


def _store(value: Any, covered: list[Register], size: int, kind: str) -> tuple[tuple[str, ...], list[Any], list[Any]]:
    bits = 8 * size
    if isinstance(value, Immediate) and value.kind == "i":
        value = Immediate(value.value & ((1 << bits) - 1))
    if len(covered) > 1:
        return ("mov", f"b{bits}"), list(covered), [value]
    slot = covered[0]
    if isinstance(value, Register) and (size == 1 or _REGISTER_BYTES[value.type] > size):
        held = 8 if size == 1 else 8 * _REGISTER_BYTES[value.type]
        return ("cvt", f"u{8 * _REGISTER_BYTES[slot.type]}", f"u{held}"), [slot], [value]
    return ("mov", kind if kind in _FLOATS else slot.type), [slot], [value]

"""Reads and validates `protos/tape.toml`: the tape's operations and result records.

Owns the layout rules (tape.md, "Records" and "Results"): fields in order, no implicit padding, natural alignment counted from
the record's start. A table that breaks one is refused here, so that no emitter has to think about it.
"""

from __future__ import annotations

import keyword
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farlane_codegen.problems import TableError, require_keys

HEADER_BYTES = 8
RESULT_HEADER_BYTES = 16
RESULT_KINDS = ("none", "status", "value", "data")
PLANS = ("keeps", "adds", "ends")

# type -> (struct format character, bytes, alignment)
SCALARS = {"u8": ("B", 1), "u16": ("H", 2), "u32": ("I", 4), "u64": ("Q", 8), "i32": ("i", 4), "f32": ("f", 4)}
_ARRAY = re.compile(r"(u8|u16|u32|u64|i32|f32|bytes)\[(\d+)\]")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_CALL = re.compile(r"([a-z_]+(?:\.[a-z_]+)*)\((.*)\)")
_ARGUMENT = re.compile(r"(?:([a-z_]+)=)?(?:([a-z_]+)\.)?([a-z_]+)")


@dataclass(frozen=True)
class Field:
    """One fixed field. `count` is 1 for scalars; `element` is "bytes" for byte strings."""

    name: str
    element: str
    count: int
    offset: int

    @property
    def is_array(self) -> bool:
        return self.count > 1 and self.element != "bytes"

    @property
    def size(self) -> int:
        return self.count if self.element == "bytes" else SCALARS[self.element][1] * self.count

    @property
    def struct_format(self) -> str:
        if self.element == "bytes":
            return f"{self.count}s"
        return SCALARS[self.element][0] * self.count


@dataclass(frozen=True)
class Record:
    """What operations and result records share."""

    name: str
    code: int
    doc: str
    fields: tuple[Field, ...]
    tail: str | None
    length_field: str | None
    header_bytes: int

    @property
    def fixed_bytes(self) -> int:
        return self.header_bytes + sum(field.size for field in self.fields)

    @property
    def struct_format(self) -> str:
        return "<" + "".join(field.struct_format for field in self.fields)


@dataclass(frozen=True)
class Flag:
    """Bits of the record flags: one that is set or not, or several that are a number."""

    name: str
    bit: int
    bits: int = 1


@dataclass(frozen=True)
class Zone:
    """Bytes [start, end) of a record in which holes of at most `width` bytes may lie."""

    start: int
    end: int
    width: int


@dataclass(frozen=True)
class Argument:
    """A field of the record; `table`: of the handles, where the field is one."""

    keyword: str | None
    table: str | None
    field: str


@dataclass(frozen=True)
class Call:
    """What a handler that is generated calls: a method of the session's resources."""

    method: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Operation(Record):
    family: str
    calls: Call | None
    flags: tuple[Flag, ...]
    result: str
    loops: bool
    identity: str | None
    plans: str
    host_only: bool
    bookkeeping: bool
    retired: bool
    since: int
    flags_since: int

    @property
    def encoder(self) -> str:
        """The name of the function that writes it: a keyword of Python and Rust (while) gets an underscore."""
        name = self.name.lower()
        return f"{name}_" if keyword.iskeyword(name) else name

    @property
    def flag_mask(self) -> int:
        """The bits of the record flags that are defined."""
        return sum(((1 << flag.bits) - 1) << flag.bit for flag in self.flags)

    @property
    def zones(self) -> tuple[Zone, ...]:
        """Where the fixed fields may have holes: neighbours of one width are one zone."""
        zones: list[Zone] = []
        for field in self.fields:
            if field.name in ("reserved", self.length_field, self.identity) or field.element == "bytes":
                continue
            end, width = field.offset + field.size, field.size // field.count
            if zones and zones[-1].end == field.offset and zones[-1].width == width:
                zones[-1] = Zone(zones[-1].start, end, width)
            else:
                zones.append(Zone(field.offset, end, width))
        return tuple(zones)

    def offset(self, name: str | None) -> int | None:
        """Of a field of this name, if there is one."""
        return next((field.offset for field in self.fields if field.name == name), None)


@dataclass(frozen=True)
class Tape:
    version: int
    operations: tuple[Operation, ...]
    results: tuple[Record, ...]


def _parse_fields(where: str, raw: Any, start: int) -> tuple[Field, ...]:
    fields: list[Field] = []
    offset = start
    for entry in raw:
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(item, str) for item in entry)):
            raise TableError(f"{where}: a field is [type, name], not {entry!r}")
        kind, name = entry
        if not _NAME.fullmatch(name):
            raise TableError(f"{where}: bad field name {name!r}")
        array = _ARRAY.fullmatch(kind)
        if array:
            element, count = array.group(1), int(array.group(2))
            if count < 2:
                raise TableError(f"{where}: {name}: an array has at least two elements")
        elif kind in SCALARS:
            element, count = kind, 1
        else:
            raise TableError(f"{where}: {name}: unknown type {kind!r}")
        alignment = 1 if element == "bytes" else SCALARS[element][1]
        if offset % alignment:
            raise TableError(f"{where}: {name}: offset {offset} is not a multiple of {alignment}; add a reserved field")
        if any(field.name == name for field in fields):
            raise TableError(f"{where}: field {name!r} twice")
        fields.append(Field(name, element, count, offset))
        offset += fields[-1].size
    return tuple(fields)


def _parse_tail(where: str, row: dict[str, Any], fields: tuple[Field, ...]) -> tuple[str | None, str | None]:
    tail, length_field = row.get("tail"), row.get("length_field")
    if (tail is None) != (length_field is None):
        raise TableError(f"{where}: tail and length_field belong together")
    if length_field is not None:
        match = [field for field in fields if field.name == length_field]
        if not match or match[0].element != "u32" or match[0].count != 1:
            raise TableError(f"{where}: length_field {length_field!r} is no u32 field of the record")
    return tail, length_field


def _parse_flags(where: str, raw: Any) -> tuple[Flag, ...]:
    flags: list[Flag] = []
    taken = 0
    for entry in raw:
        if not (isinstance(entry, list) and len(entry) in (2, 3) and all(isinstance(item, int) for item in entry[1:])):
            raise TableError(f"{where}: a flag is [name, bit 0 to 15] or [name, bit, bits], not {entry!r}")
        flag = Flag(*entry)
        mask = ((1 << max(flag.bits, 0)) - 1) << max(flag.bit, 0)
        if flag.bit < 0 or flag.bits < 1 or mask >> 16:
            raise TableError(f"{where}: a flag is [name, bit 0 to 15] or [name, bit, bits], not {entry!r}")
        if taken & mask or any(flag.name == other.name for other in flags):
            raise TableError(f"{where}: flag {entry!r} twice")
        taken |= mask
        flags.append(flag)
    return tuple(flags)


def _parse_call(where: str, row: dict[str, Any], fields: tuple[Field, ...]) -> Call | None:
    if (text := row.get("calls")) is None:
        return None
    found = _CALL.fullmatch(text)
    parts = [part.strip() for part in found[2].split(",")] if found and found[2] else []
    arguments = [match and Argument(*match.groups()) for match in map(_ARGUMENT.fullmatch, parts)]
    if found is None or None in arguments:
        raise TableError(f"{where}: calls {text!r} is not METHOD(FIELD, HANDLES.FIELD, KEYWORD=FIELD, ...)")
    if row.get("flags") or row["result"] == "data" or any(field.is_array for field in fields):
        raise TableError(f"{where}: an operation with flags, arrays or data needs a handler of its own, not calls")
    left_out = {"slot", "reserved", row.get("length_field")}
    has = {field.name for field in fields} - left_out | ({row["tail"]} if "tail" in row else set())
    if unknown := has.symmetric_difference(argument.field for argument in arguments if argument):
        raise TableError(f"{where}: calls {text!r} passes each field once; see {', '.join(sorted(unknown))}")
    return Call(found[1], tuple(argument for argument in arguments if argument))


def _parse_operation(row: dict[str, Any]) -> Operation:
    where = f"tape.toml: operation {row.get('name', '?')}"
    required = {"name", "family", "code", "doc", "fields", "result", "loops", "plans"}
    optional = {
        "calls",
        "tail",
        "length_field",
        "flags",
        "identity",
        "host_only",
        "bookkeeping",
        "retired",
        "since",
        "flags_since",
    }
    require_keys(where, row, required, optional)
    if not 1 <= row["code"] <= 0xFFFF:
        raise TableError(f"{where}: code {row['code']} is no u16 above 0")
    if row["result"] not in RESULT_KINDS:
        raise TableError(f"{where}: result {row['result']!r} is none of {', '.join(RESULT_KINDS)}")
    for key, known in (
        ("plans", PLANS),
        ("loops", (True, False)),
        ("host_only", (True, False)),
        ("bookkeeping", (True, False)),
        ("retired", (True, False)),
    ):
        if row.get(key, known[0]) not in known:
            raise TableError(f"{where}: {key} {row[key]!r} is none of {', '.join(map(str, known))}")
    fields = _parse_fields(where, row["fields"], HEADER_BYTES)
    identity = row.get("identity")
    if identity is not None and identity not in {field.name for field in fields}:
        raise TableError(f"{where}: identity {identity!r} is no field of the record")
    if (row["result"] != "none") != any(field.name == "slot" for field in fields):
        raise TableError(f"{where}: a slot field is there exactly when the operation has a result")
    tail, length_field = _parse_tail(where, row, fields)
    return Operation(
        name=row["name"],
        code=row["code"],
        doc=row["doc"],
        fields=fields,
        tail=tail,
        length_field=length_field,
        header_bytes=HEADER_BYTES,
        family=row["family"],
        calls=_parse_call(where, row, fields),
        flags=_parse_flags(where, row.get("flags", [])),
        result=row["result"],
        loops=row["loops"],
        identity=identity,
        plans=row["plans"],
        host_only=row.get("host_only", False),
        bookkeeping=row.get("bookkeeping", False),
        retired=row.get("retired", False),
        since=row.get("since", 1),
        flags_since=row.get("flags_since", row.get("since", 1)),
    )


def _parse_result(row: dict[str, Any]) -> Record:
    where = f"tape.toml: result {row.get('name', '?')}"
    require_keys(where, row, {"name", "kind", "fields"}, {"doc", "tail", "length_field"})
    fields = _parse_fields(where, row["fields"], RESULT_HEADER_BYTES)
    tail, length_field = _parse_tail(where, row, fields)
    return Record(row["name"], row["kind"], row.get("doc", ""), fields, tail, length_field, RESULT_HEADER_BYTES)


def _refuse_duplicates(what: str, records: tuple[Record, ...]) -> None:
    for attribute in ("name", "code"):
        seen: dict[Any, str] = {}
        for record in records:
            value = getattr(record, attribute)
            if value in seen:
                raise TableError(f"tape.toml: {what} {record.name}: {attribute} {value} is also {seen[value]}'s")
            seen[value] = record.name


def parse(text: str) -> Tape:
    """The validated table; raises TableError."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"tape.toml: {error}") from None
    require_keys("tape.toml", raw, {"version", "operation", "result"}, set())
    operations = tuple(_parse_operation(row) for row in raw["operation"])
    results = tuple(_parse_result(row) for row in raw["result"])
    _refuse_duplicates("operation", operations)
    _refuse_duplicates("result", results)
    if {record.name.lower() for record in results} != set(RESULT_KINDS) - {"none"}:
        raise TableError("tape.toml: the results must be STATUS, VALUE and DATA")
    return Tape(raw["version"], operations, results)


def load(path: Path) -> Tape:
    return parse(path.read_text(encoding="utf-8"))

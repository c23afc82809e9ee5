"""Reads and validates `protos/cuda/*.toml`: the functions of the CUDA runtime API, their classes, and what is not supported.

Owns the schema of protos/cuda/README.md. The symbol lists (`symbols/`) are NVIDIA's and are taken as they are; a row is checked
against them, so that a misspelt name or a wrong `since` cannot be generated.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farlane_codegen.problems import TableError, require_keys

CLASSES = ("local", "deferred", "sync")
NEEDS = ("nothing", "context")
VERSIONS = ("12", "13")
TWINS = {"none": None, "argument": "_ptsz", "implicit": "_ptds"}
_NAME = re.compile(r"(__)?cuda[A-Z]\w*")
_SINCE = re.compile(r"(12|13)\.\d+")


@dataclass(frozen=True)
class Function:
    """One row. `versions` are the major versions whose library has it."""

    family: str
    name: str
    execution: str
    arguments: tuple[tuple[str, str], ...]
    returns: str
    operations: tuple[str, ...]
    versions: tuple[str, ...]
    stream: str
    doc: str
    alias_of: str | None
    by_hand: bool  # the face decides something: its function is written by hand, and there is no operation of this name
    operation_given: str | None  # the operation's name, where it is not the function's
    versioned: bool  # another row has the same name for the other major version
    needs: str  # of NEEDS: whether the call makes the primary context current

    @property
    def rust_name(self) -> str:
        return f"{self.name}_v{self.versions[0]}" if self.versioned else self.name

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of the exported symbols: the plain one, and the per-thread default stream's."""
        twin = TWINS[self.stream]
        return ("", twin) if twin else ("",)

    @property
    def operation(self) -> str:
        """The operation of crates/operations that it is: FAMILY::NAME."""
        return f"{self.family}::{self.operation_given or operation_name(self.family, self.rust_name)}"


_FAMILY_PREFIXES = {"launch": "", "memory": "Mem"}


def operation_name(family: str, name: str) -> str:
    """cudaStreamWaitEvent of family stream -> wait_event: the family's own prefix is left out, and CUDA 13's form needs no mark."""
    words = name.removeprefix("cuda").removesuffix("_v13").replace("_v12", "_before13")
    prefix = _FAMILY_PREFIXES.get(family, family.capitalize())
    if re.match(f"{prefix}[A-Z]", words):
        words = words.removeprefix(prefix)
    for wide in ("1D", "2D", "3D"):
        words = words.replace(wide, f"_{wide.lower()}_")
    for short, word in {"P2P": "Peer", "PCI": "Pci", "GPUDirectRDMA": "GpuDirectRdma"}.items():
        words = words.replace(short, word)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", words)
    return re.sub("_+", "_", words.lower().replace("before13", "before_13")).strip("_")


@dataclass(frozen=True)
class Api:
    functions: tuple[Function, ...]
    unsupported: dict[str, tuple[str, str]]  # name -> (family, reason)
    symbols: dict[str, tuple[str, ...]]  # major version -> every exported symbol, sorted
    families: tuple[str, ...] = field(default=())

    def exports(self, version: str) -> dict[str, str | None]:
        """Symbol -> exported function of the core (without prefix), None when it is not supported."""
        known: dict[str, str] = {}
        for function in self.functions:
            if version in function.versions:
                for suffix in function.suffixes:
                    known[function.name + suffix] = function.rust_name + suffix
        return {symbol: known.get(symbol) for symbol in self.symbols[version]}


def base_name(symbol: str) -> str:
    """The documented name behind a `_ptsz`/`_ptds` twin."""
    return re.sub(r"_pt(sz|ds)$", "", symbol)


def _parse_function(family: str, row: dict[str, Any]) -> Function:
    where = f"cuda/{family}.toml: {row.get('name', '?')}"
    require_keys(
        where,
        row,
        {"name", "class", "args"},
        {"returns", "operations", "since", "until", "stream", "doc", "alias_of", "by_hand", "operation", "needs"},
    )
    name, execution = row["name"], row["class"]
    if not _NAME.fullmatch(name):
        raise TableError(f"{where}: not a name of the CUDA runtime API")
    if execution not in CLASSES:
        raise TableError(f"{where}: class {execution!r} is none of {', '.join(CLASSES)}")
    arguments: list[tuple[str, str]] = []
    for entry in row["args"]:
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(item, str) for item in entry)):
            raise TableError(f"{where}: an argument is [type, name], not {entry!r}")
        arguments.append((entry[0], entry[1]))
    if len({argument for _, argument in arguments}) != len(arguments):
        raise TableError(f"{where}: two arguments have the same name")
    operations = tuple(row.get("operations", []))
    if (execution == "local") == bool(operations):
        raise TableError(f"{where}: class {execution} {'takes no' if operations else 'needs'} operations")
    since, until, stream = row.get("since", "12.0"), row.get("until"), row.get("stream", "none")
    if not _SINCE.fullmatch(since) or until not in (None, "12"):
        raise TableError(f"{where}: since is like 12.0, until is 12 (or absent), not {since!r} and {until!r}")
    if stream not in TWINS:
        raise TableError(f"{where}: stream {stream!r} is none of {', '.join(TWINS)}")
    needs = row.get("needs", "nothing" if execution == "local" else "context")
    if needs not in NEEDS:
        raise TableError(f"{where}: needs {needs!r} is none of {', '.join(NEEDS)}")
    versions = tuple(v for v in VERSIONS if int(v) >= int(since.split(".")[0]) and (until is None or v <= until))
    if not versions:
        raise TableError(f"{where}: no version is left between since {since} and until {until}")
    return Function(
        family=family,
        name=name,
        execution=execution,
        arguments=tuple(arguments),
        returns=row.get("returns", "cudaError_t"),
        operations=operations,
        versions=versions,
        stream=stream,
        doc=row.get("doc", ""),
        alias_of=row.get("alias_of"),
        by_hand=row.get("by_hand", False),
        operation_given=row.get("operation"),
        versioned=False,
        needs=needs,
    )


def _mark_versioned(functions: list[Function]) -> list[Function]:
    by_name: dict[str, list[Function]] = {}
    for function in functions:
        by_name.setdefault(function.name, []).append(function)
    for name, rows in by_name.items():
        versions = [version for row in rows for version in row.versions]
        if len(set(versions)) != len(versions):
            raise TableError(f"cuda: {name} has two rows for the same major version")
    return [Function(**{**vars(function), "versioned": len(by_name[function.name]) > 1}) for function in functions]


def _check(api: Api, operations: frozenset[str]) -> None:
    by_rust_name = {function.rust_name: function for function in api.functions}
    for function in api.functions:
        where = f"cuda/{function.family}.toml: {function.name}"
        unknown = set(function.operations) - operations
        if unknown:
            raise TableError(f"{where}: tape.toml has no operation {', '.join(sorted(unknown))}")
        if function.name in api.unsupported:
            raise TableError(f"{where}: has a row and is listed as unsupported")
        _check_symbols(where, function, api.symbols)
        if function.alias_of is not None:
            _check_alias(where, function, by_rust_name.get(function.alias_of))
    suffixes = {function.name: function.suffixes for function in api.functions}
    exported = {symbol for symbols in api.symbols.values() for symbol in symbols}
    for symbol in exported:
        name = base_name(symbol)
        if name in suffixes and symbol.removeprefix(name) not in suffixes[name]:
            raise TableError(f"cuda: {name} has no `stream`, but {symbol} is exported")
    for name, (family, _) in api.unsupported.items():
        if name not in {base_name(symbol) for symbol in exported}:
            raise TableError(f"cuda/{family}.toml: unsupported {name}: no library exports it")


def _check_symbols(where: str, function: Function, symbols: dict[str, tuple[str, ...]]) -> None:
    for version in VERSIONS:
        exported = [function.name + suffix in symbols[version] for suffix in function.suffixes]
        if version in function.versions and not all(exported):
            missing = function.name + function.suffixes[exported.index(False)]
            raise TableError(f"{where}: libcudart.so.{version} exports no {missing}")
        if version not in function.versions and any(exported) and not function.versioned:
            raise TableError(f"{where}: libcudart.so.{version} exports it too, the row leaves that version out")


def _check_alias(where: str, function: Function, target: Function | None) -> None:
    if target is None or target.alias_of is not None:
        raise TableError(f"{where}: alias_of {function.alias_of!r} is no function with a row of its own")
    same = [kind for kind, _ in target.arguments] == [kind for kind, _ in function.arguments]
    if not same or (target.execution, target.returns) != (function.execution, function.returns):
        raise TableError(f"{where}: differs from {function.alias_of}, whose alias it is said to be")


def parse(files: dict[str, str], symbols: dict[str, str], operations: frozenset[str]) -> Api:
    """The validated table from family -> text of its file, and major version -> text of its symbol list."""
    functions: list[Function] = []
    unsupported: dict[str, tuple[str, str]] = {}
    for family, text in files.items():
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise TableError(f"cuda/{family}.toml: {error}") from None
        require_keys(f"cuda/{family}.toml", raw, set(), {"function", "unsupported"})
        functions += [_parse_function(family, row) for row in raw.get("function", [])]
        for entry in raw.get("unsupported", []):
            require_keys(f"cuda/{family}.toml: unsupported", entry, {"reason", "names"}, set())
            for name in entry["names"]:
                if name in unsupported:
                    raise TableError(f"cuda/{family}.toml: unsupported {name} is also in {unsupported[name][0]}.toml")
                unsupported[name] = (family, entry["reason"])
    lists: dict[str, tuple[str, ...]] = {}
    for version in VERSIONS:
        lines = symbols[version].split()
        if lines != sorted(set(lines)):
            raise TableError(f"cuda/symbols/libcudart.so.{version}.txt: not sorted, or a symbol is listed twice")
        lists[version] = tuple(lines)
    api = Api(tuple(_mark_versioned(functions)), unsupported, lists, tuple(files))
    _check(api, operations)
    return api


def load(folder: Path, operations: frozenset[str]) -> Api:
    data = {"errors", "attributes", "driver_errors"}
    files = {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.toml")) if p.stem not in data}
    lists = {v: (folder / f"symbols/libcudart.so.{v}.txt").read_text(encoding="utf-8") for v in VERSIONS}
    return parse(files, lists, operations)

"""Reads and validates `protos/cuda/driver/*.toml`: the functions of the CUDA driver API, and what is not supported.

Owns the schema of the section "The driver API" of protos/cuda/README.md. `symbols/libcuda.so.1.txt` lists every function of cuda.h
of CUDA 12.0 to 13.5 with its documented name and the driver version that introduced it (cudaTypedefs.h); a row is checked against it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farlane_codegen.api_table import CLASSES, TWINS, Api, Function
from farlane_codegen.problems import TableError, require_keys

NEEDS = ("nothing", "initialization", "no-ended-context", "context")
_NAME = re.compile(r"cu[A-Z]\w*")


@dataclass(frozen=True)
class DriverFunction:
    """One row."""

    family: str
    name: str
    execution: str
    arguments: tuple[tuple[str, str], ...]
    needs: str
    calls: Function | None  # the function of the runtime API that does the same, argument for argument
    like: Function | None  # the function of the runtime API as which permissions, captures and reports treat it
    stream: str
    operations: tuple[str, ...]  # of the tape, where they are not those of `calls` or `like`
    doc: str

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of the exported symbols: the plain one, and the per-thread default stream's."""
        twin = TWINS[self.stream]
        return ("", twin) if twin else ("",)


@dataclass(frozen=True)
class Symbol:
    """An exported symbol: the name that a program asks for, and the version of CUDA since which it gets this one."""

    name: str
    documented: str
    since: int


@dataclass(frozen=True)
class DriverApi:
    functions: tuple[DriverFunction, ...]
    unsupported: dict[str, tuple[str, str]]  # name -> (family, reason)
    symbols: tuple[Symbol, ...]
    families: tuple[str, ...]

    def exports(self) -> dict[str, bool]:
        """Symbol -> whether it is supported, in the order of the symbols' names."""
        known = {function.name + suffix for function in self.functions for suffix in function.suffixes}
        return {symbol.name: symbol.name in known for symbol in self.symbols}


def untwinned(symbol: str) -> str:
    """The symbol without the suffix of the per-thread default stream."""
    return re.sub(r"_pt(sz|ds)$", "", symbol)


def _parse_function(family: str, row: dict[str, Any], runtime: dict[str, Function]) -> DriverFunction:
    where = f"cuda/driver/{family}.toml: {row.get('name', '?')}"
    require_keys(where, row, {"name", "args"}, {"class", "calls", "like", "needs", "stream", "operations", "doc"})
    name, calls, like = row["name"], row.get("calls"), row.get("like")
    if not _NAME.fullmatch(name):
        raise TableError(f"{where}: not a name of the CUDA driver API")
    if (calls is None) == ("class" not in row) or (calls is not None and like is not None):
        raise TableError(f"{where}: takes either `calls`, or `class` (and perhaps `like`)")
    for target in filter(None, (calls, like)):
        if target not in runtime:
            raise TableError(f"{where}: the runtime API's table has no row {target}")
    same = runtime[calls] if calls else None
    if same and same.alias_of:
        same = runtime[same.alias_of]
    if same and same.by_hand:
        raise TableError(
            f"{where}: {calls} is written by hand in the runtime's face: there is no such operation to call"
        )
    execution = same.execution if same else row["class"]
    if execution not in CLASSES:
        raise TableError(f"{where}: class {execution!r} is none of {', '.join(CLASSES)}")
    arguments = tuple((kind, argument) for kind, argument in row["args"])
    needs, stream = row.get("needs", "context"), row.get("stream", "none")
    if needs not in NEEDS:
        raise TableError(f"{where}: needs {needs!r} is none of {', '.join(NEEDS)}")
    if stream not in TWINS:
        raise TableError(f"{where}: stream {stream!r} is none of {', '.join(TWINS)}")
    if same and len(same.arguments) != len(arguments):
        raise TableError(f"{where}: {calls} has {len(same.arguments)} arguments, this has {len(arguments)}")
    return DriverFunction(
        family=family,
        name=name,
        execution=execution,
        arguments=arguments,
        needs=needs,
        calls=same,
        like=same or (runtime[like] if like else None),
        stream=stream,
        operations=tuple(row.get("operations", ())) or (same.operations if same else ()),
        doc=row.get("doc", ""),
    )


def _parse_symbols(text: str) -> tuple[Symbol, ...]:
    symbols = []
    for line in text.splitlines():
        name, documented, since = line.split()
        symbols.append(Symbol(name, documented, int(since)))
    names = [symbol.name for symbol in symbols]
    if names != sorted(set(names)):
        raise TableError("cuda/symbols/libcuda.so.1.txt: not sorted, or a symbol is listed twice")
    return tuple(symbols)


def _check(api: DriverApi) -> None:
    exported = {symbol.name for symbol in api.symbols}
    rows = {function.name: function for function in api.functions}
    if len(rows) != len(api.functions):
        raise TableError("cuda/driver: a function has two rows")
    for function in api.functions:
        where = f"cuda/driver/{function.family}.toml: {function.name}"
        if function.name in api.unsupported:
            raise TableError(f"{where}: has a row and is listed as unsupported")
        twins = {name for name in exported if untwinned(name) == function.name}
        expected = {function.name + suffix for suffix in function.suffixes}
        if twins != expected:
            raise TableError(f"{where}: libcuda.so.1 exports {', '.join(sorted(twins)) or 'no such symbol'}")
    for name, (family, _) in api.unsupported.items():
        if name not in exported:
            raise TableError(f"cuda/driver/{family}.toml: unsupported {name}: libcuda.so.1 exports no such symbol")
    missing = {untwinned(name) for name in exported} - set(rows) - set(api.unsupported)
    if missing:
        raise TableError(f"cuda/driver: neither a row nor a reason for {', '.join(sorted(missing))}")


def parse(files: dict[str, str], symbols: str, runtime: Api) -> DriverApi:
    """The validated table from family -> text of its file, the text of the symbol list, and the runtime API's table."""
    by_name = {function.rust_name: function for function in runtime.functions}
    functions: list[DriverFunction] = []
    unsupported: dict[str, tuple[str, str]] = {}
    for family, text in files.items():
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise TableError(f"cuda/driver/{family}.toml: {error}") from None
        require_keys(f"cuda/driver/{family}.toml", raw, set(), {"function", "unsupported"})
        functions += [_parse_function(family, row, by_name) for row in raw.get("function", [])]
        for entry in raw.get("unsupported", []):
            require_keys(f"cuda/driver/{family}.toml: unsupported", entry, {"reason", "names"}, set())
            for name in entry["names"]:
                if name in unsupported:
                    raise TableError(f"cuda/driver/{family}.toml: unsupported {name} is listed twice")
                unsupported[name] = (family, entry["reason"])
    api = DriverApi(tuple(functions), unsupported, _parse_symbols(symbols), tuple(files))
    _check(api)
    return api


def load(folder: Path, runtime: Api) -> DriverApi:
    files = {path.stem: path.read_text(encoding="utf-8") for path in sorted((folder / "driver").glob("*.toml"))}
    return parse(files, (folder / "symbols/libcuda.so.1.txt").read_text(encoding="utf-8"), runtime)

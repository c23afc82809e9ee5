"""The memory system's configuration: one typed TOML file, or a preset by name.

    base = "mgpusim"          # optional: a preset whose values hold where the file says nothing
    [tlb.private]
    entries = 64

Tables and keys are the fields of the spec classes (tlb/spec.py, cores/spec.py, `Paging` here). An unknown key, a wrong type and a value out of bounds are `ConfigError`s that name the
key. A part of the memory system adds its own table by adding a field to `Config`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import tomllib
from pathlib import Path
from typing import Any, Literal

from farlane.backend.memory.cores.spec import Cores
from farlane.backend.memory.tlb.spec import Spec, SpecError, check, hints_of, number

MAX_BYTES = 1 << 20


class ConfigError(ValueError):
    """What is wrong with a configuration; the message names the key."""


@dataclasses.dataclass(frozen=True)
class Paging:
    """Physical memory. `frame_order` is the order in which frames are handed out (paging/frames.py)."""

    memory_mib: int = number(16384, 2, 1 << 22)
    frame_order: Literal["lowest", "scattered"] = "scattered"
    table_mib: int = number(1024, 1, 1 << 16)


@dataclasses.dataclass(frozen=True)
class Config:
    """The whole memory system."""

    paging: Paging = dataclasses.field(default_factory=Paging)
    tlb: Spec = dataclasses.field(default_factory=Spec)
    cores: Cores = dataclasses.field(default_factory=Cores)

    def __post_init__(self) -> None:
        try:
            check(self, "")
            self.tlb.check("tlb.")
            if self.paging.memory_mib % 2:
                raise SpecError(f"paging.memory_mib: expected a multiple of 2, got {self.paging.memory_mib}")
        except SpecError as error:
            raise ConfigError(str(error)) from None


def presets() -> list[str]:
    """The names that `preset` takes."""
    folder = importlib.resources.files(__package__) / "presets"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


@functools.cache
def preset(name: str) -> Config:
    """A configuration that comes with Farlane."""
    return _build(_preset_values(name, ()))


def load(path: str | Path) -> Config:
    """A configuration file's content."""
    file = Path(path)
    with file.open("rb") as stream:
        text = stream.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{file}: more than {MAX_BYTES} bytes")
    try:
        return parse(text.decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not UTF-8") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def parse(text: str) -> Config:
    """A configuration from TOML text."""
    return _build(_values(text, ()))


def _values(text: str, seen: tuple[str, ...]) -> dict[str, Any]:
    """The text's values over those of its base."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"not TOML: {error}") from None
    base = values.pop("base", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise ConfigError(f"base: expected the name of a preset, got {base!r}")
    return _merge(_preset_values(base, seen), values)


def _preset_values(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if name not in presets():
        raise ConfigError(f"base: no preset is called {name!r}; there are {', '.join(presets())}")
    if name in seen:
        raise ConfigError(f"base: {name} rests on itself")
    text = (importlib.resources.files(__package__) / "presets" / f"{name}.toml").read_text(encoding="utf-8")
    return _values(text, (*seen, name))


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _build(values: dict[str, Any]) -> Config:
    try:
        config: Config = _table(Config, values, "")
    except SpecError as error:
        raise ConfigError(str(error)) from None
    return config


def _table(kind: Any, values: Any, prefix: str) -> Any:
    """An instance of a spec class. Values are put in unchecked and `check` judges them, with the key's full name."""
    if not isinstance(values, dict):
        raise ConfigError(f"{prefix.rstrip('.')}: expected a table, got {values!r}")
    hints = hints_of(kind)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    for key in values:
        if key not in fields:
            import difflib  # for who misspells something

            close = difflib.get_close_matches(key, fields, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(fields)}"
            raise ConfigError(f"{prefix}{key}: no such key{hint}")
    inner = {
        key: _table(fields[key], value, f"{prefix}{key}.") if dataclasses.is_dataclass(fields[key]) else value
        for key, value in values.items()
    }
    try:
        return kind(**inner)
    except SpecError as error:
        raise SpecError(f"{prefix}{error}") from None

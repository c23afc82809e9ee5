"""Requests in a file: what the cores ask, group of launches by group, so that hierarchies can be compared on the same requests.

A zip archive. `meta.json`: cores, page_bytes, and for each group its names, launches and number of windows. `<group>/<window>.npy`: a window's requests, one row of 64-bit words per request:
core, page, gap. Readers are given untrusted files: sizes are bounded before anything is read, and every number is checked by `Stream.of`.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from farlane.backend.memory.paging.spec import PAGE_BYTES
from farlane.backend.memory.tlb.stream import Stream

VERSION = 1
MOST_META_BYTES = 64 << 20
MOST_WINDOW_BYTES = 1 << 30
MOST_GROUPS = 1 << 20
MOST_WINDOWS = 1 << 20


class TraceError(ValueError):
    """What is wrong with a trace file."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Launches that ran together."""

    name: str
    windows: int
    requests: int


class TraceWriter:
    """Writes one file; `close` ends it."""

    def __init__(self, path: Path, cores: int, page_bytes: int) -> None:
        self._meta = {"version": VERSION, "cores": cores, "page_bytes": page_bytes}
        self._groups: list[Group] = []
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)

    def group(self, name: str) -> None:
        """What is added from here on belongs to this group."""
        self._groups.append(Group(name, 0, 0))

    def add(self, stream: Stream) -> None:
        group = self._groups[-1]
        table = np.stack([stream.core_of(), stream.page, stream.gap], axis=1)
        data = io.BytesIO()
        np.save(data, table, allow_pickle=False)
        self._zip.writestr(f"{len(self._groups) - 1}/{group.windows}.npy", data.getvalue())
        self._groups[-1] = Group(group.name, group.windows + 1, group.requests + len(stream))

    def close(self) -> None:
        self._meta["groups"] = [dataclasses.asdict(group) for group in self._groups]  # type: ignore[assignment]
        self._zip.writestr("meta.json", json.dumps(self._meta))
        self._zip.close()


class TraceReader:
    """Reads one file. Raises TraceError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise TraceError(f"{path}: {error}") from None
        try:
            meta = json.loads(self._read("meta.json", MOST_META_BYTES))
            self.cores, self.page_bytes = int(meta["cores"]), int(meta["page_bytes"])
            if meta["version"] != VERSION:
                raise TraceError(f"{path}: version {meta['version']}; this reads {VERSION}")
            if not 1 <= self.cores <= 256 or self.page_bytes not in PAGE_BYTES:
                raise TraceError(f"{path}: {self.cores} cores, pages of {self.page_bytes} bytes")
            self.groups: Sequence[Group] = [
                Group(str(item["name"]), int(item["windows"]), int(item["requests"])) for item in meta["groups"]
            ]
            if len(self.groups) > MOST_GROUPS or any(not 0 <= one.windows <= MOST_WINDOWS for one in self.groups):
                raise TraceError(f"{path}: too many groups or windows")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            self._zip.close()
            raise error if isinstance(error, TraceError) else TraceError(f"{path}: meta.json: {error!r}") from None

    def windows(self, group: int) -> Iterator[Stream]:
        """The requests of a group."""
        for window in range(self.groups[group].windows):
            data = self._read(f"{group}/{window}.npy", MOST_WINDOW_BYTES)
            try:
                table: Any = np.load(io.BytesIO(data), allow_pickle=False)
                if table.ndim != 2 or table.shape[1] != 3 or table.dtype != np.int64:
                    raise ValueError("not rows of core, page and gap")
                stream = Stream.of(self.cores, table[:, 0], table[:, 1], table[:, 2])
            except (ValueError, EOFError, MemoryError, TypeError, SyntaxError) as error:
                raise TraceError(f"{self.path}: {group}/{window}: {error}") from None
            yield stream

    def close(self) -> None:
        self._zip.close()

    def __enter__(self) -> TraceReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, name: str, limit: int) -> bytes:
        try:
            if self._zip.getinfo(name).file_size > limit:
                raise TraceError(f"{self.path}: {name} is larger than {limit} bytes")
            with self._zip.open(name) as stream:
                data = stream.read(limit + 1)
        except (KeyError, OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise TraceError(f"{self.path}: {name}: {error}") from None
        except Exception as error:  # zlib.error and its like
            if isinstance(error, TraceError):
                raise
            raise TraceError(f"{self.path}: {name}: {error}") from None
        if len(data) > limit:
            raise TraceError(f"{self.path}: {name} is larger than it says")
        return data

"""What the admin port answers: metrics, the page, and the JSON that the page reads.

Owns the paths, the JSON, and the headers that keep other sites out. Everything is read-only. What guests say of
themselves (names of programs) goes into JSON and Prometheus's labels, which escape it; the page puts it into text
nodes.

Source: Content Security Policy Level 3 (hashes of inline scripts and styles).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from farlane.backend.device.base import MemoryMap
from farlane.backend.observing import exposition
from farlane.backend.observing.history import History, Row

_FOLDER = Path(__file__).parent
NAME_CHARACTERS = 64  # of a session's name in a question


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def failure(status: int, text: str, *headers: tuple[str, str]) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode(), headers)


class Routes:
    """Answers for one host.

    Args:
        memory_map: of the session of that name; None: there is none, or it does not say so now.
    """

    def __init__(self, history: History, memory_map: Callable[[str], MemoryMap | None]) -> None:
        self._history = history
        self._memory_map = memory_map
        self._page, self._policy = _page()

    def answer(self, target: str) -> Answer:
        """GET of this path with its query."""
        parts = urlsplit(target)
        if parts.path == "/":
            return Answer(200, "text/html; charset=utf-8", self._page, (("Content-Security-Policy", self._policy),))
        if parts.path == "/metrics":
            return Answer(200, exposition.CONTENT_TYPE, exposition.text(self._history.snapshot()))
        if parts.path == "/state.json":
            return _json(self._state())
        if parts.path == "/memory.json":
            name = parse_qs(parts.query).get("session", [""])[0]
            found = self._memory_map(name) if len(name) <= NAME_CHARACTERS else None
            return failure(404, "no session of that name is open") if found is None else _json(asdict(found))
        return failure(404, "there are /, /metrics, /state.json and /memory.json?session=NAME")

    def _state(self) -> dict[str, Any]:
        host = self._history.snapshot()
        now = Row.of(host)
        return {
            "version": host.version,
            "device": host.device,
            "device_memory": host.device_memory,
            "session_limit": host.session_limit,
            "now": now._asdict(),
            "totals": asdict(host.totals),
            "sessions": [asdict(each) for each in host.usage],
            "columns": Row._fields,
            "history": [*self._history.rows(), now],
        }


def _json(value: object) -> Answer:
    return Answer(200, "application/json", json.dumps(value).encode())


def _page() -> tuple[bytes, str]:
    """The page with its style and script inside, and the policy that lets just these two run."""
    text, style, script = ((_FOLDER / f"page.{kind}").read_text() for kind in ("html", "css", "js"))
    style_hash, script_hash = map(_hash, (style, script))
    policy = (
        f"default-src 'none'; style-src '{style_hash}'; script-src '{script_hash}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script).encode(), policy


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

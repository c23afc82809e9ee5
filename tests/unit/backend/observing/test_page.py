"""The web page in a real browser: it shows what the host says, and what guests say of themselves as text."""

from __future__ import annotations

import html
import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from browser import command, needs_browser
from farlane.backend.device.base import Rows
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.host.session import Session
from farlane.backend.observing.server import Admin
from farlane.backend.server.endpoint import TcpEndpoint

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


class Elements(HTMLParser):
    """The elements of a document, and the text of those with an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def shown(host: Host, folder: Path) -> str:
    """The document after the page has run for some seconds of its own time."""
    admin = Admin(host, TcpEndpoint("127.0.0.1", 0))
    admin.start()
    try:
        shown_by = command(folder, admin.url)
        done = subprocess.run(shown_by, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120)
    finally:
        admin.stop()
    assert done.returncode == 0
    return re.sub(r"<script>.*?</script>", "", done.stdout, flags=re.DOTALL)


@needs_browser
def test_the_page_is_live(host: Host, new_guest: Callable[..., Any], tmp_path: Path) -> None:
    guest = new_guest()
    for number in range(5):
        guest.submit(encode("ALLOCATE", guest.base + number * 65536, 65536))
    text = shown(host, tmp_path)
    assert re.search(r'id="state"[^>]*>live<', text), text[-2000:]
    assert "Farlane Null Device" in text
    assert f">{guest.session.name}</button>" in text
    assert "<polyline" in text
    assert "320 KiB" in text
    assert 'id="none" hidden' in text


@needs_browser
def test_memory_is_a_map(tmp_path: Path) -> None:
    """Allocations as boxes; translation groups where device memory is bounded."""
    from farlane.backend.device.sim import SimDevice
    from farlane.backend.device.sim.options import Oversubscription

    host = Host(SimDevice(threads=1, oversubscription=Oversubscription(memory=4 << 20)))
    session = host.admit(Greeting(1, TAPE_VERSION_MAX, program="test")).session
    assert isinstance(session, Session)
    context, base = session.resources.context, session.window.base
    for number in range(3):
        context.allocate(base + (number << 20), 65536)
        context.write(Rows(base + (number << 20), 64, 64, 1), memoryview(bytes(64)), context.default_stream(1))
    text = shown(host, tmp_path)
    for number in range(3):
        address = base + (number << 20)
        assert f'<span title="allocation: 64.0 KiB at {address:#x}" style="flex-grow: 256;"' in text, text
    assert "3 allocations, 192 KiB" in text
    assert re.search(r"\d+ translation groups", text)
    host.close()


@needs_browser
def test_names_are_text(host: Host, tmp_path: Path) -> None:
    session = host.admit(Greeting(1, TAPE_VERSION_MAX, program=HOSTILE)).session
    text = shown(host, tmp_path)
    assert "<title>Farlane host</title>" in text
    assert html.escape(HOSTILE, quote=False) in text
    assert not {"img", "script"} & set(Elements(text).tags)
    host.end(session, "test")


@needs_browser
def test_the_page_says_that_the_host_is_gone(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("farlane.backend.observing.routes.Routes._state", broken)
    assert re.search(r'id="state"[^>]*>no answer \(500\)<', shown(host, tmp_path))

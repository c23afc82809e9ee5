"""The site: its build has strict links, each diagram is drawn in a real browser, and no page asks another machine for anything."""

from __future__ import annotations

import functools
import html
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser import command, needs_browser

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
DIAGRAMS = {
    page.relative_to(DOCS): page.read_text().count("\n```mermaid")
    for page in sorted(DOCS.rglob("*.md"))
    if "\n```mermaid" in page.read_text()
}
LEAST = 0.6  # of a diagram's own size, on a page 1500 pixels wide
# The theme draws into closed shadows: this keeps them, and says what is in them when the page has settled.
WATCH = """<script>
const shadows = [], attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (how) { const made = attach.call(this, how); shadows.push(made); return made; };
addEventListener("load", () => setTimeout(() => {
  const drawn = shadows.map(shadow => {
    const svg = shadow.querySelector("svg"), box = svg?.getBoundingClientRect();
    const scale = svg ? box.width / svg.viewBox.baseVal.width : 0;
    return { width: box?.width ?? 0, height: box?.height ?? 0, scale, text: shadow.textContent };
  });
  const asked = performance.getEntriesByType("resource").map(entry => entry.name);
  const result = document.createElement("pre");
  result.id = "drawn";
  result.textContent = JSON.stringify({ drawn, asked, left: document.querySelectorAll("pre > code.mermaid").length });
  document.body.append(result);
}, 3000));
</script>"""

pytestmark = [pytest.mark.pages, pytest.mark.timeout(600)]


class Watched(SimpleHTTPRequestHandler):
    """Serves the site with `WATCH` in each page."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        page = path / "index.html" if path.is_dir() else path
        if page.suffix != ".html" or not page.exists():
            super().do_GET()
            return
        body = page.read_text().replace("<head>", "<head>" + WATCH, 1).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built anew."""
    pytest.importorskip("mkdocs", reason="the extra [docs] is not installed (make docs installs it)")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Watched, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_there_are_diagrams() -> None:
    assert len(DIAGRAMS) >= 15


@needs_browser
@pytest.mark.parametrize("page", DIAGRAMS, ids=str)
def test_diagrams_are_drawn(page: Path, site: str, tmp_path: Path) -> None:
    place = page.parent if page.name == "README.md" else page.with_suffix("")
    address = f"{site}/{place}/"
    shown = subprocess.run(
        command(tmp_path, address), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300
    )
    result = re.search(r'<pre id="drawn">(.*?)</pre>', shown.stdout, re.S)
    assert result, shown.stdout[-2000:]
    found = json.loads(html.unescape(result[1]))
    assert len(found["drawn"]) == DIAGRAMS[page]
    for each in found["drawn"]:
        assert each["width"] > 50
        assert each["height"] > 50
        assert each["scale"] >= LEAST, "letters are too small to be read: draw from top to bottom"
        assert "Syntax error" not in each["text"]
    assert [name for name in found["asked"] if not name.startswith(site)] == []

"""Pages in a real browser: Chromium without a window, where it is installed.

A page is shown in a frame of the width that is asked for, because a window cannot be as narrow as a telephone. The frame
has the page's text itself, so that a script beside it may measure what it looks like.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (1400, 400)

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

_FRAME = """<!doctype html><body style="margin:0"><iframe id="frame" style="width:%dpx;height:900px;border:0"></iframe>
<pre id="result"></pre><script>
const frame = document.getElementById("frame");
frame.addEventListener("load", () => {
  const document_ = frame.contentDocument, window_ = frame.contentWindow;
  const wider = document_.documentElement.scrollWidth - frame.clientWidth;
  let result;
  try { result = ((document, window) => (%s))(document_, window_); } catch (error) { result = String(error); }
  document.getElementById("result").textContent = JSON.stringify({ wider, result });
});
frame.srcdoc = %s;
</script></body>"""


def command(folder: Path, address: str) -> list[str]:
    """Chromium, printing a document when it has run for some seconds of its own time."""
    return [
        str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
        "--virtual-time-budget=4000", "--window-size=1500,1000", f"--user-data-dir={folder}", address,
    ]  # fmt: skip


def measured(page: str, width: int, folder: Path, expression: str) -> Any:
    """What a JavaScript expression over `document` and `window` is in the page. The page must fit into the width."""
    text = json.dumps(page).replace("</", "<\\/").replace("<!--", "<\\!--")
    outer = folder / f"frame-{width}.html"
    outer.write_text(_FRAME % (width, expression, text), encoding="utf-8")
    done = subprocess.run(
        command(folder / "profile", outer.as_uri()),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None
    assert found[1], "the page was not shown"
    answer = json.loads(html.unescape(found[1]))
    assert answer["wider"] <= 0, f"the page is {answer['wider']} pixels wider than {width}"
    return answer["result"]

"""The analyzer's page in a real browser, on a screen and on a telephone: it fits, folds, zooms and changes its theme."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import farlane.analyzer
import pytest
from browser import WIDTHS, measured, needs_browser
from farlane.analyzer.report import html, sources

SOURCE = r"""
extern "C" int cudaMemset(void *, int, unsigned long);
int odd(int i) { return i & 1; }
int main(int argc, char **argv) {
    for (int i = 0; i < argc; ++i) {
        if (odd(i)) argv[0][i] = 1;
        cudaMemset(argv[0] + 64 * i, 0, 64);
    }
    return 0;
}
"""
RUNTIME = 'extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }'

LOOKED_AT = """(() => {
  const blocks = [...document.querySelectorAll(".block")], folded = blocks.filter((block) => !block.open);
  const drawing = document.querySelector(".drawing"), width = () => drawing.firstElementChild.clientWidth;
  const before = width();
  document.querySelector('[data-zoom="in"]').click();
  const larger = width() / before;
  document.querySelector('[data-zoom="fit"]').click();
  const fits = width() <= drawing.clientWidth;
  document.getElementById("all").click();
  const background = () => window.getComputedStyle(document.body).backgroundColor;
  const first = background();
  document.getElementById("theme").click();
  return {
    blocks: blocks.length, folded: folded.length, opened: folded.every((block) => block.open), larger, fits,
    themes: new Set([first, background()]).size,
    source: [...document.querySelectorAll(".source code")].map((code) => code.textContent),
  };
})()"""


@pytest.fixture(scope="module")
def page(build: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runtime")
    (folder / "libcudart.so").symlink_to(build(RUNTIME, "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13"))
    (folder / "main.cpp").write_text(SOURCE)
    options = ["-g", "-O0", "-o", "program", "main.cpp", "-L.", "-lcudart"]
    subprocess.run(["g++", *options], cwd=folder, check=True)
    return html.page(farlane.analyzer.open(folder / "program"))


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page(page: str, width: int, tmp_path: Path) -> None:
    found = measured(page, width, tmp_path, LOOKED_AT)
    assert 0 < found["folded"] < found["blocks"]
    assert found["opened"]
    assert found["larger"] == pytest.approx(1.4, abs=0.02)
    assert found["fits"]
    assert found["themes"] == 2
    assert "cudaMemset(argv[0] + 64 * i, 0, 64);" in found["source"]


def test_source_lines_stand_beside_instructions(page: str) -> None:
    assert page.count("cudaMemset(argv[0] + 64 * i, 0, 64);") >= 1
    assert '<details class="block c' in page
    assert '" open id="f' in page  # a block with a CUDA call
    assert '" id="f' in page  # one without


def test_no_other_file_gets_into_the_page(tmp_path: Path) -> None:
    """Debug information names files; an executable may not be trusted with which ones are shown."""
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "link.c").symlink_to(tmp_path / "secret")
    (tmp_path / "folder.c").mkdir()
    (tmp_path / "large.c").write_bytes(b"x" * (sources.MAXIMUM_BYTES + 1))
    (tmp_path / "small.c").write_text("int i;\n")
    names = ("secret", "link.c", "folder.c", "large.c", "missing.c", "zero\0.c")
    assert [sources._read(tmp_path / name) for name in names] == [[]] * len(names)
    assert sources._read(tmp_path / "small.c") == ["int i;"]

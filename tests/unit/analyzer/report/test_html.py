"""The page of `farlane analyze --html`: well-formed, self-contained, complete, and harmless whatever the names are."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import farlane.analyzer
import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import Class, Kind, Reason
from farlane.analyzer.report import html, layout, listing
from farlane.analyzer.report import words as explanations

# A program that calls what it takes for CUDA's functions. The symbol is changed in the file: no assembler takes such a
# name.
HOSTILE = "<script>alert(1)</script>&\"'"
SOURCE = r"""
extern "C" int cudaMemset(void *, int, unsigned long);
extern "C" int cudaDeviceSynchronize();
extern "C" int cudaMemcpy(void *, const void *, unsigned long, int);
extern "C" void exit(int);
extern "C" __attribute__((noinline)) int both(const char *data) {
    int first, second;
    if (cudaMemcpy(&first, data, 4, 2)) exit(1);
    if (cudaMemcpy(&second, data + 4, 4, 2)) exit(1);
    return first + second;
}
extern "C" __attribute__((noinline)) void %s(char *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        cudaMemset(data + 64 * i, 0, 64);
        if (i & 1) cudaDeviceSynchronize();
    }
}
int main(int argc, char **argv) {
    for (int j = 0; j < 3; ++j) %s(argv[0], argc + j);
    return both(argv[1]);
}
""" % (("x" * len(HOSTILE),) * 2)
RUNTIME = 'extern "C" int cudaMemset(void *, int, unsigned long) { return 0; } extern "C" int cudaDeviceSynchronize() { return 0; }'
RUNTIME += 'extern "C" int cudaMemcpy(void *, const void *, unsigned long, int) { return 0; }'
VOID = {"meta", "input"}


@dataclass(frozen=True)
class Permission:
    site: int
    local_sync: bool = True
    defer_read: bool = False
    complete_at_call: bool = False
    more_text: str = "rbx < <b>12</b>"
    proof: str = "the code is <i>unused</i>"
    refused: str = ""


@pytest.fixture(scope="module")
def program(build: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runtime")
    runtime = build(RUNTIME, "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13")
    (folder / "libcudart.so").symlink_to(runtime)
    made = build(SOURCE, "-O1", f"-L{folder}", "-lcudart", "-Wl,--allow-shlib-undefined")
    changed = folder / "program"
    changed.write_bytes(made.read_bytes().replace(b"x" * len(HOSTILE), HOSTILE.encode()))
    return changed


class Reader(HTMLParser):
    """Checks the nesting of elements and keeps what the tests ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_names_cannot_break_out(program: Path) -> None:
    report = analyze(program)
    (loop,) = [loop for loop in report.loops if loop.function.startswith("<script>")]
    site = loop.calls[0].site
    page = html.page(farlane.analyzer.open(program), [Permission(site)])
    reader = parsed(page)
    assert [tag for tag, _ in reader.elements].count("script") == 1
    assert "<i>unused</i>" not in page
    assert "<b>12</b>" not in page
    assert "<script>alert" not in page
    assert any(HOSTILE in data for data in reader.text)
    assert all(not name.startswith("on") for _, attributes in reader.elements for name in attributes)


def test_the_page_needs_nothing_else(program: Path) -> None:
    page = html.page(farlane.analyzer.open(program))
    reader = parsed(page)
    for tag, attributes in reader.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"(https?:|url\(|@import|fetch\(|XMLHttpRequest|innerHTML)", page)


def test_the_page_is_complete_and_deterministic(program: Path) -> None:
    report = analyze(program)
    page = html.page(farlane.analyzer.open(program))
    assert page == html.page(farlane.analyzer.open(program))
    reader = parsed(page)
    rows = [attributes for tag, attributes in reader.elements if tag == "tr" and "data-class" in attributes]
    assert [row["data-class"] for row in rows] == [str(loop.class_) for loop in report.loops]
    ids = {attributes["id"] for _, attributes in reader.elements if "id" in attributes}
    assert len(ids) == sum("id" in attributes for _, attributes in reader.elements)
    for _, attributes in reader.elements:
        if attributes.get("href"):
            assert (attributes["href"] or "")[1:] in ids
    text = "".join(reader.text)
    for loop in report.loops:
        for call in loop.calls:
            for argument in call.arguments:
                assert argument.text in text


def test_permissions_are_shown(program: Path) -> None:
    report = analyze(program)
    site = next(call.site for loop in report.loops for call in loop.calls if call.name == "cudaDeviceSynchronize")
    without, given = (
        html.page(farlane.analyzer.open(program), []),
        html.page(farlane.analyzer.open(program), [Permission(site)]),
    )
    assert "LOCAL_SYNC" not in without
    assert "LOCAL_SYNC" in given
    assert 'data-permitted="1"' in given
    refused = html.page(
        farlane.analyzer.open(program), [Permission(site, local_sync=False, proof="", refused="the code is kept")]
    )
    assert "the code is kept" in refused
    assert 'data-permitted="1"' not in refused


def test_copies_in_a_row_are_shown(program: Path) -> None:
    first, second = analyze(program).joined
    assert (bool(first.proof), bool(second.proof), first.name) == (True, False, "both")
    executable = farlane.analyzer.open(program)
    (claim,) = [claim for claim in executable.claims if claim.about == "JOIN_NEXT_WAIT"]
    assert (claim.site, claim.header, claim.proven, claim.basis) == (first.site, None, True, first.proof)
    text = "".join(parsed(html.page(executable)).text)
    assert f"both{first.site:#x}JOIN_NEXT_WAITjoins the next call that waits; {first.proof}" in text
    assert f"both{second.site:#x}waits by itself: {second.refused}" in text


def test_large_programs_are_cut(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = listing.read(farlane.analyzer.open(program))
    assert everything.left_out == ()
    assert everything.functions[0].loops
    monkeypatch.setattr(listing, "MAXIMUM_INSTRUCTIONS", 5)
    nothing = listing.read(farlane.analyzer.open(program))
    assert len(nothing.left_out) == len(everything.functions)
    assert "the page would become too large" in html.page(farlane.analyzer.open(program))


def test_every_word_is_explained() -> None:
    assert set(explanations.REASONS) == set(Reason)
    assert set(explanations.CLASSES) == set(Class)
    assert set(explanations.KINDS) == set(Kind)


def test_layout_of_random_graphs() -> None:
    """No two blocks overlap, forward edges lead down, every edge starts and ends at its blocks."""
    generator = random.Random(7)
    for size in (1, 2, 3, 8, 25, 60):
        order = list(range(size))
        edges = {(node, node + 1) for node in order[:-1]}
        edges |= {(generator.choice(order), generator.choice(order)) for _ in range(size)}
        sizes = {node: (generator.uniform(40, 300), generator.uniform(20, 140)) for node in order}
        drawing = layout.draw(order, sizes, edges, frozenset())
        assert set(drawing.boxes) == set(order)
        assert set(drawing.paths) == edges
        for first, second in itertools.combinations(drawing.boxes.values(), 2):
            across = first[0] < second[0] + second[2] and second[0] < first[0] + first[2]
            down = first[1] < second[1] + second[3] and second[1] < first[1] + first[3]
            assert not (across and down)
        for left, top, width, height in drawing.boxes.values():
            assert left >= 0
            assert top >= 0
            assert left + width <= drawing.width + 1e-6
            assert top + height <= drawing.height + 1e-6
        for (source, target), points in drawing.paths.items():
            start, end = drawing.boxes[source], drawing.boxes[target]
            assert points[0][1] == pytest.approx(start[1] + start[3])
            assert points[-1][1] == pytest.approx(end[1])
            assert start[0] - 1e-6 <= points[0][0] <= start[0] + start[2] + 1e-6
            assert end[0] - 1e-6 <= points[-1][0] <= end[0] + end[2] + 1e-6
            if target > source:
                assert all(upper[1] <= lower[1] + 1e-6 for upper, lower in itertools.pairwise(points))


def test_drawings_hold_their_edges() -> None:
    """Also those that pass a layer beside its last block."""
    nodes = list(range(9))
    edges = (
        {(0, n): "fall" for n in nodes[1:]} | {(n, 8): "taken" for n in nodes[1:8]} | {(1, 2): "fall", (2, 3): "fall"}
    )
    drawing = layout.draw(nodes, dict.fromkeys(nodes, (80.0, 30.0)), edges, frozenset())
    assert all(0 <= x <= drawing.width for points in drawing.paths.values() for x, _ in points)

"""The gallery (examples/): each page's commands print what the page shows. What needs further packages is in tests/guests."""

from __future__ import annotations

import gallery
import pytest

WITHOUT_PACKAGES = [name for name in gallery.names() if not gallery.needs_packages(name)]


def test_there_are_ten_examples() -> None:
    assert len(gallery.names()) == 10
    index = (gallery.FOLDER / "README.md").read_text()
    assert [name for name in gallery.names() if f"]({name}/README.md)" not in index] == []


@pytest.mark.native
@pytest.mark.parametrize("name", WITHOUT_PACKAGES)
def test_an_example_prints_what_its_page_says(name: str) -> None:
    assert gallery.run(name) >= 2


PAGE = """
    $ first --option
    one ... three
    ...
    [exit status 4]
    $ second

text

    no command
"""


def test_commands_are_read() -> None:
    assert list(gallery.commands(PAGE)) == [
        gallery.Command("first --option", ["one ... three", "..."], 4),
        gallery.Command("second"),
    ]


@pytest.mark.parametrize(
    ("printed", "agrees"),
    [
        ("one two three\n", True),
        ("one two three\nfour\nfive\n", True),
        ("one two\n", False),
        ("zero\none two three\n", False),
    ],
)
def test_what_is_printed_is_compared(printed: str, agrees: bool) -> None:
    assert gallery.agrees(["one ... three", "..."], printed) is agrees
    assert gallery.agrees([], "") is True
    assert gallery.agrees([], "something\n") is False

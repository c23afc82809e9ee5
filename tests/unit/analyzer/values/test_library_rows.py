"""The one table of library functions: each row is whole, and proofs and predictions see the same writes."""

from __future__ import annotations

import re

import pytest
from farlane.analyzer.externals.library import ANY, ARGUMENTS, EFFECTS, TRUSTED, by, effect

LETTER = re.compile(r"[.rwbcflo](?:<?(?:\d+|@\d))?$|[rw]\*$")


@pytest.mark.parametrize("name", TRUSTED)
def test_rows_are_in_the_language(name: str) -> None:
    row = TRUSTED[name]
    assert all(LETTER.match(letter) for letter in row.arguments), row
    assert row.result in ("n", "0", "p", "h", "x")
    assert len(row.arguments) <= ARGUMENTS
    assert all(int(letter[-1]) < len(row.arguments) for letter in row.arguments if "@" in letter)


def test_predictions_see_the_writes_that_proofs_see() -> None:
    for name, row in TRUSTED.items():
        written = {argument for argument, _ in EFFECTS[name].writes}
        told = {index for index, letter in enumerate(row.arguments) if letter[0] in "wb" and letter != "w*"}
        assert told <= written, name


def test_bytes() -> None:
    assert EFFECTS["memcpy"].writes == ((0, by(2)),)
    assert EFFECTS["snprintf"].writes == ((0, by(1)),)
    assert EFFECTS["strcpy"].writes == ((0, ANY),)
    assert EFFECTS["gettimeofday"].writes == ((0, 16), (1, 8))
    assert EFFECTS["sscanf"].writes == tuple((argument, ANY) for argument in range(2, ARGUMENTS))
    assert EFFECTS["nanosleep"].writes == ((1, 16),)
    assert EFFECTS["malloc"].allocates
    assert EFFECTS["strchr"].points
    assert EFFECTS["memset"].returns == 0


def test_names_by_pattern_are_for_predictions_alone() -> None:
    name = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm"
    assert effect(name) is not None
    assert name not in TRUSTED
    assert effect("somebody_elses") is None

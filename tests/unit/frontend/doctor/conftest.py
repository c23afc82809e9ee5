"""What the tests of `farlane doctor` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding

Only = Callable[[Iterator[Finding]], Finding]


@pytest.fixture
def problem() -> Only:
    """The only finding of a check that is not fine; it says what to do."""

    def of(findings: Iterator[Finding]) -> Finding:
        (found,) = [finding for finding in findings if finding.state != OK]
        assert found.state in (NOTE, FAILED)
        assert found.advice
        return found

    return of


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "FARLANE_HOST",
        "FARLANE_CA",
        "FARLANE_TOKEN",
        "FARLANE_TOKEN_FILE",
        "FARLANE_DEFER",
        "FARLANE_INTEROP",
    ):
        monkeypatch.delenv(name, raising=False)

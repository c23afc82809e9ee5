"""The host's log, as text and as JSON lines."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from farlane.backend.system import log as logs


@pytest.fixture
def logger(capsys: pytest.CaptureFixture[str]) -> Iterator[logging.Logger]:
    root = logging.getLogger("farlane")
    before = root.handlers[:], root.level, root.propagate
    root.handlers[:] = []
    yield logging.getLogger("farlane.test")
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])


def test_text(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logs.Wanted("info"))
    logger.info("session %s opened", "s1")
    logger.debug("not this")
    line = capsys.readouterr().err
    assert line.startswith("farlane: ")
    assert line.endswith("INFO session s1 opened\n")


def test_json_is_one_line_whatever_is_logged(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logs.Wanted("warning", "json"))
    logger.warning("a program called %s", 'x"\n{"level": "error"}\x1b')
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logger.exception("the host failed")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first["message"] == 'a program called x"\n{"level": "error"}\x1b'
    assert (first["level"], first["logger"], first["process"]) == ("warning", "farlane.test", os.getpid())
    assert abs(datetime.fromisoformat(first["time"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert "exception" not in first
    assert second["exception"].endswith("RuntimeError: broken")


def test_a_second_time_changes_the_format(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logs.Wanted("warning", "text"))
    logs.configure(logs.Wanted("warning", "json"))
    logger.warning("once")
    assert json.loads(capsys.readouterr().err)["message"] == "once"

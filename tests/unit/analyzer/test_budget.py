"""The time for a binary: of the processor, and much later on the clock."""

from __future__ import annotations

import time

import pytest
from farlane.analyzer.limits import ON_THE_CLOCK, Budget


class Times:
    """What the two clocks show."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.processor, self.clock = 100.0, 1000.0
        monkeypatch.setattr(time, "thread_time", lambda: self.processor)
        monkeypatch.setattr(time, "monotonic", lambda: self.clock)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


def test_time_in_which_others_had_the_processor_does_not_count(times: Times) -> None:
    budget = Budget(10)
    times.processor += 9.9
    times.clock += 40
    assert not budget.used_up()
    assert budget.spent() == pytest.approx(9.9)


def test_it_ends_with_the_processor_time(times: Times) -> None:
    budget = Budget(10)
    times.processor += 10.1
    times.clock += 10.1
    assert budget.used_up()
    times.processor -= 10
    assert budget.used_up(), "what was said once stays"


def test_it_ends_on_the_clock_where_there_is_no_processor_time(times: Times) -> None:
    budget = Budget(10)
    times.processor += 1
    times.clock += 10 * ON_THE_CLOCK + 1
    assert budget.used_up()
    assert budget.exceeded

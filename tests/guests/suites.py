"""What the commands that run packages' own test suites share: results, their comparison with committed ones, hand-kept reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

_RANKS = {"pass": 0, "skip": 1, "fail": 2, "error": 3}


@dataclass(frozen=True, order=True)
class Result:
    """A test's name in its suite, its outcome (pass, skip, fail, error), and the suite's words for a skip or a failure."""

    name: str
    outcome: str
    words: str = ""

    @property
    def failed(self) -> bool:
        """It neither passed nor was skipped."""
        return self.outcome in ("fail", "error")


def add(found: dict[str, Result], result: Result) -> None:
    """Of several results of a test the worst one counts."""
    known = found.get(result.name)
    if known is None or _RANKS[result.outcome] > _RANKS[known.outcome]:
        found[result.name] = result


def count(results: Iterable[Result], outcome: str) -> int:
    """How many results have that outcome."""
    return sum(item.outcome == outcome for item in results)


def new_failures(results: Iterable[Result], known: Collection[str]) -> list[Result]:
    """The failures whose names are not among those known."""
    return [item for item in results if item.failed and item.name not in known]


def reason(name: str, reasons: Mapping[str, str], end: str = "") -> str:
    """The hand-kept reason for a test: that of the longest beginning of its name, up to an `end`. Raises KeyError when there is none."""
    keys = [key for key in reasons if f"{name}{end}".startswith(f"{key}{end}")]
    if not keys:
        raise KeyError(f"no reason for {name} is kept")
    return reasons[max(keys, key=len)]

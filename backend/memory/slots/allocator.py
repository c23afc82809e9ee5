"""One core's slots: who has which, and who waits (S5, points 1, 4 and 5).

Requests are served in order: the first that does not fit makes those behind it wait. Within a step all releases are processed before any allocation.
Nothing happens between two steps, so a request that waits needs no retry every cycle: it can only fit after a release.

`SlotState` is all that changes, and round-trips through JSON.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from farlane.backend.memory.slots.policies import Policy, Span


class SlotError(ValueError):
    """A request or a release that can never be right."""


@dataclass
class SlotState:
    """What changes: free slots (mask), spans by owner, who waits (owner, wanted), where the latest allocation ended."""

    free: int
    spans: dict[int, Span] = field(default_factory=dict)
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    last_end: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "free": self.free,
            "spans": {str(owner): [span.start, span.length] for owner, span in self.spans.items()},
            "waiting": [list(each) for each in self.waiting],
            "last_end": self.last_end,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SlotState:
        return cls(
            free=int(data["free"]),
            spans={int(owner): Span(*span) for owner, span in data["spans"].items()},
            waiting=deque((int(owner), int(wanted)) for owner, wanted in data["waiting"]),
            last_end=int(data["last_end"]),
        )


class SlotAllocator:
    """`slots` slots under `policy`. Owners are numbers that the caller chooses; each has one span at most."""

    def __init__(self, slots: int, policy: Policy, state: SlotState | None = None) -> None:
        if slots < 1:
            raise SlotError(f"{slots} slots: at least one is needed")
        self.slots = slots
        self.policy = policy
        self.state = state or SlotState((1 << slots) - 1)
        self._possible: set[int] = set()  # sizes that an empty core can serve, as far as they were asked

    def step(self, releases: Iterable[int] = (), requests: Iterable[tuple[int, int]] = ()) -> list[tuple[int, Span]]:
        """Releases first, then the requests that fit, in order of arrival. Returns (owner, span) of those who got theirs.

        Raises SlotError for a request that no empty core could serve, and for a release of nothing; the state is then as before.
        """
        releases, requests = list(releases), list(requests)
        self._check(releases, requests)
        state = self.state
        for owner in releases:
            state.free |= state.spans.pop(owner).mask
        state.waiting.extend(requests)
        placed = []
        while state.waiting:
            owner, wanted = state.waiting[0]
            span = self.policy.place(state.free, self.slots, wanted, state.last_end)
            if span is None:
                break
            state.waiting.popleft()
            state.free &= ~span.mask
            state.spans[owner] = span
            state.last_end = span.end
            placed.append((owner, span))
        return placed

    def used(self) -> int:
        """Slots that are not free, those included that a policy gave beyond the request."""
        return self.slots - self.state.free.bit_count()

    def _check(self, releases: list[int], requests: list[tuple[int, int]]) -> None:
        if len(set(releases)) != len(releases) or not self.state.spans.keys() >= set(releases):
            unknown = sorted(owner for owner in releases if owner not in self.state.spans)
            raise SlotError(f"release of slots that are not held, by {unknown or sorted(releases)}")
        if not requests:
            return  # a long queue costs nothing at a release
        known = set(self.state.spans)
        known.update(owner for owner, _ in self.state.waiting)
        for owner, wanted in requests:
            if owner in known:
                raise SlotError(f"{owner} has slots or waits for some already")
            if not self._is_possible(wanted):
                raise SlotError(
                    f"{wanted} slots wanted by {owner}: the core has {self.slots}, and {self.policy.name} cannot give as many"
                )
            known.add(owner)

    def _is_possible(self, wanted: int) -> bool:
        if wanted not in self._possible:
            if self.policy.place((1 << self.slots) - 1, self.slots, wanted, 0) is None:
                return False
            self._possible.add(wanted)
        return True

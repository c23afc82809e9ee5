"""Which run of free slots a request gets: a policy per file, all pure.

A policy sees the free slots (a mask), their number, how many are wanted and where the last allocation ended; it answers with a span or None. It never
moves what is placed. `POLICIES` has them by name.
"""

from farlane.backend.memory.slots.policies.best_fit import BestFit
from farlane.backend.memory.slots.policies.buddy import Buddy
from farlane.backend.memory.slots.policies.first_fit import FirstFit
from farlane.backend.memory.slots.policies.model import Policy, Span
from farlane.backend.memory.slots.policies.next_fit import NextFit
from farlane.backend.memory.slots.policies.split_ends import SplitEnds
from farlane.backend.memory.slots.policies.two_ended import TwoEnded

POLICIES: dict[str, Policy] = {
    policy.name: policy for policy in (TwoEnded(), FirstFit(), NextFit(), BestFit(), Buddy(), SplitEnds())
}

__all__ = ["POLICIES", "BestFit", "Buddy", "FirstFit", "NextFit", "Policy", "Span", "SplitEnds", "TwoEnded"]

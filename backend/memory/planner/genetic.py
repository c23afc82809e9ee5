"""The genetic search for the assignment of objects to segments that moves least (S4, points 4 to 6).

A sequence says for every segment the set of its objects; the defining objects stay in theirs. The first sequences, and the fresh ones of every round, assign one object
after another: most of them in random order to any segment that it fits, some (half of them, for few objects) to one of the two where it adds least of some that it
fits; one of the first takes the best of all, for large objects before small ones. A round makes children by

- crossover: of two sequences and one segment, part of the objects that only one of them has there are exchanged: each child takes the other parent's segment for them;
- mutation: of one sequence, two or more objects of different segments are exchanged, drawn at random, each of which must fit. Its probability grows with the round;

keeps the `survivors` sequences that move least, and adds fresh random ones, which are parents in the next round. It ends on the number of rounds, on the time, or when the best of several rounds in a
row changed by less than a threshold. The result says which one it was.

Pure: the same trace, specification and seed give the same plan, unless the time ended it. The clock is the caller's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from farlane.backend.memory.planner.cost import Plan, SegmentCost, plan_of
from farlane.backend.memory.planner.segments import Segments
from farlane.backend.memory.planner.trace import Trace

# For each segment the mask of its objects, by their place in `Segments.order`.
Genes = tuple[int, ...]


class Ending(Enum):
    """Why the search stopped."""

    ROUNDS = "the limit of rounds"
    TIME = "the limit of time"
    STEADY = "several rounds in a row changed nothing that matters"
    NOTHING = "there is nothing to choose"


@dataclass(frozen=True)
class GeneticSpec:
    """`fresh` sequences join in each round; a greedy one takes the second best segment with probability `second_best`,
    and looks at `looked_at` segments for each object. Mutation's probability goes from `mutation_first` to `mutation_last`.

    `steady_rounds` rounds in a row in which the best improves by less than `steady_share` of itself end the search.
    """

    population: int = 60
    survivors: int = 20
    fresh: int = 8
    rounds: int = 400
    seconds: float = 0.9
    steady_rounds: int = 60
    steady_share: float = 0.001
    mutation_first: float = 0.2
    mutation_last: float = 0.8
    second_best: float = 0.15
    looked_at: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.survivors <= self.population:
            raise ValueError(f"survivors = {self.survivors}: from 2 to the population of {self.population}")
        if self.looked_at < 1:
            raise ValueError(f"looked_at = {self.looked_at}: at least one segment")
        if self.rounds < 0 or self.fresh < 0 or self.steady_rounds < 1 or self.seconds <= 0:
            raise ValueError("rounds and fresh must not be negative, steady_rounds at least 1, seconds above 0")
        for name, value in (
            ("mutation_first", self.mutation_first),
            ("mutation_last", self.mutation_last),
            ("second_best", self.second_best),
        ):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} = {value}: a probability is from 0 to 1")


@dataclass(frozen=True)
class Found:
    """The best plan, None when every sequence that was seen had objects together that are needed at once; and how it was found."""

    plan: Plan | None
    ending: Ending
    rounds: int
    history: tuple[int, ...]


def search(trace: Trace, segments: Segments, spec: GeneticSpec, clock: Callable[[], float]) -> Found:
    """`clock`: seconds, from any start."""
    return _Search(trace, segments, spec).run(clock)


class _Search:
    def __init__(self, trace: Trace, segments: Segments, spec: GeneticSpec) -> None:
        self.spec = spec
        self.costs = SegmentCost(trace, segments)
        self.random = random.Random(spec.seed)
        place_of = {number: place for place, number in enumerate(segments.order)}
        self.own = [1 << place_of[number] for number in segments.defining]
        self.fitting = [segments.fitting(trace.sizes[number]) for number in segments.order]
        defining = sum(self.own)
        self.free = [place for place in range(len(segments.order)) if not defining >> place & 1]
        self.free_mask = sum(1 << place for place in self.free)
        self.conflicts = _conflicts(trace, segments)
        self.made = 0

    def run(self, clock: Callable[[], float]) -> Found:
        spec, begun = self.spec, clock()
        pool = {self._greediest(): 0}
        for _ in range(1, spec.population):
            pool[self._fresh()] = 0
        kept = self._best(pool)
        history = [kept[0][0]]
        ending, rounds = Ending.ROUNDS, 0
        if not self.free or len(self.own) < 2:
            ending = Ending.NOTHING
        else:
            while rounds < spec.rounds:
                kept = self._round(kept, rounds)
                history.append(kept[0][0])
                rounds += 1
                if self._steady(history):
                    ending = Ending.STEADY
                    break
                if clock() - begun >= spec.seconds:
                    ending = Ending.TIME
                    break
        return Found(plan_of(self.costs, kept[0][1]), ending, rounds, tuple(history))

    def _round(self, kept: list[tuple[int, Genes]], number: int) -> list[tuple[int, Genes]]:
        spec, source = self.spec, self.random
        chance = spec.mutation_first + (spec.mutation_last - spec.mutation_first) * number / max(spec.rounds - 1, 1)
        parents = [genes for _, genes in kept] + [self._fresh() for _ in range(spec.fresh)]
        pool = dict.fromkeys(parents, 0)
        for _ in range((spec.population - len(kept) + 1) // 2):
            children: tuple[Genes, Genes] = source.choice(parents), source.choice(parents)
            if source.random() >= chance / 2:
                children = self._cross(*children)
            for child in children:
                pool[self._mutated(child) if source.random() < chance else child] = 0
        return self._best(pool)

    def _best(self, pool: dict[Genes, int]) -> list[tuple[int, Genes]]:
        return sorted((self.costs.total(genes), genes) for genes in pool)[: self.spec.survivors]

    def _steady(self, history: list[int]) -> bool:
        if len(history) <= self.spec.steady_rounds:
            return False
        before = history[-1 - self.spec.steady_rounds]
        return before - history[-1] <= self.spec.steady_share * before

    def _fresh(self) -> Genes:
        """One object after another, in random order, away from those that are needed with it where that is possible."""
        self.made += 1
        greedy = self.made % max(2, len(self.free) // 8) == 0  # greedy ones cost more the more objects there are
        genes = list(self.own)
        places = self.free[:]
        self.random.shuffle(places)
        if greedy and self.random.random() < 0.5:
            places.sort()  # large ones first, as they have the fewest segments to go to
        for place in places:
            apart = [s for s in range(self.fitting[place]) if not genes[s] & self.conflicts[place]]
            segments = apart or range(self.fitting[place])
            if greedy:
                if len(segments) > self.spec.looked_at:
                    segments = self.random.sample(segments, self.spec.looked_at)
                ranked = sorted(segments, key=lambda s: self.costs.of(genes[s] | 1 << place) - self.costs.of(genes[s]))
                chosen = ranked[1] if len(ranked) > 1 and self.random.random() < self.spec.second_best else ranked[0]
            else:
                chosen = self.random.choice(segments)
            genes[chosen] |= 1 << place
        return tuple(genes)

    def _greediest(self) -> Genes:
        """Large objects first, each where it adds least."""
        genes = list(self.own)
        for place in self.free:
            apart = [s for s in range(self.fitting[place]) if not genes[s] & self.conflicts[place]]
            chosen = min(
                apart or range(self.fitting[place]),
                key=lambda s: self.costs.of(genes[s] | 1 << place) - self.costs.of(genes[s]),
            )
            genes[chosen] |= 1 << place
        return tuple(genes)

    def _cross(self, mother: Genes, father: Genes) -> tuple[Genes, Genes]:
        segment = self.random.randrange(len(self.own))
        there = (mother[segment] ^ father[segment]) & self.free_mask
        part = there & self.random.getrandbits(len(self.fitting))
        rest = ~part
        one = tuple(m & rest | f & part for m, f in zip(mother, father, strict=True))
        other = tuple(f & rest | m & part for m, f in zip(mother, father, strict=True))
        return one, other

    def _mutated(self, genes: Genes) -> Genes:
        """Exchanges objects of different segments: two, or three in a ring. The genes as they were where no exchange fits."""
        for _ in range(8):
            count = 2 if len(self.free) < 3 or self.random.random() < 0.7 else 3
            if len(self.free) < count:
                break
            places = self.random.sample(self.free, count)
            held = [next(s for s, mask in enumerate(genes) if mask >> place & 1) for place in places]
            targets = [*held[1:], held[0]]
            if len(set(held)) == count and all(t < self.fitting[p] for p, t in zip(places, targets, strict=True)):
                changed = list(genes)
                for place, source, target in zip(places, held, targets, strict=True):
                    changed[source] &= ~(1 << place)
                    changed[target] |= 1 << place
                return tuple(changed)
        return genes


def _conflicts(trace: Trace, segments: Segments) -> list[int]:
    """For each object those that some step needs together with it."""
    place_of = {number: place for place, number in enumerate(segments.order)}
    conflicts = [0] * len(segments.order)
    for step in trace.steps:
        if len(step) > 1:
            mask = sum(1 << place_of[access.object] for access in step)
            for access in step:
                conflicts[place_of[access.object]] |= mask
    return [mask & ~(1 << place) for place, mask in enumerate(conflicts)]

"""The compiled model's state (tlb/layout.py): its arrays in one block of memory, behind the table of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from farlane.backend.memory.paging.spec import LEVELS
from farlane.backend.memory.tlb import layout as at
from farlane.backend.memory.tlb import mesh
from farlane.backend.memory.tlb.counts import NAMES
from farlane.backend.memory.tlb.layout import Array, State
from farlane.backend.memory.tlb.spec import Spec

_LINE = 8  # words of a line of the cache
_BORROWED = ("words", "offsets", "pages", "gaps", "left_out")  # other arrays at each turn


class _Filled(NamedTuple):
    """An array that is a number everywhere."""

    shape: tuple[int, ...]
    number: int


def _zero(*shape: int) -> Any:
    return _Filled(shape, 0)


def _free(*shape: int) -> Any:
    return _Filled(shape, -1)


def _together(**arrays: Any) -> State:
    """In one block, each at the beginning of a line of the cache; those that are borrowed are left where they are."""
    parts = {name: array for name, array in arrays.items() if name not in _BORROWED}
    places, end = {}, 0
    for name, part in parts.items():
        places[name] = end
        end += -(-math.prod(part.shape) // _LINE) * _LINE
    whole = np.zeros(end + _LINE, dtype=np.int64)
    whole = whole[-(whole.ctypes.data // 8) % _LINE :]
    for name, part in parts.items():
        array = whole[places[name] : places[name] + math.prod(part.shape)].reshape(part.shape)
        if not isinstance(part, _Filled):
            array[...] = part
        elif part.number:
            array[...] = part.number
        arrays[name] = array
    return State(**arrays)


def _parameters(spec: Spec) -> Array:
    """The spec as the kernel reads it."""
    s, p, d, w, n = spec.shared, spec.private, spec.directory, spec.walk, spec.network
    values = [
        *(
            spec.cores,
            ("none", "directory", "probe", "oracle", "perfect").index(spec.sharing),
            spec.page_shift,
        ),
        *(p.ways, p.entries // p.ways, p.latency, p.waiting),
        *(s.ways, s.entries // s.ways, s.latency, s.ports),
        *(w.queue, w.level_cycles, w.fixed_cycles),
        *(n.columns, n.hop_cycles, n.link_cycles),
        *(d.ways, d.entries // d.ways, d.latency, d.update_cycles, ("first", "nearest", "cheapest").index(d.route)),
        *(-(-spec.cores // 64), d.ways.bit_length()),
        *(
            ("always", "never", "shared-entries").index(spec.policy.fill),
            spec.policy.fill_threshold,
            spec.policy.peer_fill,
        ),
        *(int(spec.policy.eviction == "mru"), spec.policy.candidates, spec.policy.spare_degree),
    ]
    return np.array(values, dtype=np.int64)


def empty(spec: Spec, table: Array, root: int, base: int) -> State:
    """The state of a hierarchy that has seen nothing. `table`: the page table's words, of which `root` and `base` are addresses."""
    cores, p, w = spec.cores, spec.private, spec.walk
    uses_directory = spec.sharing == "directory"
    hops = mesh.distances(cores, spec.network.columns).astype(np.int64)
    near = mesh.nearest(hops, {"probe": spec.probe_radius, "directory": spec.directory.radius}.get(spec.sharing, 0))
    requests = cores * p.mshr
    # A miss has at most one event, or one per probe. Each fill sends two updates, which live for `update_cycles`, and an MSHR entry fills at most
    # every second cycle; walks send two more.
    probes = near.shape[1] if spec.sharing == "probe" else 1
    updates = 2 * (spec.directory.update_cycles // 2 + 2) * (requests + w.walkers) if uses_directory else 0
    events = 2 * cores + requests * probes + updates + w.queue + 2 * w.walkers + 64
    news = updates // 2 + 64

    words = -(-cores // 64)
    ways = spec.directory.ways
    sets, records, uses = 1, 1, 1
    if uses_directory:
        sets = spec.directory.entries // ways
        uses = sets * cores * ways
        records = uses + 1  # each has a member, and a member one for each of its entries; one is made before it has
    return _together(
        table=_zero(len(State._fields), at.COLUMNS),
        parameters=_parameters(spec),
        near=near,
        distance=hops,
        mesh=np.stack(np.divmod(np.arange(cores), spec.network.columns)[::-1], axis=1).astype(np.int64),
        rings=mesh.rings(hops, spec.directory.radius) if uses_directory else _zero(cores, 1, words),
        tree=np.array([root, base], dtype=np.int64),
        words=table,
        offsets=np.zeros(cores + 1, np.int64),
        pages=np.zeros(0, np.int64),
        gaps=np.zeros(0, np.int64),
        left_out=np.zeros(0, np.int64),
        cores=_zero(cores, at.CORE_FIELDS),
        private=_free(cores, at.TLB_FIELDS, p.entries),
        hints=_zero(cores, at.HINTS),
        records=_zero(records, -(-(at.R_WORDS + at.R_FIELDS * words) // 8) * 8),
        named=_unnamed(),
        in_shared=_zero(records, words),
        sets=_free(sets, at.SET_FIELDS),
        levels=_zero(sets, words * ways.bit_length()),
        uses=_zero(2, uses),
        latest=_zero(cores),
        candidates=_zero(2, at.LAST["candidates"]),
        mshr=_zero(cores, p.mshr, at.MSHR_FIELDS),
        missed=_free(cores, p.mshr),
        bounds=_zero(cores, p.mshr),
        shared=_free(at.TLB_FIELDS, spec.shared.entries),
        walks=_free(w.queue + w.walkers, at.WALK_FIELDS),
        chains=_free(at.CHAINS),
        waiters=_zero(w.queue + w.walkers, words),
        places=_zero(w.queue + w.walkers, cores),
        walk_cache=_free(2, w.cache_entries),
        guesses=_zero((LEVELS - 1) * at.GUESSES),
        inbox=_zero(requests, at.LAST["inbox"]),
        queue=_zero(w.queue + 1, at.LAST["queue"]),
        links=_zero(4 * cores),
        wheel=_zero(at.WHEEL, at.WHEEL_FIELDS),
        turns=_zero(at.WHEEL, words),
        occupied=_zero(at.WHEEL // 64),
        nodes=_zero(events, at.NODE_FIELDS),
        taken=_zero(news, at.NEWS_FIELDS),
        given=_zero(news, at.NEWS_FIELDS),
        later=_zero(events, at.LAST["later"]),
        scalars=_zero(at.SCALARS),
        counts=_zero(len(NAMES)),
    )


def _unnamed() -> Array:
    """No record has a page, and none has been in use."""
    found = np.full((at.NAMED + 1, 2), -1, dtype=np.int64)
    found[at.NAMED, at.A_EVER] = 0
    return found


def begin(state: State, spec: Spec) -> None:
    """Time and counts begin anew; contents stay."""
    state.cores[:] = 0
    state.cores[:, at.C_WANTED] = state.cores[:, at.C_ABSENT] = -1
    state.missed[:] = -1
    state.bounds[:] = at.NEVER_COMES
    state.links[:] = 0
    state.counts[:] = 0
    clock = state.scalars[at.V_CLOCK]
    state.scalars[:] = 0
    state.scalars[at.V_CLOCK] = clock
    state.scalars[at.V_DRAIN] = state.scalars[at.V_PORT_CYCLE] = -1
    state.scalars[at.V_NEWS] = at.NEVER_COMES
    state.scalars[at.V_IDLE] = spec.walk.walkers
    state.chains[:] = -1
    state.walks[:, at.W_NEXT] = _list(len(state.walks))
    state.wheel[:] = -1
    state.wheel[:, at.READY] = 0
    state.turns[:] = 0
    state.occupied[:] = 0
    state.nodes[:, at.E_NEXT] = _list(len(state.nodes))


def _list(count: int) -> Array:
    """Each points to the next, the last one to none."""
    found = np.arange(1, count + 1, dtype=np.int64)
    found[-1] = -1
    return found

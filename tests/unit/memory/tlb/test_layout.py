"""The compiled model's arrays: whom cores ask and hear, and what compiled code takes for granted about them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from farlane.backend.memory.paging import PageTable
from farlane.backend.memory.tlb import Spec, arrays, layout, mesh
from farlane.backend.memory.tlb.fast import FastTlb
from farlane.backend.memory.tlb.spec import Directory, Network

TABLE = PageTable()


def state_of(spec: Spec) -> layout.State:
    return arrays.empty(spec, TABLE.words.view(np.int64), TABLE.root, TABLE.base)


@pytest.mark.parametrize(("cores", "columns"), [(1, 1), (12, 4), (64, 8), (130, 13)])
@pytest.mark.parametrize("radius", [1, 2, 40])
@pytest.mark.parametrize("sharing", ["none", "directory", "probe"])
def test_whom_a_core_asks_and_hears(cores: int, columns: int, radius: int, sharing: Any) -> None:
    reach = min(radius, 16)
    spec = Spec(
        cores=cores,
        sharing=sharing,
        probe_radius=reach,
        network=Network(columns=columns),
        directory=Directory(radius=radius),
    )
    state = state_of(spec)
    within = {"none": 0, "probe": reach, "directory": radius}[sharing]
    words = -(-cores // 64)
    for core in range(cores):
        wanted = mesh.neighbours(core, cores, columns, within)
        count = int(state.near[core, 0])
        assert state.near[core, 1 : 1 + count].tolist() == wanted
        if sharing != "directory":
            continue
        bits = np.unpackbits(state.rings[core].view(np.uint8), bitorder="little").reshape(-1, 64 * words)
        assert np.flatnonzero(bits[0]).tolist() == sorted(wanted)
        for hops, ring in enumerate(bits[1:], 1):
            at = [other for other in wanted if mesh.distance(core, other, columns) == hops]
            assert np.flatnonzero(ring).tolist() == sorted(at)


def test_records_begin_with_a_line_of_the_cache() -> None:
    state = state_of(Spec(sharing="directory"))
    assert state.records.ctypes.data % 64 == 0
    assert state.records.strides[0] == 64


def test_rows_are_as_long_as_compiled_code_has_them() -> None:
    state = state_of(Spec())
    assert {name: getattr(state, name).shape[-1] for name in layout.LAST} == layout.LAST
    tlb = FastTlb(Spec(), TABLE)
    tlb._state = tlb._state._replace(inbox=np.zeros((16, 3), np.int64))
    with pytest.raises(TypeError, match="inbox"):
        tlb.finish()


def test_arrays_do_not_overlap() -> None:
    state = state_of(Spec(sharing="directory"))
    own = [array for array in state if array.size]
    ends = sorted((array.ctypes.data, array.ctypes.data + array.nbytes) for array in own)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))

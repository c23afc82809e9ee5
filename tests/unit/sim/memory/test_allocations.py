"""The allocation map, against a model, and what it says about addresses."""

from __future__ import annotations

import random

from farlane.backend.device.allocations import Allocation, Allocations


def test_against_a_model_of_bytes() -> None:
    random_ = random.Random(2)
    allocations = Allocations()
    model: dict[int, Allocation] = {}  # byte: its allocation
    for _ in range(3000):
        start, size = random_.randrange(400), random_.randint(1, 30)
        overlaps = {model[byte] for byte in range(start, start + size) if byte in model}
        found = allocations.overlapping(start, start + size)
        assert (found in overlaps) if overlaps else (found is None)
        if not overlaps:
            allocation = Allocation(start, size)
            allocations.add(allocation)
            model.update(dict.fromkeys(range(start, start + size), allocation))
        elif random_.random() < 0.5:
            victim = random_.choice(sorted(overlaps))
            assert allocations.remove(victim.start) == victim
            for byte in range(victim.start, victim.end):
                del model[byte]
        probe = random_.randrange(440)
        assert allocations.holding(probe) == model.get(probe)
        live = sorted(set(model.values()))
        assert list(allocations) == live
        assert list(allocations.since(probe)) == [allocation for allocation in live if allocation.start >= probe]
        assert allocations.bytes == len(model)
        assert len(allocations) == len(live)
    assert allocations.remove(100_000) is None


def test_descriptions() -> None:
    allocations = Allocations()
    assert allocations.describe(1 << 20).startswith("far from every allocation")
    assert allocations.describe(0) == "a null pointer"
    assert "null pointer" in allocations.describe(64)
    allocations.add(Allocation(0x100000, 256))
    allocations.add(Allocation(0x200000, 64, "variable counter"))
    assert allocations.describe(0x100010) == "16 bytes inside the allocation of 256 bytes at 0x100000"
    assert allocations.describe(0x100104).startswith("4 bytes behind the end of the nearest, the allocation")
    assert allocations.describe(0x1FFFF0) == "16 bytes before the nearest, the variable counter of 64 bytes at 0x200000"
    assert allocations.describe(0x7F12_3456_7890).startswith("far from every allocation: a host pointer")
    allocations.remove(0x100000)
    assert allocations.describe(0x100008) == "8 bytes inside the freed allocation of 256 bytes at 0x100000"
    allocations.add(Allocation(0x100000, 16))
    assert "inside the allocation of 16" in allocations.describe(0x100008)

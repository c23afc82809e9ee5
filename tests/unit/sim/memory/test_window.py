"""The reservation: page flags, protection, and memory that goes back to the system."""

from __future__ import annotations

import os
import random
from itertools import pairwise

import numpy as np
import pytest
from farlane.backend.device.sim.memory.window import (
    ALIGNMENT,
    GRANULE,
    HIGHEST,
    LOWEST,
    PAGE,
    READABLE,
    WRITABLE,
    Window,
)

RW = READABLE | WRITABLE


@pytest.fixture
def window():
    window = Window(1 << 30)
    yield window
    window.close()


def permissions(address: int) -> str:
    """What the system's own list of mappings says about an address."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if low <= address < high:
                return line.split()[1][:2]
    return ""


def test_it_lies_where_ordinary_processes_map_nothing(window: Window) -> None:
    assert LOWEST <= window.base < window.end <= HIGHEST
    assert window.base % ALIGNMENT == 0
    assert permissions(window.base) == "--"


def test_map_and_unmap_change_flags_and_protection(window: Window) -> None:
    at = window.base + 3 * PAGE
    window.map(at, at + 2 * PAGE, RW)
    assert window.flags[2:6].tolist() == [0, RW, RW, 0]
    assert permissions(at) == "rw"
    window.bytes[3 * PAGE] = 7
    window.unmap(at, at + 2 * PAGE)
    assert not window.flags[2:6].any()
    assert permissions(at) == "rw"  # the memory of a few freed pages is kept
    window.in_use.settle(window.base, window.base + GRANULE)
    assert permissions(at) == "--"
    window.map(at, at + PAGE, RW)
    assert window.bytes[3 * PAGE] == 0


def test_flags_are_what_was_asked_for(window: Window) -> None:
    window.map(window.base, window.base + PAGE, READABLE)
    assert window.flags[:2].tolist() == [READABLE, 0]


def test_a_granule_is_protected_again_only_when_it_is_empty(window: Window) -> None:
    middle = window.base + 5 * GRANULE
    window.map(middle - 4 * PAGE, middle + 3 * GRANULE + PAGE, RW)
    window.map(middle + 3 * GRANULE + 8 * PAGE, middle + 3 * GRANULE + 9 * PAGE, RW)
    window.unmap(middle - 4 * PAGE, middle + 3 * GRANULE + PAGE)
    assert permissions(middle - PAGE) == "--"
    assert permissions(middle + GRANULE) == "--"
    assert permissions(middle + 3 * GRANULE) == "rw"
    assert window.resident_pages == 1


def test_random_maps_and_unmaps_agree_with_a_model(window: Window) -> None:
    random_ = random.Random(1)
    pages = 6 * GRANULE // PAGE
    model = np.zeros(pages, np.uint8)
    for _ in range(400):
        first = random_.randrange(pages)
        last = min(pages, first + random_.choice([1, 2, 17, 511, 512, 513, 1500]))
        start, end = window.base + first * PAGE, window.base + last * PAGE
        if random_.random() < 0.5:
            window.map(start, end, RW)
            model[first:last] = RW
        else:
            window.unmap(start, end)
            model[first:last] = 0
        assert np.array_equal(window.flags[:pages], model)
        assert window.resident_pages == np.count_nonzero(model)
    window.in_use.settle(window.base, window.base + 6 * GRANULE)
    for granule in range(6):
        used = model[granule * 512 : (granule + 1) * 512].any()
        assert permissions(window.base + granule * GRANULE) == ("rw" if used else "--")


def resident_kib() -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def huge_pages_allowed(address: int) -> bool:
    with open("/proc/self/smaps") as smaps:
        inside = False
        for line in smaps:
            head = line.split()[0]
            if "-" in head:
                low, high = (int(part, 16) for part in head.split("-"))
                inside = low <= address < high
            elif inside and head == "VmFlags:":
                return "hg" in line.split()
    return False


def test_a_page_costs_a_page_and_huge_pages_are_for_whole_granules(window: Window) -> None:
    before = resident_kib()
    for granule in range(500):
        at = window.base + granule * GRANULE
        window.map(at, at + PAGE, RW)
        window.bytes[at - window.base] = 1
    assert resident_kib() - before < 8 << 10  # with huge pages it would be 1000 MiB
    window.unmap(window.base, window.base + 500 * GRANULE)
    if not os.path.exists("/sys/kernel/mm/transparent_hugepage"):
        pytest.skip("this kernel has no transparent huge pages")
    window.map(window.base + PAGE, window.base + 4 * GRANULE - PAGE, RW)
    allowed = [huge_pages_allowed(window.base + granule * GRANULE) for granule in range(5)]
    assert allowed == [False, True, True, False, False]
    window.unmap(window.base + GRANULE + PAGE, window.base + GRANULE + 2 * PAGE)
    assert not huge_pages_allowed(window.base + GRANULE)
    assert huge_pages_allowed(window.base + 2 * GRANULE)


def test_windows_are_disjoint_and_their_addresses_are_not_reused_at_once() -> None:
    windows = [Window(1 << 30) for _ in range(50)]
    bases = sorted(window.base for window in windows)
    assert all(low + (1 << 30) <= high for low, high in pairwise(bases))
    for window in windows:
        window.close()
        window.close()
    again = Window(1 << 30)
    assert again.base not in bases
    again.close()


def test_a_window_that_does_not_fit() -> None:
    with pytest.raises(OSError, match="address space"):
        Window(HIGHEST - LOWEST + ALIGNMENT)

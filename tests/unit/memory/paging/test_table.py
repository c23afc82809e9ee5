"""The page table against a dictionary, and what it refuses."""

from __future__ import annotations

import pytest
from farlane.backend.memory.paging import PAGE_2M, PAGE_4K, PAGE_64K, Fault, PageFault, PageTable
from farlane.backend.memory.paging.spec import levels_of
from hypothesis import given, settings
from hypothesis import strategies as st

OPERATION = st.tuples(
    st.sampled_from(["map", "map", "unmap"]),
    st.sampled_from([PAGE_4K, PAGE_64K, PAGE_2M]),
    st.integers(0, 80),  # where, in units of 64 KiB, over three 2 MiB regions
    st.integers(1, 6),
    st.booleans(),
)


class Model:
    """4 KiB page number: (physical address, right to write, size of the page it belongs to)."""

    def __init__(self) -> None:
        self.pages: dict[int, tuple[int, bool, int]] = {}
        self.next_frame = 1 << 30

    def regions(self, address: int, size: int) -> set[int]:
        """The sizes of pages below the directory entries that a range touches."""
        touched = range(address // PAGE_2M, (address + size - 1) // PAGE_2M + 1)
        return {size for page, (_, _, size) in self.pages.items() if page * PAGE_4K // PAGE_2M in touched}


@settings(max_examples=120)
@given(st.lists(OPERATION, max_size=25))
def test_equals_a_dictionary(operations: list[tuple[str, int, int, int, bool]]) -> None:
    table, model = PageTable(), Model()
    empty = table.table_bytes
    for name, page_bytes, where, count, writable in operations:
        address = where * PAGE_64K // page_bytes * page_bytes
        size = count * page_bytes
        numbers = range(address // PAGE_4K, (address + size) // PAGE_4K)
        before = table.words.copy()
        if name == "map":
            frames = [model.next_frame + 2 * number * page_bytes for number in range(count)]  # with gaps
            try:
                table.map(address, frames, page_bytes, writable)
            except ValueError:
                assert any(number in model.pages for number in numbers) or model.regions(address, size) - {page_bytes}
                assert (table.words == before).all()
                continue
            model.next_frame += 2 * size
            model.next_frame += -model.next_frame % PAGE_2M
            for number in numbers:
                at = number * PAGE_4K - address
                model.pages[number] = (frames[at // page_bytes] + at % page_bytes, writable, page_bytes)
        else:
            try:
                table.unmap(address, size)
            except (PageFault, ValueError):
                edges = {model.pages[n][2] for n in (numbers[0], numbers[-1]) if n in model.pages}
                assert not all(number in model.pages for number in numbers) or max(edges) > page_bytes
                assert (table.words == before).all()
                continue
            for number in numbers:
                del model.pages[number]
    for number in range(90 * 16):
        address = number * PAGE_4K + 123
        if number not in model.pages:
            with pytest.raises(PageFault) as caught:
                table.translate(address)
            assert caught.value.fault is Fault.UNMAPPED
            continue
        physical, writable, page_bytes = model.pages[number]
        found = table.translate(address)
        assert (found.physical, found.writable, found.page_bytes) == (physical + 123, writable, page_bytes)
        assert len(found.reads) == levels_of(page_bytes)
        if not writable:
            with pytest.raises(PageFault) as caught:
                table.translate(address, write=True)
            assert caught.value.fault is Fault.READ_ONLY
    assert table.mapped_bytes == len(model.pages) * PAGE_4K
    for number, (_, _, page_bytes) in list(model.pages.items()):
        if number * PAGE_4K % page_bytes == 0:
            table.unmap(number * PAGE_4K, page_bytes)
    assert table.table_bytes == empty, "empty tables are given back"


def test_tables_are_bounded() -> None:
    table = PageTable(limit_bytes=8 * 4096)
    table.map(0, [0])
    with pytest.raises(MemoryError):
        table.map(1 << 40, [0] * 512 * 8)
    with pytest.raises(PageFault):
        table.translate(1 << 40)


@pytest.mark.parametrize(
    ("address", "frame", "page_bytes"), [(1, 0, PAGE_4K), (0, 4096, PAGE_64K), (1 << 48, 0, PAGE_4K), (0, 0, 8192)]
)
def test_refuses_what_no_entry_can_hold(address: int, frame: int, page_bytes: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        PageTable().map(address, [frame], page_bytes)


def test_an_address_beyond_the_space_is_not_mapped() -> None:
    with pytest.raises(PageFault):
        PageTable().translate(1 << 48)

"""The buffer of printed text: bounded, oldest text first to go, a launch at a time."""

from __future__ import annotations

from farlane.backend.device.sim.runtime import output


def test_text_is_taken_once_in_order() -> None:
    out = output.Output()
    for launch, text in ((1, b"a"), (1, b"b"), (2, b"c")):
        out.add(launch, text)
    assert out.take() == b"abc"
    assert out.take() == b""


def test_a_full_buffer_loses_the_oldest_text_of_its_launch_only() -> None:
    out = output.Output(limit=10)
    out.add(1, b"first")
    for number in range(5):
        out.add(2, b"%d..." % number)
    assert out.take() == b"first3...4..."
    out.add(3, b"longer than the buffer")
    out.add(3, b"short")
    assert out.take() == b"short"


def test_limits_count_from_the_next_launch_on_and_are_bounded() -> None:
    out = output.Output(limit=4)
    out.add(1, b"1234")
    out.set_limit(8)
    out.add(2, b"12345678")
    assert out.take() == b"123412345678"
    out.set_limit(1 << 60)
    out.add(3, bytes(output.MAX_LIMIT + 1))
    assert out.take() == b""
    out.add(3, bytes(output.MAX_LIMIT))
    assert len(out.take()) == output.MAX_LIMIT


def test_what_nobody_fetches_is_bounded() -> None:
    out = output.Output()
    piece = bytes(1 << 20)
    for launch in range(80):
        out.add(launch, piece)
    assert len(out.take()) == output.UNFETCHED

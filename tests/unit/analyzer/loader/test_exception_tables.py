"""The exception tables' reader against random bytes: bounded, and no error but its own."""

from __future__ import annotations

import contextlib

from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader.exception_tables import Frame, frames, landing_pads
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_random_entries(bodies: list[bytes]) -> None:
    data = b"".join((len(body)).to_bytes(4, "little") + body for body in bodies)
    with contextlib.suppress(AnalysisError):
        frames(data, 0x1000)


@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 80))
def test_random_landing_pads(data: bytes, offset: int) -> None:
    with contextlib.suppress(AnalysisError):
        assert len(landing_pads(data, 0x2000, Frame(0x1000, 0x1100, 0x2000 + offset))) <= len(data)

"""Formats of device printf: C's conversions over nvcc's argument layout; nothing hostile gets through to the C library."""

from __future__ import annotations

import struct

import pytest
from farlane.backend.device.sim.runtime import formats
from hypothesis import given
from hypothesis import strategies as st

TEXTS = {0x1000: b"text", 0x2000: b""}


def fetch(address: int) -> bytes:
    return TEXTS[address]


def printed(form: bytes, layout: str = "", *values: float) -> bytes:
    """`layout`: of the arguments, in struct's letters, aligned as C does."""
    return formats.render(formats.parse(form), struct.pack(f"@{layout}", *values), fetch)


@pytest.mark.parametrize(
    ("form", "layout", "values", "expected"),
    [
        (b"%d|%5d|%-5d|%05d|%+d|% d", "iiiiii", (-42, 42, 42, 42, 42, 42), b"-42|   42|42   |00042|+42| 42"),
        (b"%u %x %X %#o %i", "Iiiii", (2**32 - 1, 255, 255, 8, -7), b"4294967295 ff FF 010 -7"),
        (b"%lld %llu %lx %zd", "qqqq", (-(2**62), -1, 1 << 40, -5), b"-4611686018427387904 18446744073709551615 10000000000 -5"),
        (b"%d %lld %d", "iqi", (1, 2, 3), b"1 2 3"),  # the 8 bytes are aligned
        (b"%f %.2f %8.1f %e %g %a", "dddddd", (1.5, 2.25, 3.75, 1e10, 1e-10, 0.75), b"1.500000 2.25      3.8 1.000000e+10 1e-10 0x1.8p-1"),
        (b"%c%c%3c", "iii", (65, 66, 67), b"AB  C"),
        (b"%s|%6s|%-6s|%.2s|%s", "qqqqq", (0x1000, 0x1000, 0x1000, 0x1000, 0x2000), b"text|  text|text  |te|"),
        (b"%s", "q", (0,), b"(null)"),
        (b"%p %p", "qq", (0xABC, 0), b"0xabc (nil)"),
        (b"%*d|%-*d|%.*f", "iiiiid", (5, 1, 5, 2, 3, 1 / 3), b"    1|2    |0.333"),
        (b"100%% %d%%", "i", (5,), b"100% 5%"),
        (b"%hd %hhu", "ii", (70000, 300), b"4464 44"),
        (b"no conversion", "", (), b"no conversion"),
    ],
)  # fmt: skip
def test_conversions(form: bytes, layout: str, values: tuple[float, ...], expected: bytes) -> None:
    assert printed(form, layout, *values) == expected


def test_a_negative_width_is_a_flag_and_a_negative_precision_none() -> None:
    assert printed(b"%*d|%.*f", "iiid", -4, 7, -1, 0.5) == b"7   |0.500000"


def test_what_is_no_conversion_is_printed_as_it_stands() -> None:
    assert printed(b"%n %y %", "i", 1) == b"%n %y %"
    assert formats.parse(b"%n%hhn%1$d").arity == 0
    assert printed(b"%k%d", "i", 3) == b"%k3"


def test_arguments_beyond_the_limit_are_text() -> None:
    form = formats.parse(b"%d" * 40)
    assert form.arity == formats.MAX_ARGUMENTS
    assert formats.render(form, bytes(4 * 32), fetch) == b"0" * 32 + b"%d" * 8


def test_widths_and_precisions_are_bounded() -> None:
    assert len(printed(b"%999999999d", "i", 1)) == formats.MAX_FIELD
    assert len(printed(b"%.999999999f", "d", 1.0)) == formats.MAX_FIELD + 2
    assert len(printed(b"%*d", "ii", 2**31 - 1, 1)) == formats.MAX_FIELD


def test_a_zero_character_does_not_end_the_text() -> None:
    assert printed(b"a%cb", "i", 0) == b"a\0b"


@given(st.binary(max_size=60).filter(lambda text: 0 not in text), st.binary(min_size=512, max_size=512))
def test_any_format_is_bounded_and_harmless(text: bytes, arguments: bytes) -> None:
    form = formats.parse(text)
    assert form.size <= 8 * formats.MAX_ARGUMENTS
    out = formats.render(form, arguments[: form.size], lambda at: b"s")
    assert len(out) <= len(text) + form.arity * (formats.MAX_FIELD + 400)


@given(st.text(alphabet="%dsfxlhc*.0-+ #123n", max_size=30), st.binary(min_size=512, max_size=512))
def test_formats_that_are_nearly_right(text: str, arguments: bytes) -> None:
    form = formats.parse(text.encode())
    formats.render(form, arguments[: form.size], lambda at: b"s")

"""Runs of free slots by bit arithmetic, and the ends of what was found (S5, points 2 and 3).

`available` is the AND of shifted copies of the free slots, in log2(wanted) steps. `lowest` and `highest` are a leading-one prediction: the half that holds the wanted end is kept until one bit is left. Tests compare all
of them with brute force.
"""

from __future__ import annotations


def available(free: int, wanted: int) -> int:
    """Bit i: slots i to i + wanted - 1 are free. The AND of `wanted` copies of the mask, shifted by 0 to wanted - 1."""
    _check(wanted)
    width = 1  # bit i of `free` stands for `width` free slots from i on
    while 2 * width <= wanted:
        free &= free >> width
        width *= 2
    if width < wanted:
        free &= free >> (wanted - width)
    return free


def lowest(bits: int) -> int:
    """The number of the lowest bit set. `bits` must not be zero."""
    return _predict(bits, low=True)


def highest(bits: int) -> int:
    """The number of the highest bit set. `bits` must not be zero."""
    return _predict(bits, low=False)


def longest(free: int) -> int:
    """The length of the longest run of free slots."""
    length = 0
    while free:
        free &= free >> 1
        length += 1
    return length


def runs(free: int) -> list[tuple[int, int]]:
    """All runs of free slots, (start, length), in order."""
    found = []
    start = 0
    while free:
        skipped = (free & -free).bit_length() - 1
        free >>= skipped
        length = (~free & (free + 1)).bit_length() - 1
        found.append((start + skipped, length))
        free >>= length
        start += skipped + length
    return found


def _predict(bits: int, *, low: bool) -> int:
    if bits <= 0:
        raise ValueError(f"no bit is set in {bits}")
    width = 1 << (bits.bit_length() - 1).bit_length()
    position = 0
    while width > 1:
        width //= 2
        lower = bits & ((1 << width) - 1)
        upper = bits >> width
        if (low and lower) or not upper:
            bits = lower
        else:
            bits = upper
            position += width
    return position


def _check(wanted: int) -> None:
    if wanted < 1:
        raise ValueError(f"{wanted} slots wanted: at least one must be")
